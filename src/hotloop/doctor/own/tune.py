"""`hotloop tune-system WORKLOAD`: settings chosen for this machine at fixed samples per step. One after another: each
candidate takes turns with the best so far, and is taken where it is faster beyond doubt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hotloop.config import TrainConfig, cycle_of, resolve
from hotloop.core import toml
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.doctor.own.examine import Say, cores
from hotloop.doctor.own.side import Side
from hotloop.doctor.own.trial import NotTried, Trial, attempt

LONGEST_CYCLE = 32  # batched steps: the longer a cycle, the older the weights that it acts with
CLEARLY = 1.02  # lower end of the interval of what is taken
KEYS = ("lanes", "cycle_steps", "workers", "threads", "overlap")
Change = Mapping[str, Any]


def tune(config: TrainConfig, rounds: int, seconds: float, say: Say) -> tuple[TrainConfig, list[str]]:
    """-> the best settings, and a line about each that was tried."""
    best, said = config, []
    shape = () if config.learns_from_blocks else (_lanes_up, _lanes_down, _cycle)  # the block is what is learnt from
    for candidates in (_overlap, _threads, _workers, *shape):
        best = _settle(best, candidates, rounds, seconds, said, say)
    return best, said


def _settle(
    best: TrainConfig, candidates: Callable[[TrainConfig], list[Change]], rounds: int, seconds: float, said: list[str],
    say: Say,
) -> TrainConfig:  # fmt: skip
    """Go on along one setting for as long as it helps."""
    while True:
        taken = False
        for change in candidates(best):
            what = ", ".join(f"{k} {v}" for k, v in change.items() if not (k == "cycle_steps" and "lanes" in change))
            say(f"{what} …")
            with Side(best) as side:
                found = attempt(best, side, Trial("tune", what, "same learning", change), rounds, seconds)
            if isinstance(found, NotTried):
                said.append(f"{what}: not tried: {found.why}")
                continue
            low, high = found.interval
            taken = low >= CLEARLY
            said.append(f"{what}: {found.gain:.2f}× [{low:.2f}, {high:.2f}]{', taken' if taken else ''}")
            if taken:
                best = resolve(to_dict(best), change)
                break
        if not taken:
            return best


def _overlap(best: TrainConfig) -> list[Change]:
    return [{"overlap": not best.overlap}]


def _threads(best: TrainConfig) -> list[Change]:
    return [{"threads": n} for n in (best.threads * 2,) if n <= cores()]


def _workers(best: TrainConfig) -> list[Change]:
    wanted = best.workers * 2 if best.workers else cores()
    return [{"workers": wanted}] if wanted <= 2 * cores() and best.lanes % wanted == 0 else []


def _lanes_up(best: TrainConfig) -> list[Change]:
    return [{"lanes": best.lanes * 2, "cycle_steps": 0}] if best.lanes * 2 <= 4_096 else []


def _lanes_down(best: TrainConfig) -> list[Change]:
    return [{"lanes": best.lanes // 2, "cycle_steps": 0}] if best.lanes % 2 == 0 and best.lanes > 1 else []


def _cycle(best: TrainConfig) -> list[Change]:
    steps = 2 * cycle_of(best).steps
    return [{"cycle_steps": steps}] if steps <= LONGEST_CYCLE else []


def write(path: Path, before: TrainConfig, best: TrainConfig, gain: str, said: list[str]) -> None:
    """A file that `train --config` takes."""
    head = [f"hotloop tune-system {best.workload}: {gain}", f"at {before.samples_per_step:g} samples per step; tried:"]
    head += said
    chosen = {"workload": best.workload, **{key: getattr(best, key) for key in KEYS}}
    try:
        path.write_text("".join(f"# {line}\n" for line in head) + toml.dumps(chosen), "utf-8")
    except OSError as why:
        raise UserError(f"--out {path}: {why.strerror}") from None


def compared(config: TrainConfig, best: TrainConfig, rounds: int, seconds: float) -> str:
    """The chosen settings against those it began with, once more and together."""
    if best == config:
        return "nothing was faster beyond doubt; these are the settings as they were"
    change = {key: getattr(best, key) for key in KEYS}
    with Side(config) as side:
        found = attempt(config, side, Trial("tune", "all together", "same learning", change), 2 * rounds, seconds)
    if isinstance(found, NotTried):
        return f"not compared: {found.why}"
    return f"{found.gain:.2f}× [{found.interval[0]:.2f}, {found.interval[1]:.2f}] of the env steps/s before"
