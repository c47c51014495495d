"""The store's promises one by one, on experience small enough to write down."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hotloop.core import schema
from hotloop.core.errors import UserError
from hotloop.core.schema import new_batch, new_block
from hotloop.core.types import Batch, EnvSpec, Field
from hotloop.replay import frames, nstep
from hotloop.replay.store import Options, Store
from tests.replay.writing import PARTS, PIXELS, Writer

GAMMA = 0.5


def counting(
    steps: int,
    *,
    lanes: int = 1,
    start: int = 0,
    stack: int = 1,
    terminated: tuple[int, ...] = (),
    truncated: tuple[int, ...] = (),
    masked: bool = False,
):
    """A block where the observation of step k is k, its reward 10 ** (k - start), its final observation 100 + k."""
    spec = EnvSpec("counting", (Field("obs", (1,), "float32", stack=stack),), 3, masked=masked)
    block = new_block(spec, steps, lanes)
    numbers = np.arange(start, start + steps + 1, dtype=np.float32)
    block.obs["obs"][...] = numbers[:, None, None]
    block.final_obs["obs"][...] = 100 + numbers[:-1, None, None]
    block.action[...] = (numbers[:-1, None] % 3).astype(np.int32)
    block.reward[...] = 10.0 ** (numbers[:-1, None] - start)
    block.terminated[...] = False
    block.truncated[...] = False
    block.terminated[list(terminated)] = True
    block.truncated[list(truncated)] = True
    if block.mask is not None and block.final_mask is not None:
        block.mask[...] = True
        block.mask[:, :, 1] = numbers[:, None] % 3 == 1
        block.final_mask[...] = [False, False, True]
    return spec, block


def sampled(store: Store, *steps: int) -> Batch:
    """The transitions of these steps of lane 0."""
    batch = new_batch(store.spec, 1, len(steps))
    store.gather(np.array([[step % store.slots_per_lane for step in steps]]), batch)
    return batch


def holding(block_and_spec, capacity: int = 50, **options) -> Store:
    spec, block = block_and_spec
    store = Store(spec, Options(capacity=capacity, **options), block.lanes, GAMMA)
    store.write(block)
    return store


def test_the_newest_transition_can_be_sampled_at_once():
    batch = sampled(holding(counting(3)), 2)
    assert (batch.obs["obs"].item(), batch.next_obs["obs"].item(), batch.reward.item()) == (2, 3, 100)
    assert batch.discount.item() == GAMMA


def test_terminated_has_discount_zero_and_no_next_observation():
    batch = sampled(holding(counting(5, terminated=(2,), masked=True)), 2)
    assert batch.discount.item() == 0 and batch.next_obs["obs"].item() == 0
    assert batch.next_mask is not None and batch.next_mask.all()


def test_truncated_keeps_its_discount_and_goes_on_from_the_true_last_observation():
    batch = sampled(holding(counting(5, truncated=(2,), masked=True)), 2)
    assert batch.discount.item() == GAMMA
    assert batch.next_obs["obs"].item() == 102  # not 3, with which the next episode begins
    assert batch.next_mask is not None and batch.next_mask.tolist() == [[[False, False, True]]]


def test_terminated_wins_where_both_are_set():
    store = holding(counting(5, terminated=(2,), truncated=(2,)))
    assert sampled(store, 2).discount.item() == 0
    assert store.check_valid() == (True, "")


def test_n_step_sums_up_to_the_end_of_the_episode_and_not_across():
    ends = counting(8, terminated=(2,), truncated=(5,))
    batch = sampled(holding(ends, n_step=3), 0, 1, 2, 3, 4, 5)
    assert batch.reward[0].tolist() == [
        1 + 5 + 25, 10 + 50, 100,
        1e3 + 5e3 + 25e3, 1e4 + 5e4, 1e5,
    ]  # fmt: skip
    assert batch.discount[0].tolist() == [0, 0, 0, GAMMA**3, GAMMA**2, GAMMA]
    assert batch.next_obs["obs"].ravel().tolist() == [0, 0, 0, 105, 105, 105]


def test_the_newest_n_minus_one_steps_wait_for_their_return():
    store = holding(counting(8), n_step=3)
    assert store.size == 6
    assert sampled(store, 5).next_obs["obs"].item() == 8
    with pytest.raises(ValueError, match="outside"):
        sampled(store, 6)


@pytest.mark.parametrize("poisoned", [True, False])
def test_stacks_repeat_the_first_frame_of_the_episode(poisoned, monkeypatch):
    monkeypatch.setattr(schema, "POISON", poisoned)
    batch = sampled(holding(counting(8, stack=4, terminated=(1,), truncated=(5,))), 0, 1, 2, 4, 5, 6)
    assert batch.obs["obs"][0, :, :, 0].tolist() == [
        [0, 0, 0, 0], [0, 0, 0, 1], [2, 2, 2, 2], [2, 2, 3, 4], [2, 3, 4, 5], [6, 6, 6, 6],
    ]  # fmt: skip
    assert batch.next_obs["obs"][0, :, :, 0].tolist() == [
        [0, 0, 0, 1], [0, 0, 0, 0], [2, 2, 2, 3], [2, 3, 4, 5], [3, 4, 5, 105], [6, 6, 6, 7],
    ]  # fmt: skip


@pytest.mark.parametrize("steps", [1, 3, 7, 12, 13, 14, 40])
def test_capacity_transitions_can_be_sampled_when_full_whatever_the_block_length(steps):
    spec, _ = counting(1, stack=4)
    store = Store(spec, Options(capacity=11, n_step=3), 1, GAMMA)
    for start in range(0, 200, steps):
        store.write(counting(steps, start=start, stack=4)[1])
    assert store.size == 11
    oldest = store.window().first
    batch = sampled(store, oldest, oldest + 10)
    assert batch.obs["obs"][0, :, :, 0].tolist() == [[oldest + i - 3 + j for j in range(4)] for i in (0, 10)]
    assert batch.next_obs["obs"][0, 1, 3, 0] == store._arrays["cursor"][0]  # the newest observation of all


@pytest.mark.parametrize("observation", [PIXELS, PARTS])
@pytest.mark.parametrize("n_step", [1, 5])
def test_all_lanes_truncated_together_equals_the_model(observation, n_step):
    w = Writer(observation, lanes=5, capacity=103, n_step=n_step, share=1 / 16, masked=True)
    for _ in range(12):
        w.write(6, terminate=0.02, truncate=0.5, together=True)
        w.compare()
    assert w.store.displaced > 0


@pytest.mark.parametrize("n_step", [1, 3])
def test_a_lane_always_has_a_transition_however_many_are_truncated(n_step):
    w = Writer(lanes=3, capacity=60, n_step=n_step, share=0.001)
    for _ in range(20):
        w.write(2, terminate=0.0, truncate=1.0)
        if w.store.plan.per_lane >= n_step and len(w.model.history[0]) >= n_step:
            assert w.store.size >= 3
        w.compare()


def test_enough_room_for_final_observations_displaces_none():
    w = Writer(lanes=3, capacity=60, share=1.0)
    for _ in range(30):
        w.write(7, terminate=0.0, truncate=1.0, together=True)
    assert w.store.displaced == 0
    assert w.store.size == 60
    w.compare()


def test_a_lapped_final_row_takes_its_transitions_out_of_the_window_and_is_counted():
    spec, _ = counting(1)
    store = Store(spec, Options(capacity=40, truncated_share=0.05), 1, GAMMA)
    assert store.plan.final_rows == 3
    store.write(counting(20, truncated=(2, 5, 9))[1])
    assert (store.window().first, store.displaced) == (0, 0)
    store.write(counting(5, start=20, truncated=(1,))[1])
    assert (store.window().first, store.displaced) == (3, 1)
    assert sampled(store, 5, 21).next_obs["obs"].ravel().tolist() == [105, 121]
    with pytest.raises(ValueError, match="outside"):
        sampled(store, 2)


def test_cut_ends_the_episodes_that_were_going_on():
    store = holding(counting(4, terminated=(3,), lanes=1))
    store.cut()
    assert sampled(store, 3).discount.item() == 0
    store.write(counting(2, start=50)[1])
    store.cut()
    store.cut()
    store.write(counting(2, start=90)[1])
    batch = sampled(store, 4, 5, 6)
    assert batch.next_obs["obs"].ravel().tolist() == [51, 52, 91]
    assert batch.discount.ravel().tolist() == [GAMMA] * 3
    assert store.check_valid() == (True, "")


def test_gather_refuses_slots_outside_the_window():
    store = holding(counting(4))
    for slot in (-1, 4, store.slots_per_lane, 10**9):
        with pytest.raises(ValueError, match="outside"):
            sampled(store, 0) if slot == 0 else store.gather(np.array([[0, slot]]), new_batch(store.spec, 1, 2))


def test_a_block_that_does_not_fit_is_refused_and_nothing_is_written():
    store = holding(counting(4))
    before = digest(store)
    _, wrong_action = counting(4, start=4)
    wrong_action.action[3, 0] = 3
    _, wrong_dtype = counting(4, start=4)
    wrong_dtype.obs["obs"] = wrong_dtype.obs["obs"].astype(np.float64)
    for block in (wrong_action, wrong_dtype, counting(4, lanes=2)[1], counting(4, masked=True)[1]):
        with pytest.raises(ValueError):
            store.write(block)
    assert digest(store) == before


def test_many_actions_survive_their_small_dtype():
    for actions, dtype in ((2, "uint8"), (256, "uint8"), (257, "uint16"), (65537, "uint32")):
        w = Writer(actions=actions, capacity=10, lanes=1)
        block = w.random_block(1, 0, 0, False)
        block.action[0, 0] = actions - 1
        w.store.write(block)
        assert w.store.state()["action"].dtype == dtype
        assert w.gather().action.item() == actions - 1


def test_saved_state_of_another_shape_or_damaged_is_refused():
    w = Writer(lanes=2, capacity=20)
    w.write(8)
    saved = {name: array.copy() for name, array in w.store.state().items()}
    with pytest.raises(UserError, match=r"replay\.capacity"):
        Writer(lanes=2, capacity=22).store.set_state(saved)
    with pytest.raises(UserError, match="found none"):
        w.store.set_state({})
    saved["end"][0, 3] = 9
    with pytest.raises(UserError, match="damaged"):
        w.store.set_state(saved)


def faults():
    """name of a fault -> how to bring it about in the arrays of a full store."""

    def a_truncated(a):
        return tuple(np.argwhere(a["final_row"] >= 0)[-1])

    def spoil(name, where, value):
        return lambda a: a[name].__setitem__(where(a) if callable(where) else where, value)

    return {
        "end flag": spoil("end", (0, 3), 3),
        "not below": spoil("action", (1, 3), 200),
        "not finite": spoil("reward", (0, 3), np.nan),
        "holds NaN": spoil("obs.obs", (0, 3, 1), np.nan),
        "allows no action": spoil("mask", (0, 3), 0),
        "do not exist": spoil("mask", (0, 3), 255),
        "not legal": lambda a: a["mask"].__setitem__((0, 3), 1 << ((a["action"][0, 3] + 1) % 5)),
        "was not truncated": lambda a: a["end"].__setitem__(a_truncated(a), 0),
        "lacks its final": spoil("final_row", a_truncated, -1),
        "another step": lambda a: a["final_owner"].__setitem__((a["final_row"][a_truncated(a)], 0), 0),
        "impossible": spoil("cursor", nstep.FLOOR, 10**6),
    }


@pytest.mark.parametrize("fault", faults())
def test_check_valid_names_each_fault(fault):
    w = Writer(lanes=2, capacity=20, masked=True)
    for _ in range(4):
        w.write(7, truncate=0.3)
    assert w.store.check_valid() == (True, "")
    faults()[fault](w.store.state())
    valid, found = w.store.check_valid()
    assert not valid and fault in found


def test_check_valid_sees_a_final_row_that_nobody_names():
    store = holding(counting(9, truncated=(4, 6)))
    a = store.state()
    a["end"][0, 4], a["final_row"][0, 4] = 1, -1
    assert "does not name it" in store.check_valid()[1]


def test_rewards_are_summed_in_float64():
    spec, block = counting(3)
    block.reward[:, 0] = [2.0**24, 1.0, 1.0]
    store = Store(spec, Options(capacity=10, n_step=3), 1, 1.0)
    store.write(block)
    assert sampled(store, 0).reward.item() == 2**24 + 2  # float32 would stay at 2 ** 24


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="there is nothing to compile")
def test_no_kernel_compiles_after_the_store_is_built():
    kernels = [nstep.commit, nstep.resolve, frames.store_entries, frames.store_finals, frames.pack]
    kernels += [frames.gather_entries, frames.gather_masks]
    w = Writer(PARTS, masked=True)
    before = [len(k.signatures) for k in kernels]
    w.write(9, truncate=0.5)
    w.compare()
    assert [len(k.signatures) for k in kernels] == before


def digest(store: Store) -> str:
    return hashlib.sha256(b"".join(a.tobytes() for a in store.state().values())).hexdigest()


def scenario() -> str:
    """A digest of every sample of a store with everything in it."""
    w = Writer(PARTS, lanes=3, capacity=31, n_step=3, share=0.1, masked=True)
    found = hashlib.sha256()
    for steps in (5, 9, 1, 40, 3):
        w.write(steps)
        batch = w.gather()
        for array in (*batch.obs.values(), *batch.next_obs.values(), batch.reward, batch.discount, batch.next_mask):
            found.update(array.tobytes())  # type: ignore[union-attr]
    return found.hexdigest()


def test_compiled_equals_plain_python_bit_for_bit():
    code = "from tests.replay.test_store import scenario; print(scenario())"
    root = Path(__file__).parents[2]
    flags = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(root)}
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **flags}, cwd=root, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == scenario()
