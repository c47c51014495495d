"""A statement or a function of the script that can be left out while it runs: its source is compiled with a question in
front. A statement left out leaves its names as they were; a function left out gives what it last gave."""

from __future__ import annotations

import ast
import builtins
import functools
from typing import Any, Callable

ASK, KEEP = "_hotloop_runs_{}", "_hotloop_keeps_{}"


class Gate:
    """`runs()` is asked before each time."""

    def __init__(self, keep_one_in: int) -> None:
        self.keep_one_in = keep_one_in
        self.out = False
        self.turn = 0

    def runs(self) -> bool:
        if not self.out:
            return True
        if not self.keep_one_in:
            return False
        self.turn = (self.turn + 1) % self.keep_one_in
        return self.turn == 0

    def keeps(self, function: Callable[..., Any]) -> Callable[..., Any]:
        last: list[Any] = []

        @functools.wraps(function)
        def gated(*args: Any, **kwargs: Any) -> Any:
            if last and self.out and not self.runs():
                return last[0]
            out = function(*args, **kwargs)
            last[:] = [out]
            return out

        return gated

    def on(self) -> None:
        self.out = True

    def off(self) -> None:
        self.out = False


def prepare(doctor: Any, sides: list[dict[str, Any]]) -> dict[int, Gate]:
    """Before the script is read: side -> what opens and shuts its gate."""
    gates: dict[int, Gate] = {}
    files: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for number, side in enumerate(sides):
        if side["remedy"] == "cut":
            settings = side["settings"]
            gate = gates[number] = Gate(settings.get("keep_one_in", 0))
            setattr(builtins, ASK.format(number), gate.runs)
            setattr(builtins, KEEP.format(number), gate.keeps)
            files.setdefault(settings["file"], []).append((number, settings))
    for file, cuts in files.items():
        doctor.watch.transforms[file] = functools.partial(compiled, cuts)
    return gates


def compiled(cuts: list[tuple[int, dict[str, Any]]], source: bytes, file: str) -> Any:
    tree = ast.parse(source, file)
    for number, settings in cuts:
        if settings["kind"] == "function":
            decorate(tree, number, settings)
        else:
            tree = Asking(number, settings).visit(tree)
    return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def decorate(tree: ast.AST, number: int, settings: dict[str, Any]) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == settings["name"]:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == settings["line"]:
                node.decorator_list.append(ast.copy_location(ast.Name(KEEP.format(number), ast.Load()), node))


class Asking(ast.NodeTransformer):
    def __init__(self, number: int, settings: dict[str, Any]) -> None:
        self.number = number
        self.place = (settings["line"], settings["column"], settings["end"])

    def visit(self, node: ast.AST) -> Any:
        node = self.generic_visit(node)
        if isinstance(node, ast.stmt) and (node.lineno, node.col_offset, node.end_lineno) == self.place:
            asked = ast.Call(ast.Name(ASK.format(self.number), ast.Load()), [], [])
            return ast.copy_location(ast.If(asked, [node], []), node)
        return node
