"""Lanes over processes, whatever the world: the same games, states put together, clear words when a process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from hotloop.core.errors import UserError
from hotloop.core.options import option
from hotloop.core.schema import new_steps
from hotloop.core.types import EnvSpec, Field, Steps
from hotloop.envs import snake
from hotloop.envs._processes import Spread

# --- a world for these tests -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    fails_at: int = option(0, "step at which lane 1 breaks; 0: never")
    how: str = option("", "user, bug, exit, slow")


def spec(options: Options) -> EnvSpec:
    """Two parts, of sizes that fill no cache line, and masks."""
    parts = (Field("obs", (3,), "float32"), Field("more", (2, 2), "uint8"))
    return EnvSpec("odd", parts, 3, masked=True, measures=("steps", "lane"))


def make(options: Options, lanes: int, first_lane: int = 0):
    return _Odd(options, lanes, first_lane)


class _Odd:
    """Lane i lasts i + 2 steps; everything it writes is a function of lane and step."""

    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        if options.how == "refused":
            raise UserError("odd: no")
        if options.how == "broken":
            raise ZeroDivisionError("in make")
        self.spec, self.lanes, self._options = spec(options), lanes, options
        self._lane = np.arange(first_lane, first_lane + lanes)
        self._age, self._t = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)

    def _write(self, obs, mask) -> None:
        obs["obs"][:] = (self._lane * 100 + self._age)[:, None] + np.arange(3)
        obs["more"][:] = (self._lane + self._age)[:, None, None]
        mask[:] = (np.arange(3) + self._lane[:, None] + self._age[:, None]) % 3 > 0

    def reset(self, seed: int, out: Steps) -> None:
        self._age[:], self._t[:] = 0, seed
        self._write(out.obs, out.mask)

    def step(self, actions: np.ndarray, out: Steps) -> None:
        self._t += 1
        if self._options.fails_at == self._t[0] and 1 in self._lane:
            self._fail()
        self._age += 1
        out.reward[:] = actions * 10 + self._lane
        ended = self._age > self._lane + 1
        out.terminated[:], out.truncated[:] = ended & (self._lane % 2 == 0), ended & (self._lane % 2 == 1)
        self._write(out.final_obs, out.final_mask)
        out.measures[:] = np.stack([self._age, self._lane], 1)
        self._age[ended] = 0
        self._write(out.obs, out.mask)

    def _fail(self) -> None:
        if self._options.how == "user":
            raise UserError("lane 1 is tired")
        if self._options.how == "bug":
            raise ZeroDivisionError("in step")
        os._exit(7)

    def state(self):
        return {"age": self._age.copy(), "t": self._t.copy()}

    def set_state(self, state) -> None:
        self._age[:], self._t[:] = state["age"], state["t"]

    def render(self, lane: int = 0) -> str:
        return f"lane {self._lane[lane]} at {self._age[lane]}"

    def picture(self, lane: int = 0) -> np.ndarray:
        return np.full((2, 3, 3), self._lane[lane], np.uint8)

    def close(self) -> None: ...


@pytest.fixture
def spread():
    """Environments that are closed after the test."""
    made = []

    def new(options: Options, lanes: int, processes: int, first_lane: int = 0) -> Spread:
        made.append(Spread("tests.envs.test_processes", options, lanes, first_lane, processes))
        return made[-1]

    yield new
    for env in made:
        env.close()


def everything(out: Steps) -> list[np.ndarray]:
    ended = out.terminated | out.truncated
    plain = [*out.obs.values(), out.reward, out.terminated, out.truncated]
    if out.mask is not None and out.final_mask is not None:
        plain += [out.mask, out.final_mask[ended]]
    return plain + [a[ended] for a in (*out.final_obs.values(), out.measures)]


# --- the same games --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [2, 3])
def test_every_array_arrives_in_its_lane(spread, processes):
    """Five lanes over two or three processes: parts of unequal size."""
    ours, alone = spread(Options(), 5, processes, first_lane=3), make(Options(), 5, 3)
    out, wanted = new_steps(ours.spec, 5), new_steps(ours.spec, 5)
    ours.reset(4, out)
    alone.reset(4, wanted)
    assert out.mask is not None and wanted.mask is not None
    assert np.array_equal(out.obs["obs"], wanted.obs["obs"]) and np.array_equal(out.mask, wanted.mask)
    for t in range(30):
        actions = np.arange(5, dtype=np.int32) * t % 3
        ours.step(actions, out)
        alone.step(actions, wanted)
        assert all(np.array_equal(a, b) for a, b in zip(everything(out), everything(wanted), strict=True))
    assert all(np.array_equal(v, alone.state()[k]) for k, v in ours.state().items())
    assert [ours.render(i) for i in range(5)] == [alone.render(i) for i in range(5)]
    assert [int(ours.picture(i)[0, 0, 0]) for i in range(5)] == [3, 4, 5, 6, 7]


def test_only_lanes_that_ended_are_written_where_only_they_mean_anything(spread):
    env = spread(Options(), 4, 2)
    out = new_steps(env.spec, 4)
    env.reset(0, out)
    for array in (out.measures, out.final_obs["obs"]):
        array.fill(-7)
    env.step(np.zeros(4, np.int32), out)
    assert not (out.terminated | out.truncated).any()
    assert (out.measures == -7).all() and (out.final_obs["obs"] == -7).all()
    env.step(np.zeros(4, np.int32), out)
    assert out.terminated.tolist() == [True, False, False, False]
    assert (out.measures[0] != -7).all() and (out.measures[1:] == -7).all()
    assert (out.final_obs["obs"][0] != -7).all() and (out.final_obs["obs"][1:] == -7).all()


def test_a_state_fits_any_number_of_processes(spread):
    options = snake.Options()
    alone, env = snake.make(options, 5), Spread(snake.__name__, options, 5, 0, 2)
    rolls = np.random.default_rng(0).integers(0, 3, (120, 5)).astype(np.int32)
    out, wanted = new_steps(env.spec, 5), new_steps(env.spec, 5)
    env.reset(9, out)
    for roll in rolls[:60]:
        env.step(roll, out)
    saved = env.state()
    alone.reset(1, wanted)
    alone.set_state(saved)
    env.reset(1, out)
    env.set_state(saved)
    for roll in rolls[60:]:
        env.step(roll, out)
        alone.step(roll, wanted)
        assert all(np.array_equal(a, b) for a, b in zip(everything(out), everything(wanted), strict=True))
    before = env.state()
    assert all(np.array_equal(v, alone.state()[k]) for k, v in before.items())
    with pytest.raises(UserError, match="lanes"):
        env.set_state({k: v[:4] for k, v in saved.items()})
    assert all(np.array_equal(v, env.state()[k]) for k, v in before.items())  # nobody has taken a part of it
    env.close()


# --- when something goes wrong ---------------------------------------------------------------------------------------


def after_two(env: Spread):
    out = new_steps(env.spec, env.lanes)
    env.reset(0, out)
    env.step(np.zeros(env.lanes, np.int32), out)
    return out


def test_what_a_process_refuses_is_said_as_it_is_and_the_others_go_on(spread):
    env = spread(Options(fails_at=2, how="user"), 4, 2)
    out = after_two(env)
    with pytest.raises(UserError, match=r"^lane 1 is tired$"):
        env.step(np.zeros(4, np.int32), out)
    env.step(np.zeros(4, np.int32), out)  # no answer was left behind that would be taken for this one's
    assert env.render(3) == "lane 3 at 3"


def test_a_bug_in_a_process_comes_with_its_traceback(spread):
    env = spread(Options(fails_at=2, how="bug"), 4, 2)
    out = after_two(env)
    with pytest.raises(RuntimeError, match=r"in a process of odd[\s\S]*_fail[\s\S]*ZeroDivisionError: in step"):
        env.step(np.zeros(4, np.int32), out)


def test_a_process_that_ends_is_said_in_one_line(spread):
    env = spread(Options(fails_at=2, how="exit"), 4, 2)
    out = after_two(env)
    for _ in range(2):  # again, too, instead of waiting for ever
        with pytest.raises(UserError, match=r"^a process of odd ended with exit code 7; resume the run$"):
            env.step(np.zeros(4, np.int32), out)


def test_a_process_that_was_killed_is_said_whatever_is_asked(spread):
    env = spread(Options(), 2, 2)
    out = after_two(env)
    env._processes[1].kill()
    env._processes[1].wait()
    for ask in (
        lambda: env.step(np.zeros(2, np.int32), out),
        lambda: env.reset(0, out),
        env.state,
        lambda: env.render(1),
    ):
        with pytest.raises(UserError, match=r"^a process of odd ended with exit code -9; resume the run$"):
            ask()
    assert env.render(0) == "lane 0 at 0"  # the other one has answered all the while


@pytest.mark.parametrize(
    ("how", "kind", "said"), [("refused", UserError, "^odd: no$"), ("broken", RuntimeError, "in make")]
)
def test_what_cannot_be_made_is_said_and_leaves_no_process(monkeypatch, how, kind, said):
    started = []
    start = subprocess.Popen

    def noted(*args, **kwargs):
        started.append(start(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    with pytest.raises(kind, match=said):
        Spread("tests.envs.test_processes", Options(how=how), 2, 0, 2)
    assert [p.returncode for p in started] == [0, 0]


def test_closing_ends_the_processes(spread):
    env = spread(Options(), 4, 2)
    processes = list(env._processes)
    env.close()
    assert [p.returncode for p in processes] == [0, 0]
    env.close()


def test_processes_end_by_themselves_when_their_master_is_killed():
    code = (
        "import os, sys; from hotloop.envs import identity; from hotloop.envs._processes import Spread\n"
        "env = Spread(identity.__name__, identity.Options(), 2, 0, 2)\n"
        "print(*[p.pid for p in env._processes], flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL and done.stderr == ""
    for pid in map(int, done.stdout.split()):
        waited = subprocess.run(["timeout", "20", "tail", f"--pid={pid}", "-f", "/dev/null"], check=False)
        assert waited.returncode == 0, "it goes on although nobody can ask"


def test_a_signal_to_the_group_does_not_end_them(spread):
    """As Ctrl+C sends it: the run wants a last state for its checkpoint."""
    env = spread(Options(), 4, 2)
    out = after_two(env)
    for process in env._processes:
        for number in (signal.SIGINT, signal.SIGTERM):
            process.send_signal(number)
    env.step(np.zeros(4, np.int32), out)
    assert len(env.state()["age"]) == 4
