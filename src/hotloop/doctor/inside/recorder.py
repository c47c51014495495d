"""Counts and times of one process, in dicts that are emptied into a file of rows four times a second: a script that is
killed leaves all but its last moment, and memory stays fixed. It knows no probe and interprets nothing."""

from __future__ import annotations

import itertools
import json
import opcode
import os
import sys
import threading
import time
from types import CodeType
from typing import Any

WINDOW_NS = 250_000_000
MOST = 50_000  # distinct stacks or frames: beyond, only the innermost frame is kept
HERE = os.path.dirname(os.path.abspath(__file__))
RESUME = opcode.opmap.get("RESUME")

now = time.perf_counter_ns
ident = threading.get_ident


class Track:
    """One thread: which probes it is inside of, innermost last. An entry is [key, ns spent in probes within]."""

    __slots__ = ("active", "env_depth", "index", "module_depth", "reset_depth")

    def __init__(self, index: int) -> None:
        self.index = index
        self.active: list[list[Any]] = []
        self.env_depth = self.module_depth = self.reset_depth = 0


class Recorder:
    """`on` is False while the probes are to do nothing: in a forked child that is not followed, and in those
    windows in which the doctor measures what it costs."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.begin()

    def begin(self) -> None:
        """Also in a forked child, which writes a file of its own and has one thread: the one that forked."""
        self.on = True
        self.ended = False
        self.pid = os.getpid()
        self.began = now()
        self.lost = 0  # ns that the doctor itself took on the main thread
        self.env_steps = self.env_calls = self.episodes = self.updates = self.trained_rows = 0
        self.tiny_calls = 0
        self.tiny_off_ns = 0
        self.latest: Any = None  # the key of the timed call that ended last
        self.instead: dict[str, Any] = {}  # what is called -> what is called for it, while a remedy is tried
        self.tracks: dict[int, Track] = {}
        self.main = self.track()
        self.codes: dict[int, CodeType] = {}  # keeps them alive, so that an id means one code
        self.ours: set[int] = set()
        self._ids: dict[Any, int] = {}
        self._rows: list[list[Any]] = []
        self._file = -1
        self.fresh()
        self.next_flush = self.began + WINDOW_NS
        self._flushed = self.began

    def fresh(self) -> None:
        self.timed: dict[Any, list[int]] = {}  # (probe, track, code, lasti, …) -> [calls, inclusive, exclusive, extra]
        self.counts: dict[Any, int] = {}
        self.samples: dict[Any, list[int]] = {}  # (section, outermost, track, code, lasti, …) -> [samples, ns]
        self.said: dict[Any, str] = {}

    def track(self) -> Track:
        """Of the thread that asks."""
        me = ident()
        track = self.tracks.get(me)
        if track is None:
            track = self.tracks[me] = Track(len(self.tracks))
        return track

    def code(self, code: CodeType) -> int:
        """Its id, which stays its own from now on."""
        i = id(code)
        if i not in self.codes:
            self.codes[i] = code
            if code.co_filename.startswith(HERE):
                self.ours.add(i)
        return i

    # --- rows ------------------------------------------------------------------------------------------------------

    def row(self, *cells: Any) -> None:
        """Goes out with the next window."""
        self._rows.append(list(cells))

    def flush(self, at: int) -> None:
        """End the window. Called from the main thread's signal handler, or from where the process ends."""
        if os.getpid() != self.pid:
            return
        timed, counts, samples, said = self.timed, self.counts, self.samples, self.said
        self.fresh()
        began, self._flushed, self.next_flush = self._flushed, at, at + WINDOW_NS
        tiny_off, self.tiny_off_ns = self.tiny_off_ns, 0
        window = [
            began - self.began, at - self.began, self.lost,
            self.env_steps, self.env_calls, self.episodes, self.updates, self.trained_rows,
            [[self.probe(key), *numbers] for key, numbers in list(timed.items())],
            [[self.stack(key), *numbers] for key, numbers in list(samples.items())],
            [[self.probe(key), number] for key, number in list(counts.items())],
            tiny_off, resident_bytes(), time.process_time_ns(), len(self.tracks),
        ]  # fmt: skip
        for key, text in list(said.items()):
            self.row("said", self.probe(key), text, at - self.began)
        self._rows.append(["w", *window])
        self.write()

    def write(self) -> None:
        rows, self._rows = self._rows, []
        if self._file < 0:
            path = os.path.join(self.folder, "rows-{}.jsonl".format(self.pid))
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        text = "".join(json.dumps(row, separators=(",", ":"), default=str) + "\n" for row in rows)
        os.write(self._file, text.encode("utf-8", "replace"))

    def end(self, why: str) -> None:
        """What is still to be written, once."""
        if self.ended or os.getpid() != self.pid:
            return
        self.ended = True
        self.row("end", why, now() - self.began)
        if self.on:
            self.on = False
            self.flush(now())
        else:
            self.write()

    # --- names -> numbers --------------------------------------------------------------------------------------------

    def probe(self, key: Any) -> int:
        """("forward", track, code, lasti, detail, …): where it was called from, and what tells calls apart."""
        number = self._ids.get(("p", key))
        if number is None:
            what, track, code, lasti, *detail = key
            at = self.frame(code, lasti) if code else -1
            number = self._ids["p", key] = len(self._ids)
            self.row("p", number, what, track, at, detail)
        return number

    def stack(self, key: Any) -> int:
        number = self._ids.get(("s", key))
        if number is None:
            section, under, track, *frames = key
            pairs = [(code, lasti) for code, lasti in zip(frames[::2], frames[1::2]) if code not in self.ours]
            if len(pairs) > 1 and entered(self.codes[pairs[0][0]], pairs[0][1]):
                del pairs[0]  # the signal came before the call: the time is the caller's
            if len(self._ids) > MOST:
                pairs = pairs[:1]
            within = self.probe(section) if section else -1
            inner = [self.frame(code, lasti) for code, lasti in pairs]
            number = self._ids["s", key] = len(self._ids)
            self.row("s", number, within, under, track, inner)
        return number

    def frame(self, code: int, lasti: int) -> int:
        number = self._ids.get(("f", code, lasti))
        if number is None:
            function = self._function(code)
            where = position(self.codes[code], lasti)
            number = self._ids["f", code, lasti] = len(self._ids)
            self.row("f", number, function, *where)
        return number

    def _function(self, code: int) -> int:
        number = self._ids.get(("c", code))
        if number is None:
            found = self.codes[code]
            number = self._ids["c", code] = len(self._ids)
            name = getattr(found, "co_qualname", found.co_name)
            file = found.co_filename
            self.row("c", number, file if file[:1] == "<" else os.path.abspath(file), name, found.co_firstlineno)
        return number


