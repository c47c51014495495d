"""Gymnasium environments that break their contract are named with their place; what cannot be had is refused in one
line."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import gymnasium
import numpy as np
import pytest

from hotloop.core.errors import MissingExtra, UserError
from hotloop.core.schema import new_steps
from hotloop.envs.gymnasium import Options, lane_seed, make, spec
from tests.references.gym_envs import HERE, factory, sync

# --- environments that break their contract --------------------------------------------------------------------------


def provoke(options: Options) -> Any:
    """Lanes 2 and 3 of a hostile environment, up to the third step, where it breaks the rule."""
    env = make(options, 2, first_lane=2)
    out = new_steps(env.spec, 2)
    env.reset(9, out)
    for _ in range(3):
        env.step(np.array([0, 1], np.int32), out)
    return out


@pytest.mark.parametrize(
    ("fault", "image", "says"),
    [
        ("shape", False, r"shape \(1,\); its space says \(3,\)"),
        ("scalar", False, r"shape \(\); its space says \(3,\)"),
        ("text", False, "no number"),
        ("ragged", False, "ragged"),
        ("above", True, "outside 0 … 255"),
        ("below", True, "outside 0 … 255"),
        ("fraction", True, "fractions"),
        ("nan", True, "outside 0 … 255"),
        ("four", False, "step .observation, reward, terminated, truncated, info."),
        ("no info", False, "step .observation, reward, terminated, truncated, info."),
        ("reset returns one", False, "reset owes .observation, info."),
        ("reward none", False, "reward None is not a number"),
        ("reward text", False, "reward 1 is not a number"),
    ],
)
def test_what_breaks_the_contract_is_one_line_with_its_place(fault, image, says):
    with pytest.raises(UserError, match=says) as error:
        provoke(factory("Hostile", fault=fault, image=image))
    text = str(error.value)
    assert "\n" not in text and text.startswith(f"{HERE}:Hostile: ")
    assert f"lane 2, step 3, seed {lane_seed(9, 2)}" in text
    assert error.value.__suppress_context__


def test_a_vector_form_that_breaks_the_contract_is_named():
    """Gymnasium's own vector form notices first, with an error of its own."""
    with pytest.raises(ValueError) as error:
        provoke(sync("Hostile", fault="shape"))
    shown = "".join(traceback.format_exception(error.value))
    assert "one of lanes 2 … 3, step 3, run seed 9, actions [0, 1]" in shown


@pytest.mark.parametrize(
    ("options", "kind", "frame", "note"),
    [
        (factory("Hostile", fault="raises"), ZeroDivisionError, "deep", "lane 2, step 3, seed SEED, action 0"),
        (factory("Hostile", fault="reset raises"), LookupError, "reset", "lane 2, step 3, seed SEED, action 0"),
        (sync("Hostile", fault="raises"), ZeroDivisionError, "deep", "lanes 2 … 3, step 3, run seed 9, actions [0, 1]"),
    ],
)
def test_an_error_inside_an_environment_keeps_its_traceback_and_gets_a_place(options, kind, frame, note):
    with pytest.raises(kind) as error:
        provoke(options)
    (said,) = error.value.__notes__
    assert note.replace("SEED", str(lane_seed(9, 2))) in said
    assert traceback.extract_tb(error.value.__traceback__)[-1].name == frame


def test_nan_reaches_whoever_watches_for_it():
    assert np.isnan(provoke(factory("Hostile", fault="nan")).obs["obs"]).all()
    assert np.isnan(provoke(factory("Hostile", fault="reward nan")).reward).all()


@pytest.mark.parametrize(("fault", "image", "value"), [("list", False, 3), ("whole", True, 200)])
def test_what_can_be_stored_without_loss_is_taken(fault, image, value):
    assert (provoke(factory("Hostile", fault=fault, image=image)).obs["obs"] == value).all()


# --- masks that are wrong ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("nothing legal", "forbids every action"),
        ("nothing legal when cut", "forbids every action"),
        ("absent", "has no 'action_mask'"),
        ("shape", r"shape \(3,\); hotloop reads one flag per action: \(4,\)"),
        ("late", "had none at the first reset"),
    ],
)
@pytest.mark.parametrize("vector", ["own", "gymnasium"])
def test_a_wrong_mask_is_named(fault, says, vector):
    options = factory("Masked", fault=fault) if vector == "own" else sync("Masked", fault=fault)
    env = make(options, 1, first_lane=4)
    out = new_steps(env.spec, 1)
    with pytest.raises(UserError, match=says) as error:
        env.reset(3, out)
        for _ in range(6):
            at = int(out.obs["obs"][0].argmax())
            env.step(np.array([(at + 1) % 4], np.int32), out)
    name = "Masked" if vector == "own" else "sync_factory"
    assert str(error.value).startswith(f"{HERE}:{name}: ") and "\n" not in str(error.value)
    assert "lane 4, step" in str(error.value) or "lanes 4 … 4, step" in str(error.value)


