"""not_learning: what makes a run pointless whatever its speed: no update, no greedy action, no target network move."""

from __future__ import annotations

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Finding

STEPS = 500


def find(case: Case) -> list[Finding]:
    facts, out = case.facts, []
    stepping = next((p.at for p in case.totals if p.what == "env step" and p.at), None)
    file, line = (stepping.function.file, stepping.line) if stepping else (case.script, 0)
    if facts.updates and case.env_steps > STEPS and facts.greedy == 0 and case.phases.kind == "learning":
        out.append(
            Finding(
                "never_greedy", "every action is random: the network was never asked for one", file, line, 0.0,
                "let epsilon fall, in env steps; until then speed and quality say nothing of the policy",
                (f"{case.env_steps:,} env steps, {case.updates:,} updates, no forward before a step",),
                learning="changes", tier="wrong",
            )
        )  # fmt: skip
    gap = facts.target_every_updates
    if facts.updates > 200 and facts.parameters and gap is None and not _soft(case):
        update = next((p.at for p in case.totals if p.what == "backward" and p.at), None)
        if _has_target(case):
            out.append(
                Finding(
                    "still_target", f"the target network did not move in {facts.updates:,} updates",
                    update.function.file if update else file, update.line if update else line, 0.0,
                    "count its interval in updates; one counted in other steps can be many times longer than meant",
                    tier="wrong", learning="changes",
                )
            )  # fmt: skip
    return out


def _has_target(case: Case) -> bool:
    graded = {p.detail[0] for p in case.totals if p.what == "forward" and p.detail[2] and p not in case.acting}
    others = {p.detail[0] for p in case.totals if p.what == "forward" and p not in case.acting} - graded
    return bool(others)


def _soft(case: Case) -> bool:
    return any(p.what == "target copy" for p in case.totals)
