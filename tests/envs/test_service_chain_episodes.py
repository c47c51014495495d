"""Episodes of service_chain computed by hand: two data centres, one bundle, 100 actions in a millisecond. A request
that is given a VNF in action k + 1, at time k, is through its processing and travel so many actions later."""

from __future__ import annotations

import numpy as np
import pytest

from hotloop.core.schema import new_steps
from hotloop.envs._service_chain_tables import KINDS
from hotloop.envs.service_chain import Options, make

NAT, FW, VOC, TM, WO, IDPS = range(6)
ALLOCATE, WAIT = 6, 12
THIRD = float(np.float32(3.5 / 3))
VOIP, INDUSTRY = KINDS.index("voip"), KINDS.index("industry")


# Lanes of seed 1 whose first traffic is one bundle of that kind and size, and whose data centres have room for all of
# it, so that nothing but what is tested refuses.
INDUSTRY_OF_1, INDUSTRY_OF_2, VOIP_BUNDLE = 81, 51, 309


class Game:
    """One lane, in which the link takes `lag_us`."""

    def __init__(self, lane: int, lag_us: int = 1000, link_mbps: int = 1000, reward: str = "published") -> None:
        options = Options(2, 2, actions_per_step=100, traffic_ms=1, link_mbps=link_mbps, reward=reward)
        self.env = make(options, 1, first_lane=lane)
        self.out = new_steps(self.env.spec, 1)
        self.env.reset(1, self.out)
        state = self.env.state()
        state["lag_us"][0, 0] = lag_us
        self.env.set_state(state)
        kind = VOIP if lane == VOIP_BUNDLE else INDUSTRY
        assert state["generated"][0].sum() == state["generated"][0, kind] and state["cpu"][0, :2].min() >= 60
        assert lane == VOIP_BUNDLE or state["requests"][0] == (1 if lane == INDUSTRY_OF_1 else 2)
        self.first = int(np.flatnonzero(state["alive"][0])[0]) * 64
        self.source = int(state["request.at"][0, self.first])
        self.cpu = int(state["all_cpu"][0])
        self.time, self.over = 0, False
        self.gains: dict[int, float] = {}  # time after an action → its reward, where there is one

    def act(self, action: int) -> float:
        self.env.step(np.array([action], np.int32), self.out)
        self.time += 1
        if self.out.reward[0]:
            self.gains[self.time] = float(self.out.reward[0])
        self.over = bool(self.out.terminated[0])
        return float(self.out.reward[0])

    def wait_until(self, time: int) -> None:
        while self.time < time and not self.over:
            self.act(WAIT)

    def at(self, centre: int, action: int) -> float:
        """Wait for the turn of a data centre, then act there."""
        while self.see("current") != centre:
            self.act(WAIT)
        return self.act(action)

    @property
    def legal(self) -> np.ndarray:
        assert self.out.mask is not None
        return self.out.mask[0]

    def see(self, name: str):
        return self.env.state()[name][0]

    def measure(self, name: str) -> float:
        return float(self.out.measures[0, self.env.spec.measures.index(name)])


def test_one_satisfied():
    game = Game(INDUSTRY_OF_1)
    assert game.act(ALLOCATE + NAT) == 0  # the source comes first; 60 µs, so through at 6
    game.wait_until(6)
    assert game.act(ALLOCATE + FW) == 0  # begun at 6: 30 µs, and 1 ms home, so satisfied at 6 + 3 + 100
    game.wait_until(200)
    assert game.over and game.gains == {109: 2.0}
    assert game.measure("acceptance") == 1 and game.measure("delay_ms") == np.float32(1.09)
    assert game.measure("satisfied_industry") == game.measure("generated_industry") == 1
    assert game.measure("cpu_used") == np.float32((6 * 1 + 103 * (1 + 9)) / (109 * game.cpu))
    assert game.measure("storage_used") == np.float32((6 * 7 + 103 * (7 + 1)) / (109 * 2 * 2048))


