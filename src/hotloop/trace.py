"""Where the time went: sections, counters and gauges, recorded per thread in memory that is allocated once.
Recording formats nothing and takes no lock, since each thread writes only its own track. Totals are exact over the
whole run; the events behind them are the newest ones. Knows nothing of what the names mean."""

from __future__ import annotations

import json
import math
import os
import threading
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import thread_time_ns
from typing import IO, Any, NamedTuple

from hotloop.core.clock import Clock, now_ns
from hotloop.core.errors import UserError

_NEVER = 1 << 63  # larger than any duration: the minimum of a section that never ran
_PROCESS = 1  # one number for "this process" in the file: a real pid would differ from run to run


class SectionTotal(NamedTuple):
    """One section on one track, over the whole run. Time inside nested sections counts for the outer one too."""

    track: str
    name: str
    calls: int
    total_ns: int
    min_ns: int
    max_ns: int


class Event(NamedTuple):
    """One pass through a section."""

    track: str
    name: str
    start_ns: int
    ns: int


@dataclass(slots=True)
class Series:
    """A counter or a gauge on one track."""

    index: int  # into Trace.series
    value: float = 0  # a counter's sum, which stays an int, so exact, when ints are counted; a gauge's last value
    set_ns: int = 0


class Trace:
    """A recording. Make sections before the loop, and let each thread name its track before its loop: that is when
    the memory is allocated. Read and write it when the recorded threads stand still; what is read while they run
    may lack the event being written."""

    def __init__(self, events_per_track: int = 65536, clock: Clock = now_ns) -> None:
        if events_per_track < 1:
            raise ValueError(f"events_per_track = {events_per_track}: at least 1")
        self.clock = clock
        self.origin_ns = clock()
        self.events_per_track = events_per_track
        self.samples_per_track = max(1, events_per_track // 4)  # counters and gauges are set once per cycle
        self.section_names: list[str] = []
        self.series: list[tuple[str, str]] = []  # (kind, name)
        self.tracks: list[Track] = []
        self.local = threading.local()
        self._sections: dict[str, Section] = {}
        self._register = threading.Lock()  # taken to add a name or a track, never to record

    def section(self, name: str) -> Section:
        """`with trace.section("learn"):`, but made once, outside the loop. Any number of threads may share it, and it
        may be entered again inside itself."""
        with self._register:
            if name not in self._sections:
                self._sections[name] = Section(self, _number_of(name, self.section_names))
            return self._sections[name]

    def track(self, name: str) -> None:
        """Name the calling thread's track. A new thread that takes the name of one that ended goes on with its
        track, so that workers which come and go need no more memory; a name in use becomes `name 2`."""
        with self._register:
            own: Track | None = getattr(self.local, "track", None)
            if own is not None and own.name == name:
                return
            taken = {t.name: t for t in self.tracks if t is not own}
            if own is None and name in taken and not taken[name].thread.is_alive():
                own = taken[name]
                own.thread = threading.current_thread()
                own.open.clear()
            else:
                unique, n = name, 2
                while unique in taken:
                    unique, n = f"{name} {n}", n + 1
                if own is None:
                    own = Track(unique, self.events_per_track, self.samples_per_track)
                    self.tracks.append(own)
                own.name = unique
            self.local.track = own

    def beside(self, name: str) -> Track:
        """A track for a thread that cannot write it, as one that runs without Python: whoever asks writes it, with
        Section.record."""
        with self._register:
            found = next((t for t in self.tracks if t.name == name), None)
            if found is None:
                found = Track(name, self.events_per_track, self.samples_per_track)
                self.tracks.append(found)
            return found

    def count(self, name: str, n: float = 1) -> None:
        """Add to a counter. Its line in the timeline is the sum over all threads."""
        track = self.own_track()
        try:
            series = track.counters[name]
        except KeyError:
            series = track.counters[name] = Series(self._series("counter", name))
        series.value += n
        track.sample(self.clock(), series, n)

    def gauge(self, name: str, value: float) -> None:
        """Record the present value of something that goes up and down."""
        track = self.own_track()
        try:
            series = track.gauges[name]
        except KeyError:
            series = track.gauges[name] = Series(self._series("gauge", name))
        series.value = value
        track.sample(self.clock(), series, value)

    def _series(self, kind: str, name: str) -> int:
        with self._register:
            return _number_of((kind, name), self.series)

    def own_track(self) -> Track:
        """The calling thread's track, made at first use."""
        try:
            return self.local.track
        except AttributeError:
            self.track(threading.current_thread().name)
            return self.local.track

    def totals(self) -> list[SectionTotal]:
        """Exact figures per track and section, in the order they were first seen."""
        return [
            SectionTotal(track.name, self.section_names[i], *cell)
            for track in list(self.tracks)
            for i, cell in enumerate(track.cells)
            if cell[0]
        ]

    def counts(self) -> dict[str, float]:
        """Counter → sum over all threads and the whole run."""
        sums: dict[str, float] = {}
        for track in list(self.tracks):
            for name, series in list(track.counters.items()):
                sums[name] = sums.get(name, 0) + series.value
        return sums

    def gauges(self) -> dict[str, float]:
        """Gauge → the value set last by any thread."""
        newest: dict[str, Series] = {}
        for track in list(self.tracks):
            for name, series in list(track.gauges.items()):
                if name not in newest or newest[name].set_ns <= series.set_ns:
                    newest[name] = series
        return {name: series.value for name, series in newest.items()}

    def events(self) -> Iterator[Event]:
        """The events still held, track by track, by start; an outer section stands before those inside it."""
        for track in list(self.tracks):
            for start, ns, index in track.kept():
                yield Event(track.name, self.section_names[index], start, ns)

    def dropped(self) -> dict[str, int]:
        """Track → events too old to be still held."""
        return {t.name: max(0, t.written - t.size) for t in list(self.tracks)}

    def write_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write the newest events as Chrome trace JSON, which Perfetto and chrome://tracing open."""
        target = Path(path)
        temporary = target.with_name(f".writing-{target.name}")
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                _write_chrome(self, file)
            os.replace(temporary, target)
        except OSError as why:
            temporary.unlink(missing_ok=True)
            raise UserError(f"cannot write the trace {target}: {why.strerror}; free space or choose another") from None


class Section:
    """Records the time between `__enter__` and `__exit__` on the calling thread's track."""

    __slots__ = ("clock", "index", "local", "trace")

    def __init__(self, trace: Trace, index: int) -> None:
        self.trace = trace
        self.index = index
        self.clock = trace.clock
        self.local = trace.local

    def __enter__(self) -> None:
        try:
            track = self.local.track
        except AttributeError:
            track = self.trace.own_track()
        track.open.append(self.clock())

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        end = self.clock()
        track: Track = self.local.track
        self.record(track, track.open.pop(), end)

    def record(self, track: Track, start: int, end: int) -> None:
        """One pass, by the trace's clock."""
        index, ns = self.index, end - start
        try:
            cell = track.cells[index]
        except IndexError:
            cell = track.grow(index)
        cell[0] += 1
        cell[1] += ns
        if ns < cell[2]:
            cell[2] = ns
        if ns > cell[3]:
            cell[3] = ns
        i = track.written % track.size
        track.start_ns[i] = start
        track.ns[i] = ns
        track.section[i] = index
        track.written += 1


class Track:
    """One thread's memory: a ring of events, a ring of samples, and the exact totals. Written by that thread only."""

    __slots__ = (
        *("name", "thread", "open", "cells", "size", "written", "start_ns", "ns", "section"),
        *("counters", "gauges", "samples", "sampled", "sample_ns", "sample_series", "sample_value"),
    )

    def __init__(self, name: str, size: int, samples: int) -> None:
        self.name = name
        self.thread = threading.current_thread()
        self.open: list[int] = []  # starts of the sections entered and not yet left, outermost first
        self.cells: list[list[int]] = []  # section -> [calls, total_ns, min_ns, max_ns]
        self.size = size
        self.written = 0  # events ever; event k lies in slot k % size
        self.start_ns = array("q", bytes(8 * size))
        self.ns = array("q", bytes(8 * size))
        self.section = array("H", bytes(2 * size))
        self.counters: dict[str, Series] = {}
        self.gauges: dict[str, Series] = {}
        self.samples = samples
        self.sampled = 0  # samples ever, as `written`
        self.sample_ns = array("q", bytes(8 * samples))
        self.sample_series = array("H", bytes(2 * samples))
        self.sample_value = array("d", bytes(8 * samples))

    def grow(self, index: int) -> list[int]:
        """Room for a section met on this track for the first time."""
        self.cells += [[0, 0, _NEVER, 0] for _ in range(index + 1 - len(self.cells))]
        return self.cells[index]

    def sample(self, ns: int, series: Series, value: float) -> None:
        series.set_ns = ns
        i = self.sampled % self.samples
        self.sample_ns[i] = ns
        self.sample_series[i] = series.index
        self.sample_value[i] = value
        self.sampled += 1

    def kept(self) -> list[tuple[int, int, int]]:
        """(start, duration, section) of the events held, by start; the longer first where two start together."""
        held = min(self.written, self.size)
        rows = zip(self.start_ns[:held], self.ns[:held], self.section[:held], strict=True)
        return sorted(rows, key=lambda row: (row[0], -row[1]))

    def kept_samples(self) -> list[tuple[int, int, float]]:
        """(time, series, value) of the samples held, unordered."""
        held = min(self.sampled, self.samples)
        return list(zip(self.sample_ns[:held], self.sample_series[:held], self.sample_value[:held], strict=True))


class NullTrace:
    """Records nothing, so that callers never branch on whether a trace is wanted."""

    def section(self, name: str) -> NullTrace:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, traceback: object) -> None: ...

    def track(self, name: str) -> None: ...

    def count(self, name: str, n: float = 1) -> None: ...

    def gauge(self, name: str, value: float) -> None: ...

    def totals(self) -> list[SectionTotal]:
        return []

    def counts(self) -> dict[str, float]:
        return {}

    def gauges(self) -> dict[str, float]:
        return {}

    def events(self) -> Iterator[Event]:
        return iter(())

    def dropped(self) -> dict[str, int]:
        return {}

    def write_chrome(self, path: str | os.PathLike[str]) -> None: ...


