"""Training one workload at terms that two sides share, ours against Stable-Baselines3's: env steps/s while learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bench.measure import Peer, Row, interleaved, ratios
from bench.stages._rivals import TITLES, Rivals, absent_row, assert_equal_work, in_words, used

RIVAL = "sb3"


def compare(
    work: Mapping[str, Any],
    ours: Mapping[str, tuple[tuple[str, str], Mapping[str, Any]]],
    judged: str,
    bound: tuple[float | None, float | None],
    repeats: int,
) -> tuple[dict[str, Any], list[Row]]:
    """work: the rival's words. ours: label -> (preset, layer): the same terms in ours. Ratios within each round."""
    with Peer("ours") as us, Rivals([RIVAL]) as rivals:
        sides: dict[str, Callable[[], Any]] = {RIVAL: lambda: rivals.ask(RIVAL, "train", work=dict(work))}
        for label, (preset, layer) in ours.items():
            sides[label] = lambda p=preset, x=layer: us.ask("train", preset=p, layer=x)
            sides[label]()  # compile, where the cache has it not
        found = interleaved(sides, repeats)
        peak = {**rivals.peak_mb, **dict.fromkeys(ours, us.peak_mb())}
        about = {"ours": us.ask("about"), **rivals.about}
    found = {name: runs for name, runs in found.items() if name not in rivals.absent}
    for label, runs in found.items():
        assert_equal_work(label, runs, work["batch"] / work["env_steps_per_update"])
    sampled = work["batch"] / work["env_steps_per_update"]
    speeds = {label: [r["env_steps_per_s"] for r in runs] for label, runs in found.items()}
    rows = []
    for label in ours:
        what, bounds = f"env steps/s, {label} / {TITLES[RIVAL]}", bound if label == judged else (None, None)
        if RIVAL in rivals.absent:
            rows.append(absent_row(what, "×", rivals.absent[RIVAL], *bounds))
        else:
            rows.append(Row(what, "×", ratios(speeds[label], speeds[RIVAL]), "more", *bounds, sampled))
    for label, values in speeds.items():
        detail = used(found[label], peak[label])
        words = in_words(detail)
        rows.append(Row(TITLES.get(label, label), "env steps/s", tuple(values), "more", None, None, sampled, words))
    return {"terms": dict(work), "sides": about, "absent": rivals.absent}, rows
