from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch

from hotloop.collect import act
from hotloop.collect.forward import forward_program
from hotloop.collect.inline import Inline
from hotloop.collect.policies import Greedy, Random
from hotloop.core.discover import load
from hotloop.core.types import Arrays, Block, EnvSpec, Field, Steps
from hotloop.networks._build import build
from hotloop.networks._flat import initial
from hotloop.trace import Trace

HALF = act.Options(start=0.5, end=0.5)
ALWAYS = act.Options(start=1.0, end=1.0)
NETWORK = {"cartpole": {"hidden": [16]}, "snake": {"hidden": [16]}}


class Walk:
    """A made-up world with stacked bytes, plain floats and masks, whose every part says where a lane stands:
    lane, episode and age. An action is legal if it has the parity of the age, or is 0."""

    def __init__(self, lanes: int, exact: bool = True) -> None:
        observation = (Field("frame", (3,), "uint8", stack=3), Field("age", (), "float32"))
        self.spec = EnvSpec("walk", observation, 4, masked=True, measures=("age",), exact=exact)
        self.lanes, self.closed = lanes, False
        self.age, self.episode = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        self.acted: list[np.ndarray] = []

    def reset(self, seed: int, out: Steps) -> None:
        self.age[:], self.episode[:] = 0, seed % 50
        self._write(out.obs, out.mask)

    def _write(self, obs: Arrays, mask: np.ndarray | None) -> None:
        obs["frame"][:] = np.stack([np.arange(self.lanes), self.episode, self.age], 1)
        obs["age"][:] = self.age
        assert mask is not None
        mask[:] = (np.arange(4)[None] % 2 == self.age[:, None] % 2) | (np.arange(4) == 0)

    def step(self, actions: np.ndarray, out: Steps) -> None:
        legal = np.empty((self.lanes, 4), np.bool_)
        self._write({"frame": np.empty((self.lanes, 3)), "age": np.empty(self.lanes)}, legal)
        assert legal[np.arange(self.lanes), actions].all(), "an illegal action"
        self.acted.append(actions.copy())
        self.age += 1
        out.reward[:] = actions + 10 * self.age
        out.terminated[:] = (self.age >= 5) & (actions > 0)
        out.truncated[:] = (self.age >= 9) & ~out.terminated
        assert out.final_mask is not None
        self._write(out.final_obs, out.final_mask)
        out.measures[:, 0] = self.age
        ended = out.terminated | out.truncated
        self.episode[ended] += 1
        self.age[ended] = 0
        self._write(out.obs, out.mask)

    def state(self) -> Arrays:
        return {"age": self.age.copy(), "episode": self.episode.copy()} if self.spec.exact else {}

    def set_state(self, state) -> None:
        self.age[:], self.episode[:] = state["age"], state["episode"]

    def render(self, lane: int = 0) -> str:
        return str(self.age[lane])

    def close(self) -> None:
        self.closed = True


def world(name: str, lanes: int):
    if name.startswith("walk"):
        return Walk(lanes, exact=name == "walk")
    module = load("hotloop.envs", name)
    return module.make(module.Options(), lanes)


def collector(name: str, *, lanes: int = 6, steps: int = 5, seed: int = 3, explore: act.Options = HALF) -> Inline:
    env = world(name, lanes)
    network = build(env.spec, "mlp", {"hidden": [16]}, "scalar", 1)
    inline = Inline(
        env, forward_program(env.spec, network, "", False, 1), explore, steps=steps, seed=seed, trace=Trace(64)
    )
    inline.publish(initial(network))
    return inline


@dataclass
class Copy:
    """A block as bytes, since a block is valid only until the next one. What is meaningless is left out."""

    parts: dict[str, np.ndarray]

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Copy)
        return all(np.array_equal(self.parts[k], other.parts[k]) for k in self.parts)


def copied(block: Block, lane: int | None = None) -> Copy:
    pick = slice(None) if lane is None else slice(lane, lane + 1)
    ended = block.terminated | block.truncated
    parts: dict[str, np.ndarray] = {}
    for f in fields(block):
        value = getattr(block, f.name)
        for name, array in value.items() if isinstance(value, dict) else [("", value)]:
            if array is None:
                continue
            array = array.copy()
            if f.name in ("final_obs", "final_mask", "measures"):
                array[~ended] = 0
            parts[f"{f.name}.{name}"] = array[:, pick]
    return Copy(parts)


