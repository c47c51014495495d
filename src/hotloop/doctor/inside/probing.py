"""What probes are made of: a call that is timed with its caller's line, and the set of all that was patched, which can
be taken off and put back while the script runs."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

from .recorder import HERE, Recorder, ident, now

getframe = sys._getframe


class Patches:
    """What was there and what stands there now. Tiny ones are those of calls so short that they are only counted, and
    where there are many, only in some moments. Those that stay count steps and updates, and switch remedies."""

    def __init__(self) -> None:
        self._put: list[Patch] = []

    def put(self, owner: Any, name: str, probe: Callable[..., Any], tiny: bool = False, stays: bool = False) -> None:
        real = owner.__dict__.get(name) if isinstance(owner, type) else getattr(owner, name)
        self._put.append(Patch(owner, name, real, probe, tiny, stays))
        setattr(owner, name, probe)

    def take_off(self, owner: Any, name: str) -> None:
        for patch in list(self._put):
            if patch.owner is owner and patch.name == name:
                patch.set(patch.real)
                self._put.remove(patch)

    def all(self, on: bool) -> None:
        for patch in self._put:
            if not patch.stays and not patch.tiny:
                patch.set(patch.probe if on else patch.real)

    def tiny(self, on: bool) -> None:
        for patch in self._put:
            if patch.tiny:
                patch.set(patch.probe if on else patch.real)


class Patch:
    __slots__ = ("name", "owner", "probe", "real", "stays", "tiny")

    def __init__(self, owner: Any, name: str, real: Any, probe: Any, tiny: bool, stays: bool) -> None:
        self.owner, self.name, self.real, self.probe, self.tiny, self.stays = owner, name, real, probe, tiny, stays

    def set(self, value: Any) -> None:
        if value is not None:
            setattr(self.owner, self.name, value)
        elif self.name in self.owner.__dict__:  # it was inherited
            delattr(self.owner, self.name)


class Caller:
    """Finds who called a probe, past the frames of the library the probe sits in."""

    def __init__(self, rec: Recorder, *libraries: str) -> None:
        self.rec = rec
        self._prefixes = (HERE, *libraries)
        self._inside: dict[int, bool] = {}

    def __call__(self, frame: Any) -> tuple[int, int]:
        inside = self._inside
        while frame is not None:
            i = id(frame.f_code)
            skipped = inside.get(i)
            if skipped is None:
                self.rec.code(frame.f_code)
                skipped = inside[i] = frame.f_code.co_filename.startswith(self._prefixes)
            if not skipped:
                return i, frame.f_lasti
            frame = frame.f_back
        return 0, 0


def timed(
    rec: Recorder, what: str, real: Callable[..., Any], caller: Caller, detail: Callable[..., tuple] | None = None
) -> Callable[..., Any]:
    """`real`, timed. detail(args) -> what else tells calls apart."""

    def probe(*args: Any, **kwargs: Any) -> Any:
        if not rec.on:
            return rec.instead.get(what, real)(*args, **kwargs)
        began = now()
        track = rec.tracks.get(ident()) or rec.track()
        more = detail(args) if detail is not None else ()
        entry = [(what, track.index, *caller(getframe(1)), *more), 0]
        active = track.active
        active.append(entry)
        at = now()
        rec.lost = lost = rec.lost + at - began
        try:
            return real(*args, **kwargs)
        finally:
            leave(rec, active, entry, at, lost)
            rec.latest = entry[0]

    return like(real, probe)


def forgiving(rec: Recorder, part: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
    """`part` of a probe, until it fails: then never again, and the script goes on as it would alone."""
    broken: list[str] = []

    def tried(*args: Any) -> Any:
        if broken:
            return otherwise
        try:
            return part(*args)
        except Exception as why:
            broken.append(type(why).__name__)
            rec.row("misfit", getattr(part, "__qualname__", str(part)), type(why).__name__, str(why)[:200])
            return otherwise

    return tried


def leave(rec: Recorder, active: list[list[Any]], entry: list[Any], at: int, lost: int, extra: int = 0) -> None:
    """End of a timed call that began at `at`, when the doctor had taken `lost`; what this takes is the doctor's too."""
    done = now()
    ns = done - at - rec.lost + lost
    while active and active.pop() is not entry:
        pass
    if active:
        active[-1][1] += ns
    row = rec.timed.get(entry[0])
    if row is None:
        rec.timed[entry[0]] = [1, ns, ns - entry[1], extra]
    else:
        row[0] += 1
        row[1] += ns
        row[2] += ns - entry[1]
        row[3] += extra
    rec.lost += now() - done


def tiny(rec: Recorder, what: str, real: Callable[..., Any], caller: Caller) -> Callable[..., Any]:
    """`real`, counted by its caller's line, not timed."""

    def probe(*args: Any, **kwargs: Any) -> Any:
        if rec.on:
            frame = getframe(1)
            i = id(frame.f_code)
            if i not in rec.codes:
                rec.code(frame.f_code)
            key = (what, 0, i, frame.f_lasti)
            rec.counts[key] = rec.counts.get(key, 0) + 1
            rec.tiny_calls += 1
        return real(*args, **kwargs)

    return like(real, probe)


def like(real: Any, probe: Callable[..., Any]) -> Callable[..., Any]:
    """With the name, the documentation and the signature of what it stands for."""
    return functools.wraps(real, updated=())(probe) if hasattr(real, "__name__") else probe
