"""Settings against each other: runs that differ by their seed alone are one side; final scores, curves, thresholds and
speeds with intervals, and what keeps a comparison from being like for like. Reads run folders only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hotloop.core.errors import UserError, unknown
from hotloop.report import scores
from hotloop.report.curves import Group, curve, differing, grouped
from hotloop.report.figures import of, shown
from hotloop.report.reading import Run, number, read, text
from hotloop.report.tables import facts
from hotloop.run import CONFIG

POINTS = 8  # of a curve, as a table
RETURN = "return"
Span = tuple[float, float]


@dataclass(frozen=True)
class When:
    """When the seeds of a side first met the threshold."""

    reached: int  # seeds that did
    seeds: int  # of so many
    median: float | None  # None where half of them or more did not
    earliest: float | None
    latest: float | None  # of those that did


@dataclass(frozen=True)
class Side:
    """One setting, and what its seeds came to."""

    mark: str
    label: str
    runs: tuple[str, ...]
    seeds: tuple[str, ...]  # those with a final score
    scores: tuple[float, ...]  # one per such seed
    mean: float | None
    interquartile_mean: float | None
    interval: Span | None  # of the interquartile mean, over seeds
    env_steps_to_threshold: When | None
    seconds_to_threshold: When | None  # of training
    env_steps_per_s: float | None  # median over runs, while learning
    samples_per_step: tuple[float, ...]  # all values there are
    env_steps: tuple[float, ...]  # budgets of all runs
    cold_start_s: float | None  # median over runs, before step 1


@dataclass(frozen=True)
class Pair:
    """A side against the first one."""

    side: str
    against: str
    difference: float  # of interquartile means
    interval: Span | None
    improvement: float  # probability that a seed of `side` scores higher than one of `against`
    improvement_interval: Span | None


@dataclass(frozen=True)
class Curves:
    """Scores on the way, [K] points by [S] sides: (interquartile mean, interval) or None where a side has not been."""

    x: tuple[float, ...]
    sides: tuple[tuple[tuple[float, Span | None] | None, ...], ...]


@dataclass(frozen=True)
class Comparison:
    """All sides of one workload."""

    workload: str
    score: str  # what the final score is
    course: str  # what the curves and the threshold are about
    threshold: float | None
    sides: tuple[Side, ...]
    pairs: tuple[Pair, ...]
    over_env_steps: Curves
    over_seconds: Curves
    differ: dict[str, tuple[str, ...]]  # option -> its value on each side
    notes: tuple[str, ...]


def collect(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """(the runs, one line for each folder that is none)"""
    runs, skipped, seen = [], [], set()
    for path in (p for given in paths for p in _single(Path(given))):
        try:
            if (real := Path(path).resolve()) in seen:
                skipped.append(f"{path} is named twice; it counts once")
                continue
            seen.add(real)
            run = read(Path(path), with_phases=False)
        except UserError as why:
            skipped.append(str(why))
        except OSError as why:
            skipped.append(f"{path} cannot be read: {why.strerror}")
        else:
            if run.options.get("workload"):
                runs.append(run)
            else:
                skipped.append(
                    run.notes[0] if not run.options else f"{path} is not a run: its config names no workload"
                )
    if not runs:
        raise UserError(f"nothing to compare: {'; '.join(skipped) or 'name the folders of runs'}")
    return runs, skipped


def _single(path: Path) -> list[Path]:
    """The runs in a folder of many seeds, or the folder itself."""
    inside = [] if os.path.exists(path / CONFIG) else [p.parent for p in path.glob(f"s*/{CONFIG}")]
    return sorted(inside, key=lambda p: (len(p.name), p.name)) or [path]


def compare(runs: Sequence[Run], measure: str = RETURN, threshold: float | None = None) -> list[Comparison]:
    """One comparison per workload."""
    known = {RETURN, *(m for run in runs for m in _measures(run))}
    if measure not in known:
        raise unknown("--measure", measure, sorted(known))
    found = grouped(runs).items()
    return [_compared(workload, groups, measure, threshold) for workload, groups in found]


def _measures(run: Run) -> dict[str, object]:
    found = run.summary.get("measures")
    return found if isinstance(found, dict) else {}


def _compared(workload: str, groups: Sequence[Group], measure: str, threshold: float | None) -> Comparison:
    key, course = _course(groups, measure)
    sides = tuple(_side(i, group, measure, key, threshold) for i, group in enumerate(groups))
    first = sides[0]
    pairs = tuple(
        Pair(
            s.mark, first.mark, *scores.difference(s.scores, first.scores), *scores.improvement(s.scores, first.scores)
        )
        for s in sides[1:]
        if s.scores and first.scores
    )
    runs = [group.runs[0] for group in groups]
    return Comparison(
        workload=workload,
        score=f"greedy {measure} at the end",
        course=course,
        threshold=threshold,
        sides=sides,
        pairs=pairs,
        over_env_steps=_curves(groups, key, measure, "env_steps"),
        over_seconds=_curves(groups, key, measure, "seconds"),
        differ={k: tuple(run.options.get(k, "–") for run in runs) for k in differing(runs)},
        notes=tuple(_notes(groups, sides, measure, key)),
    )


def _course(groups: Sequence[Group], measure: str) -> tuple[str, str]:
    """(key of metrics that curves are drawn from, in words): greedy evaluations where all runs have made some."""
    greedy = "eval_return_mean" if measure == RETURN else f"eval_{measure}"
    if all(len(c) and np.isfinite(c[1]).sum() > 1 for g in groups for r in g.runs for c in [curve(r, greedy)]):
        return greedy, f"greedy {measure} on the way"
    return ("return_mean" if measure == RETURN else measure), f"exploring {measure}, last 100 episodes"


# --- one side --------------------------------------------------------------------------------------------------------


def final_score(run: Run, measure: str) -> float | None:
    """Of a run that came to the end of its budget."""
    budget, made = number(_float(run.options.get("total_env_steps"))), number(run.summary.get("env_steps"))
    if made is None or (budget is not None and made < budget):
        return None
    if measure == RETURN:
        return number(run.summary.get("return_mean"))
    found = _measures(run).get(measure)
    return number(found[0]) if isinstance(found, list) and found else None


def _float(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _judged(group: Group, measure: str) -> list[Run]:
    """One run of each seed, those first that have a final score."""
    ranked = sorted(group.runs, key=lambda run: final_score(run, measure) is None)
    return list({run.seed: run for run in reversed(ranked)}.values())[::-1]


def _side(i: int, group: Group, measure: str, key: str, threshold: float | None) -> Side:
    judged = _judged(group, measure)
    ended = [(run.seed, score) for run in judged if (score := final_score(run, measure)) is not None]
    values = np.array([score for _, score in ended])
    whole = len(values) > 0
    speeds, cold = of(group.runs, "env_steps_per_s"), of(group.runs, "cold_start_s")
    when = {
        x: None if threshold is None else _when([_first(run, key, measure, x, threshold) for run in judged])
        for x in ("env_steps", "seconds")
    }
    return Side(
        mark=chr(ord("A") + i) if i < 26 else str(i + 1),
        label=group.label,
        runs=tuple(run.path for run in group.runs),
        seeds=tuple(seed for seed, _ in ended),
        scores=tuple(values.tolist()),
        mean=float(values.mean()) if whole else None,
        interquartile_mean=float(scores.interquartile_mean(values)) if whole else None,
        interval=scores.interval(values),
        env_steps_to_threshold=when["env_steps"],
        seconds_to_threshold=when["seconds"],
        env_steps_per_s=float(np.median(speeds)) if speeds else None,
        samples_per_step=tuple(sorted({float(f"{v:.4g}") for v in of(group.runs, "samples_per_step")})),
        env_steps=tuple(sorted({run.env_steps for run in group.runs})),
        cold_start_s=float(np.median(cold)) if cold else None,
    )


def course_of(run: Run, key: str, measure: str, x: str) -> tuple[np.ndarray, np.ndarray]:
    """The curve of a run; where it is of greedy evaluations, the last one, at the end, belongs to it."""
    found = curve(run, key, x)
    at, value = found[:2] if found else (np.empty(0), np.empty(0))
    fine = np.isfinite(value) & np.isfinite(at)
    at, value = at[fine], value[fine]
    end = number(run.summary.get("env_steps" if x == "env_steps" else "train_s"))
    last = final_score(run, measure)
    if key.startswith("eval_") and end is not None and last is not None and (not len(at) or end > at[-1]):
        at, value = np.append(at, end), np.append(value, last)
    return at, value


def _first(run: Run, key: str, measure: str, x: str, threshold: float) -> float:
    """Where the curve first meets the threshold; infinity where it never does."""
    at, value = course_of(run, key, measure, x)
    met = np.flatnonzero(value >= threshold)
    return float(at[met[0]]) if len(met) else float("inf")


def _when(at: Sequence[float]) -> When:
    """One that never comes is later than all others, so it is in the median."""
    met = [x for x in at if np.isfinite(x)]
    ordered = sorted(at)
    n = len(ordered)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2 if n else float("inf")
    return When(len(met), n, number(median), min(met, default=None), max(met, default=None))


# --- curves ----------------------------------------------------------------------------------------------------------


def _curves(groups: Sequence[Group], key: str, measure: str, x: str) -> Curves:
    """On one grid for all sides, up to the end of the longest."""
    sides = [[(run, *course_of(run, key, measure, x)) for run in _judged(g, measure)] for g in groups]
    sides = [[(final_score(run, measure) is not None, at, value) for run, at, value in s if len(at)] for s in sides]
    ends = [at[-1] for side in sides for _, at, _ in side]
    if not ends:
        return Curves((), ())
    grid = max(ends) * np.arange(1, POINTS + 1) / POINTS
    rows = []
    for point in grid:
        values = [_at(side, point) for side in sides]
        rows.append(
            tuple((float(scores.interquartile_mean(v)), scores.interval(v)) if len(v) else None for v in values)
        )
    return Curves(tuple(grid.tolist()), tuple(rows))


def _at(side: Sequence[tuple[bool, np.ndarray, np.ndarray]], point: float) -> np.ndarray:
    """[seeds] the scores of a side at a point; none where one of its runs has not begun to score or was broken off
    before, and none after the last of them has ended. One that has ended before the others stays where it was."""
    if not side or point > max(at[-1] for _, at, _ in side):
        return np.empty(0)
    if any(point < at[0] or (point > at[-1] and not ended) for ended, at, _ in side):
        return np.empty(0)
    return np.array([np.interp(point, at, value) for _, at, value in side])


# --- what a reader must know -----------------------------------------------------------------------------------------


def _notes(groups: Sequence[Group], sides: Sequence[Side], measure: str, key: str) -> Iterator[str]:
    runs = [run for group in groups for run in group.runs]
    yield from _unlike(groups, sides)
    machines = [value for name, value in facts(runs, "machine") if " or " in value and name != "threads"]
    if machines:
        yield f"made on different machines ({'; '.join(machines)}): seconds and speeds do not compare"
    versions = [f"{name} {value}" for name, value in facts(runs, "versions") if " or " in value]
    if versions:
        yield f"made with different versions: {'; '.join(versions)}"
    explore = [k for k in differing([g.runs[0] for g in groups]) if k.startswith("explore.")]
    if explore and not key.startswith("eval_"):
        yield (
            f"exploration differs ({', '.join(explore)}), so exploring curves and thresholds do not compare; train "
            "with --evaluate-every-env-steps for greedy ones"
        )
    for group, side in zip(groups, sides, strict=True):
        for run in group.runs:
            if final_score(run, measure) is None:
                yield f"{side.mark}: {_unfinished(run, measure)}"
        if len(side.scores) == 1:
            yield f"{side.mark}: one seed, so no interval over seeds"
        elif 1 < len(side.scores) < 5:
            yield f"{side.mark}: of {len(side.scores)} seeds an interval is little more than their range"
        if len(group.runs) > len(group.seeds):
            yield f"{side.mark}: some runs share setting and seed; each seed counts once"


def _unfinished(run: Run, measure: str) -> str:
    if not run.summary:
        return (
            f"{run.path} has no summary at {shown(run.env_steps)} env steps; it goes on or was killed, and is no score"
        )
    made, budget = number(run.summary.get("env_steps")), _float(run.options.get("total_env_steps"))
    if made is not None and budget is not None and made < budget:
        return f"{run.path} ended at {shown(made)} of {shown(budget)} env steps, and is no score"
    return f"{run.path} has no {measure} in its summary"


def _unlike(groups: Sequence[Group], sides: Sequence[Side]) -> Iterator[str]:
    """Differences that make it another comparison than one of settings."""
    sampled = {s.mark: " or ".join(map(text, s.samples_per_step)) for s in sides if s.samples_per_step}
    if len({v for s in sides for v in s.samples_per_step}) > 1:
        told = ", ".join(f"{mark} {value}" for mark, value in sampled.items())
        yield f"not like for like: samples per step differ ({told}); speeds and seconds are not those of the same work"
    budgets = {s.mark: run.options.get("total_env_steps", "") for s, g in zip(sides, groups, strict=True)
               for run in g.runs[:1]}  # fmt: skip
    if len(set(budgets.values())) > 1:
        told = ", ".join(f"{mark} {shown(_float(value))}" for mark, value in budgets.items())
        yield f"not like for like: budgets differ ({told} env steps)"
    keys = differing([g.runs[0] for g in groups])
    if world := [k for k in keys if k.startswith("env.")]:
        yield f"not like for like: the world itself differs ({', '.join(world)})"
    if "evaluate_longest" in keys:
        yield "not like for like: evaluate_longest differs, so final scores are judged by different rules"
