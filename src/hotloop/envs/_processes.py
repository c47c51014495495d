"""Lanes of a world spread over processes, for worlds that hold the interpreter or allow one copy per process. Steps are
written into memory that all share; what is asked and answered goes through a socket each. Knows worlds by their module:
`Options`, `spec`, and a `make` that stays in its process."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.options import from_dict, to_dict
from hotloop.core.packing import packed, unpacked
from hotloop.core.schema import new_steps
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Steps
from hotloop.envs._lanes import restore

# What is asked: one byte, and what belongs to it. What is answered: DONE and what was asked for, or one of the others
# and a text.
STEP, RESET, STATE, SET_STATE, RENDER, PICTURE = b"s", b"r", b"g", b"p", b"t", b"i"
DONE, REFUSED, FAILED = b"k", b"!", b"?"

_FAST = "/dev/shm"  # memory that never goes to a disk, where a system has it


# --- what both sides know --------------------------------------------------------------------------------------------


def _shared(spec: EnvSpec, lanes: int, memory: mmap.mmap | bytearray) -> tuple[Steps, np.ndarray]:
    """A step and its actions in memory that both sides map, by the same plan."""
    private, at = new_steps(spec, lanes), 0

    def move(array: np.ndarray) -> np.ndarray:
        nonlocal at
        moved = np.frombuffer(memory, array.dtype, array.size, at).reshape(array.shape)
        at += _room(array)
        return moved

    steps = Steps(
        obs={name: move(array) for name, array in private.obs.items()},
        reward=move(private.reward),
        terminated=move(private.terminated),
        truncated=move(private.truncated),
        final_obs={name: move(array) for name, array in private.final_obs.items()},
        measures=move(private.measures),
        mask=None if private.mask is None else move(private.mask),
        final_mask=None if private.final_mask is None else move(private.final_mask),
    )
    return steps, move(np.zeros(lanes, np.int32))


def _room(array: np.ndarray) -> int:
    """Bytes, in whole cache lines, so that no two processes write to one."""
    return -(-array.nbytes // 64) * 64


def _bytes_of(spec: EnvSpec, lanes: int) -> int:
    steps = new_steps(spec, lanes)
    arrays = [*steps.obs.values(), *steps.final_obs.values(), steps.reward, steps.terminated, steps.truncated]
    arrays += [a for a in (steps.measures, steps.mask, steps.final_mask, np.zeros(lanes, np.int32)) if a is not None]
    return sum(_room(array) for array in arrays) + 64  # a plan without any array could not be mapped


def _rows(steps: Steps, first: int, last: int) -> Steps:
    """Some of the lanes of a step."""
    rows = slice(first, last)
    return Steps(
        obs={name: array[rows] for name, array in steps.obs.items()},
        reward=steps.reward[rows],
        terminated=steps.terminated[rows],
        truncated=steps.truncated[rows],
        final_obs={name: array[rows] for name, array in steps.final_obs.items()},
        measures=steps.measures[rows],
        mask=None if steps.mask is None else steps.mask[rows],
        final_mask=None if steps.final_mask is None else steps.final_mask[rows],
    )


# --- the side that asks ----------------------------------------------------------------------------------------------


class Spread:
    """N lanes as one environment. Every array of a state has one row per lane, so that states can be put together."""

    def __init__(self, world: str, options: Any, lanes: int, first_lane: int, processes: int) -> None:
        """world: name of its module. options: those that each process makes its lanes with."""
        self.spec: EnvSpec = importlib.import_module(world).spec(options)
        self.lanes = lanes
        self._edges = [lanes * k // processes for k in range(processes + 1)]
        self._sockets: list[Connection] = []
        self._processes: list[subprocess.Popen] = []
        with tempfile.TemporaryFile(dir=_FAST if os.path.isdir(_FAST) else None) as file:
            file.truncate(_bytes_of(self.spec, lanes))
            self._steps, self._actions = _shared(self.spec, lanes, mmap.mmap(file.fileno(), 0))
            asked = {"world": world, "options": to_dict(options), "lanes": lanes, "first_lane": first_lane}
            for first, last in zip(self._edges, self._edges[1:], strict=False):
                self._start(json.dumps({**asked, "first": first, "last": last}).encode(), file.fileno())
        try:
            self._answers()
        except BaseException:
            self.close()
            raise

    def _start(self, told: bytes, memory: int) -> None:
        ours, theirs = Pipe()
        command = [sys.executable, "-m", __name__, str(theirs.fileno()), str(memory)]
        # Nothing that an emulator may print belongs among what the user reads; errors do.
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        self._processes.append(subprocess.Popen(command, pass_fds=(theirs.fileno(), memory), **quiet))
        theirs.close()
        self._sockets.append(ours)
        ours.send_bytes(told)

    def _ask(self, messages: Sequence[bytes]) -> list[bytes]:
        """One message to each process, and all answers."""
        for socket, message in zip(self._sockets, messages, strict=True):
            with suppress(OSError):  # it has ended: its answer, which is missing, will say so
                socket.send_bytes(message)
        return self._answers()

    def _answers(self) -> list[bytes]:
        """All are taken before any is judged, so that the next question is not answered by what is left of this one."""
        answers = [self._answer(k) for k in range(len(self._sockets))]
        for answer in answers:
            if answer[:1] == REFUSED:
                raise UserError(answer[1:].decode())
            if answer[:1] == FAILED:
                raise RuntimeError(f"in a process of {self.spec.name}: {answer[1:].decode()}")
        return [answer[1:] for answer in answers]

    def _answer(self, k: int) -> bytes:
        try:
            return self._sockets[k].recv_bytes()
        except (EOFError, OSError):
            code = self._processes[k].wait()
            return REFUSED + f"a process of {self.spec.name} ended with exit code {code}; resume the run".encode()

    def reset(self, seed: int, out: Steps) -> None:
        self._ask([RESET + str(seed).encode()] * len(self._sockets))
        for name, array in self._steps.obs.items():
            out.obs[name][...] = array
        if out.mask is not None:
            out.mask[...] = self._steps.mask

    def step(self, actions: np.ndarray, out: Steps) -> None:
        steps = self._steps
        self._actions[...] = actions
        self._ask([STEP] * len(self._sockets))
        out.reward[...], out.terminated[...], out.truncated[...] = steps.reward, steps.terminated, steps.truncated
        for name, array in steps.obs.items():
            out.obs[name][...] = array
        if out.mask is not None:
            out.mask[...] = steps.mask
        ended = out.terminated | out.truncated
        if ended.any():
            out.measures[ended] = steps.measures[ended]
            for name, array in steps.final_obs.items():
                out.final_obs[name][ended] = array[ended]
            if out.final_mask is not None and steps.final_mask is not None:
                out.final_mask[ended] = steps.final_mask[ended]

    def state(self) -> Arrays:
        parts = [unpacked(answer) for answer in self._ask([STATE] * len(self._sockets))]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        whole = self.state()
        restore(whole, state)  # refused here, before any process has taken its part
        edges = zip(self._edges, self._edges[1:], strict=False)
        self._ask([SET_STATE + packed({k: v[a:b] for k, v in whole.items()}) for a, b in edges])

    def render(self, lane: int = 0) -> str:
        return self._of_lane(RENDER, lane).decode()

    def picture(self, lane: int = 0) -> np.ndarray:
        """One lane in colour, uint8 [H, W, 3]."""
        return unpacked(self._of_lane(PICTURE, lane))["picture"]

    def _of_lane(self, question: bytes, lane: int) -> bytes:
        k = next(k for k, edge in enumerate(self._edges[1:]) if lane < edge)
        with suppress(OSError):
            self._sockets[k].send_bytes(question + str(lane - self._edges[k]).encode())
        answer = self._answer(k)
        if answer[:1] != DONE:
            raise UserError(answer[1:].decode())
        return answer[1:]

    def close(self) -> None:
        """They end by themselves when nobody can ask any more."""
        for socket in self._sockets:
            socket.close()
        for process in self._processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._sockets, self._processes = [], []


# --- the side that answers -------------------------------------------------------------------------------------------


def main(socket: Connection, memory: int) -> None:
    """Make some of the lanes, then answer until nobody asks any more."""
    for number in (signal.SIGINT, signal.SIGTERM):  # theirs to decide, who may want a last state for a checkpoint
        signal.signal(number, signal.SIG_IGN)
    try:
        env, handlers = _made(json.loads(socket.recv_bytes()), memory)
    except UserError as refused:
        socket.send_bytes(REFUSED + str(refused).encode())
        return
    except Exception:
        socket.send_bytes(FAILED + traceback.format_exc().encode())
        return
    socket.send_bytes(DONE)
    while True:
        try:
            question = socket.recv_bytes()
        except (EOFError, OSError):
            break
        try:
            answer = DONE + handlers[question[:1]](question[1:])
        except UserError as refused:
            answer = REFUSED + str(refused).encode()
        except Exception:
            answer = FAILED + traceback.format_exc().encode()
        try:
            socket.send_bytes(answer)
        except OSError:
            break  # who asked has ended meanwhile
    env.close()


def _made(told: dict[str, Any], memory: int) -> tuple[BatchedEnv, dict[bytes, Callable[[bytes], bytes]]]:
    module = importlib.import_module(told["world"])
    options = from_dict(module.Options, told["options"])
    spec, first, last = module.spec(options), told["first"], told["last"]
    env = module.make(options, last - first, told["first_lane"] + first)
    steps, actions = _shared(spec, told["lanes"], mmap.mmap(memory, 0))
    out, chosen = _rows(steps, first, last), actions[first:last]

    def nothing(call: Callable[..., Any], *given: Any) -> bytes:
        call(*given)
        return b""

    return env, {
        STEP: lambda _: nothing(env.step, chosen, out),
        RESET: lambda seed: nothing(env.reset, int(seed), out),
        STATE: lambda _: packed(env.state()),
        SET_STATE: lambda state: nothing(env.set_state, unpacked(state)),
        RENDER: lambda lane: env.render(int(lane)).encode(),
        PICTURE: lambda lane: packed({"picture": env.picture(int(lane))}),
    }


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])), int(sys.argv[2]))