def entered(code: CodeType, lasti: int) -> bool:
    """Whether a frame stands before the first instruction of its function."""
    if lasti < 0:
        return True
    if RESUME is None:
        return False
    body = code.co_code
    return lasti + 1 < len(body) and body[lasti] == RESUME and body[lasti + 1] & 3 == 0


def position(code: CodeType, lasti: int) -> tuple[int, ...]:
    """(line, end line, column, end column) of an instruction; columns are 0 where Python does not know them."""
    at = max(lasti, 0)
    if hasattr(code, "co_positions"):
        before = list(itertools.islice(code.co_positions(), at // 2 + 1))
        for found in reversed(before):  # a jump back to the head of a loop has no line: it belongs to what it ends
            if found[0] is not None:
                return (found[0], found[1] or found[0], found[2] or 0, found[3] or 0)
    line = code.co_firstlineno
    if hasattr(code, "co_lines"):
        for start, stop, number in code.co_lines():
            if start <= at < stop and number is not None:
                line = number
    else:
        address, table = 0, code.co_lnotab
        for i in range(0, len(table), 2):
            address += table[i]
            if address > at:
                break
            line += table[i + 1] - 256 * (table[i + 1] >= 128)
    return (line, line, 0, 0)


def resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def hello(argv: list[str]) -> list[Any]:
    """The first row: who writes."""
    return ["hello", os.getpid(), os.getppid(), sys.version.split()[0], sys.executable, argv, now()]
