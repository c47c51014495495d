"""The trainer's side of its workers' lives: start, hear, notice who is dead or hangs, start again with patience that
runs out. Owns processes and what is said of them; blocks and weights are workers.py's."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hotloop.collect import _worker
from hotloop.collect._worker import BEAT, DOING, FAULT, GO, READY, RESTING
from hotloop.collect._worker_seat import Seat
from hotloop.collect._worker_zygote import LONGEST
from hotloop.core.errors import UserError

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
FIRST_DELAY_S, LONGEST_DELAY_S = 0.1, 5.0  # before a start, where the one before has led to nothing; doubled each time
_BUDGET_S = 60.0
_LAST_WORDS_S = 0.5  # a worker that hangs has to say where
_LOADS_S = 120.0  # a zygote: torch from a cold disk
_ENDS_S = 3.0


class Zygote:
    """The process that forks workers, as the trainer sees it. It is ready to be asked some seconds after it is made."""

    def __init__(self, cache: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = (
            "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
            "from hotloop.collect._worker_zygote import main; main(int(sys.argv[1]), int(sys.argv[2]))"
        )
        command = [sys.executable, "-c", code, str(theirs.fileno()), str(os.getpid()), json.dumps(sys.path)]
        self.process = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, "HOTLOOP_CACHE": str(cache)},
        )  # fmt: skip
        theirs.close()
        ours.setblocking(False)
        self.channel, self.cache = ours, cache

    def say(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        text = json.dumps(message).encode()
        if len(text) > LONGEST:
            raise UserError(f"a config of {len(text)} bytes is too large for worker processes; set workers = 0")
        with suppress(OSError):  # it has ended: heard at the next look
            socket.send_fds(self.channel, [text], list(descriptors))

    def hear(self) -> dict[str, Any] | None:
        """What it says, None where it says nothing, {"gone": …} where it is no more."""
        try:
            message = self.channel.recv(LONGEST)
        except BlockingIOError:
            return None
        except OSError:
            message = b""
        return json.loads(message) if message else {"gone": True}

    def prepare(self, told: dict[str, Any], name: str) -> None:
        """Have it load and build what workers are made of. Returns when it is done."""
        self.say({"prepare": told})
        until = time.monotonic() + _LOADS_S
        while time.monotonic() < until:
            said = self.hear()
            if said is None:
                time.sleep(0.002)
            elif "refused" in said:
                raise UserError(said["refused"])
            elif "failed" in said:
                raise UserError(f"worker processes cannot be made for {name}: {first_cause(said['failed'])}")
            elif "gone" in said:
                raise UserError(f"the process that starts workers ended with exit code {self.process.wait()}")
            elif "ready" in said:
                return
        raise UserError(f"the process that starts workers was not ready within {_LOADS_S:.0f} s; set workers = 0")

    def close(self) -> None:
        self.channel.close()
        try:
            self.process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()  # and, by the system, all that it has started
            self.process.wait()


@dataclass(frozen=True)
class Patience:
    deadline_s: float
    restarts_per_minute: int


class Crew:
    """All seats, and the process that fills them."""

    def __init__(
        self, zygote: Zygote, prepared: dict[str, Any], name: str, seats: list[Seat], patience: Patience
    ) -> None:
        self.zygote, self.seats, self.patience = zygote, seats, patience
        self.said: list[str] = []
        self._prepared, self._name = prepared, name
        self._shown: set[str] = set()  # kinds of ends that were told
        self._looked = time.monotonic()
        self._zygotes: list[float] = []  # when one had to be started again
        zygote.prepare(prepared, name)

    # --- starting

    def start(self, seat: Seat, told: dict[str, Any], weights: int) -> None:
        """Fork a worker for a seat. told: see _worker.live."""
        seat.epoch += 1
        ours, theirs = socket.socketpair()
        timeout = struct.pack("ll", int(self.patience.deadline_s) + 1, 0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)  # to one that hangs with its ears full
        seat.last_words = os.memfd_create("hotloop-last-words", os.MFD_CLOEXEC)
        told = {**told, "worker": seat.number, "epoch": seat.epoch, "first_lane": seat.first_lane, "lanes": seat.lanes}
        self.zygote.say({"fork": told}, [theirs.fileno(), seat.segment.descriptor, weights, seat.last_words])
        theirs.close()
        seat.control = Connection(ours.detach())
        seat.pid = 0
        seat.status, seat.fault, seat.hung, seat.killed_at = "born", None, False, 0.0
        seat.beat, seat.still_s, seat.began = -1, 0.0, seat.published
        seat.words[DOING] = _worker.BUSY

    def go(self, seat: Seat) -> None:
        """Tell a worker how far to collect; one that is not ready is told when it is."""
        if seat.status == "works" and seat.control:
            with suppress(OSError):
                seat.control.send_bytes(GO + str(seat.wanted).encode())

    def ask(self, seat: Seat, question: bytes) -> bool:
        """Put a question, which `Seat.answer` will answer -> whether there was anybody to put it to."""
        if seat.status != "works" or not seat.control:
            return False
        try:
            seat.control.send_bytes(question)
        except OSError:
            return False
        return True

    def await_word(self, seat: Seat, timeout_s: float) -> None:
        """Sleep until a worker says something, so long at the most."""
        if seat.control:
            with suppress(OSError):
                seat.control.poll(timeout_s)

    # --- looking after them

    def attend(self) -> list[Seat]:
        """Hear everybody, end who hangs -> the seats that are to be filled now."""
        now = time.monotonic()
        # After this process itself was held up, nobody is to blame for more than one look.
        passed, self._looked = min(now - self._looked, 0.25), now
        while self.left and (said := self.zygote.hear()) is not None:
            if "forked" in said:
                number, epoch, pid = said["forked"]
                if self.seats[number].epoch == epoch:
                    self.seats[number].pid = pid
            elif "ended" in said:
                number, epoch, code = said["ended"]
                if self.seats[number].epoch == epoch:
                    self._ended(self.seats[number], code, now)
            elif "gone" in said:
                self._renew_zygote(now)
        for seat in self.seats:
            if seat.control:
                self._listen(seat)
                self._judge(seat, passed, now)
        return [s for s in self.seats if s.status == "away" and now >= s.due]

    def _listen(self, seat: Seat) -> None:
        assert seat.control
        try:
            while seat.control.poll():
                said = seat.control.recv_bytes()
                if said[:1] == READY:
                    seat.status = "works"
                    self.go(seat)
                elif said[:1] == FAULT:
                    seat.fault = json.loads(said[1:])
                else:
                    seat.answer = said[1:]
        except (EOFError, OSError):
            seat.control.close()
            seat.control = None  # the zygote says how it ended

    def _judge(self, seat: Seat, passed: float, now: float) -> None:
        """A worker whose beat stands still while it should not hangs: it is asked where, and ended."""
        if seat.killed_at:
            if now >= seat.killed_at:
                self.zygote.say({"kill": [seat.number, seat.epoch, int(signal.SIGKILL)]})
                seat.killed_at = now + _LAST_WORDS_S
            return
        beat = int(seat.words[BEAT])
        if beat != seat.beat or seat.words[DOING] == RESTING:
            seat.beat, seat.still_s = beat, 0.0
            return
        seat.still_s += passed
        if seat.still_s > self.patience.deadline_s:
            seat.hung, seat.killed_at = True, now + _LAST_WORDS_S
            self.zygote.say({"kill": [seat.number, seat.epoch, int(signal.SIGABRT)]})

    def _renew_zygote(self, now: float) -> None:
        """Its workers have ended with it."""
        code = self.zygote.process.wait()
        self.zygote.close()
        self._zygotes = [t for t in self._zygotes if now - t < _BUDGET_S]
        if len(self._zygotes) >= self.patience.restarts_per_minute:
            for seat in self.seats:
                self.give_up(seat, "the process that starts workers does not stay")
            return
        self._zygotes.append(now)
        self.said.append(f"the process that starts workers ended with exit code {code}; all workers are started again")
        self.zygote = Zygote(self.zygote.cache)
        try:
            self.zygote.prepare(self._prepared, self._name)
        except UserError as why:
            self.said.append(str(why))
            for seat in self.seats:
                self.give_up(seat, "the process that starts workers does not stay")
            return
        for seat in self.seats:
            if seat.lives:
                self._ended(seat, -int(signal.SIGKILL), now)

    # --- ends

    def _ended(self, seat: Seat, code: int, now: float) -> None:
        if seat.control:
            self._listen(seat)
        if seat.control:
            seat.control.close()
        seat.control = None
        last_words = (
            os.pread(seat.last_words, 8_192, 0).decode(errors="replace").partition("\nExtension mod")[0].strip()
        )
        os.close(seat.last_words)
        seat.last_words = -1
        seat.in_vain = 0 if seat.published > seat.began else seat.in_vain + 1
        seat.starts = [t for t in seat.starts if now - t < _BUDGET_S]
        self._tell(seat, code, last_words)
        if seat.status == "given up":
            return
        if len(seat.starts) >= self.patience.restarts_per_minute:
            self.give_up(seat, f"after {seat.restarts} restarts")
            return
        seat.starts.append(now)
        seat.restarts += 1
        seat.status = "away"
        seat.due = now if not seat.in_vain else now + min(FIRST_DELAY_S * 2 ** (seat.in_vain - 1), LONGEST_DELAY_S)

    def give_up(self, seat: Seat, why: str) -> None:
        if seat.lives:
            self.zygote.say({"kill": [seat.number, seat.epoch, int(signal.SIGKILL)]})
        seat.status = "given up"
        left = len(self.left)
        more = f"; {left} {'workers go' if left != 1 else 'worker goes'} on" if left else ""
        self.said.append(f"{seat.name} is given up: {why}{more}")

    def _tell(self, seat: Seat, code: int, last_words: str) -> None:
        """How a worker ended: the first time of each kind in full, its own words included."""
        text = what_happened(seat, code, last_words)
        kind = re.sub(r"\d+", "#", text.splitlines()[0] + (seat.fault or {}).get("what", ""))
        if kind not in self._shown and len(self._shown) < 100:
            self._shown.add(kind)
            self.said.append(text)

    @property
    def left(self) -> list[Seat]:
        return [s for s in self.seats if s.status != "given up"]

    def close(self) -> None:
        """Everything ends, whatever state it is in."""
        for seat in self.seats:
            if seat.control:
                seat.control.close()
                seat.control = None
        self.zygote.close()
        for seat in self.seats:
            if seat.last_words >= 0:
                os.close(seat.last_words)
                seat.last_words = -1
            seat.segment.close()


def what_happened(seat: Seat, code: int, last_words: str) -> str:
    where = f"step {int(seat.words[BEAT]) + 1} of its lanes, actions {seat.actions.tolist()}"  # sync: it is dead
    if seat.hung:
        text = f"{seat.name} did not come back from {where} within the deadline and was ended"
    elif seat.fault and "what" not in seat.fault:
        text = f"{seat.name}: {seat.fault['text']}"
    elif seat.fault:
        return f"{seat.name} failed and was started again:\n{seat.fault['text'].rstrip()}"
    elif code < 0:
        text = f"{seat.name} was killed by {_signal(-code)} in {where}"
    else:
        text = f"{seat.name} ended by itself with exit code {code} in {where}"
    return f"{text}; started again" + (f"\n{last_words}" if last_words else "")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def first_cause(trace: str) -> str:
    """A traceback as one line: what, and where."""
    lines = trace.strip().splitlines()
    places = [i for i, line in enumerate(lines) if re.match(r'  File "[^"]+", line \d+', line)]
    if not places:
        return lines[-1]
    where = re.match(r'  File "([^"]+)", line (\d+)', lines[places[-1]])
    said = " ".join(line for line in lines[places[-1] + 1 :] if not line.startswith(" "))
    return f"{said} ({where[1]}, line {where[2]})" if where else said
