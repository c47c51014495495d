"""The figures at the head of a report, in words: speeds beside samples per step, means with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotloop.report.curves import Group, interval
from hotloop.report.reading import Run, number, span
from hotloop.report.speeds import before_learning, windows

NOTHING = "–"


@dataclass(frozen=True)
class Figure:
    """A value, what it is, and what has to be known beside it."""

    title: str
    value: str
    unit: str = ""
    words: str = ""


def figures(group: Group) -> list[Figure]:
    """Those of one run, or of several that differ by their seed."""
    runs = [run for run in group.runs if run.summary]
    if not runs:
        return []
    made = [_return(group, runs), _speed(runs), _first_window(runs), _cold_start(runs), _exact(runs), _memory(runs)]
    return [f for f in made if f.value != NOTHING]


def shown(value: float | None, digits: int = 4) -> str:
    """So many digits that count, thousands apart."""
    if value is None or not np.isfinite(value):
        return NOTHING
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    short = f"{value:.{digits}g}"
    return short if "e" not in short or value == 0 else f"{value:.{digits - 1}g}"


def several(values: Sequence[float], digits: int = 4) -> str:
    """Median and range of a figure over runs, or the figure."""
    if not values:
        return ""
    return f"{shown(min(values), digits)} to {shown(max(values), digits)} over {len(values)} runs"


def of(runs: Sequence[Run], key: str) -> list[float]:
    """The figure in all summaries that have it."""
    return [v for run in runs if (v := number(run.summary.get(key))) is not None]


def mean_return(group: Group) -> tuple[float, tuple[float, float] | None, str] | None:
    """(mean, interval, over what): of one run over its episodes, of several over their seeds."""
    seeds = [run for run in group.seeds if number(run.summary.get("return_mean")) is not None]
    if not seeds:
        return None
    values = np.array(of(seeds, "return_mean"))
    if len(values) == 1:
        episodes = shown(number(seeds[0].summary.get("episodes")))
        return values[0], span(seeds[0].summary.get("return_ci")), f"{episodes} greedy episodes"
    low, high = interval(values)
    return values.mean(), (float(low), float(high)), f"{len(values)} seeds"


def _return(group: Group, runs: Sequence[Run]) -> Figure:
    found = mean_return(group)
    if found is None:
        return Figure("Greedy return", NOTHING)
    mean, bounds, over = found
    kind = "range" if over == "2 seeds" else "95 % interval of the mean"
    words = f"[{shown(bounds[0])}, {shown(bounds[1])}], {kind} over {over}" if bounds else f"mean over {over}"
    unfinished = sum(of(runs, "unfinished_episodes"))
    cut = f"; {shown(unfinished)} episodes were cut short and count as they stood" if unfinished else ""
    return Figure("Greedy return", shown(mean), "", words + cut)


def _speed(runs: Sequence[Run]) -> Figure:
    speeds = of(runs, "env_steps_per_s")
    if not speeds:
        return Figure("While learning", NOTHING)
    words = [f"at {samples(runs)} samples per step"]
    if len(runs) == 1:
        updates, batch = number(runs[0].summary.get("updates")), number(runs[0].summary.get("batch"))
        if updates and batch:
            words.append(f"{shown(updates)} updates of {shown(batch)}")
        steps, seconds = before_learning(runs[0])
        if seconds > 0:
            words.append(f"before learning, apart: {shown(steps)} env steps in {shown(seconds, 2)} s")
    else:
        words.append(f"median; {several(speeds)}")
    return Figure("While learning", shown(float(np.median(speeds))), "env steps/s", "; ".join(words))


def samples(runs: Sequence[Run]) -> str:
    """Samples per step; all of them where they differ, since then the speeds do not compare."""
    found = sorted({float(f"{v:.4g}") for v in of(runs, "samples_per_step")})
    return " or ".join(f"{v:g}" for v in found) or "unknown"


def _first_window(runs: Sequence[Run]) -> Figure:
    ratios = of(runs, "first_window_ratio")
    if not ratios:
        return Figure("First window", NOTHING)
    count = len(windows(runs[0]))
    words = f"speed of the first of {count} windows of learning over the median of all"
    if len(ratios) > 1:
        words += f"; {several(ratios, 3)}"
    return Figure("First window", f"{np.median(ratios):.2f}", "of the median", words)


def _cold_start(runs: Sequence[Run]) -> Figure:
    seconds = of(runs, "cold_start_s")
    if not seconds:
        return Figure("Cold start", NOTHING)
    if len(runs) > 1:
        warm = sum(run.summary.get("warm_start") is True for run in runs)
        words = f"median; {several(seconds, 3)}, {warm} of them from the cache"
    else:
        how = {True: "programs came from the cache", False: "programs were compiled, and cached for the next start"}
        words = "before step 1"
        if runs[0].summary.get("compiled") is False:
            words += "; nothing compiled"
        elif runs[0].summary.get("warm_start") in (True, False):
            words += f"; {how[runs[0].summary['warm_start']]}"
        if first := number(runs[0].summary.get("first_update_s")):
            words += f"; first update {shown(first, 3)} s after the process began"
    return Figure("Cold start", shown(float(np.median(seconds)), 3), "s", words)


def _exact(runs: Sequence[Run]) -> Figure:
    found = [run.summary.get("exact") for run in runs]
    if all(exact is True for exact in found):
        return Figure("Exact", "yes", "", "resumed after a kill, it ends with the same bits")
    if any(exact is False for exact in found):
        return Figure("Exact", "no", "", "the environment cannot give its state: a resume starts new episodes")
    return Figure("Exact", NOTHING)


def _memory(runs: Sequence[Run]) -> Figure:
    peaks = of(runs, "peak_rss_mb")
    if not peaks:
        return Figure("Memory", NOTHING)
    words = "of the process, at its highest" + (f"; {several(peaks)}" if len(peaks) > 1 else "")
    return Figure("Memory", f"{max(peaks):,.0f}", "MB", words)
