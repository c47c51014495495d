"""Which charts a report has, as plain data: what is drawn, not how. page.js gives them colours and hands them to
plotly. A chart whose keys a run has not written is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hotloop.report.chart import Chart, Colour, Part, Series, words
from hotloop.report.curves import Group, curve, mean_curve, thin
from hotloop.report.phases import SECTIONS
from hotloop.report.reading import number, span
from hotloop.report.speeds import speed, time

# Keys of metrics with charts of their own, or with none; all others are shown under "More figures".
LEARNER = {"loss": "Loss", "q": "Mean Q", "grad_norm": "Gradient norm"}
COURSE = {
    "epsilon": "Epsilon",
    "epsilon_most": "Epsilon of the lane that explores most",
    "epsilon_least": "Epsilon of the lane that explores least",
    "temperature": "Temperature",
    "length_mean": "Episode length",
    "replay_size": "Transitions in the replay",
    "refused_updates": "Updates refused",
    "rss_mb": "Memory, MB",
}
RETURNS = {"return_mean": "exploring, last 100 episodes", "eval_return_mean": "greedy"}
_OTHERWISE = ("env_steps", "updates", "seconds", "env_steps_per_s", "updates_per_s", "episodes", "samples_per_step")
_GREEDY = "eval_"
_BESIDE = ("workers", "worker", "rings", "ring")  # first words of keys that tell of processes beside this one
WORLD, BESIDE, MORE = "What the world measures", "Workers and rings", "More figures"


def parts(groups: Sequence[Group]) -> list[Part]:
    """All charts of the runs of one workload."""
    made = [
        Part("Learning", list(_learning(groups)), _how(groups)),
        Part("Speed", list(speed(groups)), "Learning and what comes before it are never mixed in one figure."),
        Part("Where the time goes", list(time(groups))),
        Part("The learner", [_small(groups, k, t) for k, t in LEARNER.items()]),
        Part("The course of the run", [_small(groups, k, t) for k, t in COURSE.items() if _moves(groups, k)]),
        *(Part(title, _more(groups, title)) for title in (WORLD, BESIDE, MORE)),
    ]
    full = [Part(p.title, [c for c in p.charts if c.series], p.note) for p in made]
    return [p for p in full if p.charts]


def _how(groups: Sequence[Group]) -> str:
    if all(len(g.seeds) < 2 for g in groups):
        return ""
    seeds = sorted({len(g.seeds) for g in groups if len(g.seeds) > 1})
    over = " or ".join(map(str, seeds))
    band = "the range of the two" if seeds == [2] else "its 95 % interval (Student’s t; of two seeds their range)"
    return f"Thick: mean over {over} seeds, as far as every run got. Shaded: {band}. Thin: single runs."


# --- learning --------------------------------------------------------------------------------------------------------


def _learning(groups: Sequence[Group]) -> Iterator[Chart]:
    keys = [k for k in RETURNS if any(curve(r, k) for g in groups for r in g.runs)]
    single = sum(len(g.runs) for g in groups) == 1
    for shown in [keys] if single else [[k] for k in keys]:
        for x, axis in (("env_steps", "env steps"), ("seconds", "seconds of training")):
            title = "Return" if single or shown[0] == "return_mean" else "Greedy return"
            title += " over env steps" if x == "env_steps" else " over time"
            series = [s for i, k in enumerate(shown) for s in _returns(groups, k, x, i if single else None)]
            note = ""
            if not single and shown[0] == "return_mean":
                note = RETURNS["return_mean"]
            if single or shown == keys[-1:]:
                series += _last(groups, x, len(keys) if single else None)
                note += "" if single else f"{'; ' if note else ''}diamonds: greedy, at the end"
            yield Chart(title, series, axis, "", note, "half")


def _returns(groups: Sequence[Group], key: str, x: str, colour: int | None) -> Iterator[Series]:
    """colour: that of the key where there is one run, else None: that of the group."""
    name = RETURNS[key] if colour is not None else ""
    base = key.removesuffix("_mean") + "_ci"
    for i, group in enumerate(groups):
        yield from _of_group(group, key, x, i if colour is None else colour, name, banded=True)
        if len(group.runs) == 1 and len(found := curve(group.runs[0], key, x, f"{base}/low", f"{base}/high")) == 4:
            at, value, low, high = thin(found)
            yield Series("band", at, value, "", i if colour is None else colour, low, high)


def _of_group(group: Group, key: str, x: str, colour: Colour, name: str = "", banded: bool = False) -> Iterator[Series]:
    """A curve for each run; with several seeds thin ones, and their mean."""
    mean = mean_curve(group.seeds, key, x)
    if mean and banded:
        yield Series("band", mean.x, mean.y, "", colour, mean.low, mean.high)
    for run in group.runs:
        if found := curve(run, key, x):
            at, value = thin(found)[:2]
            alone = group.label if len(group.runs) == 1 else ""
            own = name or alone or f"{group.label} · seed {run.seed}".removeprefix(" · ")
            yield Series("thin" if mean else "line", at, value, own, colour, legend=bool(name or alone))
    if mean:
        yield Series("line", mean.x, mean.y, group.label or "mean", colour, legend=bool(group.label))


def _last(groups: Sequence[Group], x: str, colour: int | None) -> Iterator[Series]:
    """The evaluation at the end, with the interval over its episodes."""
    for i, group in enumerate(groups):
        points = []
        for run in group.runs:
            at = number(run.summary.get("env_steps" if x == "env_steps" else "train_s"))
            value, bounds = number(run.summary.get("return_mean")), span(run.summary.get("return_ci"))
            if at is not None and value is not None:
                points.append((at, value, *(bounds or (value, value))))
        if points:
            at, value, low, high = np.array(points).T
            name = "greedy, at the end" if colour is not None else f"{group.label} at the end".strip()
            yield Series("points", at, value, name, i if colour is None else 1, low, high, legend=colour is not None)


# --- small ones ------------------------------------------------------------------------------------------------------


def _small(groups: Sequence[Group], key: str, title: str) -> Chart:
    series = [s for i, group in enumerate(groups) for s in _of_group(group, key, "env_steps", i)]
    return Chart(title, [_quiet(s) for s in series])


def _quiet(series: Series) -> Series:
    """Without its entry in the legend: the colours are those of the charts above."""
    return Series(series.kind, series.x, series.y, series.name, series.colour, series.low, series.high)


def _moves(groups: Sequence[Group], key: str) -> bool:
    """Whether there is anything to see: updates refused are shown where there were any."""
    values = [v for g in groups for r in g.runs for v in r.columns.get(key, ())]
    return key != "refused_updates" or any(v > 0 for v in values)


def _more(groups: Sequence[Group], title: str) -> list[Chart]:
    """What the rows hold besides: measures of the world, and keys this file does not know. Those that begin with the
    same word share a chart where there is one run."""
    runs = [run for g in groups for run in g.runs]
    known = {*_OTHERWISE, *LEARNER, *COURSE, *RETURNS}
    keys = [k for k in dict.fromkeys(k for r in runs for k in r.columns) if k not in known]
    measured = {str(m) for r in runs if isinstance(found := r.summary.get("measures"), Mapping) for m in found}
    keys = [k for k in keys if not k.startswith(SECTIONS) and "_ci/" not in k and _place(k, measured) == title]
    families: dict[str, list[str]] = {}
    for key in keys:
        families.setdefault(_family(key, keys) if len(runs) == 1 else key, []).append(key)
    charts = []
    for family, members in families.items():
        if len(members) == 1:
            charts.append(_small(groups, members[0], _called(members[0])))
        else:
            series = [
                Series("line", *thin(found)[:2], words(k.removeprefix(family).strip("_/") or k), i, legend=True)
                for i, k in enumerate(members)
                if (found := curve(runs[0], k))
            ]
            charts.append(Chart(_called(family), series))
    return charts


def _place(key: str, measured: set[str]) -> str:
    if key.removeprefix(_GREEDY) in measured:
        return WORLD
    return BESIDE if any(key == w or key.startswith((f"{w}_", f"{w}/")) for w in _BESIDE) else MORE


def _called(key: str) -> str:
    return words(key.removeprefix(_GREEDY)) + (", greedy" if key.startswith(_GREEDY) else "")


def _family(key: str, keys: Sequence[str]) -> str:
    """The first word of a key, where others begin with it too; evaluations stay apart."""
    if key.startswith(_GREEDY):
        return _GREEDY + _family(
            key.removeprefix(_GREEDY), [k.removeprefix(_GREEDY) for k in keys if k.startswith(_GREEDY)]
        )
    alike = [k for k in keys if _first_word(k) == _first_word(key)]
    return _first_word(key) if len(alike) > 1 else key


def _first_word(key: str) -> str:
    return key.replace("/", "_").partition("_")[0]
