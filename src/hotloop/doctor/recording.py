"""What came out of one process of the patient: rows of JSON, written window by window, read back here. The last row
may be cut short. Knows the rows' layout, which inside/recorder.py writes, and not what they mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Function:
    file: str
    name: str
    first: int  # line of its def


@dataclass(frozen=True, eq=False)
class Frame:
    function: Function
    line: int
    end: int
    column: int  # 0 and 0 where the patient's Python does not say
    end_column: int


@dataclass(frozen=True, eq=False)
class Probe:
    """One kind of call from one line."""

    what: str
    track: int  # thread; 0 is the main one
    at: Frame | None
    detail: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Stack:
    within: Probe | None  # the innermost timed call
    under: str | None  # what the outermost timed call is
    track: int
    frames: tuple[Frame, ...]  # innermost first


@dataclass(frozen=True)
class Timed:
    calls: int
    inclusive: int  # ns
    exclusive: int  # ns, without the timed calls within
    extra: int


@dataclass(frozen=True)
class Window:
    """A quarter of a second. Counters count from the start of the process."""

    began: int  # ns since the recorder began, as all times here
    ended: int
    lost: int  # ns the doctor itself took until now
    env_steps: int
    env_calls: int
    episodes: int
    updates: int
    trained_rows: int
    timed: dict[Probe, Timed]
    samples: dict[Stack, tuple[int, int]]  # (samples, ns)
    counts: dict[Probe, int]
    tiny_off: int  # ns of the window in which tiny calls were not counted
    resident: int  # bytes
    cpu: int  # ns of all threads since the process began
    tracks: int

    @property
    def seconds(self) -> float:
        return (self.ended - self.began) / 1e9


@dataclass
class Recording:
    """One process."""

    pid: int = 0
    parent: int = 0
    python: str = ""
    windows: list[Window] = field(default_factory=list)
    said: list[tuple[Probe, str, int]] = field(default_factory=list)
    rows: dict[str, list[list[Any]]] = field(default_factory=dict)  # every other kind of row, without its name

    def some(self, kind: str) -> list[list[Any]]:
        return self.rows.get(kind, [])

    @property
    def forked(self) -> bool:
        return bool(self.some("forked"))


def read_all(folder: Path) -> list[Recording]:
    """Every process that said hello, in the order in which they began."""
    found = [read(file) for file in folder.glob("rows-*.jsonl")]
    return sorted((r for r in found if r.pid), key=lambda r: r.some("hello")[0][-1])


def read(file: Path) -> Recording:
    out = Recording()
    functions: dict[int, Function] = {}
    frames: dict[int, Frame] = {}
    probes: dict[int, Probe] = {}
    stacks: dict[int, Stack] = {}
    for kind, *cells in _rows(file):
        if kind == "c":
            functions[cells[0]] = Function(*cells[1:])
        elif kind == "f":
            frames[cells[0]] = Frame(functions[cells[1]], *cells[2:])
        elif kind == "p":
            number, what, track, at, detail = cells
            probes[number] = Probe(what, track, frames.get(at), tuple(detail))
        elif kind == "s":
            number, within, under, track, inner = cells
            stacks[number] = Stack(probes.get(within), under, track, tuple(frames[i] for i in inner))
        elif kind == "w":
            out.windows.append(_window(cells, probes, stacks))
        elif kind == "said":
            out.said.append((probes[cells[0]], cells[1], cells[2]))
        else:
            out.rows.setdefault(kind, []).append(cells)
    if hello := out.some("hello"):
        out.pid, out.parent, out.python = hello[0][:3]
    return out


def _rows(file: Path) -> Iterator[list[Any]]:
    for line in file.read_bytes().splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # the process died while it wrote
            return


def _window(cells: list[Any], probes: dict[int, Probe], stacks: dict[int, Stack]) -> Window:
    timed = {probes[i]: Timed(*numbers) for i, *numbers in cells[8]}
    samples = {stacks[i]: (count, ns) for i, count, ns in cells[9]}
    counts = {probes[i]: number for i, number in cells[10]}
    return Window(*cells[:8], timed, samples, counts, *cells[11:])
