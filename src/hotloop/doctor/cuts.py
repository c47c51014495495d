"""What can be left out of a running script to measure what it costs: a statement of the loop, whose names then keep
their last values, or a function, which then returns its last result."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from hotloop.doctor.case import Case
from hotloop.doctor.finding import Trial
from hotloop.doctor.recording import Function
from hotloop.doctor.roles import Placed
from hotloop.doctor.source import source

MORE = 1.15  # times what is to be left out: nothing that takes more than this is cut
MOST_OF = 0.85  # of what is to be left out: a cut that misses more says nothing
LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Delete)


def cut(case: Case, chosen: Sequence[Placed], keep_one_in: int = 0) -> Trial | None:
    """A trial that leaves out just these places; keep_one_in: or all but one in so many times."""
    settings = _statement(case, chosen) or _function(case, chosen)
    if settings is None:
        return None
    what = f"`{settings['name']}`" if settings["kind"] == "function" else f"line {settings['line']}"
    says = f"{what} left out" if not keep_one_in else f"{what} run once in {keep_one_in} times"
    return Trial("cut", {**settings, "keep_one_in": keep_one_in}, bound=not keep_one_in, says=says)


def _statement(case: Case, chosen: Sequence[Placed]) -> dict[str, Any] | None:
    loop, wanted = case.loop, sum(p.ns for p in chosen)
    if loop is None or not wanted:
        return None
    inside: dict[ast.stmt, float] = defaultdict(float)
    whole: dict[ast.stmt, float] = defaultdict(float)
    ours = set(map(id, chosen))
    for placed in case.placed:
        if placed.statement is None:
            continue
        for node in (placed.statement, *loop.source.above(placed.statement)):
            if isinstance(node, ast.stmt):
                whole[node] += placed.ns
                inside[node] += placed.ns * (id(placed) in ours)
    fitting = [
        s for s, ns in inside.items()
        if ns >= MOST_OF * wanted and whole[s] <= MORE * wanted and can_be_skipped(s) and loop.source.loops(s)
    ]  # fmt: skip
    if not fitting:
        return None
    best = min(fitting, key=lambda s: (whole[s] - inside[s], s.lineno))
    return {
        "kind": "statement", "file": loop.function.file, "line": best.lineno, "column": best.col_offset,
        "end": best.end_lineno, "name": loop.source.line(best.lineno),
    }  # fmt: skip


def can_be_skipped(statement: ast.stmt) -> bool:
    """Whether a function still makes sense without it: it neither leaves, nor defines, nor steers a loop around it."""
    for node in ast.walk(statement):
        if isinstance(node, LEAVING + DEFINING):
            return False
    return not _steers(statement, 0)


def _steers(node: ast.AST, loops: int) -> bool:
    if isinstance(node, ast.Break | ast.Continue):
        return loops == 0
    inner = loops + isinstance(node, ast.For | ast.While)
    return any(_steers(child, inner) for child in ast.iter_child_nodes(node))


def _function(case: Case, chosen: Iterable[Placed]) -> dict[str, Any] | None:
    """The outermost function of the source that is hardly more than these places."""
    inside: dict[Function, float] = defaultdict(float)
    whole: dict[Function, float] = defaultdict(float)
    wanted, ours, depth = 0.0, set(), {}
    for placed in chosen:
        wanted += placed.ns
        ours.add(id(placed))
    for placed in case.placed:
        below = _below_loop(case, placed)
        for function in set(below):
            whole[function] += placed.ns
            inside[function] += placed.ns * (id(placed) in ours)
        for i, function in enumerate(reversed(below)):
            depth[function] = min(depth.get(function, i), i)
    above = _above_loop(case)
    fitting = [
        f for f, ns in inside.items()
        if ns >= MOST_OF * wanted and whole[f] <= MORE * wanted and f not in above and _can_be_cached(f)
    ]  # fmt: skip
    if not fitting:
        return None
    best = min(fitting, key=lambda f: (depth[f], f.first))
    return {"kind": "function", "file": best.file, "line": best.first, "name": best.name.rpartition(".")[2]}


def _below_loop(case: Case, placed: Placed) -> list[Function]:
    """Functions with a source of their own, innermost first."""
    out = []
    for frame in placed.place.frames:
        if case.loop is not None and frame.function == case.loop.function:
            break
        if frame.function.name != "<module>" and "/torch/" not in frame.function.file:
            out.append(frame.function)
    return out


def _above_loop(case: Case) -> set[Function]:
    """The training loop's own function, and what calls it."""
    out: set[Function] = set()
    for placed in case.placed if case.loop is not None else ():
        functions = [f.function for f in placed.place.frames]
        if case.loop is not None and case.loop.function in functions:
            out |= set(functions[functions.index(case.loop.function) :])
    return out


def _can_be_cached(function: Function) -> bool:
    node = source(function.file).function(function)
    if not isinstance(node, ast.FunctionDef):
        return False
    return not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node)) and not node.name.startswith("__")
