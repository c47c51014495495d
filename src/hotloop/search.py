"""`hotloop search WORKLOAD`: hyper-parameters tried by optuna (an extra), several seeds per trial, every trial with the
budget of env steps that the settings have. The best is judged once more on seeds that chose nothing."""

from __future__ import annotations

import importlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hotloop import api
from hotloop.config import TrainConfig, merge, option_at, resolve
from hotloop.core import toml
from hotloop.core.errors import MissingExtra, UserError
from hotloop.core.options import shown, to_dict
from hotloop.learn.variants import _base as variants
from hotloop.report import scores
from hotloop.report.compare import RETURN
from hotloop.report.console import Quiet
from hotloop.run import RunFolder

FRESH = 1_000_000  # seeds from here on chose nothing
_SHOWN = 10  # trials in the table


@dataclass(frozen=True)
class Range:
    """Where one option may lie: from low to high, or one of the choices."""

    path: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tried:
    """One trial. No scores where the settings were refused."""

    values: dict[str, Any]  # path -> value; empty: the settings as they are
    scores: tuple[float, ...] = ()  # one per seed
    why: str = ""  # it was given up or refused

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores)) if self.scores else float("-inf")


class Stopped(Exception):
    """A signal ended a run of the search."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


def usual(config: TrainConfig) -> list[Range]:
    """What is worth varying around these settings; none of it compiles anew."""
    rate, gamma, decay = config.learner.optimizer.learning_rate, config.learner.gamma, config.explore.decay_env_steps
    moves = config.learner.target_every_updates
    fixed = variants.chosen(config.variant["name"], config.variant_options()).goes_with
    found = [Range("learner.optimizer.learning_rate", rate / 8, rate * 8, log=True)]
    if 0 < gamma < 1:
        found.append(Range("learner.gamma", max(0.0, 1 - 4 * (1 - gamma)), 1 - (1 - gamma) / 4))
    found.append(Range("explore.decay_env_steps", max(1, decay // 4), decay * 4, log=True, whole=True))
    if moves > 1:
        found.append(Range("learner.target_every_updates", max(2, moves // 4), moves * 4, log=True, whole=True))
    if "replay.n_step" not in fixed:
        found.append(Range("replay.n_step", choices=("1", "3", "5")))
    return found


def ranges(text: str, config: TrainConfig) -> list[Range]:
    """learner.gamma=0.95..0.999,lanes=16|32 -> what --vary asks for."""
    found = []
    for part in text.split(","):
        path, equals, span = part.partition("=")
        path = path.strip().replace("-", "_")
        if not equals or not span:
            raise UserError(f"--vary {shown(part)}: expected OPTION=LOW..HIGH or OPTION=A|B|C")
        option_at(config, path)
        low, dots, high = span.partition("..")
        if not dots:
            found.append(Range(path, choices=tuple(span.split("|"))))
            continue
        try:
            ends = float(low), float(high)
        except ValueError:
            raise UserError(f"--vary {shown(part)}: {shown(span)} is no LOW..HIGH of numbers") from None
        if not -np.inf < ends[0] < ends[1] < np.inf:
            raise UserError(f"--vary {shown(part)}: LOW must be below HIGH, both finite")
        whole = isinstance(option_at(config, path), int)
        found.append(Range(path, *ends, log=ends[0] > 0 and ends[1] >= 10 * ends[0], whole=whole))
    return found


def search(
    config: TrainConfig, vary: Sequence[Range], trials: int, seeds: int, minutes: float | None, measure: str
) -> list[Tried]:
    """All trials, the best first; the first that is made is of the settings as they are."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise MissingExtra("search", "searching hyper-parameters") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=config.seed % 2**32),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5),
    )  # fmt: skip
    began, tried = time.perf_counter(), []
    for number in range(trials):
        if minutes is not None and time.perf_counter() - began > 60 * minutes:
            _say(f"{minutes:g} minutes are over: {number} of {trials} trials made")
            break
        # The settings as they are come first, outside of optuna: they may lie beyond the ranges.
        trial = study.ask() if number else None
        values = {} if trial is None else {r.path: _suggested(trial, r) for r in vary}
        try:
            found = _tried(config, values, seeds, measure, trial)
        except Stopped as stopped:
            _say(f"stopped by a signal: {number} of {trials} trials made")
            if not tried:
                raise
            tried.append(Tried(values, (), f"stopped by signal {stopped.signal}"))
            break
        if trial is None and not found.scores:
            raise UserError(found.why)
        if trial is not None:
            state = optuna.trial.TrialState
            if found.scores and not found.why:
                study.tell(trial, found.mean)
            else:
                study.tell(trial, state=state.PRUNED if found.scores else state.FAIL)
        tried.append(found)
        _say(f"trial {number + 1} of {trials}: {line(found)}")
    # Of equal ones that which was tried first; what was given up comes after what was not.
    return sorted(tried, key=lambda t: (bool(t.why), -t.mean))


