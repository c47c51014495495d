from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.collect.episodes import Episodes
from hotloop.collect.seen import Seen
from hotloop.core.schema import new_block
from hotloop.core.types import Block, EnvSpec, Field

SPEC = EnvSpec("made-up", (Field("obs", (1,), "float32"),), 2, measures=("score", "luck"))


def random_block(rng: np.random.Generator, steps: int, lanes: int, share: float) -> Block:
    block = new_block(SPEC, steps, lanes)
    block.reward[:] = rng.standard_normal((steps, lanes))
    block.terminated[:] = rng.random((steps, lanes)) < share
    block.truncated[:] = rng.random((steps, lanes)) < share
    ended = block.terminated | block.truncated
    block.measures[ended] = rng.standard_normal((np.count_nonzero(ended), 2))  # elsewhere poison stays
    return block


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([0.0, 0.1, 0.6, 1.0]))
@settings(max_examples=60, deadline=None)
def test_sums_like_a_naive_loop(seed, lanes, share):
    rng = np.random.default_rng(seed)
    episodes = Episodes(lanes)
    rewards: list[list[float]] = [[] for _ in range(lanes)]
    for steps in (3, 1, 7):
        block = random_block(rng, steps, lanes, share)
        expected = []
        for t in range(steps):
            for lane in range(lanes):
                rewards[lane].append(float(block.reward[t, lane]))
                if block.terminated[t, lane] or block.truncated[t, lane]:
                    expected.append((sum(rewards[lane]), len(rewards[lane]), list(block.measures[t, lane]), lane))
                    rewards[lane] = []
        found = episodes.add(block)
        assert len(expected) == len(found.returns) == len(found.lengths) == len(found.measures) == len(found.lanes)
        for i, (total, length, measures, lane) in enumerate(expected):
            assert found.returns[i] == total and found.lengths[i] == length and found.lanes[i] == lane
            assert found.measures[i].tolist() == measures
        assert episodes.lengths.tolist() == [len(r) for r in rewards]


def test_state_goes_on_in_the_middle_of_episodes():
    rng = np.random.default_rng(0)
    blocks = [random_block(rng, 5, 4, 0.1) for _ in range(6)]
    one, other = Episodes(4), Episodes(4)
    for block in blocks[:3]:
        one.add(block)
    other.set_state(one.state())
    for block in blocks[3:]:
        a, b = one.add(block), other.add(block)
        assert np.array_equal(a.returns, b.returns) and np.array_equal(a.lengths, b.lengths)
    state = one.state()
    one.add(blocks[0])
    assert not np.array_equal(state["lengths"], one.lengths), "a state that was read does not move"


def test_a_million_small_rewards_add_up():
    block = new_block(SPEC, 1000, 1)
    block.terminated[:] = block.truncated[:] = False
    block.reward[:] = 0.1
    episodes = Episodes(1)
    for _ in range(1000):
        episodes.add(block)
    block.terminated[-1] = True
    total = episodes.add(block).returns[0]
    assert abs(total / (1_001_000 * float(np.float32(0.1))) - 1) < 1e-9  # in float32 it would be off by one percent


PARTS = (
    Field("image", (2, 3), "uint8", stack=4),
    Field("speed", (), "float32", stack=2),
    Field("plain", (5,), "float32"),
)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=40, deadline=None)
def test_stacks_like_naive_ones(seed, lanes, share):
    rng = np.random.default_rng(seed)
    spec = EnvSpec("made-up", PARTS, 2)
    seen = Seen(spec, lanes)

    def frames() -> dict[str, np.ndarray]:
        return {
            "image": rng.integers(0, 256, (lanes, 2, 3)).astype(np.uint8),
            "speed": rng.standard_normal(lanes).astype(np.float32),
            "plain": rng.standard_normal((lanes, 5)).astype(np.float32),
        }

    first = frames()
    seen.start(first)
    kept = {f.name: [[first[f.name][lane]] * f.stack for lane in range(lanes)] for f in PARTS[:2]}
    assert set(seen.stacks) == {"image", "speed"}
    for step in range(8):
        obs = frames()
        terminated, truncated = rng.random(lanes) < share, rng.random(lanes) < share
        seen.push(obs, terminated, truncated)
        for f in PARTS[:2]:
            for lane in range(lanes):
                if terminated[lane] or truncated[lane]:
                    kept[f.name][lane] = [obs[f.name][lane]] * f.stack  # the next episode's first frame, repeated
                else:
                    kept[f.name][lane] = [*kept[f.name][lane][1:], obs[f.name][lane]]  # newest last
                assert np.array_equal(seen.stacks[f.name][lane], np.stack(kept[f.name][lane]))
        if step == 4:
            state, seen = seen.state(), Seen(spec, lanes)
            seen.set_state(state)