WORLDS = ["cartpole", "snake", "walk"]


@pytest.mark.parametrize("name", WORLDS)
def test_the_seed_decides_every_bit(name):
    runs = []
    for seed in (3, 3, 4):
        one = collector(name, seed=seed)
        runs.append([copied(one.next_block()) for _ in range(6)])
    assert runs[0] == runs[1] and runs[0] != runs[2]


@pytest.mark.parametrize("name", WORLDS)
def test_a_lane_plays_the_same_game_whatever_the_number_of_lanes(name):
    few, many = collector(name, lanes=8, explore=ALWAYS), collector(name, lanes=200, explore=ALWAYS)
    for _ in range(8):
        assert copied(few.next_block(), lane=3) == copied(many.next_block(), lane=3)


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("explore", [HALF, ALWAYS, act.Options(decay_env_steps=300)], ids=["half", "always", "falling"])
def test_how_steps_are_cut_into_blocks_changes_nothing(name, explore):
    """While the weights stand, 12 steps are 12 steps."""
    long, short = collector(name, steps=12, explore=explore), collector(name, steps=3, explore=explore)
    for _ in range(4):
        whole = copied(long.next_block()).parts
        pieces = [copied(short.next_block()).parts for _ in range(4)]
        for part, array in whole.items():
            overlap = part.startswith(("obs.", "mask."))  # row T of a block is row 0 of the next
            joined = [p[part][:-1] if overlap else p[part] for p in pieces] + [pieces[-1][part][-1:]] * overlap
            assert np.array_equal(np.concatenate(joined), array), part


@pytest.mark.parametrize("name", WORLDS)
def test_state_and_back_gives_the_same_blocks(name):
    one = collector(name)
    for _ in range(5):
        one.next_block()
    state = one.state()
    kept = {k: v.copy() for k, v in state.items()}
    expected = [copied(one.next_block()) for _ in range(8)]
    finished = one.finished
    assert all(np.array_equal(state[k], kept[k]) for k in kept), "a state that was read does not move"
    for other in (one, collector(name)):  # back to where it was, and anew in another process
        other.set_state(state)
        assert other.env_steps == 5 * 5 * 6
        assert [copied(other.next_block()) for _ in range(8)] == expected
        assert finished is not None and other.finished is not None
        assert np.array_equal(other.finished.returns, finished.returns)


def test_where_the_world_cannot_be_set_back_new_episodes_begin():
    one = collector("walk that forgets")
    for _ in range(3):
        one.next_block()
    state = one.state()
    assert not any(k.startswith("env.") for k in state)
    for other in (one, collector("walk that forgets")):
        other.set_state(state)
        assert other.env_steps == 3 * 5 * 6 and other.episodes.lengths.tolist() == [0] * 6
        block = other.next_block()
        assert (block.obs["age"][0] == 0).all() and (block.obs["frame"][0, :, 1] == 3 + 15).all()  # another seed


def test_a_block_is_what_the_world_said():
    """Rows, masks and the network's input against a plain loop over the same world."""
    env, lanes = Walk(6), 6
    network = build(env.spec, "mlp", {"hidden": [16]}, "scalar", 1)
    one = collector("walk", explore=act.Options(start=0.0, end=0.0))
    age, episode = np.zeros(lanes, int), np.full(lanes, 3)
    frames = [[np.array([lane, 3, 0])] * 3 for lane in range(lanes)]
    returns, ends = np.zeros(lanes), []
    for _ in range(6):
        block = one.next_block()
        for t in range(5):
            stacks = torch.from_numpy(np.stack([np.stack(f) for f in frames]).astype(np.uint8))
            with torch.no_grad():
                q = network({"frame": stacks, "age": torch.from_numpy(age.astype(np.float32))}).numpy()
            legal = (np.arange(4)[None] % 2 == age[:, None] % 2) | (np.arange(4) == 0)
            assert np.array_equal(block.mask[t], legal) and np.array_equal(block.obs["age"][t], age)
            assert np.array_equal(block.action[t], np.where(legal, q, -np.inf).argmax(1))
            age += 1
            returns += block.action[t] + 10 * age
            assert np.array_equal(block.reward[t], block.action[t] + 10 * age)
            terminated = (age >= 5) & (block.action[t] > 0)
            ended = terminated | (age >= 9)
            assert np.array_equal(block.terminated[t], terminated)
            assert np.array_equal(block.truncated[t], ended & ~terminated)
            assert np.array_equal(block.final_obs["age"][t, ended], age[ended])
            ends += [(returns[lane], age[lane]) for lane in np.flatnonzero(ended)]
            returns[ended], age[ended] = 0, 0
            episode[ended] += 1
            for lane in range(lanes):
                frame = np.array([lane, episode[lane], age[lane]])
                frames[lane] = [frame] * 3 if ended[lane] else [*frames[lane][1:], frame]
        assert one.finished is not None
        found = list(zip(one.finished.returns, one.finished.lengths, strict=True))
        assert found == ends
        ends = []
    assert one.env_steps == 6 * 5 * 6


