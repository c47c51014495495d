"""What was found, as text and as JSON. Knows nothing of how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotloop.doctor.own.costs import BESIDE, MAIN
from hotloop.doctor.own.examined import Advice, Baseline, Examined
from hotloop.doctor.own.trial import Result

WIDTH = 52


def text(seen: Examined, advice: Sequence[Advice]) -> str:
    lines = [*_headline(seen), "", *_cycle_table(seen.baseline), "", *_trials_table(seen), "", *_advice(advice)]
    return "\n".join(lines)


def _headline(seen: Examined) -> list[str]:
    config, found = seen.config, seen.baseline
    warm = " · ".join(f"{name} {s:.2f}" for name, s in found.cold_start_s.items())
    first = "" if found.first_window_ratio is None else f", first window {found.first_window_ratio:.2f} of the median"
    origin = {"cache": "update from the cache", "compiled": "update compiled just now", "eager": "update runs eagerly"}
    lines = [
        f"{config.workload}: {config.lanes} lanes · {found.updates_per_cycle} updates of "
        f"{config.learner.samples_per_update} per cycle of {found.cycle_env_steps} env steps · "
        f"{found.samples_per_step:.4g} samples per step",
        f"throughput   {found.env_steps_per_s:,.0f} env steps/s over {found.seconds:.1f} s{first}",
        f"cold start   {sum(found.cold_start_s.values()):.2f} s ({warm}; {origin[found.origin]})",
        f"cores        {found.cores_busy:.2f} of {seen.cores} busy",
        f"memory       {found.resident_bytes / 2**20:,.0f} MiB, of which replay {found.replay_bytes / 2**20:,.1f}; "
        f"{found.resident_growth / 2**20:+.1f} MiB while watched",
        f"recorder     {100 * found.recorder_share:.2f} % of the time",
    ]
    return lines + [f"note: {note}" for note in found.notes]


def _cycle_table(found: Baseline) -> list[str]:
    """Every share of the wall time of a thread; those of one thread add up to it."""
    cost = found.costs
    inside = cost.collect - cost.act - cost.env
    rows = [
        (MAIN, "act", cost.act), (MAIN, "env", cost.env), (MAIN, "collect, rest", inside),
        (MAIN, "sample and gather", cost.sample), (MAIN, "commit to the replay", cost.commit),
        *([] if cost.overlap else [(MAIN, "update", cost.update)]),
        (MAIN, "wait for the updates", cost.wait), (MAIN, "rest", cost.rest),
        *([(BESIDE, "update", cost.update), (BESIDE, "idle", cost.cycle - cost.update)] if cost.overlap else []),
    ]  # fmt: skip
    calls = {
        "act": (MAIN, "act"), "env": (MAIN, "env"), "sample and gather": (MAIN, "sample"),
        "commit to the replay": (MAIN, "commit"), "wait for the updates": (MAIN, "wait"),
        "update": (BESIDE if cost.overlap else MAIN, "update"),
    }  # fmt: skip
    lines = [
        f"where a cycle of {cost.cycle / 1e6:.3f} ms goes",
        f"  {'thread':<7} {'section':<22} {'calls':>9}  {'µs each':>10}  {'share':>6}",
    ]
    for thread, name, ns in rows:
        number = found.spent.get(calls[name], (0, 0))[0] if name in calls else 0
        each = f"{ns * found.cycles / number / 1e3:,.1f}" if number else f"{ns / 1e3:,.1f}"
        times = f"{number:,}" if number else ""
        lines.append(f"  {thread:<7} {name:<22} {times:>9}  {each:>10}  {100 * ns / cost.cycle:5.1f} %")
    return lines


def _trials_table(seen: Examined) -> list[str]:
    lines = [f"  {'experiment':<{WIDTH}} {'measured [95 %]':<22} {'predicted':>9}  learning"]
    for r in sorted(seen.results, key=lambda r: -r.gain):
        low, high = r.interval
        predicted = "" if r.predicted is None else f"{r.predicted:.2f}×"
        lines.append(
            f"  {r.trial.title:<{WIDTH}} {f'{r.gain:.2f}× [{low:.2f}, {high:.2f}]':<22} {predicted:>9}  {learning(r)}"
        )
    lines += [f"  {n.trial.title:<{WIDTH}} not tried: {n.why}" for n in seen.not_tried]
    return lines


def learning(result: Result) -> str:
    before, after = result.samples_per_step
    if result.trial.learning == "changes learning" and before != after:
        return f"changes learning (samples per step {before:.3g} → {after:.3g})"
    return result.trial.learning


def _advice(advice: Sequence[Advice]) -> list[str]:
    if not advice:
        return ["advice: nothing that was tried is faster beyond doubt at the same learning; keep the settings"]
    lines = ["advice"]
    for number, a in enumerate(advice, 1):
        gain = ""
        if a.measured_gain and a.interval:
            gain = f": measured {a.measured_gain:.2f}× [{a.interval[0]:.2f}, {a.interval[1]:.2f}], {a.learning}"
        lines += [f"  {number}  {a.title}{gain}", f"     {a.evidence}"]
        lines += [f"     → {a.remedy}"] if a.remedy else []
    return lines


def as_json(seen: Examined, advice: Sequence[Advice]) -> dict[str, Any]:
    found = seen.baseline
    return {
        "workload": seen.config.workload,
        "env_steps_per_s": found.env_steps_per_s,
        "samples_per_step": found.samples_per_step,
        "first_window_ratio": found.first_window_ratio,
        "cold_start_s": sum(found.cold_start_s.values()),
        "cores": seen.cores,
        "cores_busy": found.cores_busy,
        "resident_bytes": found.resident_bytes,
        "replay_bytes": found.replay_bytes,
        "recorder_share": found.recorder_share,
        "cycle_ns": {
            name: getattr(found.costs, name)
            for name in ("cycle", "act", "env", "collect", "sample", "update", "commit", "wait", "rest")
        },
        "experiments": [
            {
                "name": r.trial.name, "title": r.trial.title, "learning": learning(r), "measured_gain": r.gain,
                "interval": list(r.interval), "rounds": list(r.rounds), "predicted_gain": r.predicted,
                "remedy": r.trial.remedy,
            }
            for r in seen.results
        ],
        "not_tried": [{"title": n.trial.title, "why": n.why} for n in seen.not_tried],
        "findings": [
            {
                "name": a.name, "title": a.title, "file": None, "line": None, "share": a.share,
                "evidence": [a.evidence],
                "predicted_gain": a.predicted_gain, "measured_gain": a.measured_gain,
                "interval": list(a.interval) if a.interval else None, "learning": a.learning, "remedy": a.remedy,
            }
            for a in advice
        ],
    }  # fmt: skip
