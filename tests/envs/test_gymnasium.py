"""Any Gymnasium environment as lanes: equal to a plain loop over single environments, and exact about how episodes
end."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from hotloop.core import schema
from hotloop.core.errors import UserError
from hotloop.core.options import from_dict, to_dict
from hotloop.core.schema import new_steps
from hotloop.core.types import Steps
from hotloop.envs.gymnasium import Options, lane_seed, make, spec
from tests.references import gym_envs
from tests.references.gym_envs import HERE, SPACES, factory, sync


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch):
    """What is not written must not look right."""
    monkeypatch.setattr(schema, "POISON", True)


def copied(out: Steps) -> dict[str, Any]:
    """A batched step, without what means nothing: final values of lanes that did not end."""
    ended = out.terminated | out.truncated
    flat = {f"obs {k}": v.copy() for k, v in out.obs.items()}
    flat |= {f"final {k}": np.where(ended.reshape(-1, *[1] * (v.ndim - 1)), v, 0) for k, v in out.final_obs.items()}
    flat |= {"reward": out.reward.copy(), "terminated": out.terminated.copy(), "truncated": out.truncated.copy()}
    if out.mask is not None:
        flat["mask"] = out.mask.copy()
    if out.final_mask is not None:
        flat["final mask"] = out.final_mask & ended[:, None]
    return flat


def chosen(draws: np.ndarray, out: Steps, num_actions: int) -> np.ndarray:
    """The draw-th legal action of each lane."""
    if out.mask is None:
        return (draws % num_actions).astype(np.int32)
    wanted = draws % out.mask.sum(axis=1)
    return (out.mask.cumsum(axis=1) > wanted[:, None]).argmax(axis=1).astype(np.int32)


def play(options: Options, lanes: int, steps: int, seed: int = 7, first_lane: int = 0, of: int = 0) -> list[dict]:
    """Play at random; draws are made for `of` lanes, so that a part of them can be played alone."""
    env = make(options, lanes, first_lane)
    out = new_steps(env.spec, lanes)
    env.reset(seed, out)
    out.reward[:] = out.terminated[:] = out.truncated[:] = 0
    rows = [copied(out)]
    for draws in np.random.default_rng(0).integers(1 << 20, size=(steps, of or lanes)):
        env.step(chosen(draws[first_lane : first_lane + lanes], out, env.spec.num_actions), out)
        rows.append(copied(out))
    env.close()
    return rows


def assert_same(a: list[dict], b: list[dict], lanes: slice = slice(None)) -> None:
    for step, (x, y) in enumerate(zip(a, b, strict=True)):
        assert x.keys() == y.keys()
        for key in x:
            np.testing.assert_array_equal(x[key][lanes], y[key], err_msg=f"{key} at step {step}")


def flat(space: Any, obs: Any) -> np.ndarray:
    """An observation as one vector, its pictures in the order of channels, rows, columns."""
    if isinstance(space, spaces.Dict):
        return np.concatenate([flat(s, obs[k]) for k, s in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return np.concatenate([flat(s, o) for s, o in zip(space.spaces, obs, strict=True)])
    picture = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3
    if picture and space.shape[-1] in (1, 3, 4):
        obs = np.moveaxis(obs, -1, 0)
    return spaces.flatten(space, obs).astype(np.float32)


def assert_equals_a_plain_loop(options: Options, lanes: int, steps: int, seed: int = 7) -> dict[str, int]:
    """Play lanes beside single environments stepped in the plainest way. Returns how often episodes ended, and how."""
    env = make(options, lanes)
    out = new_steps(env.spec, lanes)
    factory = getattr(gym_envs, options.factory.partition(":")[2] or "Sampled")
    plain: Any = [gymnasium.make(options.id) if options.id else factory(**options.kwargs) for _ in range(lanes)]
    counts = {"terminated": 0, "truncated": 0}

    def holds(parts: Any, lane: int, obs: Any) -> None:
        stored = np.concatenate([array[lane].ravel().astype(np.float32) for array in parts.values()])
        np.testing.assert_array_equal(stored, flat(plain[lane].observation_space, obs))

    env.reset(seed, out)
    for lane, one in enumerate(plain):
        obs, info = one.reset(seed=lane_seed(seed, lane))
        holds(out.obs, lane, obs)
    for draws in np.random.default_rng(1).integers(1 << 20, size=(steps, lanes)):
        acts = chosen(draws, out, env.spec.num_actions)
        env.step(acts, out)
        for lane, one in enumerate(plain):
            start = getattr(one.action_space, "start", 0)
            obs, reward, terminated, truncated, info = one.step(np.int64(acts[lane]) + start)
            assert out.reward[lane] == np.float32(reward)
            assert (out.terminated[lane], out.truncated[lane]) == (terminated, truncated and not terminated)
            if terminated or truncated:
                counts["terminated" if terminated else "truncated"] += 1
                holds(out.final_obs, lane, obs)
                obs, info = one.reset()
            holds(out.obs, lane, obs)
            if out.mask is not None:
                np.testing.assert_array_equal(out.mask[lane], info["action_mask"].astype(bool))
    env.close()
    for one in plain:
        one.close()
    return counts


# --- equal to a plain loop -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", SPACES)
def test_lanes_are_single_environments_whatever_they_observe(space):
    counts = assert_equals_a_plain_loop(factory("Sampled", space=space), lanes=3, steps=40)
    assert min(counts.values()) > 3


@pytest.mark.parametrize("id", ["CartPole-v1", "Blackjack-v1", "Taxi-v4", "FrozenLake-v1", "CliffWalking-v1"])
def test_ten_thousand_steps_of_gymnasiums_own(id):
    counts = assert_equals_a_plain_loop(Options(id=id), lanes=5, steps=2000)
    assert sum(counts.values()) > 0


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("autoreset", ["SAME_STEP", "NEXT_STEP", "DISABLED"])
def test_the_vector_form_equals_the_own_form(space, autoreset):
    own, vector = factory("Sampled", space=space), sync("Sampled", autoreset, space=space)
    assert_same(play(own, 3, 30), play(vector, 3, 30))


@pytest.mark.parametrize("options", [Options(id="CartPole-v1"), Options(id="Taxi-v4"), Options(id="Blackjack-v1")])
def test_the_vector_form_equals_the_own_form_on_gymnasiums_own(options):
    vector = Options(id=options.id, kwargs={"vectorization_mode": "sync"}, vector="gymnasium")
    own = play(options, 3, 300)
    assert_same(own, play(vector, 3, 300))
    assert sum(row["terminated"].sum() + row["truncated"].sum() for row in own) > 2


@pytest.mark.parametrize("vector", ["own", "gymnasium"])
def test_a_lane_plays_the_same_game_whatever_the_number_of_lanes(vector):
    options = Options(id="CartPole-v1", vector=vector, kwargs={"vectorization_mode": "sync"} if vector != "own" else {})
    whole = play(options, 6, 80, of=6)
    assert_same(whole, play(options, 2, 80, first_lane=3, of=6), slice(3, 5))


def test_lanes_and_seeds_differ_and_a_seed_repeats():
    options = factory("Sampled")
    a, b, c = play(options, 2, 3, seed=1), play(options, 2, 3, seed=1), play(options, 2, 3, seed=2)
    assert_same(a, b)
    assert (a[0]["obs obs"][0] != a[0]["obs obs"][1]).all()
    assert (a[0]["obs obs"] != c[0]["obs obs"]).all()
    assert all(0 <= lane_seed(s, i) < 2**31 for s in (0, 5, 2**40) for i in range(20))


def test_later_resets_go_on_from_the_lanes_own_generator():
    (first, *rest) = play(factory("Sampled"), 1, 30)
    starts = [r["obs obs"].tobytes() for r in rest if (r["terminated"] | r["truncated"]).any()]
    assert len(starts) > 3 and len({first["obs obs"].tobytes(), *starts}) == len(starts) + 1


# --- how episodes end ------------------------------------------------------------------------------------------------


def corridor(vector: str, **kwargs: Any) -> Options:
    if vector == "own":
        return Options(id=f"{HERE}:HotloopCorridor-v0", **kwargs)
    kwargs["kwargs"] = {**kwargs.get("kwargs", {}), "vectorization_mode": "sync"}
    return Options(id=f"{HERE}:HotloopCorridor-v0", vector="gymnasium", **kwargs)


@pytest.mark.parametrize("vector", ["own", "gymnasium"])
@pytest.mark.parametrize(("limit", "rules"), [(0, True), (3, False), (5, True)])
def test_a_cut_is_no_end_and_an_end_is_no_cut(vector, limit, rules):
    """Episodes of 5 steps; a limit of 5 meets the end by the rules, which then counts."""
    rows = play(corridor(vector, max_episode_steps=limit), 2, 5)
    last = limit or 5
    for at, row in enumerate(rows[1:], 1):
        now = at == last
        assert row["terminated"].tolist() == [now and rules] * 2
        assert row["truncated"].tolist() == [now and not rules] * 2
        assert row["final obs"].tolist() == [[1, at] if now else [0, 0]] * 2
        assert row["obs obs"].tolist() == [[2, at - last] if at >= last else [1, at]] * 2


def test_a_limit_and_wrappers_are_put_on_what_a_factory_gives():
    rows = play(factory("Corridor", max_episode_steps=2, wrappers=(f"{HERE}:Negated",)), 1, 2)
    assert rows[2]["truncated"].all()
    assert rows[2]["final obs"].tolist() == [[-1, -2]]
    assert rows[2]["obs obs"].tolist() == [[-2, 0]]
    by_id = play(corridor("gymnasium", wrappers=(f"{HERE}:Negated",)), 1, 2)
    assert by_id[2]["obs obs"].tolist() == [[-1, -2]]


@pytest.mark.parametrize("masks", [False, True])
def test_a_native_vector_form_gives_its_last_observations_as_one_batch(masks):
    options = Options(id=f"{HERE}:HotloopNative-v0", vector="gymnasium", kwargs={"masks": masks})
    assert spec(options).masked is masks
    rows = play(options, 3, 12)
    for at, row in enumerate(rows[1:], 1):
        for lane in range(3):
            length = lane + 2
            ended = at % length == 0
            assert row["obs at"][lane] == at % length
            assert row["final at"][lane] == (length if ended else 0)
            assert row["terminated"][lane] == (ended and lane != 1)
            assert row["truncated"][lane] == (ended and lane == 1)
            if masks:
                assert row["mask"][lane].tolist() == [at % length % 2 == 0, True]
                final = [[False, False], [True, True], [length % 2 == 0, True]][ended + (ended and lane == 1)]
                assert row["final mask"][lane].tolist() == final


@pytest.mark.parametrize("form", ["own", "id", "SAME_STEP"])
def test_an_array_used_again_by_the_environment_spoils_nothing(form):
    """Its end is the third step, its reset writes 0 into the array that the end was given in."""
    options = {
        "own": factory("Hostile", fault="reused"),
        "id": Options(
            id=f"{HERE}:HotloopHostile-v0",
            kwargs={"fault": "reused", "vectorization_mode": "sync"},
            vector="gymnasium",
        ),
        "SAME_STEP": sync("Hostile", "DISABLED", fault="reused"),
    }[form]
    rows = play(options, 2, 4)
    assert [row["obs obs"][0, 0] for row in rows] == [0, 1, 2, 0, 1]
    assert rows[3]["final obs"].tolist() == [[3, 3, 3]] * 2


# --- actions and masks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["discrete", "multidiscrete", "grid", "multibinary"])
@pytest.mark.parametrize("vector", ["own", "gymnasium"])
def test_every_action_arrives_as_the_environment_says_it(kind, vector):
    options = factory("Echo", kind=kind) if vector == "own" else sync("Echo", kind=kind)
    env = make(options, 2)
    space: Any = gym_envs.Echo(kind).action_space
    out = new_steps(env.spec, 2)
    env.reset(0, out)
    seen = []
    for _ in range(2):  # twice, since the environment spoils the action it was given
        for action in range(env.spec.num_actions):
            env.step(np.array([action, 0], np.int32), out)
            seen.append(out.obs["obs"][0].copy())
    half = env.spec.num_actions
    assert len({s.tobytes() for s in seen}) == half
    np.testing.assert_array_equal(seen[:half], seen[half:])
    for said in seen:
        assert space.contains(said.reshape(space.shape).astype(space.dtype) if space.shape else np.int64(said[0]))
    ranks = [tuple(s.ravel()) for s in seen[:half]]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("options", [
    factory("Masked"), factory("Masked", fault="list"), sync("Masked"), sync("Masked", "SAME_STEP"),
    sync("Masked", "NEXT_STEP"), sync("Masked", fault="list"),
])  # fmt: skip
def test_masks_are_those_of_the_state_they_stand_beside(options):
    """`Masked` raises on an illegal action, so playing on is already a proof."""
    assert spec(options).masked
    cut = 0
    for row in play(options, 3, 60)[1:]:
        for lane in range(3):
            at = int(row["obs obs"][lane].argmax())
            assert row["mask"][lane].tolist() == [a != at % 4 for a in range(4)]
            if row["terminated"][lane]:
                assert row["final mask"][lane].all()
            if row["truncated"][lane]:
                cut += 1
                last = int(row["final obs"][lane].argmax())
                assert row["final mask"][lane].tolist() == [a != last % 4 for a in range(4)]
    assert cut > 10


def test_masks_outlive_a_time_limit():
    for vector, extra in (("own", {}), ("gymnasium", {"vectorization_mode": "sync"})):
        options = Options(id=f"{HERE}:HotloopMasked-v0", vector=vector, kwargs=extra)
        ends = [row for row in play(options, 2, 20) if row["truncated"].any()]
        assert all((row["final mask"].sum(axis=1)[row["truncated"]] == 3).all() for row in ends) and len(ends) > 3


# --- the rest of the protocol ----------------------------------------------------------------------------------------


def test_the_spec_of_lanes_and_of_vectors():
    for options in (
        Options(id="CartPole-v1"),
        Options(id="CartPole-v1", vector="gymnasium", kwargs={"vectorization_mode": "sync"}),
    ):
        found = spec(options)
        assert (found.name, found.num_actions, found.masked, found.exact) == ("CartPole-v1", 2, False, False)
        assert [(f.name, f.shape, f.dtype, f.stack, f.scale) for f in found.observation] == [
            ("obs", (4,), "float32", 1, 1)
        ]


def test_frames_are_written_one_by_one():
    stacked = factory("Sampled", space="grey", frame_stack=4)
    (field,) = spec(stacked).observation
    assert (field.shape, field.seen, field.stack) == ((6, 5), (4, 6, 5), 4)
    single = play(factory("Sampled", space="grey"), 2, 5)
    for a, b in zip(play(stacked, 2, 5), single, strict=True):
        np.testing.assert_array_equal(a["obs obs"], b["obs obs"][:, 0])


def test_a_state_is_neither_given_nor_taken():
    env = make(factory("Corridor"), 1)
    assert env.state() == {}
    env.set_state({})
    with pytest.raises(UserError, match="reset it"):
        env.set_state({"x": np.zeros(1)})
    for options in (factory("Corridor"), sync("Corridor")):
        env = make(options, 1)
        with pytest.raises(UserError, match="before its first reset"):
            env.step(np.zeros(1, np.int32), new_steps(env.spec, 1))


def test_text_comes_from_the_environment_or_is_its_observation():
    lake = make(Options(id="FrozenLake-v1"), 2)
    out = new_steps(lake.spec, 2)
    lake.reset(0, out)
    assert "FFHF" in "".join(c for c in lake.render(1) if c.isalpha())
    for options in (factory("Sampled", space="tuple"), sync("Sampled", space="tuple")):
        env = make(options, 2, first_lane=5)
        env.reset(0, new_steps(env.spec, 2))
        text = env.render(1)
        assert "lane 6: (" in text and "\n" not in text


def test_nothing_of_a_step_is_kept():
    """Two sets of arrays in turn, as a collector uses them, hold what one set would."""
    env = make(factory("Sampled"), 2)
    out = [new_steps(env.spec, 2), new_steps(env.spec, 2)]
    env.reset(7, out[0])
    rows = play(factory("Sampled"), 2, 20)
    for at, draws in enumerate(np.random.default_rng(0).integers(1 << 20, size=(20, 2)), 1):
        schema.poison(out[(at - 1) % 2].obs["obs"])
        env.step((draws % 3).astype(np.int32), out[at % 2])
        np.testing.assert_array_equal(out[at % 2].obs["obs"], rows[at]["obs obs"])


def test_options_survive_the_way_through_a_file():
    options = Options(id="X-v0", kwargs={"a": {"b": 1}}, wrappers=("m:W",), frame_stack=2, vector="gymnasium")
    assert from_dict(Options, to_dict(options)) == options
    assert from_dict(Options, {}) == Options()
    for key, value in (("frame_stack", 0), ("max_episode_steps", -1), ("vector", "ours"), ("kwargs", 3)):
        with pytest.raises(UserError, match=f"env.{key}"):
            from_dict(Options, {key: value}, "env.")