def test_epsilon_falls_by_env_steps_whatever_the_lanes():
    for lanes in (2, 10):
        one = collector("cartpole", lanes=lanes, steps=10, explore=act.Options(start=1.0, end=0.0, decay_env_steps=400))
        weights = torch.zeros(one._weights.numel())
        weights[-1] = 1.0  # greedy is action 1
        one.publish(weights)
        while one.env_steps < 200:
            explored = np.count_nonzero(one.next_block().action == 0)
        assert act.epsilon(one.explore, one.env_steps) == 0.5 and explored > 0
        while one.env_steps < 400:
            one.next_block()
        assert (one.next_block().action == 1).all()


def test_published_weights_act_from_the_next_block_on():
    one = collector("cartpole", explore=act.Options(start=0.0, end=0.0))
    weights = torch.zeros_like(initial(build(one.env.spec, "mlp", {"hidden": [16]}, "scalar", 0)))
    for best in (1, 0):
        weights = weights.clone()
        weights[-2:] = torch.tensor([float(best == 0), float(best == 1)])  # the biases of the last layer alone
        one.publish(weights)
        assert (one.next_block().action == best).all()


def test_warming_changes_nothing():
    one, other = collector("snake"), collector("snake")
    other.warm(torch.zeros_like(other._weights))
    assert [copied(one.next_block()) for _ in range(3)] == [copied(other.next_block()) for _ in range(3)]


def test_closing_closes_the_world():
    one = collector("walk")
    one.close()
    assert one.env.closed


def test_greedy_policy():
    env = Walk(50)
    network = build(env.spec, "mlp", {"hidden": [16]}, "dueling", 0)
    policy = Greedy(env.spec, forward_program(env.spec, network, "", False, 1), initial(network))
    rng = np.random.default_rng(0)
    # in another dtype and memory order than the network's: a caller's own arrays
    obs = {"frame": rng.integers(0, 256, (50, 3, 3)).transpose(0, 2, 1), "age": rng.standard_normal(50)}
    with torch.no_grad():
        frame = torch.from_numpy(np.ascontiguousarray(obs["frame"]).astype(np.uint8))
        q = network({"frame": frame, "age": torch.from_numpy(obs["age"]).float()}).numpy()
    assert np.array_equal(policy.values(obs), q)
    assert np.array_equal(policy(obs, None), q.argmax(1))
    mask = rng.random((50, 4)) < 0.4
    mask[np.arange(50), rng.integers(0, 4, 50)] = True
    actions = policy(obs, mask)
    assert np.count_nonzero(actions != q.argmax(1)) > 5
    assert np.array_equal(actions, np.where(mask, q, -np.inf).argmax(1)) and actions.dtype == np.int32


def test_random_policy():
    spec = Walk(1).spec
    mask = np.tile(np.array([True, False, True, True]), (300, 1))
    one, same, other = Random(spec, 300, 1), Random(spec, 300, 1), Random(spec, 300, 2)
    picks = [[p({}, mask) for _ in range(30)] for p in (one, same, other)]
    assert np.array_equal(picks[0], picks[1]) and not np.array_equal(picks[0], picks[2])
    counts = np.bincount(np.concatenate(picks[0]), minlength=4)
    assert counts[1] == 0 and (np.abs(counts[[0, 2, 3]] - 3000) < 200).all()
    assert not np.array_equal(picks[0][0], picks[0][1])
    assert set(np.unique(one({}, None))) == {0, 1, 2, 3}
