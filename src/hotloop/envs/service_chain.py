"""service_chain: give bundles of requests their network functions, in order and in time, in a few data centres. Owns
options, rewards and the step; the `_service_chain_` files own the rest. The rules follow "Unlocking Reconfigurability
for Deep Reinforcement Learning in SFC Provisioning" (IEEE Networking Letters 6(3), 2024); what it leaves open is said
where it is decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hotloop.core.errors import UserError
from hotloop.core.jit import kernel
from hotloop.core.options import option
from hotloop.core.types import Arrays, BatchedEnv, EnvSpec, Field, Policy, Steps
from hotloop.envs import _service_chain_show
from hotloop.envs._bitboard import ONE
from hotloop.envs._lanes import COUNT, checked, copied, restore, start_streams
from hotloop.envs._service_chain_choice import advise, choose, take_turn
from hotloop.envs._service_chain_network import found, has_room, install
from hotloop.envs._service_chain_observation import PARTS, allow, show
from hotloop.envs._service_chain_requests import arrive, bring_traffic, drop_late, launch
from hotloop.envs._service_chain_state import EVERYWHERE, columns, new_lanes
from hotloop.envs._service_chain_tables import (
    ACTION,
    ACTIONS,
    ALL_STORAGE,
    ALLOCATE,
    CENTRES,
    CHAIN,
    KIND_OF,
    KINDS,
    LENGTH,
    LIMIT_MS,
    MOST_PER_MS,
    STAGES,
    TRAFFIC_EVERY_MS,
    WAIT,
)

SATISFIED_REWARD, DROPPED_REWARD, INVALID_REWARD, NEEDED_REWARD = 2.0, -1.5, -1.0, -0.5

# A published return is 2 · satisfied - 1.5 · dropped = 3.5 · satisfied - 1.5 · generated, and how many are generated
# nothing can change. So `credited` pays the 3.5 for the VNFs as they are given, for the second of a chain twice as much
# as for the first and so on, and takes back what a request was paid for when it is dropped: the same return but for
# what nothing can change, long before. It is the published reward shaped by a potential (Ng, Harada & Russell 1999) at
# gamma 1. In equal parts it taught to begin what is never finished: see LOG.md.
CREDIT_PARTS = 60
_FIRST = (SATISFIED_REWARD - DROPPED_REWARD) * CREDIT_PARTS / (LENGTH * (LENGTH + 1) // 2)
CREDIT = np.array([[first * (k * (k + 1) // 2) for k in range(STAGES + 1)] for first in _FIRST])  # [kind, VNFs given]

# Of an episode, which always has at least one request. A kind may have none, so its ratio is not given but what it is
# made of: over many episodes it is the sum of the satisfied over the sum of the generated.
MEASURES = (
    "acceptance",
    "delay_ms",  # mean, end to end, of satisfied requests
    "cpu_used",  # installed share of all CPU, mean over the actions
    "storage_used",
    *(f"{what}_{kind}" for kind in KINDS for what in ("satisfied", "generated")),
)
WORST_DELAY_MS = float(LIMIT_MS.max())  # stands for the mean delay where no request was satisfied


@dataclass(frozen=True)
class Options:
    data_centres_min: int = option(2, "fewest data centres; how many there are is drawn anew each episode", ge=2, le=8)
    data_centres_max: int = option(8, "most data centres; equal to the fewest: always that many", ge=2, le=8)
    actions_per_step: int = option(100, "actions in a step of 1 ms", ge=1, le=MOST_PER_MS)
    traffic_ms: int = option(100, "how long new bundles come, every 4 ms; then the rest is served", ge=1, le=1_000)
    link_mbps: int = option(1_000, "bandwidth of the link between any two data centres", ge=1, le=100_000)
    reward: Literal["published", "credited"] = option(
        "published", "credited: the same sum, but for a constant, paid as functions are given; taken back when dropped"
    )


def spec(options: Options) -> EnvSpec:
    if options.data_centres_min > options.data_centres_max:
        raise UserError(
            f"option env.data_centres_min = {options.data_centres_min}: must be at most env.data_centres_max = "
            f"{options.data_centres_max}; both are 2 to {CENTRES}, and equal for a fixed number"
        )
    parts = tuple(Field(name, shape, "float32") for name, shape in PARTS.items())
    return EnvSpec("service_chain", parts, ACTIONS, masked=True, measures=MEASURES)


def bounds(options: Options) -> dict[str, tuple[float, float]]:
    """Least and greatest value of each part of the observation."""
    return dict.fromkeys(PARTS, (0, 1))


def make(options: Options, lanes: int, first_lane: int = 0) -> BatchedEnv:
    return _ServiceChain(checked(options, lanes), lanes, first_lane)


def heuristic(options: Options, env: BatchedEnv) -> Policy:
    """Requests by least time left; of the data centres on their path the one they have been in, else the one with most
    of its CPU free."""
    if not isinstance(env, _ServiceChain):
        raise UserError("the service_chain heuristic looks into its world and plays no other")
    return lambda obs, mask: env.advice()


@kernel
def _begin(least, most, per_ms, link_kbps, lanes, dc, here, everywhere, mask):
    for i in range(lanes.shape[0]):
        _new_episode(lanes[i], least, most, per_ms, link_kbps)
    show(0, lanes.shape[0], lanes, per_ms, link_kbps, dc, here, everywhere)
    allow(0, lanes.shape[0], lanes, mask)


@kernel
def _new_episode(lane, least, most, per_ms, link_kbps):
    """The last episode ended without a request, so all that counts requests is at 0 already."""
    lane.ms, lane.phase, lane.place, lane.traffic, lane.events = 0, 0, 0, -1, 0
    lane.delay, lane.cpu_time, lane.storage_time = 0, 0, 0
    lane.satisfied[:] = 0
    lane.generated[:] = 0
    found(lane, least, most, link_kbps)
    bring_traffic(lane)
    take_turn(lane, per_ms)


@kernel
def _step(
    least, most, per_ms, traffic_ms, link_kbps, credited, actions, lanes, dc, here, everywhere, mask,
    reward, terminated, truncated, final_dc, final_here, final_everywhere, final_mask, measures,
):  # fmt: skip
    for i in range(lanes.shape[0]):
        lane = lanes[i]
        lane.stream[COUNT] += ONE
        gained = _act(lane, np.int64(actions[i]), per_ms, credited)
        reward[i] = gained + _pass_time(lane, per_ms, traffic_ms, credited)
        take_turn(lane, per_ms)
        truncated[i] = False
        terminated[i] = lane.requests == 0 and lane.ms >= traffic_ms
        if terminated[i]:
            _measure(lane, per_ms, measures[i])
            show(i, i + 1, lanes, per_ms, link_kbps, final_dc, final_here, final_everywhere)
            allow(i, i + 1, lanes, final_mask)
            _new_episode(lane, least, most, per_ms, link_kbps)
    show(0, lanes.shape[0], lanes, per_ms, link_kbps, dc, here, everywhere)
    allow(0, lanes.shape[0], lanes, mask)


@kernel
def _act(lane, action, per_ms, credited):
    """What one action does in the current data centre. Returns its reward."""
    d = lane.current
    if action == WAIT:
        return 0.0
    if action >= ALLOCATE:
        vnf = action - ALLOCATE
        if not has_room(lane, d, vnf):
            return INVALID_REWARD
        r, there, home = choose(lane, vnf, per_ms)
        if r < 0:
            return INVALID_REWARD
        launch(lane, r, there, home, per_ms)
        kind, stage = KIND_OF[r >> 6], np.int64(lane.request[r].stage)
        return (CREDIT[kind, stage] - CREDIT[kind, stage - 1]) / CREDIT_PARTS if credited else 0.0
    if lane.idle[d, action] == 0:
        return INVALID_REWARD
    if _needed(lane, action):
        return NEEDED_REWARD
    lane.idle[d, action] -= 1
    install(lane, d, action, -1)
    return 0.0


@kernel
def _needed(lane, vnf):
    """Whether some active request still has to be given this VNF, now or later in its chain."""
    for kind in range(len(LENGTH)):
        standing = 0
        for stage in range(LENGTH[kind]):
            standing += lane.standing[EVERYWHERE, kind, stage]
            if standing > 0 and CHAIN[kind, stage] == vnf:
                return True
    return False


@kernel
def _pass_time(lane, per_ms, traffic_ms, credited):
    """The time of one action: what is due arrives, what is late is dropped, and new traffic comes, in this order.
    Returns the reward."""
    lane.phase += 1
    if lane.phase == per_ms:
        lane.phase = 0
        lane.ms += 1
    satisfied = arrive(lane, per_ms)
    dropped, credit = drop_late(lane, per_ms, CREDIT)
    gained = -credit / CREDIT_PARTS if credited else SATISFIED_REWARD * satisfied + DROPPED_REWARD * dropped
    lane.cpu_time += lane.used_cpu
    lane.storage_time += lane.used_storage
    if lane.phase == 0 and lane.ms % TRAFFIC_EVERY_MS == 0 and lane.ms < traffic_ms:
        bring_traffic(lane)
    lane.place += 1
    if lane.place == lane.centres:
        lane.place = 0
    return gained


@kernel
def _measure(lane, per_ms, measures):
    satisfied, generated = 0, 0
    for kind in range(len(LENGTH)):
        satisfied += lane.satisfied[kind]
        generated += lane.generated[kind]
        measures[4 + 2 * kind] = lane.satisfied[kind]
        measures[5 + 2 * kind] = lane.generated[kind]
    actions = lane.ms * per_ms + lane.phase
    measures[0] = satisfied / generated
    measures[1] = lane.delay / satisfied / (ACTION * per_ms) if satisfied else WORST_DELAY_MS
    measures[2] = lane.cpu_time / (actions * lane.all_cpu)
    measures[3] = lane.storage_time / (actions * lane.centres * ALL_STORAGE)


class _ServiceChain:
    def __init__(self, options: Options, lanes: int, first_lane: int) -> None:
        self.spec = spec(options)
        self.lanes = lanes
        self._first_lane = first_lane
        self._centres = options.data_centres_min, options.data_centres_max
        self._per_ms, self._traffic_ms = options.actions_per_step, options.traffic_ms
        self._link_kbps = 1_000 * options.link_mbps
        self._credited = options.reward == "credited"
        self._lanes = new_lanes(lanes)
        self._state = columns(self._lanes)

    def reset(self, seed: int, out: Steps) -> None:
        self._lanes[:] = np.zeros((), self._lanes.dtype)  # so that the state holds no trace of the games before
        start_streams(seed, self._first_lane, self._state["stream"])
        _begin(*self._centres, self._per_ms, self._link_kbps, self._lanes, *_parts(out.obs), out.mask)

    def step(self, actions: np.ndarray, out: Steps) -> None:
        _step(
            *self._centres, self._per_ms, self._traffic_ms, self._link_kbps, self._credited, actions, self._lanes,
            *_parts(out.obs), out.mask, out.reward, out.terminated, out.truncated,
            *_parts(out.final_obs), out.final_mask, out.measures,
        )  # fmt: skip

    def advice(self) -> np.ndarray:
        """What the heuristic would do now in each lane."""
        actions = np.empty(self.lanes, np.int32)
        advise(self._lanes, self._per_ms, actions)
        return actions

    def state(self) -> Arrays:
        return copied(self._state)

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        restore(self._state, state)

    def render(self, lane: int = 0) -> str:
        return _service_chain_show.text(self._lanes[lane], self._per_ms, self._link_kbps)

    def picture(self, lane: int = 0) -> np.ndarray:
        """uint8 [H, W, 3]"""
        return _service_chain_show.picture(self._lanes[lane])

    def close(self) -> None:
        pass


def _parts(obs: Arrays) -> list[np.ndarray]:
    return [obs[name] for name in PARTS]
