"""Charts of speed and of time. Learning and what comes before it are never mixed in one figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hotloop.report.chart import QUIET_COLOUR, REST_COLOUR, Chart, Series
from hotloop.report.curves import Group, curve, learning_rows, thin
from hotloop.report.phases import REST
from hotloop.report.reading import Run, number

# --- speed -----------------------------------------------------------------------------------------------------------


def speed(groups: Sequence[Group]) -> Iterator[Chart]:
    yield Chart("Env steps per second, while learning", list(_throughput(groups)), size="half", zero=True)
    yield _windows(groups)


def _throughput(groups: Sequence[Group]) -> Iterator[Series]:
    for i, group in enumerate(groups):
        for run in group.runs:
            found = curve(run, "env_steps_per_s")
            learns = learning_rows(run, *declared(run))
            if not found or not learns.any():
                continue
            at, speed = run.columns["env_steps"], np.where(learns, run.columns["env_steps_per_s"], np.nan)
            first = int(np.flatnonzero(learns)[0])
            at, speed = thin([at[first:], speed[first:]])
            kind = "line" if len(group.runs) == 1 else "thin"
            alone = kind == "line" and bool(group.label)
            yield Series(kind, at, speed, group.label if alone else f"seed {run.seed}", i, legend=alone)
        if mean := _mean_speed(group):
            yield Series("line", *mean, group.label or "mean", i, legend=bool(group.label))


def _mean_speed(group: Group) -> tuple[np.ndarray, np.ndarray] | None:
    """Over all runs, in as many stretches of equal env steps as all of them have windows."""
    learning = []
    for run in group.runs:
        learns = learning_rows(run, *declared(run))
        steps, seconds = run.columns.get("env_steps"), run.columns.get("seconds")
        if seconds is None or steps is None or learns.sum() < 2:
            return None
        first = int(np.flatnonzero(learns)[0])
        fine = np.isfinite(seconds[first:])
        learning.append((steps[first:][fine], seconds[first:][fine]))
    if len(learning) < 2:
        return None
    begin, end = max(s[0] for s, _ in learning), min(s[-1] for s, _ in learning)
    if not end > begin:
        return None
    edges = np.linspace(begin, end, min(20, *(len(s) for s, _ in learning)) + 1)
    with np.errstate(all="ignore"):
        speeds = np.mean([np.diff(edges) / np.diff(np.interp(edges, *known)) for known in learning], axis=0)
    return (edges[:-1] + edges[1:]) / 2, speeds


def _windows(groups: Sequence[Group]) -> Chart:
    runs = [(i, run, speeds) for i, g in enumerate(groups) for run in g.runs if (speeds := windows(run))]
    title, note = "In windows of equal env steps", "The first in red; line: their median."
    if len(runs) == 1:
        i, _, speeds = runs[0]
        colours = [1, *[QUIET_COLOUR] * (len(speeds) - 1)]
        bars = Series("bars", list(range(1, len(speeds) + 1)), speeds, "env steps/s", i, colours=colours)
        return Chart(title, [bars], "window", "", note, "half", zero=True, line=float(np.median(speeds)))
    own = [(i, run, np.array(s) / np.median(s)) for i, run, s in runs if np.median(s) > 0]
    lines = [Series("thin", list(range(1, len(s) + 1)), s, run.name, i) for i, run, s in own]
    for i, group in enumerate(groups):
        same = [s for k, _, s in own if k == i]
        if same and len({len(s) for s in same}) == 1:
            lines.append(
                Series("line", list(range(1, len(same[0]) + 1)), np.mean(same, axis=0), group.label or "mean", i)
            )
    return Chart(title, lines, "window", "", "Each run against its own median.", "half", zero=True, line=1.0)


def windows(run: Run) -> list[float]:
    found = run.summary.get("env_steps_per_s_windows")
    speeds = [number(v) for v in found] if isinstance(found, list) else []
    return [v for v in speeds if v is not None]


def declared(run: Run) -> tuple[float | None, float | None]:
    """Batch and samples per step, as the config has them."""

    def of(key: str) -> float | None:
        try:
            return float(run.options[key])
        except (KeyError, ValueError):
            return None

    batch = of("learner.batch_size")
    return batch and batch * (of("learner.accumulate") or 1), of("samples_per_step")


# --- where the time goes ---------------------------------------------------------------------------------------------


def time(groups: Sequence[Group]) -> Iterator[Chart]:
    runs = [run for g in groups for run in g.runs]
    clock = _wall_clock(runs)
    yield Chart(
        "The wall clock, from the start", clock, "seconds", size="wide", stacked=True, across=True,
        note="Hatched: before step 1, or beside training.",
    )  # fmt: skip
    if len(runs) == 1:
        for phases in runs[0].phases:
            series = [
                Series("area", phases.at, share, name, REST_COLOUR if name == REST else k, legend=True)
                for k, (name, share) in enumerate(phases.shares.items())
            ]
            axis = "seconds" if phases.axis == "s" else phases.axis
            note = f"Shares of the wall clock; from {phases.source}."
            yield Chart(f"Thread “{phases.track}”", series, axis, "", note, "half", percent=True, stacked=True)
        return
    for track in dict.fromkeys(t for run in runs for t, _ in _sections(run)):
        yield _shares_of(runs, track)


def _wall_clock(runs: Sequence[Run]) -> list[Series]:
    """One bar per run: what came before step 1, collecting alone, learning, and pauses."""
    spent = {id(run): _spent(run) for run in runs}
    names = dict.fromkeys(n for run in runs for n in spent[id(run)] if any(spent[id(r)].get(n) for r in runs))
    training = ("collecting alone", "training")
    return [
        Series(
            "bars",
            [spent[id(run)].get(name, 0.0) for run in runs],
            _labels(runs),
            name,
            k,
            legend=True,
            colours=() if name in training else ("hatched",),
        )
        for k, name in enumerate(names)
    ]


def _labels(runs: Sequence[Run]) -> list[str]:
    names = [run.name for run in runs]
    return [n if names.count(n) == 1 else f"{n} ({i + 1})" for i, n in enumerate(names)]


def _spent(run: Run) -> dict[str, float]:
    cold, paused = run.summary.get("cold_start"), run.summary.get("paused_s")
    out = {k: number(v) or 0.0 for k, v in cold.items()} if isinstance(cold, Mapping) else {}
    trained = number(run.summary.get("train_s"))
    if trained is not None:
        alone = before_learning(run)[1]
        out["collecting alone"] = min(alone, trained)
        out["training"] = max(trained - alone, 0.0)
    out |= {k: number(v) or 0.0 for k, v in paused.items()} if isinstance(paused, Mapping) else {}
    return {k: v for k, v in out.items() if v > 0}


def before_learning(run: Run) -> tuple[float, float]:
    """Env steps and seconds of the rows before those of learning."""
    learns, seconds = learning_rows(run, *declared(run)), run.columns.get("seconds")
    if seconds is None or not len(learns):
        return 0.0, 0.0
    first = int(np.flatnonzero(learns)[0]) if learns.any() else len(learns)
    if first == 0 or not np.isfinite(seconds[first - 1]):
        return 0.0, 0.0
    return float(run.columns["env_steps"][first - 1]), float(seconds[first - 1])


def _sections(run: Run) -> Iterator[tuple[str, dict[str, float]]]:
    found = run.summary.get("sections")
    tracks: dict[str, dict[str, float]] = {}
    for key, value in found.items() if isinstance(found, Mapping) else ():
        track, _, name = str(key).partition("/")
        seconds = number(value[1]) if isinstance(value, list) and len(value) == 2 else None
        if seconds is not None:
            tracks.setdefault(track, {})[name] = seconds
    yield from tracks.items()


def _shares_of(runs: Sequence[Run], track: str) -> Chart:
    own = [dict(_sections(run)).get(track, {}) for run in runs]
    names = dict.fromkeys(n for sections in own for n in sections)
    whole = [max((sum(s.values()) for _, s in _sections(run)), default=0.0) or 1.0 for run in runs]
    series = [
        Series(
            "bars", [s.get(name, 0.0) / w for s, w in zip(own, whole, strict=True)], _labels(runs), name, k, legend=True
        )
        for k, name in enumerate(names)
    ]
    note = "Shares of the recorded time of the busiest thread."
    return Chart(f"Thread “{track}”", series, "", "", note, "half", percent=True, stacked=True, across=True)