def test_the_way_to_a_vnf_counts_too():
    game = Game(INDUSTRY_OF_1, lag_us=500)
    game.act(ALLOCATE + NAT)
    game.wait_until(7)  # at 6 it is the source's turn, at 7 the destination's
    assert game.see("current") == 1 - game.source
    game.act(ALLOCATE + FW)  # 7 + 3 + 50
    game.wait_until(200)
    assert game.gains == {60: 2.0} and game.measure("delay_ms") == np.float32(0.6)
    assert game.over and game.time == 100  # when traffic stops


def test_one_dropped_at_the_limit():
    game = Game(INDUSTRY_OF_1)
    game.wait_until(2000)  # 8 ms is not too late, one action more is
    assert game.over and game.gains == {801: -1.5}
    assert game.measure("acceptance") == 0 and game.measure("delay_ms") == 100


@pytest.mark.parametrize(("lag_us", "gains"), [(7910, {800: 2.0}), (7911, {801: -1.5})])
def test_the_limit_itself_is_in_time(lag_us, gains):
    """9 actions until it leaves for home; 791 are left."""
    game = Game(INDUSTRY_OF_1, lag_us)
    game.act(ALLOCATE + NAT)
    game.wait_until(6)
    game.act(ALLOCATE + FW)
    game.wait_until(2000)
    assert game.over and game.gains == gains


def test_a_repeated_vnf_is_known_by_its_place():
    """VoIP is NAT FW TM FW NAT. The first request goes through all five; the others wait for their first NAT. For the
    last NAT it is chosen before them, since it has been here (+10)."""
    game = Game(VOIP_BUNDLE, lag_us=100)
    size, source = int(game.see("requests")), game.source
    for stage, (vnf, takes) in enumerate(((NAT, 6), (FW, 3), (TM, 7), (FW, 3), (NAT, 6))):
        assert game.at(source, ALLOCATE + vnf) == 0
        assert game.see("standing")[-1, VOIP].tolist() == [size - 1, *(int(stage == k) for k in range(5))]
        begun = game.time - 1
        game.wait_until(begun + takes)
    assert game.see("hosted")[source, VOIP].tolist() == [2, 2, 0, 1, 0, 0]
    assert game.see("installed")[source].tolist() == [1, 1, 0, 1, 0, 0]  # used again, not installed again
    game.wait_until(begun + 6 + 10 + 5)
    assert game.gains == {begun + 6 + 10: 2.0}
    assert game.see("delay") == (begun + 6 + 10) * 1000 and game.see("requests") == size - 1
    assert game.see("hosted").sum() == 0 and game.see("held_kbps").sum() == 0


def test_no_bandwidth_no_way():
    """70 Mbps over a link of 60: to be given the first VNF at home is possible, to leave is not."""
    game = Game(INDUSTRY_OF_1, link_mbps=60)
    assert game.at(1 - game.source, ALLOCATE + NAT) == -1
    assert game.legal[ALLOCATE + NAT]  # the mask knows of room, not of ways
    assert game.at(game.source, ALLOCATE + NAT) == 0
    game.wait_until(20)
    assert game.at(game.source, ALLOCATE + FW) == -1  # it could not go home
    assert game.at(1 - game.source, ALLOCATE + FW) == -1  # nor there
    assert game.see("installed").sum() == 1 and game.see("spare_kbps")[0] == 60_000


def test_bandwidth_is_held_and_given_back():
    """Over a link of 100 Mbps only one of two goes at a time."""
    game = Game(INDUSTRY_OF_2, lag_us=1000, link_mbps=100)
    where = game.see("request.at")[game.first : game.first + 2]
    for source in where:
        game.at(source, ALLOCATE + NAT)
    game.wait_until(20)
    assert game.at(where[0], ALLOCATE + FW) == 0
    leaves = game.time - 1 + 3
    assert game.see("spare_kbps")[0] == 30_000 and game.see("held_kbps")[INDUSTRY] == 70_000
    game.wait_until(leaves)
    assert game.at(where[1], ALLOCATE + FW) == -1
    game.wait_until(leaves + 100)
    assert game.gains[leaves + 100] == 2.0 and game.see("spare_kbps")[0] == 100_000
    assert game.at(where[1], ALLOCATE + FW) == 0


