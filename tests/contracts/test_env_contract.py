"""What every world promises, whatever it is: found by discovery, native ones played at random in every variant of
their options, emulated ones briefly. A world that needs what is not installed is skipped."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import typing
from dataclasses import fields, replace

import numpy as np
import pytest

from hotloop.core import discover
from hotloop.core.errors import MissingExtra, UserError
from hotloop.core.options import type_of
from hotloop.core.schema import new_steps
from hotloop.core.types import Steps
from hotloop.envs._world import FOREIGN, own_names

NATIVE = [name for name in own_names() if name not in FOREIGN]


def variants(name: str) -> list[typing.Any]:
    """The default options, every other choice, and every number at its lower end."""
    cls = discover.load("hotloop.envs", name).Options
    found = [cls()]
    for f in fields(cls):
        kind = type_of(cls, f.name)
        others: list[typing.Any] = []
        if typing.get_origin(kind) is typing.Literal:
            others = [c for c in typing.get_args(kind) if c != f.default]
        elif kind is bool:
            others = [not f.default]
        elif kind in (int, float) and f.metadata.get("ge") not in (None, f.default):
            others = [kind(f.metadata["ge"])]
        found += [replace(cls(), **{f.name: value}) for value in others]
    return found


EMULATED: dict[str, list[dict[str, typing.Any]]] = {  # with episodes that are short enough to end here
    "atari": [{"game": g, "frame": 24, "max_frames": 80, "threads": 1} for g in ("pong", "breakout")],
    "mario": [{"processes": 1, "frame": 80, "stuck_env_steps": 12, "recorded_starts": p} for p in (0.0, 0.5)],
}
CASES = [pytest.param(name, o, id=f"{name}-{i}") for name in NATIVE for i, o in enumerate(variants(name))] + [
    pytest.param(name, discover.load("hotloop.envs", name).Options(**o), id=f"{name}-{i}")
    for name, options in EMULATED.items()
    for i, o in enumerate(options)
]
ONE_GAME = {"mario"}  # which begins with the same level, whatever the seed
LONGEST = 30_000  # env steps within which some episode ends, whatever the options
every_world = pytest.mark.parametrize(("name", "options"), CASES)


def make(name, options, lanes, first_lane=0):
    try:
        return discover.load("hotloop.envs", name).make(options, lanes, first_lane)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    except UserError as refused:
        if "needs a ROM" not in str(refused):
            raise
        pytest.skip(str(refused))


def brief(name: str, native: int, emulated: int) -> int:
    """So many steps or lanes: emulators are a thousand times slower than kernels."""
    return emulated if name in EMULATED else native


def legal(draws: np.ndarray, out: Steps, num_actions: int) -> np.ndarray:
    """draws [N] → the draw-th legal action of each lane."""
    if out.mask is None:
        return (draws % num_actions).astype(np.int32)
    wanted = draws % out.mask.sum(axis=1)
    return (out.mask.cumsum(axis=1) > wanted[:, None]).argmax(axis=1).astype(np.int32)


def draws(steps: int, lanes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 30, (steps, lanes))


def written(out: Steps, lanes: slice = slice(None)) -> bytes:
    """All that a step means, as bytes: what is meaningful only in lanes that ended counts only there."""
    ended = out.terminated[lanes] | out.truncated[lanes]
    arrays = [out.reward[lanes], out.terminated[lanes], out.truncated[lanes], out.measures[lanes][ended]]
    for part in out.obs:
        arrays += [out.obs[part][lanes], out.final_obs[part][lanes][ended]]
    if out.mask is not None and out.final_mask is not None:
        arrays += [out.mask[lanes], out.final_mask[lanes][ended]]
    return b"".join(a.tobytes() for a in arrays)


def first(out: Steps, lanes: slice = slice(None)) -> bytes:
    masks = [] if out.mask is None else [out.mask[lanes].tobytes()]
    return b"".join([a[lanes].tobytes() for a in out.obs.values()] + masks)


def all_arrays(out: Steps) -> list[np.ndarray]:
    plain = [out.reward, out.terminated, out.truncated, out.measures, *out.obs.values(), *out.final_obs.values()]
    return plain + [m for m in (out.mask, out.final_mask) if m is not None]


def play(env, out: Steps, rolls: np.ndarray, lanes: slice = slice(None)) -> list[bytes]:
    history = []
    for roll in rolls:
        env.step(legal(roll, out, env.spec.num_actions), out)
        history.append(written(out, lanes))
    return history


@every_world
def test_a_hundred_thousand_steps_are_sound(name, options):
    lanes = brief(name, 100, 4)
    env = make(name, options, lanes)
    out = new_steps(env.spec, lanes)
    world = discover.load("hotloop.envs", name)
    limits = world.bounds(options) if hasattr(world, "bounds") else {}
    assert env.spec == world.spec(options) and env.spec.name.partition("/")[0] == name and env.lanes == lanes
    env.reset(1, out)
    ends = 0
    for roll in draws(brief(name, 1000, 60), lanes):
        env.step(legal(roll, out, env.spec.num_actions), out)
        ended = out.terminated | out.truncated
        ends += ended.sum()
        assert not (out.terminated & out.truncated).any()
        assert np.isfinite(out.reward).all() and np.isfinite(out.measures[ended]).all()
        for field in env.spec.observation:
            low, high = limits.get(field.name, (-np.inf, np.inf))
            for seen in (out.obs[field.name], out.final_obs[field.name][ended]):
                assert np.isfinite(seen).all() and (seen >= low).all() and (seen <= high).all()
        if out.mask is not None:
            assert out.mask.any(axis=1).all()
    assert isinstance(env.render(3), str) and env.render(3)
    env.close()
    env.close()
    if not ends:  # one lane of a world of long episodes
        env, out = make(name, options, 1), new_steps(env.spec, 1)
        env.reset(1, out)
        for roll in draws(LONGEST, 1):
            env.step(legal(roll, out, env.spec.num_actions), out)
            ends += (out.terminated | out.truncated).sum()
            if ends:
                break
    assert ends > 0


@every_world
def test_writes_everything_and_only_where_told(name, options):
    """Twins write into memory filled with 0x00 and with 0xff, with guard rows before and after; one of them gets new
    arrays at each step. What is equal in both was written, what is not equal was not."""
    lanes = brief(name, 6, 2)
    twins = [make(name, options, lanes) for _ in range(2)]

    def guarded(byte: int) -> tuple[Steps, list[np.ndarray]]:
        spec = twins[0].spec
        wide = new_steps(spec, lanes + 2)
        for array in all_arrays(wide):
            array.view(np.uint8)[...] = byte
        return (
            Steps(
                obs={part: a[1:-1] for part, a in wide.obs.items()},
                reward=wide.reward[1:-1],
                terminated=wide.terminated[1:-1],
                truncated=wide.truncated[1:-1],
                final_obs={part: a[1:-1] for part, a in wide.final_obs.items()},
                measures=wide.measures[1:-1],
                mask=None if wide.mask is None else wide.mask[1:-1],
                final_mask=None if wide.final_mask is None else wide.final_mask[1:-1],
            ),
            all_arrays(wide),
        )

    zero, wide_zero = guarded(0x00)
    ones, wide_ones = guarded(0xFF)
    twins[0].reset(3, zero)
    twins[1].reset(3, ones)
    assert first(zero) == first(ones)
    for out, byte in ((zero, 0x00), (ones, 0xFF)):  # reset writes nothing but obs and mask
        for array in (out.reward, out.terminated, out.truncated, out.measures, *out.final_obs.values()):
            assert (array.view(np.uint8) == byte).all()
    for roll in draws(brief(name, 120, 40), lanes):
        action = legal(roll, zero, twins[0].spec.num_actions)
        given = action.copy()
        zero, wide_zero = guarded(0x00)
        twins[0].step(action, zero)
        twins[1].step(action, ones)
        assert written(zero) == written(ones)
        assert (action == given).all()
        for arrays, byte in ((wide_zero, 0x00), (wide_ones, 0xFF)):
            for array in arrays:
                assert (array[[0, -1]].view(np.uint8) == byte).all()
        for array in all_arrays(ones):
            array.view(np.uint8)[...] = 0xFF


@every_world
def test_a_seed_is_a_game(name, options):
    lanes = brief(name, 8, 2)
    one, two = make(name, options, lanes), make(name, options, lanes)
    out, again = new_steps(one.spec, lanes), new_steps(two.spec, lanes)
    rolls = draws(brief(name, 150, 50), lanes)
    one.reset(11, out)
    two.reset(12, again)
    play(two, again, rolls[:40])
    one_state = one.state()
    two.reset(11, again)  # reset restores the world byte for byte
    assert all((one_state[k] == v).all() for k, v in two.state().items())
    assert first(out) == first(again)
    same = play(one, out, rolls)
    assert same == play(two, again, rolls)
    if name not in ONE_GAME:
        two.reset(12, again)
        assert same != play(two, again, rolls)


@every_world
def test_a_lane_does_not_know_the_others(name, options):
    sizes = brief(name, 256, 5), brief(name, 8, 4), brief(name, 5, 1)
    many, few, shifted = (make(name, options, n, first) for n, first in zip(sizes, (0, 0, 3), strict=True))
    rolls = draws(brief(name, 80, 40), sizes[0])
    outs = [new_steps(many.spec, env.lanes) for env in (many, few, shifted)]
    for env, out in zip((many, few, shifted), outs, strict=True):
        env.reset(7, out)
    third = slice(3, 4)
    assert first(outs[0], third) == first(outs[1], third) == first(outs[2], slice(0, 1))
    wanted = play(many, outs[0], rolls, third)
    assert wanted == play(few, outs[1], rolls[:, : sizes[1]], third)
    assert wanted == play(shifted, outs[2], rolls[:, 3 : 3 + sizes[2]], slice(0, 1))


@every_world
def test_lanes_play_different_games(name, options):
    if name in ONE_GAME:
        return
    lanes = brief(name, 64, 4)
    env = make(name, options, lanes)
    out = new_steps(env.spec, lanes)
    env.reset(0, out)
    games: list[list[bytes]] = [[] for _ in range(lanes)]
    for roll in np.repeat(draws(40, 1), lanes, axis=1):
        env.step(legal(roll, out, env.spec.num_actions), out)
        for lane, game in enumerate(games):
            game.append(first(out, slice(lane, lane + 1)))
    assert len({b"".join(game) for game in games}) > lanes // 8


@every_world
def test_state_continues_bit_for_bit(name, options):
    lanes, steps = brief(name, 9, 2), brief(name, 80, 40)
    env = make(name, options, lanes)
    if not env.spec.exact:
        assert env.state() == {}
        return
    out = new_steps(env.spec, lanes)
    rolls = draws(2 * steps, lanes)
    env.reset(5, out)
    play(env, out, rolls[:steps])
    saved = env.state()
    bytes_then = {k: v.tobytes() for k, v in saved.items()}
    mask = None if out.mask is None else out.mask.copy()
    wanted = play(env, out, rolls[steps:])
    assert {k: v.tobytes() for k, v in saved.items()} == bytes_then  # a snapshot, not a window
    other = make(name, options, lanes)
    for fresh in (env, other):
        target = new_steps(env.spec, lanes)
        fresh.reset(99, target)
        fresh.set_state(saved)
        if mask is not None and target.mask is not None:
            target.mask[...] = mask
        assert play(fresh, target, rolls[steps:]) == wanted
    assert {k: v.tobytes() for k, v in saved.items()} == bytes_then


@every_world
def test_a_foreign_state_is_refused(name, options):
    env, wider = make(name, options, 2), make(name, options, 3)
    if not env.spec.exact:
        return
    out = new_steps(env.spec, 2)
    env.reset(0, out)
    before = env.state()
    with pytest.raises(UserError, match="lanes"):
        env.set_state(wider.state())
    with pytest.raises(UserError, match="missing"):
        env.set_state({})
    assert all((before[k] == v).all() for k, v in env.state().items())


@every_world
def test_heuristic_plays_legal_actions(name, options):
    world = discover.load("hotloop.envs", name)
    if not hasattr(world, "heuristic"):
        return
    env = make(name, options, 16)
    try:
        policy = world.heuristic(options, env)
    except UserError as refused:
        assert "\n" not in str(refused)
        return
    out = new_steps(env.spec, 16)
    env.reset(0, out)
    for _ in range(60):
        action = policy(out.obs, out.mask)
        assert action.shape == (16,) and action.dtype == np.int32
        assert (action >= 0).all() and (action < env.spec.num_actions).all()
        if out.mask is not None:
            assert out.mask[np.arange(16), action].all()
        env.step(action, out)


@pytest.mark.parametrize("name", NATIVE)
def test_no_lanes_is_refused(name):
    options = variants(name)[0]
    make(name, options, 1)
    with pytest.raises(UserError, match="lanes"):
        discover.load("hotloop.envs", name).make(options, 0)


def fingerprint(name: str) -> str:
    digest = hashlib.sha256()
    for options in variants(name):
        env = make(name, options, 3)
        out = new_steps(env.spec, 3)
        env.reset(21, out)
        digest.update(first(out))
        digest.update(b"".join(play(env, out, draws(150, 3))))
    return digest.hexdigest()


@pytest.mark.parametrize("name", NATIVE)
def test_jitted_equals_plain_python(name):
    make(name, variants(name)[0], 1)  # skips where an extra is missing
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, name],  # plain uint64 products warn where they wrap, as they must
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == fingerprint(name)


if __name__ == "__main__":
    sys.stdout.write(fingerprint(sys.argv[1]))
