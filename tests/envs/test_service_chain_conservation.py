"""Nothing is ever lost in service_chain: resources, bandwidth, requests, reward. Legal and illegal actions, random."""

from __future__ import annotations

import numpy as np
import pytest

from hotloop.core.schema import new_steps
from hotloop.envs._service_chain_state import EVERYWHERE
from hotloop.envs._service_chain_tables import (
    ALL_RAM,
    ALL_STORAGE,
    CENTRES,
    CPU,
    KIND_OF,
    KINDS,
    LENGTH,
    RAM,
    STORAGE,
    WAIT,
)
from hotloop.envs.service_chain import Options, make

LANES = 50


def check_resources(state: dict[str, np.ndarray]) -> None:
    installed, idle = state["installed"], state["idle"]
    there = np.arange(CENTRES) < state["centres"][:, None]
    for free, has, needs in (
        ("free_cpu", state["cpu"], CPU),
        ("free_ram", ALL_RAM * there, RAM),
        ("free_storage", ALL_STORAGE * there, STORAGE),
    ):
        assert (state[free] >= 0).all() and (state[free] == has - installed @ needs).all()
    assert (idle >= 0).all() and (idle <= installed).all() and not installed[~there].any()
    assert (state["used_cpu"] == (state["cpu"] - state["free_cpu"]).sum(1)).all()
    assert (state["used_storage"] == (installed @ STORAGE).sum(1)).all()


def check_bandwidth(state: dict[str, np.ndarray], link_kbps: int) -> None:
    n = state["centres"]
    there = np.arange(state["spare_kbps"].shape[1]) < (n * (n - 1) // 2)[:, None]
    held = np.where(there, link_kbps - state["spare_kbps"], 0)
    assert (state["spare_kbps"] >= 0).all() and (held >= 0).all()
    assert (held.sum(1) == state["held_kbps"].sum(1)).all()


def check_requests(state: dict[str, np.ndarray]) -> None:
    """Tallies against the sets they are tallies of."""
    alive = np.unpackbits(state["alive"].view(np.uint8), axis=1, bitorder="little").astype(bool)  # [N, request]
    kind = np.repeat(KIND_OF, 64)
    stage, at = state["request.stage"], state["request.at"]
    for k in range(len(KINDS)):
        assert (state["active"][:, k] == (alive & (kind == k)).sum(1)).all()
        assert (stage[alive & (kind == k)] <= LENGTH[k]).all()
    assert (state["requests"] == alive.sum(1)).all()
    standing = np.zeros_like(state["standing"])
    for lane, r in zip(*np.nonzero(alive), strict=True):
        standing[lane, at[lane, r], kind[r], stage[lane, r]] += 1
        standing[lane, EVERYWHERE, kind[r], stage[lane, r]] += 1
    assert (state["standing"] == standing).all()
    given = (state["standing"][:, EVERYWHERE] * np.arange(standing.shape[-1])).sum((1, 2))
    assert (state["hosted"].sum((1, 2, 3)) == given).all()
    waiting = np.unpackbits(state["waiting"].view(np.uint8), axis=2, bitorder="little").astype(bool)
    assert not (waiting & ~alive[:, None]).any() and (waiting.sum(1) <= 1).all()


@pytest.mark.parametrize(("mbps", "actions"), [(1000, 7), (60, 25)])
def test_a_hundred_thousand_legal_and_illegal_actions(mbps, actions):
    options = Options(actions_per_step=actions, traffic_ms=40, link_mbps=mbps)
    env = make(options, LANES)
    out, rng = new_steps(env.spec, LANES), np.random.default_rng(actions)
    env.reset(4, out)
    for t in range(1000):
        wild = rng.integers(0, 13, LANES)
        busy = 6 + rng.integers(0, 6, LANES)
        env.step(np.where(rng.random(LANES) < 0.4, wild, busy).astype(np.int32), out)
        assert np.isfinite(out.reward).all() and out.mask is not None and out.mask[:, WAIT].all()
        if t % 25 == 0:
            state = env.state()
            check_resources(state)
            check_bandwidth(state, 1000 * mbps)
            assert (state["events"] <= state["requests"] + state["installed"].sum((1, 2))).all()
            if t % 200 == 0:
                check_requests(state)


def test_every_request_is_satisfied_dropped_or_active_and_every_reward_accounted_for():
    """With bandwidth to spare an allocation fails only where the mask says so."""
    many = 6
    env = make(Options(actions_per_step=10, traffic_ms=60, link_mbps=100_000), many)
    out, rng = new_steps(env.spec, many), np.random.default_rng(0)
    env.reset(8, out)
    due, gained = np.zeros(many), np.zeros(many)
    before = env.state()
    lanes = np.arange(many)
    for _ in range(700):
        actions = np.where(rng.random(many) < 0.6, 6 + rng.integers(0, 6, many), rng.integers(0, 13, many))
        assert out.mask is not None
        legal, uninstalls = out.mask[lanes, actions], actions < 6
        env.step(actions.astype(np.int32), out)
        after = env.state()
        kept = after["installed"].sum((1, 2)) == before["installed"].sum((1, 2))
        due += np.where(~legal, -1.0, np.where(uninstalls & kept, -0.5, 0.0))
        gained += out.reward
        satisfied, active = after["satisfied"].sum(1), after["active"].sum(1)
        dropped = after["generated"].sum(1) - satisfied - active
        going = ~out.terminated
        assert (dropped >= 0).all() and (active == after["requests"]).all()
        assert np.allclose((due + 2.0 * satisfied - 1.5 * dropped)[going], gained[going])
        due[out.terminated], gained[out.terminated] = 0.0, 0.0
        before = after
    assert out.terminated.any() or (after["satisfied"].sum() > 0 and dropped.sum() > 0)


def test_an_empty_world_has_everything_back():
    """When all have gone, all bandwidth is free, all VNFs are idle, and once uninstalled nothing is taken."""
    env = make(Options(3, 3, actions_per_step=100, traffic_ms=1000), 300)
    out, rng = new_steps(env.spec, 300), np.random.default_rng(1)
    env.reset(6, out)
    for _ in range(395):  # only small bundles of urgent requests are through before the next traffic, at 400
        assert out.mask is not None
        worth = rng.random((300, 13)) * out.mask * ([0] * 6 + [1] * 6 + [0.01])
        env.step(worth.argmax(1).astype(np.int32), out)
    state = env.state()
    empty = np.flatnonzero((state["requests"] == 0) & (state["events"] == 0))
    assert len(empty) >= 2
    assert (state["spare_kbps"][empty, :3] == 1_000_000).all() and (state["held_kbps"][empty] == 0).all()
    assert (state["idle"][empty] == state["installed"][empty]).all() and state["installed"][empty].sum() > 0
    for name in ("standing", "hosted", "alive", "waiting", "alive_bundles", "waiting_bundles", "active"):
        assert not state[name][empty].any(), name
    for _ in range(4):
        assert out.mask is not None
        actions = np.where(out.mask[:, :6].any(1), out.mask[:, :6].argmax(1), WAIT)
        env.step(actions.astype(np.int32), out)
        assert not (out.reward[empty] < 0).any()  # needed by nobody
    assert (env.state()["installed"][empty].sum((1, 2)) < state["installed"][empty].sum((1, 2))).all()
    check_resources(env.state())