def test_uninstalling():
    game = Game(INDUSTRY_OF_2)
    where = game.see("request.at")[game.first : game.first + 2]
    d = where[0]
    assert game.at(d, NAT) == -1  # none installed
    game.at(d, ALLOCATE + NAT)
    game.wait_until(20)
    assert game.see("idle")[d, NAT] == 1
    assert game.at(d, NAT) == -0.5 and game.see("installed")[d, NAT] == 1  # the other still needs one
    game.at(where[1], ALLOCATE + NAT)
    game.wait_until(40)
    free = game.see("free_cpu")[d], game.see("free_ram")[d], game.see("free_storage")[d]
    installed = int(game.see("installed")[d, NAT])
    assert game.at(d, NAT) == 0 and game.see("installed")[d, NAT] == installed - 1
    after = game.see("free_cpu")[d], game.see("free_ram")[d], game.see("free_storage")[d]
    assert [a - b for a, b in zip(after, free, strict=True)] == [1, 4, 7]
    assert game.at(d, VOC) == -1  # never installed


def test_one_at_work_is_not_idle():
    game = Game(INDUSTRY_OF_1)
    game.act(ALLOCATE + NAT)
    game.wait_until(2)
    assert game.see("idle").sum() == 0 and not game.legal[:6].any()
    assert game.at(game.source, NAT) == -1


def test_nothing_to_allocate_is_invalid():
    game = Game(INDUSTRY_OF_1)
    for vnf in (FW, VOC, TM, WO, IDPS):
        assert not game.legal[ALLOCATE + vnf] and game.act(ALLOCATE + vnf) == -1
    assert game.see("requests") == 1


def test_credit_is_paid_at_once():
    """3.5 as a third and two thirds; nothing more when it is satisfied; when it is dropped all is taken back."""
    game = Game(INDUSTRY_OF_1, reward="credited")
    game.act(ALLOCATE + NAT)
    game.wait_until(6)
    game.act(ALLOCATE + FW)
    game.wait_until(200)
    assert game.gains == {1: THIRD, 7: 2 * THIRD} and game.over and game.time == 109
    game = Game(INDUSTRY_OF_1, reward="credited")
    game.act(ALLOCATE + NAT)
    assert game.act(FW) == -1  # invalid costs the same
    game.wait_until(2000)
    assert game.gains == {1: THIRD, 2: -1.0, 801: -THIRD}


@pytest.mark.parametrize("actions", [3, 20])
def test_credited_sums_differ_by_what_nothing_can_change(actions):
    sums = {}
    for reward in ("published", "credited"):
        env = make(Options(actions_per_step=actions, traffic_ms=30, reward=reward), 4)
        out, rng = new_steps(env.spec, 4), np.random.default_rng(0)
        env.reset(5, out)
        returns, done = np.zeros(4), np.zeros(4, bool)
        totals = np.zeros(4)
        while not done.all():
            env.step(rng.integers(0, 13, 4).astype(np.int32), out)
            returns += np.where(done, 0.0, out.reward)
            for lane in np.flatnonzero(out.terminated & ~done):
                totals[lane] = out.measures[lane, 5::2].sum()
            done |= out.terminated
        sums[reward] = returns, totals
    assert (sums["published"][1] == sums["credited"][1]).all() and (sums["published"][1] > 0).all()
    assert np.allclose(sums["credited"][0] - 1.5 * sums["credited"][1], sums["published"][0], rtol=1e-5)
