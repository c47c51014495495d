"""The examined program's text: which statement a line belongs to, which loop, which expression. Reads files, runs
nothing; a file that cannot be read or parsed has no statements."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hotloop.doctor.recording import Frame, Function


@dataclass(frozen=True, eq=False)
class Source:
    file: str
    lines: list[str]
    tree: ast.Module | None
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def function(self, function: Function) -> ast.AST | None:
        """Its def, or the module for what runs at the top."""
        if self.tree is None or function.name == "<module>":
            return self.tree
        name = function.name.rpartition(".")[2]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first == function.first:
                    return node
        return None

    def statement(self, function: Function, line: int) -> ast.stmt | None:
        """The smallest statement of a function that holds a line."""
        inside = self.function(function)
        found: ast.stmt | None = None
        for node in ast.walk(inside) if inside is not None else ():
            if not isinstance(node, ast.stmt) or node is inside or not node.lineno <= line <= (node.end_lineno or 0):
                continue
            if found is None or node.lineno > found.lineno or (node.end_lineno or 0) < (found.end_lineno or 0):
                found = node
        return found

    def above(self, node: ast.AST) -> list[ast.AST]:
        """What a node lies in, innermost first."""
        out = []
        while node in self.parents:
            node = self.parents[node]
            out.append(node)
        return out

    def loops(self, node: ast.AST) -> list[ast.stmt]:
        """Loops of its own function that a node lies in, innermost first."""
        out = []
        for outer in self.above(node):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            if isinstance(outer, ast.For | ast.While | ast.AsyncFor):
                out.append(outer)
        return out

    def text(self, node: ast.AST | None) -> str:
        if node is None or not hasattr(node, "lineno"):
            return ""
        return "\n".join(self.lines[node.lineno - 1 : node.end_lineno])  # type: ignore[attr-defined]

    def line(self, number: int) -> str:
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def expression(self, frame: Frame) -> str:
        """The text an instruction was compiled from; its line where columns are not known."""
        if not frame.end_column or frame.line > len(self.lines) or frame.end > len(self.lines):
            return self.line(frame.line)
        rows = [self.lines[n - 1].encode() for n in range(frame.line, frame.end + 1)]
        rows[-1] = rows[-1][: frame.end_column]
        rows[0] = rows[0][frame.column :]
        return b" ".join(r.strip() for r in rows).decode("utf-8", "replace")


@cache
def source(file: str) -> Source:
    try:
        text = Path(file).read_bytes()
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return Source(file, [], None)
    out = Source(file, text.decode("utf-8", "replace").splitlines(), tree)
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            out.parents[child] = node
    return out


def is_own(file: str) -> bool:
    """Whether a file is the user's: not the interpreter's, not an installed library's."""
    return file[:1] != "<" and "site-packages" not in file and "dist-packages" not in file and "/lib/python" not in file


def short(file: str) -> str:
    """As it is said: the name, with its folder where that tells more."""
    path = Path(file)
    return path.name if is_own(file) else "/".join(path.parts[-3:])