def _suggested(trial: Any, r: Range) -> Any:
    if r.choices:
        return trial.suggest_categorical(r.path, list(r.choices))
    if r.whole:
        return trial.suggest_int(r.path, int(r.low), int(r.high), log=r.log)
    return float(f"{trial.suggest_float(r.path, r.low, r.high, log=r.log):.4g}")


def _tried(config: TrainConfig, values: dict[str, Any], seeds: int, measure: str, trial: Any) -> Tried:
    """One run per seed, until the mean so far is below the median of the trials before."""
    found: list[float] = []
    try:
        changed = resolve(to_dict(config), nested(values))
        for k, score in enumerate(_scores(changed, config.seed, seeds, measure)):
            found.append(score)
            if trial is not None and k + 1 < seeds:
                trial.report(float(np.mean(found)), k)
                if trial.should_prune():
                    return Tried(values, tuple(found), "given up")
    except UserError as why:  # a combination that makes no sense, or a loss that is not finite
        return Tried(values, (), str(why))
    return Tried(values, tuple(found))


def _scores(config: TrainConfig, first_seed: int, seeds: int, measure: str) -> Iterator[float]:
    for seed in range(first_seed, first_seed + seeds):
        with tempfile.TemporaryDirectory() as folder:
            one = resolve(to_dict(config), {"seed": seed, "report": False, "tensorboard": False})
            summary = api.start(one, RunFolder.create(Path(folder) / "run", one.workload, seed), Quiet())
        if summary["stopped_by_signal"]:
            raise Stopped(summary["stopped_by_signal"])
        if measure != RETURN and measure not in summary["measures"]:
            known = ", ".join([RETURN, *summary["measures"]])
            raise UserError(f"--measure {measure}: {config.workload} has {known}")
        yield summary["return_mean"] if measure == RETURN else summary["measures"][measure][0]


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Values by path -> groups, as a TOML file has them."""
    out: dict[str, Any] = {}
    for path, value in values.items():
        *groups, last = path.split(".")
        layer: Any = {last: value}
        for group in reversed(groups):
            layer = {group: layer}
        merge(out, layer)
    return out


# --- what is said and written ----------------------------------------------------------------------------------------


def line(found: Tried) -> str:
    values = ", ".join(f"{path} {text(value)}" for path, value in found.values.items()) or "the settings as they are"
    if not found.scores:
        return f"{values}: {found.why}"
    seeds = f"{len(found.scores)} seed{'s' * (len(found.scores) > 1)}{', given up' if found.why else ''}"
    return f"{found.mean:.4g} ({seeds}): {values}"


def text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def confirmed(config: TrainConfig, best: Tried, seeds: int, measure: str) -> str:
    """The best against the settings as they were, on seeds that chose nothing."""
    if not best.values:
        return "nothing was better than the settings as they are"
    changed = resolve(to_dict(config), nested(best.values))
    first = FRESH + config.seed
    new, old = (list(_scores(c, first, seeds, measure)) for c in (changed, config))
    gain, bounds = scores.difference(new, old)
    told = f" [{bounds[0]:.4g}, {bounds[1]:.4g}]" if bounds else ""
    return (
        f"{np.mean(new):.4g} against {np.mean(old):.4g} of the settings as they were, on {seeds} fresh seeds; "
        f"difference of interquartile means {gain:+.4g}{told}"
    )


def write(path: Path, config: TrainConfig, preset: str, best: Tried, said: Sequence[str]) -> None:
    """A file that `train --config` takes, over the same preset."""
    use = f"hotloop train {config.workload} --preset {preset} --config {path}"
    head = [f"hotloop search {config.workload}; use it with: {use}", *said]
    chosen = resolve(to_dict(config), nested(best.values))
    values = {p: option_at(chosen, p) for p in best.values}  # as the config holds them: numbers, not text
    try:
        body = toml.dumps({"workload": config.workload, **nested(values)})
        path.write_text("".join(f"# {row}\n" for row in head) + body, "utf-8")
    except OSError as why:
        raise UserError(f"--out {path}: {why.strerror}") from None


def command(
    config: TrainConfig, preset: str, vary: str | None, trials: int, seeds: int, minutes: float | None, measure: str,
    out: Path,
) -> int:  # fmt: skip
    """The whole of `hotloop search`."""
    chosen = ranges(vary, config) if vary else usual(config)
    _say(f"at most {trials} trials of {seeds} seeds of {config.total_env_steps:,} env steps; varied: "
         + ", ".join(r.path for r in chosen))  # fmt: skip
    try:
        tried = search(config, chosen, trials, seeds, minutes, measure)
        best = tried[0]
        if not best.scores:
            raise UserError(f"no trial came to its end: {best.why}")
        said = [line(t) for t in tried[:_SHOWN]]
        write(out, config, preset, best, said)  # first: what follows may be interrupted
        last = confirmed(config, best, seeds, measure)
    except Stopped as stopped:
        return 128 + stopped.signal
    write(out, config, preset, best, [last, *said])
    print("\n".join([*said, "", f"the best: {last}"]))
    print(f"written   {out}; use it with: hotloop train {config.workload} --preset {preset} --config {out}")
    return 0


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