# --- asking for what is not there ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(), "set either env.id"),
        (Options(id="CartPole-v1", factory="a:b"), "set either env.id"),
        (Options(id="CartPole-v2"), "did you mean 'CartPole-v1'"),
        (Options(id="Taxi-v3"), "did you mean 'Taxi-v4'"),
        (Options(id="no_such_module:X-v0"), "no module named 'no_such_module'"),
        (Options(id="Pendulum-v1"), r"Pendulum-v1 has continuous actions Box\(1,\); hotloop trains discrete actions: "),
        (Options(id="CartPole-v1", kwargs={"gravity": 1}), "env.kwargs = {'gravity': 1}"),
        (Options(id="CartPole-v1", frame_stack=4), "CartPole-v1: frame_stack = 4: there is no image"),
        (Options(id="CartPole-v1", wrappers=(f"{HERE}:Nope",)), "unknown name"),
        (
            Options(id="CartPole-v1", wrappers=("gymnasium.wrappers:TimeLimit",)),
            "wrapper 'gymnasium.wrappers:TimeLimit'",
        ),
        (Options(id="CartPole-v1", vector="gymnasium"), "NextStep.*vectorization_mode = 'sync' or env.vector = 'own'"),
        (Options(id="CartPole-v1", vector="gymnasium", wrappers=("a:b",)), "native vector form of CartPole-v1"),
        (Options(id=f"{HERE}:HotloopNative-v0"), "env.vector = 'gymnasium'"),
        (factory("nothing"), "gave NoneType, which is no gymnasium.Env"),
        (factory("nope"), "unknown name"),
        (factory("NativeCorridor"), "no gymnasium.Env; set env.vector = 'gymnasium'"),
        (factory("Corridor", length=4, vector="gymnasium"), "argument 'num_envs'"),
        (sync("Corridor", max_episode_steps=3), "max_episode_steps cannot be applied"),
        (sync("Corridor", wrappers=("a:b",)), "wrappers cannot be applied"),
        (factory("NativeCorridor", vector="gymnasium"), "autoreset NextStep"),
        (factory("uneven"), "lanes with different spaces"),
        (factory("collision"), "two parts of the observation would both be named 'a.b'"),
        (factory("Echo", kind="large"), "4160 joint actions"),
        (factory("Echo", kind="continuous"), "continuous actions"),
        (factory("Echo", kind="text"), "Text actions"),
        (factory("observing", space="empty box"), "is empty: Box"),
        (factory("observing", space="empty dict"), "is empty: a Dict"),
        (factory("observing", space="empty tuple"), "'a' is empty: a Tuple"),
        (factory("observing", space="sequence"), "'words' has Sequence space; hotloop reads Box, Discrete"),
        (factory("observing", space="text"), "Text space"),
        (factory("observing", space="graph"), "Graph space"),
    ],
)
def test_what_cannot_be_had_is_refused_in_one_line(options, says):
    with pytest.raises((UserError, TypeError), match=says) as error:
        make(options, 2)
    assert "\n" not in str(error.value)


EXTRAS = [("LunarLander-v3", "box2d", "Box2D"), ("ALE/Pong-v5", "atari", "ale_py")]


@pytest.mark.parametrize(("id", "extra", "module"), EXTRAS)
def test_a_missing_extra_says_what_to_type(id, extra, module, monkeypatch):
    for name in [n for n in sys.modules if n.startswith((f"{module}.", "gymnasium.envs.box2d"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # what the import system takes for a package that is not there
    monkeypatch.delitem(gymnasium.registry, "ALE/Pong-v5", raising=False)
    for vector in ("own", "gymnasium"):
        with pytest.raises(MissingExtra, match=rf'{id} needs an extra: pip install "hotloop\[{extra}\]"'):
            spec(Options(id=id, vector=vector))


@pytest.mark.parametrize(("id", "extra", "module"), EXTRAS)
def test_an_extra_that_is_there_brings_its_environments(id, extra, module):
    assert spec(Options(id=id)).num_actions > 0