NULL_TRACE = NullTrace()


def section_cost_ns(batches: int = 9, passes: int = 2000) -> float:
    """What one section costs here and now: the median over batches of a loop around one, less the empty loop. In
    processor time, so that what else the machine does is not counted."""
    section = Trace(events_per_track=4096).section("cost")
    costs = []
    for _ in range(batches):
        t0 = thread_time_ns()
        for _ in range(passes):
            pass
        t1 = thread_time_ns()
        for _ in range(passes):
            with section:
                pass
        costs.append((thread_time_ns() - t1 - (t1 - t0)) / passes)
    return median(costs)


def _number_of(name: Any, names: list[Any]) -> int:
    """The name's place in the list, added where it is new. 65,536 fit in an event."""
    if name in names:
        return names.index(name)
    if len(names) > 0xFFFF:
        raise ValueError(f"no room for {name!r}: names are made outside the loop and are few, not one per step")
    names.append(name)
    return len(names) - 1


def _write_chrome(trace: Trace, file: IO[str]) -> None:
    """Event by event, so that a long trace is never held twice."""
    file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    file.write(_line({"ph": "M", "name": "process_name", "pid": _PROCESS, "args": {"name": "hotloop"}}))
    numbers = {track.name: i for i, track in enumerate(trace.tracks, 1)}
    for name, tid in numbers.items():
        meta = {"ph": "M", "pid": _PROCESS, "tid": tid}
        file.write(",\n" + _line({**meta, "name": "thread_name", "args": {"name": name}}))
        file.write(",\n" + _line({**meta, "name": "thread_sort_index", "args": {"sort_index": tid}}))
    for event in trace.events():
        ts = (event.start_ns - trace.origin_ns) / 1000
        span = {"ph": "X", "name": event.name, "ts": ts, "dur": event.ns / 1000}
        file.write(",\n" + _line({**span, "pid": _PROCESS, "tid": numbers[event.track]}))
    for ns, name, value in _curves(trace):
        ts = (ns - trace.origin_ns) / 1000
        file.write(",\n" + _line({"ph": "C", "name": name, "ts": ts, "pid": _PROCESS, "args": {"value": value}}))
    dropped = {"dropped_events": trace.dropped(), "events_per_track": trace.events_per_track}
    file.write('\n], "otherData": ' + _line(dropped) + "}\n")


def _curves(trace: Trace) -> Iterator[tuple[int, str, float]]:
    """Counters as running sums over all threads, gauges as they were set, by time. A value that JSON has no number
    for is left out."""
    samples = sorted(sample for track in trace.tracks for sample in track.kept_samples())
    # The sums end at the exact totals; they begin at whatever was counted before the oldest sample still held.
    sums = trace.counts()
    for _, index, value in samples:
        kind, name = trace.series[index]
        if kind == "counter":
            sums[name] -= value
    for ns, index, value in samples:
        kind, name = trace.series[index]
        if kind == "counter":
            sums[name] += value
            value = sums[name]
        if math.isfinite(value):
            yield ns, name, value


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry, allow_nan=False)
