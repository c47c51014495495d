"""cartpole: balance a pole on a cart, with the physics and bounds of Gymnasium's CartPole-v1 and its limit of 500
steps. State in float64, observation in float32, as there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotloop.core.jit import kernel
from hotloop.core.random import uniform
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Field, Policy, Steps
from hotloop.envs._lanes import COUNT, KEY, checked, copied, restore, start_streams

MAX_STEPS = 500
MEASURES = ("steps",)  # the episode's length, which is also its return

GRAVITY, CART_MASS, POLE_MASS, HALF_POLE, FORCE, SECONDS = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MASS = POLE_MASS + CART_MASS
POLE_MOMENT = POLE_MASS * HALF_POLE
X_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360
RESET_SPREAD = 0.05


@dataclass(frozen=True)
class Options:
    """CartPole-v1 has nothing to choose."""


def spec(options: Options) -> EnvSpec:
    return EnvSpec("cartpole", (Field("obs", (4,), "float32"),), 2, measures=MEASURES)


def bounds(options: Options) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Twice the limits, so that the observation that ends an episode is inside; speeds are not bounded."""
    most = np.finfo(np.float32).max
    high = np.array([2 * X_LIMIT, most, 2 * ANGLE_LIMIT, most], np.float32)
    return {"obs": (-high, high)}


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _CartPole(checked(options, lanes), lanes, first_lane)


def heuristic(options: Options, env: BatchedEnv) -> Policy:
    """Push towards where the pole is falling, a little ahead of time; leans against the cart's drift."""

    def act(obs: Arrays, mask: np.ndarray | None) -> np.ndarray:
        x, speed, angle, turn = obs["obs"].T
        return (angle + 0.25 * turn + 0.02 * x + 0.05 * speed > 0).astype(np.int32)

    return act


@kernel
def _begin(stream, age, body, obs):
    for i in range(age.shape[0]):
        _new_episode(i, stream, age, body, obs)


@kernel
def _step(actions, stream, age, body, obs, reward, terminated, truncated, final_obs, measures):
    for i in range(age.shape[0]):
        stream[i, COUNT] += np.uint64(1)
        age[i] += 1
        _move(i, actions[i], body)
        fallen = abs(body[i, 0]) > X_LIMIT or abs(body[i, 2]) > ANGLE_LIMIT
        cut = age[i] >= MAX_STEPS and not fallen
        reward[i] = 1.0
        terminated[i] = fallen
        truncated[i] = cut
        if fallen or cut:
            measures[i, 0] = age[i]
            _show(i, body, final_obs)
            _new_episode(i, stream, age, body, obs)
        else:
            _show(i, body, obs)


@kernel
def _move(i, action, body):
    """One explicit Euler step, in Gymnasium's order of operations. See https://coneural.org/florian/papers/05_cart_pole.pdf"""
    speed, angle, turn = body[i, 1], body[i, 2], body[i, 3]
    force = FORCE if action == 1 else -FORCE
    # math, not np: compiled or not, it is the C library's sine, where NumPy may bring its own
    cosine, sine = math.cos(angle), math.sin(angle)
    push = (force + POLE_MOMENT * (turn * turn) * sine) / MASS
    turning = (GRAVITY * sine - cosine * push) / (HALF_POLE * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / MASS))
    speeding = push - POLE_MOMENT * turning * cosine / MASS
    body[i, 0] += SECONDS * speed
    body[i, 1] += SECONDS * speeding
    body[i, 2] += SECONDS * turn
    body[i, 3] += SECONDS * turning


@kernel
def _new_episode(i, stream, age, body, obs):
    age[i] = 0
    for k in range(4):
        body[i, k] = RESET_SPREAD * (2.0 * uniform(stream[i, KEY], stream[i, COUNT], k) - 1.0)
    _show(i, body, obs)


@kernel
def _show(i, body, obs):
    for k in range(4):
        obs[i, k] = np.float32(body[i, k])


class _CartPole:
    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec = spec(options)
        self.lanes = lanes
        self._first_lane = first_lane
        self._stream = np.zeros((lanes, 2), np.uint64)
        self._age = np.zeros(lanes, np.int32)
        self._body = np.zeros((lanes, 4))  # position, speed, angle, turning speed
        self._state = {"stream": self._stream, "age": self._age, "body": self._body}

    def reset(self, seed: int, out: Steps) -> None:
        start_streams(seed, self._first_lane, self._stream)
        _begin(self._stream, self._age, self._body, out.obs["obs"])

    def step(self, actions: np.ndarray, out: Steps) -> None:
        _step(
            actions, self._stream, self._age, self._body,
            out.obs["obs"], out.reward, out.terminated, out.truncated, out.final_obs["obs"], out.measures,
        )  # fmt: skip

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)

    def render(self, lane: int = 0) -> str:
        x, _, angle, _ = (float(v) for v in self._body[lane])
        track = ["-"] * 49
        track[min(max(round((x / X_LIMIT + 1) * 24), 0), 48)] = "#"
        lean = "|" if abs(angle) < 0.02 else ("/" if angle > 0 else "\\")
        return f"{''.join(track)}\n{lean} {math.degrees(angle):+.1f} degrees, step {int(self._age[lane])}"

    def close(self) -> None:
        pass
