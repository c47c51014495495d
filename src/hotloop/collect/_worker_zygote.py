"""The process that workers are forked from: it has loaded what they need, so that one is born in milliseconds. Started
anew, not forked, and it keeps to one thread: a fork of a process whose threads have computed hangs. It buries its
children and says how they ended; it knows neither blocks nor faults, and runs nothing of an environment's."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

from hotloop.collect import _worker
from hotloop.core.errors import UserError
from hotloop.core.types import EnvSpec, Field

LONGEST = 1 << 17  # bytes of a message
_GRACE_S = 1.0  # for workers to end by themselves once the trainer is gone
_QUIET_AFTER = 1 << 14  # bytes of stderr that each worker may show
_PR_SET_PDEATHSIG = 1


def spec_of(plain: dict[str, Any]) -> EnvSpec:
    """From what dataclasses.asdict has made of one, through JSON."""
    fields = tuple(Field(**{**f, "shape": tuple(f["shape"])}) for f in plain["observation"])
    return EnvSpec(**{**plain, "observation": fields, "measures": tuple(plain["measures"])})


def die_with_parent(parent: int) -> None:
    """The system kills this process when its parent ends. One whose parent has ended already ends now."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def main(descriptor: int, parent: int) -> None:
    die_with_parent(parent)
    for number in (signal.SIGINT, signal.SIGTERM):  # the trainer's to decide
        signal.signal(number, signal.SIG_IGN)
    Zygote(socket.socket(fileno=descriptor)).serve()


class Zygote:
    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.make: Any = None
        self.children: dict[int, tuple[int, int]] = {}  # pid -> worker, which start of it
        self.shown: dict[int, int] = {}  # worker -> bytes of stderr
        self.select = selectors.DefaultSelector()
        self.select.register(channel, selectors.EVENT_READ)
        woken, wakes = os.pipe()
        for end in (woken, wakes):
            os.set_blocking(end, False)
        self.ended, self._own = woken, (woken, wakes)
        self.select.register(woken, selectors.EVENT_READ)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        while True:
            for key, _ in self.select.select():
                if key.fileobj is self.channel:
                    if not self._hear():
                        return self._end()
                elif key.fileobj == self.ended:
                    with suppress(BlockingIOError):
                        os.read(self.ended, 4096)
                    self._bury()
                else:
                    self._show(key.fd, key.data)

    def _say(self, **what: Any) -> None:
        with suppress(OSError):
            self.channel.send(json.dumps(what).encode())

    def _hear(self) -> bool:
        """Do what the trainer says -> False once it says nothing any more."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self.channel, LONGEST, 4)
        except OSError:
            return False
        if not message:
            return False
        asked = json.loads(message)
        if "prepare" in asked:
            self._prepare(asked["prepare"])
        elif "fork" in asked:
            self._fork(asked["fork"], dict(zip(("control", "memory", "weights", "words"), descriptors, strict=True)))
            for descriptor in descriptors:
                os.close(descriptor)
        elif "kill" in asked:
            worker, epoch, number = asked["kill"]
            for pid in [p for p, who in self.children.items() if who == (worker, epoch)]:
                os.kill(pid, number)
        return True

    def _prepare(self, told: dict[str, Any]) -> None:
        try:
            module, _, name = told["factory"].partition(":")
            self.spec = spec_of(told["spec"])
            self.make = getattr(importlib.import_module(module), name)(self.spec, told["of"])
            _worker.rehearse()
            gc.collect()
            gc.freeze()  # what is never looked at stays shared
        except UserError as why:
            return self._say(refused=str(why))
        except BaseException:
            return self._say(failed=traceback.format_exc()[-LONGEST // 4 :])
        return self._say(ready=True)

    def _fork(self, told: dict[str, Any], descriptors: dict[str, int]) -> None:
        read, write = os.pipe()
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            code = 70
            try:
                self._leave(parent, read, write, descriptors)
                code = _worker.live(self.make, self.spec, told, descriptors)
            finally:
                os._exit(code)
        os.close(write)
        os.set_blocking(read, False)
        self.children[pid] = (told["worker"], told["epoch"])
        self.select.register(read, selectors.EVENT_READ, told["worker"])
        self._say(forked=[told["worker"], told["epoch"], pid])

    def _leave(self, parent: int, read: int, write: int, descriptors: dict[str, int]) -> None:
        """Be a worker instead: keep nothing that would hold others' ends open, or speak in this process's name."""
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)  # what it starts is found and ended with it; a terminal's signals are not for it
        for key in list(self.select.get_map().values()):
            os.close(key.fd)
        self.select.close()
        os.close(self._own[1])
        os.close(read)
        os.dup2(write, 2)
        os.close(write)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.enable(descriptors["words"])  # last words, of a segmentation fault for one
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # rather a worker than the trainer

    def _bury(self) -> None:
        """Say who has ended and how. What it started goes with it, while its number is still its own."""
        while self.children:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return
            with suppress(OSError):
                os.killpg(found.si_pid, signal.SIGKILL)
            _, status = os.waitpid(found.si_pid, 0)
            worker, epoch = self.children.pop(found.si_pid, (-1, -1))
            self._say(ended=[worker, epoch, os.waitstatus_to_exitcode(status)])

    def _show(self, descriptor: int, worker: int) -> None:
        """Pass on what a worker writes to stderr, so much of it; read the rest, or it would wait for ever."""
        try:
            text = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        if not text:
            self.select.unregister(descriptor)
            os.close(descriptor)
            return
        before = self.shown.get(worker, 0)
        self.shown[worker] = before + len(text)
        if before < _QUIET_AFTER:
            with suppress(OSError):
                os.write(2, text[: _QUIET_AFTER - before])
                if before + len(text) >= _QUIET_AFTER:
                    os.write(2, f"\n[worker {worker} goes on; it has said enough]\n".encode())

    def _end(self) -> None:
        """The trainer is gone. Workers see that for themselves, or are ended."""
        until = time.monotonic() + _GRACE_S
        while self.children and time.monotonic() < until:
            self._bury()
            time.sleep(0.005)
        for pid in self.children:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        for pid in list(self.children):
            with suppress(OSError):
                os.waitpid(pid, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
