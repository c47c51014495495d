"""Where each thread is, many times a second. The doctor sends a signal; Python runs its handler between two
instructions of the main thread, so after a call into C the handler sees the line that made it. Each sample weighs the
time since the one before: what ran longest carries the most, and all weights together are the wall time."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, Callable

from .recorder import WINDOW_NS, Recorder, now

DEPTH = 60
TINY_CALLS = 2500  # that are counted per window
LEAST_PART = 0.06  # of a window in which they are counted
OTHERS_EVERY = 8  # samples of the main thread per look at the other threads
SIGNAL = getattr(signal, "SIGURG", None)  # ignored by default, so that it harms no process that does not expect it


class Slots:
    """Calls too short to be timed are counted, where there are many, in the first part of each window: of a length
    that is fixed before the window begins, since one that ended after so many calls would favour where they are."""

    def __init__(self, rec: Recorder, tiny: Callable[[bool], None]) -> None:
        self.rec, self.tiny = rec, tiny
        self.began = rec.began
        self.part = 1.0
        self.off_at = 0
        self.paused_at = 0

    def look(self, at: int) -> None:
        if not self.off_at and self.part < 1.0 and at - self.began > self.part * WINDOW_NS:
            self.tiny(False)
            self.off_at = at

    def pause(self) -> None:
        self.paused_at = now()
        self.tiny(False)

    def resume(self) -> None:
        """Where the window was."""
        gone = now() - self.paused_at
        self.began += gone
        if self.off_at:
            self.off_at += gone
        else:
            self.tiny(True)

    def ends(self, at: int) -> None:
        rec = self.rec
        counted = (self.off_at or at) - self.began
        rec.tiny_off_ns = at - self.off_at if self.off_at else 0
        calls = rec.tiny_calls * WINDOW_NS / max(1, counted)
        aim = min(1.0, max(LEAST_PART, TINY_CALLS / max(1.0, calls)))
        self.part = aim if aim < self.part else min(aim, 1.5 * self.part)
        rec.tiny_calls = 0
        if self.off_at:
            self.tiny(True)
        self.began, self.off_at = at, 0


class Sampling:
    """Under way. Between pause and resume the signal is not even delivered."""

    def __init__(
        self, by_signal: bool, set_handler: Callable[..., Any], take: Callable[[int, Any], None], slots: Slots
    ) -> None:
        self.by_signal, self._set, self._take, self._slots = by_signal, set_handler, take, slots

    def pause(self) -> None:
        self._slots.pause()
        if self.by_signal and threading.current_thread() is threading.main_thread():
            self._set(SIGNAL, signal.SIG_IGN)

    def resume(self) -> None:
        self._slots.resume()
        if self.by_signal and threading.current_thread() is threading.main_thread():
            self._set(SIGNAL, self._take)


def start(rec: Recorder, at_flush: Callable[[Any], None], tiny: Callable[[bool], None]) -> Sampling:
    """By signals; where there are none, in a thread, whose samples lean towards calls that free the GIL."""
    set_handler = signal.signal
    keep_out()
    slots = Slots(rec, tiny)
    take = handler(rec, at_flush, slots)
    if SIGNAL is not None and threading.current_thread() is threading.main_thread():
        signal.signal(SIGNAL, take)
        return Sampling(True, set_handler, take, slots)
    main = threading.main_thread().ident

    def watch() -> None:
        while True:
            time.sleep(0.005)
            take(0, sys._current_frames().get(main or 0))

    threading.Thread(target=watch, name="hotloop doctor", daemon=True).start()
    return Sampling(False, set_handler, take, slots)


def keep_out() -> None:
    """A script that takes every signal for itself is told it has this one too."""
    real, ours = signal.signal, SIGNAL
    pretended: list[Any] = [signal.SIG_DFL]

    def set_handler(signum: int, action: Any) -> Any:
        if ours is not None and signum == ours and len(pretended) > 1:
            pretended[1:], before = [action], pretended[1]
            return before
        if ours is not None and signum == ours:
            pretended.append(signal.SIG_DFL)
        return real(signum, action)

    signal.signal = set_handler


def handler(rec: Recorder, at_flush: Callable[[Any], None], slots: Slots) -> Callable[[int, Any], None]:
    last = [now(), now()]
    turn = [0]

    def take(signum: int, frame: Any) -> None:
        at = now()
        if not rec.on:
            last[0] = last[1] = at
            return
        add(rec, rec.main, frame, at - last[0])
        turn[0] += 1
        if turn[0] % OTHERS_EVERY == 0:
            if len(rec.tracks) > 1 or threading.active_count() > 1:
                others(rec, at - last[1])
            last[1] = at
        slots.look(at)
        if at >= rec.next_flush:
            at_flush(frame)
            slots.ends(at)
            rec.flush(at)
        done = now()
        rec.lost += done - at
        last[0] = done

    return take


def add(rec: Recorder, track: Any, frame: Any, weight: int) -> None:
    active = track.active[:]  # a copy: another thread may leave its probe at this moment
    key: list[Any] = [active[-1][0], active[0][0][0], track.index] if active else [None, None, track.index]
    codes, depth = rec.codes, 0
    while frame is not None and depth < DEPTH:
        code = frame.f_code
        i = id(code)
        if i not in codes:
            rec.code(code)
        key.append(i)
        key.append(frame.f_lasti)
        frame = frame.f_back
        depth += 1
    samples, whole = rec.samples, tuple(key)
    entry = samples.get(whole)
    if entry is None:
        samples[whole] = [1, weight]
    else:
        entry[0] += 1
        entry[1] += weight


def others(rec: Recorder, weight: int) -> None:
    """What the other threads do. They had to let go of the GIL for this: their lines lean towards calls that wait."""
    main = threading.main_thread().ident
    for number, frame in sys._current_frames().items():
        if number == main:
            continue
        track = rec.tracks.get(number)
        if track is None:
            track = rec.tracks[number] = type(rec.main)(len(rec.tracks))
        add(rec, track, frame, weight)
