"""host_copies: numbers leave their tensors one by one (item, cpu, numpy, a comparison that asks) in a Python loop,
where one copy of the whole tensor would do."""

from __future__ import annotations

import ast
from collections import defaultdict

from hotloop.doctor.case import Case
from hotloop.doctor.cuts import cut
from hotloop.doctor.finding import Finding, amdahl
from hotloop.doctor.recording import Frame, Function
from hotloop.doctor.roles import Placed
from hotloop.doctor.source import is_own, source
from hotloop.doctor.weighing import TINY

LEAST = 0.01
PER_ROUND = 4.0  # copies per batched step or update that are no loop


def find(case: Case) -> list[Finding]:
    groups: dict[tuple[Function, ast.stmt], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    frames: dict[tuple[Function, ast.stmt], tuple[float, Frame]] = {}
    for probe, number in case.counts.items():
        if probe.what not in TINY or probe.at is None or not is_own(probe.at.function.file):
            continue
        text = source(probe.at.function.file)
        statement = text.statement(probe.at.function, probe.at.line)
        if statement is None or not text.loops(statement) or _rare(case, probe.at.function, statement):
            continue
        key = (probe.at.function, statement)
        groups[key][probe.what] += number
        frames[key] = max(frames.get(key, (0.0, probe.at)), (number, probe.at), key=lambda x: x[0])
    out = []
    for key, kinds in groups.items():
        places = [p for p in case.placed if p.role != "env" and _under(p, *key)]
        share = sum(p.ns for p in places) / case.wall
        per_update = not case.env_calls or sum(p.ns for p in places if p.role == "update") > 0.5 * share * case.wall
        rounds = max(1, case.updates if per_update else case.env_calls)
        each = sum(kinds.values()) / rounds
        if each < PER_ROUND or share < LEAST:
            continue
        frame = frames[key][1]
        round_name = "update" if per_update else "batched step" if case.facts.lanes > 1 else "env step"
        said = " + ".join(f"{n / rounds:,.0f} × {_call(k)}" for k, n in sorted(kinds.items(), key=lambda x: -x[1]))
        out.append(
            Finding(
                name="host_copies",
                title=f"{each:,.0f} copies to the host per {round_name}, one by one",
                file=key[0].file,
                line=frame.line,
                share=share,
                remedy="copy the whole tensor once, before the loop, and write whole blocks into arrays",
                evidence=(f"{said} per {round_name}",),
                predicted_gain=amdahl(share),
                trial=cut(case, places),
            )
        )
    return out


def _call(name: str) -> str:
    kinds = {"__float__": "float()", "__int__": "int()", "__bool__": "a truth value", "__index__": "an index"}
    return kinds.get(name, "np.asarray()" if name == "__array__" else f".{name}()")


def _under(placed: Placed, function: Function, statement: ast.stmt) -> bool:
    end = statement.end_lineno or statement.lineno
    return any(f.function == function and statement.lineno <= f.line <= end for f in placed.place.frames)


def _rare(case: Case, function: Function, statement: ast.stmt) -> bool:
    """The training loop itself is a loop around everything: only loops within it count."""
    if case.loop is None or function != case.loop.function:
        return False
    text = case.loop.source
    for loop in text.loops(statement):
        inside = [s for s, role in case.roles.regions.items() if loop in text.above(s)]
        if not any(case.roles.regions[s] in ("env", "update") for s in inside):
            return False
    return True
