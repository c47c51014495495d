"""What the script does, in numbers that its author seldom knows: lanes, batch, samples per step, target interval in
updates, how it acts, how often it waits for the host, how long its episodes get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from hotloop.doctor.phases import Phases
from hotloop.doctor.recording import Probe, Recording, Timed
from hotloop.doctor.source import is_own
from hotloop.doctor.weighing import TINY

SAME_ROTATION = 0.5  # of the steps of the busiest environment: below this it is another kind, such as for evaluation


@dataclass(frozen=True)
class Facts:
    environments: int  # that take part in training
    lanes: int  # env steps per round of all of them
    env_class: str
    env_steps: int
    env_calls: int  # batched steps
    episodes: int
    updates: int
    batch: float | None
    samples_per_step: float | None  # of the judged windows
    updates_per_step: float | None
    target_every_updates: float | None
    target_networks: int
    parameters: int | None
    macs: int | None  # multiplications per row of a forward of the learning network
    optimizer: dict[str, Any] | None
    torch_threads: int | None
    act_forwards_per_step: float | None
    act_rows: float | None  # rows per forward that is acted upon
    greedy: float | None  # share of env steps whose action came from the network
    epsilon: tuple[str, float] | None  # the variable that looks like it, and its last value
    host_copies_per_step: float | None
    steps_per_episode: tuple[float | None, float | None]  # first and last third


def acting_forwards(totals: Mapping[Probe, Timed], counts: Mapping[Probe, float]) -> frozenset[Probe]:
    """Forwards after which a step came before any backward, more often than not."""
    tally: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for probe, number in counts.items():
        if probe.what in ("for acting", "for learning"):
            tally[_site(probe)][probe.what == "for learning"] += number
    out = set()
    for probe in totals:
        if probe.what == "forward":
            acted, learnt = tally[_site(probe)]
            if acted > learnt and not _looks_learnt(probe, totals, tally):
                out.add(probe)
    return frozenset(out)


def _looks_learnt(probe: Probe, totals: Mapping[Probe, Timed], tally: Mapping[Any, list[float]]) -> bool:
    """One that comes after the update, such as for priorities: as many rows as those that are learnt from, where an
    action needs fewer."""
    rows = probe.detail[1]
    learnt = {p.detail[1] for p in totals if p.what == "forward" and tally[_site(p)][1] > tally[_site(p)][0]}
    acted = {p.detail[1] for p in totals if p.what == "forward" and tally[_site(p)][0] > tally[_site(p)][1]}
    return rows in learnt and len(acted - learnt) > 0


def _site(probe: Probe) -> Any:
    return (probe.at.function, probe.at.line, probe.at.column, probe.detail) if probe.at else (None, probe.detail)


def facts(
    recordings: Sequence[Recording], learner: Recording, phases: Phases, totals: Mapping[Probe, Timed],
    counts: Mapping[Probe, float], acting: frozenset[Probe],
) -> Facts:  # fmt: skip
    """recordings: all processes, since environments may be stepped in others than the one that learns."""
    last = [r.windows[-1] for r in recordings if r.windows]
    own = learner.windows[-1] if learner.windows else None
    steps, _calls, updates, rows = _judged(phases)
    stepping = max(recordings, key=lambda r: r.windows[-1].env_steps if r.windows else 0)
    elsewhere = stepping is not learner and not (own and own.env_steps)
    if elsewhere:
        seconds = phases.seconds
        steps = sum(_rate_of_steps(r) for r in recordings if r is not learner) * seconds
    environments, lanes, name = _environments(recordings if elsewhere else [learner])
    forwards = {p: t for p, t in totals.items() if p in acting}
    calls_to_act = sum(t.calls for t in forwards.values())
    rows_to_act = sum(t.calls * p.detail[1] for p, t in forwards.items())
    modules = {row[0]: row for row in learner.some("module")}
    learning = _learning(totals, acting)
    optimizers = learner.some("optimizer")
    macs = {row[0]: row[1] for row in learner.some("macs")}
    return Facts(
        environments=environments,
        lanes=lanes,
        env_class=name,
        env_steps=sum(w.env_steps for w in last),
        env_calls=sum(w.env_calls for w in last),
        episodes=sum(w.episodes for w in last),
        updates=own.updates if own else 0,
        batch=_batch(totals, acting) if rows else None,
        samples_per_step=rows / steps if steps and updates else None,
        updates_per_step=updates / steps if steps and updates else None,
        target_every_updates=_target_gap(counts),
        target_networks=len({p.detail[0] for p in counts if p.what == "target gap"}),
        parameters=modules[learning][2] if learning in modules else None,
        macs=macs.get(learning),
        optimizer={"name": optimizers[0][1], **optimizers[0][2], "tensors": optimizers[0][3]} if optimizers else None,
        torch_threads=optimizers[0][7] if optimizers else None,
        act_forwards_per_step=calls_to_act / steps if steps and modules else None,
        act_rows=rows_to_act / calls_to_act if calls_to_act else None,
        greedy=min(1.0, rows_to_act / steps) if steps and modules else None,
        epsilon=_epsilon(learner),
        host_copies_per_step=_host_copies(counts) / steps if steps else None,
        steps_per_episode=_episode_lengths(phases),
    )


def _judged(phases: Phases) -> tuple[float, float, float, float]:
    """(env steps, batched steps, updates, rows learnt from) of the judged windows."""
    if not phases.judged:
        return 0, 0, 0, 0
    first, last = phases.before, phases.judged[-1]
    start = (first.env_steps, first.env_calls, first.updates, first.trained_rows) if first else (0, 0, 0, 0)
    end = (last.env_steps, last.env_calls, last.updates, last.trained_rows)
    return tuple(b - a for a, b in zip(start, end, strict=True))  # type: ignore[return-value]


def _rate_of_steps(recording: Recording) -> float:
    stepping = [w for w in recording.windows if w.env_steps]
    if len(stepping) < 2:
        return 0.0
    return (stepping[-1].env_steps - stepping[0].env_steps) / max(1e-9, (stepping[-1].ended - stepping[0].ended) / 1e9)


def _environments(recordings: Sequence[Recording]) -> tuple[int, int, str]:
    """(how many, lanes of all, class) of the environments that train."""
    number, lanes, name = 0, 0, ""
    for recording in recordings:
        steps: dict[int, int] = defaultdict(int)
        for window in recording.windows:
            for probe, count in window.counts.items():
                if probe.what == "env":
                    steps[probe.detail[0]] += count
        known = {row[0]: row for row in recording.some("env")}
        if not steps:
            continue
        busiest = max(steps.values())
        training = [i for i, n in steps.items() if n >= SAME_ROTATION * busiest and i in known]
        number += len(training)
        lanes += sum(known[i][2] for i in training)
        name = name or (known[training[0]][1] if training else "")
    return number, lanes, name


def _learning(totals: Mapping[Probe, Timed], acting: frozenset[Probe]) -> int | None:
    """The network with gradients in updates."""
    time: dict[int, int] = defaultdict(int)
    for probe, timed in totals.items():
        if probe.what == "forward" and probe not in acting and probe.detail[2]:
            time[probe.detail[0]] += timed.calls
    return max(time, key=lambda n: time[n]) if time else None


def _batch(totals: Mapping[Probe, Timed], acting: frozenset[Probe]) -> float | None:
    """Rows of the forward with gradients that is made most often."""
    calls: dict[int, int] = defaultdict(int)
    for probe, timed in totals.items():
        if probe.what == "forward" and probe not in acting and probe.detail[2]:
            calls[probe.detail[1]] += timed.calls
    return float(max(calls, key=lambda rows: calls[rows])) if calls else None


def _target_gap(counts: Mapping[Probe, float]) -> float | None:
    gaps = [(p.detail[1], n) for p, n in counts.items() if p.what == "target gap"]
    flat = [gap for gap, n in gaps for _ in range(min(int(n), 1000))]
    return float(median(flat)) if flat else None


def _epsilon(recording: Recording) -> tuple[str, float] | None:
    """The variable that changes most, or else any; its last value."""
    seen: dict[str, list[float]] = defaultdict(list)
    for name, value, _ in recording.some("epsilon"):
        seen[name].append(value)
    if not seen:
        return None
    name = max(seen, key=lambda n: (max(seen[n]) - min(seen[n]), -len(n)))
    return name, seen[name][-1]


def _host_copies(counts: Mapping[Probe, float]) -> float:
    return sum(n for p, n in counts.items() if p.what in TINY and p.at and is_own(p.at.function.file))


def _episode_lengths(phases: Phases) -> tuple[float | None, float | None]:
    windows = ([phases.before] if phases.before else []) + list(phases.judged)
    third = len(windows) // 3
    if third < 1:
        return None, None

    def length(part: Sequence[Any]) -> float | None:
        ended = part[-1].episodes - part[0].episodes
        return (part[-1].env_steps - part[0].env_steps) / ended if ended else None

    return length(windows[: third + 1]), length(windows[-third - 1 :])
