"""From case, findings and trials to one plain dict: what `--json` prints, and all that text and page know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding
from hotloop.doctor.patient import Patient
from hotloop.doctor.source import short, source
from hotloop.doctor.trying import Tried
from hotloop.doctor.watching import Watched, how_it_ended

KEPT_LINES = 12  # of what a script printed that failed
SPOTS = 8
FELT = 1.06  # a predicted gain that trials tell from none
LEAST_S = 1.0  # below this, where the time went says nothing


def bare(patient: Patient, script: str, code: int, complaint: str, watched: Watched | None = None) -> dict[str, Any]:
    """Of a script of which nothing was recorded."""
    out: dict[str, Any] = {
        "script": script, "args": list(patient.args), "python": patient.python, "exit_code": code,
        "verdict": complaint, "findings": [],
    }  # fmt: skip
    if watched is not None:
        out |= _ending(watched)
        out["verdict"] = _verdict(watched, None)
    return out


def unjudged(patient: Patient, script: str, code: int, watched: Watched, case: Case) -> dict[str, Any]:
    """Of a script that neither steps nor updates: where it was."""
    at_once = not watched.ending.stopped and case.phases.seconds < LEAST_S
    return {
        **bare(patient, script, code, "", watched), "verdict": _verdict(watched, case), **_seen(watched),
        "shares": {} if at_once else case.shares, "hottest": [] if at_once else _hottest(case),
    }  # fmt: skip


def judged(
    patient: Patient, script: str, code: int, watched: Watched, case: Case, findings: Sequence[Finding], tried: Tried,
    worth: float,
) -> dict[str, Any]:  # fmt: skip
    aside = [f for f in findings if _for_nothing(f, worth)]
    return {
        **bare(patient, script, code, "", watched), "verdict": _verdict(watched, case), **_seen(watched),
        "does": _does(case), "throughput": _throughput(case), "shares": case.shares,
        "shares_sum": sum(sum(parts.values()) for parts in case.shares.values()),
        "findings": [_finding(f) for f in findings if f not in aside],
        "tried_for_nothing": [_finding(f) for f in aside],
        "overhead": tried.overhead, "disturbed": tried.disturbed, "hottest": _hottest(case),
        "judged_s": case.phases.seconds,
    }  # fmt: skip


def _for_nothing(finding: Finding, worth: float) -> bool:
    """Tried, and what should have been felt was not; of a few percent no few rounds can say so."""
    if finding.tier not in ("waste", "slow") or finding.measured_gain is None:
        return False
    return finding.gain < worth and (finding.predicted_gain is None or finding.predicted_gain > FELT)


def _verdict(watched: Watched, case: Case | None) -> str:
    if case is not None and case.phases.kind == "learning":
        return "a training run"
    if case is not None and case.phases.kind == "stepping":
        return "an environment is stepped, and nothing was learnt while it was watched"
    seen = "neither an env step nor an optimizer step was seen"
    return f"{how_it_ended(watched)}; {seen}"


def _ending(watched: Watched) -> dict[str, Any]:
    ending = watched.ending
    failed = watched.failed
    return {
        "ending": how_it_ended(watched), "script_exit_code": ending.code, "watched_s": ending.seconds,
        "output": ending.output.splitlines()[-KEPT_LINES:] if failed else [],
    }  # fmt: skip


def _seen(watched: Watched) -> dict[str, Any]:
    main = watched.main
    events: dict[str, int] = {}
    for recording in watched.recordings:
        for row in recording.some("event"):
            events[row[0]] = events.get(row[0], 0) + 1
    libraries = {row[0]: row[1] for r in watched.recordings for row in r.some("library")}
    return {
        "processes": len(watched.recordings), "events": events, "libraries": libraries,
        "python_version": main.python if main else "",
    }  # fmt: skip


def _does(case: Case) -> dict[str, Any]:
    f = case.facts
    return {
        "environments": f.environments, "lanes": f.lanes, "env_class": f.env_class, "env_steps": f.env_steps,
        "episodes": f.episodes, "updates": f.updates, "batch": f.batch, "samples_per_step": f.samples_per_step,
        "updates_per_step": f.updates_per_step, "target_every_updates": f.target_every_updates,
        "target_networks": f.target_networks, "parameters": f.parameters, "optimizer": f.optimizer,
        "torch_threads": f.torch_threads, "act_forwards_per_step": f.act_forwards_per_step, "act_rows": f.act_rows,
        "greedy": f.greedy, "epsilon": f.epsilon, "host_copies_per_step": f.host_copies_per_step,
        "steps_per_episode": f.steps_per_episode, "first_step_s": case.phases.first_step_s,
        "first_update_s": case.phases.first_update_s, "memory_mb": _memory(case),
    }  # fmt: skip


def _memory(case: Case) -> tuple[float, float] | None:
    """Resident, at the start and at the end of the judged windows."""
    windows = case.phases.judged
    return (windows[0].resident / 2**20, windows[-1].resident / 2**20) if windows else None


def _throughput(case: Case) -> dict[str, Any]:
    t = case.throughput
    return {
        "unit": t.unit, "per_s": t.per_s, "trend": t.trend, "change": t.change, "first_ratio": t.first_ratio,
        "before_learning_per_s": t.before_learning_per_s, "behind": _behind(case), "pieces": t.pieces,
    }  # fmt: skip


def _behind(case: Case) -> str | None:
    """Of a speed that changes, the section whose time per step changed most."""
    thirds = case.thirds()
    if case.throughput.trend == "flat" or thirds is None:
        return None
    costs = []
    for third in thirds:
        steps = third.env_steps if case.throughput.unit == "env steps" else third.updates
        costs.append({role: sum(p.values()) * third.wall / max(1, steps) for role, p in third.shares.items()})
    roles = set(costs[0]) | set(costs[1])
    return max(roles, key=lambda r: abs(costs[1].get(r, 0.0) - costs[0].get(r, 0.0))) if roles else None


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.name, "title": finding.title, "file": finding.file, "line": finding.line,
        "where": f"{short(finding.file)}:{finding.line}", "code": source(finding.file).line(finding.line),
        "share": finding.share, "predicted_gain": finding.predicted_gain, "measured_gain": finding.measured_gain,
        "interval": finding.interval, "rounds": finding.rounds, "learning": finding.learning, "kind": finding.tier,
        "evidence": list(finding.evidence), "remedy": finding.remedy,
        "trial": finding.trial.says if finding.trial else None,
        "bound": bool(finding.trial and finding.trial.bound),
    }  # fmt: skip


def _hottest(case: Case) -> list[dict[str, Any]]:
    """The script's lines with most of the time, called functions included."""
    weight: dict[tuple[str, int], float] = {}
    for placed in case.placed:
        for where in {(f.function.file, f.line) for f in placed.place.frames if f.function.file == case.script}:
            weight[where] = weight.get(where, 0.0) + placed.ns
    top = sorted(weight, key=lambda k: -weight[k])[:SPOTS]
    return [
        {"file": file, "line": line, "share": weight[file, line] / case.wall, "code": source(file).line(line)}
        for file, line in top
    ]
