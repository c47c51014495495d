"""What each patient was given, where it stands (the line with `# <- LETTER`), what cures it, and what its document
believed of it. Knows the doctor's report, a plain dict, and nothing of the doctor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Report = Mapping[str, Any]


@dataclass(frozen=True)
class Cause:
    name: str  # of the doctor's finding
    mark: str
    fixed: str | None = None  # `--fixed` of the patient; None: nothing of its speed changes


@dataclass(frozen=True)
class Claim:
    believed: str
    measured: Callable[[Report], str]
    opposite: Callable[[Report], bool]  # whether the report says so


@dataclass(frozen=True)
class Patient:
    document: str
    causes: tuple[Cause, ...]
    claims: tuple[Claim, ...] = ()


def script(name: str) -> Path:
    return HERE / f"{name}.py"


def line(name: str, mark: str) -> int:
    lines = script(name).read_text().splitlines()
    return next(i for i, text in enumerate(lines, 1) if text.endswith(f"# <- {mark}"))


def share(report: Report, *roles: str) -> float:
    return sum(sum(report["shares"].get(role, {}).values()) for role in roles)


def finding(report: Report, name: str) -> Mapping[str, Any]:
    return next((f for f in report["findings"] if f["name"] == name), {})


def causes_first(report: Report, name: str) -> bool:
    """Every cause of a patient is found at its line, and those that are mistakes before anything else that is found.
    What trades learning for speed comes last in a report, and there it is first."""
    found = [(f["name"], f["line"]) for f in report["findings"] if f["kind"] != "trade"]
    trades = [(f["name"], f["line"]) for f in report["findings"] if f["kind"] == "trade"]
    planted = {(c.name, line(name, c.mark)) for c in PATIENTS[name].causes}
    costly = {p for p in planted if p[0] != "updates_per_step"}
    return set(found[: len(costly)]) == costly and set(trades[: len(planted - costly)]) == planted - costly


def _percent(number: float) -> str:
    return f"{100 * number:.0f} %"


def _samples(report: Report) -> str:
    return f"{report['does']['samples_per_step']:.3g} samples per step"


PATIENTS = {
    "service_chain_per_action": Patient(
        "000",
        (Cause("acting_alone", "A", "acting"), Cause("updates_per_step", "B", "updates")),
        (
            Claim(
                "it trains on one transition at a time",
                lambda r: f"every update takes {r['does']['batch']:.0f} transitions from the replay",
                lambda r: r["does"]["batch"] == 32,
            ),
            Claim(
                "training less often is the same learning, executed better",
                lambda r: f"{_samples(r)}, and fewer of them change learning",
                lambda r: finding(r, "updates_per_step").get("learning") == "changes",
            ),
            Claim(
                "asking for an action costs about 1 ms and does not matter",
                lambda r: f"acting takes {_percent(share(r, 'act'))} of the time",
                lambda r: share(r, "act") > 0.1,
            ),
        ),
    ),
    "snake_per_lane": Patient(
        "001",
        (
            Cause("still_target", "D"),
            Cause("env_loops", "C", "flood"),
            Cause("env_loops", "B", "collisions"),
            Cause("host_copies", "A", "push"),
            Cause("updates_per_step", "D", "updates"),
        ),
        (
            Claim(
                "training has become 14 times slower",
                lambda r: (
                    f"{r['throughput']['trend']} per env step, while an episode went from "
                    f"{r['does']['steps_per_episode'][0]:.0f} to {r['does']['steps_per_episode'][1]:.0f} steps"
                ),
                lambda r: (
                    r["throughput"]["trend"] != "falling"
                    and r["does"]["steps_per_episode"][1] > r["does"]["steps_per_episode"][0]
                ),
            ),
            Claim(
                "the environment step is of low priority, the push of high",
                lambda r: (
                    f"the environment takes {_percent(share(r, 'env'))}, "
                    f"the push {_percent(finding(r, 'host_copies').get('share', 0.0))}"
                ),
                lambda r: share(r, "env") > 3 * finding(r, "host_copies").get("share", 1.0),
            ),
            Claim(
                "fewer updates are an optimisation, 10 to 15 times",
                lambda r: f"{finding(r, 'updates_per_step').get('measured_gain') or 0:.2f}×, and it changes learning",
                lambda r: finding(r, "updates_per_step").get("learning") == "changes",
            ),
        ),
    ),
    "wildfire_in_place": Patient(
        "002",
        (
            Cause("world_not_restored", "A"),
            Cause("own_speed", "D"),
            Cause("saying", "C", "prints"),
            Cause("growing_copies", "B", "seen"),
        ),
        (
            Claim(
                "compilation slows the early episodes, 40 times",
                lambda r: f"{_percent(share(r, 'compile'))} of the time is compilation",
                lambda r: share(r, "compile") < 0.01,
            ),
            Claim(
                "it speeds up because it has warmed up",
                lambda r: (finding(r, "world_not_restored").get("evidence") or [""])[0],
                lambda r: bool(finding(r, "world_not_restored")),
            ),
            Claim(
                "its own figure of experiences per second is its speed",
                lambda r: finding(r, "own_speed").get("title", ""),
                lambda r: bool(finding(r, "own_speed")),
            ),
        ),
    ),
    "q_loss_for_a_log": Patient(
        "003",
        (
            Cause("tensor_text", "A", "log"),
            Cause("repeated_forward", "B", "target"),
            Cause("updates_per_step", "C"),
        ),
        (
            Claim(
                "the loss is slow for want of vectorised tensors and buffers made in advance",
                lambda r: f"{_percent(share(r, 'logging'))} of the time is text for a log that is off",
                lambda r: share(r, "logging") > 0.3,
            ),
            Claim(
                "one forward for states and next states saves time",
                lambda r: (finding(r, "repeated_forward").get("evidence") or [""])[0].partition(",")[0],
                lambda r: bool(finding(r, "repeated_forward")),
            ),
        ),
    ),
    "queue_of_items": Patient(
        "004",
        (Cause("dropped", "B"), Cause("transport", "A", "blocks"), Cause("early_float", "C", "float")),
        (
            Claim(
                "lock contention is the primary bottleneck",
                lambda r: (
                    f"transport takes {_percent(share(r, 'transport'))} of the learner's time, "
                    f"the update {_percent(share(r, 'update'))}"
                ),
                lambda r: share(r, "transport") < share(r, "update"),
            ),
            Claim(
                "drops are near zero",
                lambda r: finding(r, "dropped").get("title", ""),
                lambda r: bool(finding(r, "dropped")),
            ),
        ),
    ),
}  # fmt: skip
HEALTHY = ("healthy_lanes", "healthy_pixels")
