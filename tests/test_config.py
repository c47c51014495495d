"""Layers → one config in which every value is checked and written out; cycles that pay for whole updates, or the
nearest that does."""

from __future__ import annotations

import copy
import re
from typing import Any

import gymnasium
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hotloop import presets
from hotloop.api import configure
from hotloop.config import LONGEST_CYCLE, TrainConfig, cycle_of, learning_from, resolve
from hotloop.core import discover, toml
from hotloop.core.errors import UserError
from hotloop.core.options import to_dict
from hotloop.envs._world import own_names

PRESETS = [(w, p) for w in (*own_names(), "CartPole-v1") for p in presets.presets_of(w)]


def fails(*layers: Any) -> str:
    with pytest.raises(UserError) as error:
        resolve(*layers)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workload", "preset"), PRESETS)
def test_every_preset_resolves_and_survives_its_toml(workload, preset):
    config = configure(workload, preset)
    text = toml.dumps(to_dict(config))
    again = resolve(toml.loads(text))
    assert again == config and toml.dumps(to_dict(again)) == text
    assert config.workload == workload


def test_every_file_of_presets_is_of_a_world_or_for_all():
    worlds = {*own_names(), *map(presets.file_of, gymnasium.registry), presets.ANY}
    games = {n for n in discover.names("hotloop.presets") if n.startswith("atari_")}
    assert set(discover.names("hotloop.presets")) - games <= worlds
    for name in discover.names("hotloop.presets"):
        assert "default" in discover.load("hotloop.presets", name).PRESETS


def test_later_layers_win_value_by_value():
    preset = {"workload": "identity", "lanes": 8, "learner": {"batch_size": 32, "optimizer": {"learning_rate": 0.1}}}
    file = {"lanes": 16, "learner": {"gamma": 0.5, "optimizer": {"eps": 1e-5}}}
    flags = {"learner": {"batch_size": "64", "optimizer": {"learning_rate": "0.2"}}}
    config = resolve(preset, file, flags)
    assert (config.lanes, config.learner.batch_size, config.learner.gamma) == (16, 64, 0.5)
    assert (config.learner.optimizer.learning_rate, config.learner.optimizer.eps) == (0.2, 1e-5)


def test_layers_are_not_written_into():
    layers = [presets.preset("cartpole"), {"workload": "cartpole"}, {"learner": {"optimizer": {"learning_rate": 9.0}}}]
    before = copy.deepcopy(layers)
    resolve(*layers, {"learner": {"optimizer": {"eps": 1.0}}, "network": {"hidden": [1]}, "replay": {"capacity": 999}})
    assert layers == before


def test_a_part_that_is_renamed_starts_without_the_former_s_options():
    base = {
        "workload": "snake",
        "env": {"observation": "grid"},
        "network": {"name": "mlp", "hidden": [7], "head": "dueling"},
    }
    config = resolve(base, {"network": {"name": "nature_cnn"}})
    assert "hidden" not in config.network and config.network["head"] == "dueling"
    kept = resolve(base, {"network": {"name": "mlp", "layer_norm": True}}).network
    assert list(kept["hidden"]) == [7] and kept["layer_norm"] is True


def test_naming_the_optimizer_keeps_its_rate():
    # All optimizers share their options, so choosing one is no reason to forget them.
    config = configure("cartpole", "default", {"learner": {"optimizer": {"name": "rmsprop"}}})
    assert (config.learner.optimizer.name, config.learner.optimizer.learning_rate_end) == ("rmsprop", 0.0)


def test_the_resolved_config_says_everything():
    config = resolve({"workload": "snake"})
    assert config.env["size"] == 10 and config.network["activation"] == "relu" and config.variant["huber_delta"] == 1.0
    assert set(to_dict(config)) == set(TrainConfig.__dataclass_fields__)


def test_options_for_another_workload_are_refused():
    with pytest.raises(UserError, match="the options are for workload 'snake', not for 'cartpole'"):
        configure("cartpole", "default", {"workload": "snake"})


# --- what is refused -------------------------------------------------------------------------------------------------

IDENTITY = {"workload": "identity", "total_env_steps": 10_000, "replay": {"capacity": 1_000}}


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ({"workload": ""}, "no workload"),
        ({"workload": "idendity"}, "unknown workload 'idendity'; did you mean 'identity'?"),
        ({"lernar": 1}, "unknown option 'lernar'; did you mean 'learner'?"),
        ({"network": {"hiden": [3]}}, "unknown option 'network.hiden'; did you mean 'network.hidden'?"),
        ({"network": {"name": "mpl"}}, "unknown network 'mpl'; did you mean 'mlp'?"),
        ({"network": {"name": 5}}, "option network.name = 5: expected text"),
        ({"network": {"head": "duelling"}}, "option network.head = 'duelling': choose one of scalar, dueling"),
        ({"network": 5}, "option network is a group; got 5"),
        ({"variant": {"name": "dqnn"}}, "unknown variant 'dqnn'; did you mean 'dqn'?"),
        ({"variant": {"doubel": True}}, "unknown option 'variant.doubel'; did you mean 'variant.double'?"),
        ({"sampler": {"name": "unifrom"}}, "unknown sampler 'unifrom'; did you mean 'uniform'?"),
        ({"env": {"sice": 3}}, "unknown option 'env.sice'; did you mean 'env.size'?"),
        ({"env": {"size": 1}}, "option env.size = 1: must be at least 2"),
        ({"workers": -1}, "option workers = -1: must be at least 0"),
        ({"workers": 17}, "lanes = 16 cannot be shared equally by workers = 17; nearest: --workers 16, or --lanes 17"),
        ({"cycle_steps": 5_000}, "option cycle_steps = 5000: must be at most 4096"),
        (
            {"learner": {"batch_size": 1_001}, "samples_per_step": 1001},
            "learner.batch_size = 1001 is more than replay.capacity",
        ),
        ({"replay": {"n_step": 63}}, "replay.n_step = 63 is more than the 62 transitions a lane keeps"),
        ({"lanes": 500}, "does not fit replay.capacity = 1000; raise it, or lower --lanes"),
        ({"learning_starts_env_steps": 10_000}, "learning_starts_env_steps = 10000 leaves nothing of total_env_steps"),
        (
            {"total_env_steps": 64, "learning_starts_env_steps": 0},
            "learner.batch_size = 64 leaves nothing of total_env",
        ),
        (
            {"learner": {"optimizer": {"learning_rate": 0}}},
            "option learner.optimizer.learning_rate = 0.0: must be more",
        ),
        (
            {"learner": {"optimizer": {"weight_decay": 0.01}}},
            "learner.optimizer.weight_decay = 0.01 is for adamw, and learner.optimizer.name = adam; leave it out",
        ),
        (
            {"learner": {"batch_size": 100, "accumulate": 11}, "samples_per_step": 1100},
            "learner.batch_size = 100 × learner.accumulate = 11 is more than replay.capacity = 1000",
        ),
        (
            {
                "learner": {"accumulate": 3},
                "total_env_steps": 96,
                "learning_starts_env_steps": 0,
                "samples_per_step": 12,
            },
            "learner.batch_size = 64 × learner.accumulate = 3 leaves nothing of total_env_steps = 96",
        ),
        (
            {"learner": {"precision": "float16"}},
            "learner.precision = float16 needs a scaled loss and CUDA; on a CPU use bfloat16 or float32",
        ),
        (
            {"learner": {"precision": "bfloat16", "batch_size": 8}},
            "learner.batch_size = 8 is too small for learner.precision = bfloat16, which rounds products of 16 rows",
        ),
        ({"samples_per_step": 1e-9}, "not a whole number; nearest: --samples-per-step"),
        ({"seed": -1}, "option seed = -1: must be at least 0"),
        (
            {"explore": {"kind": "boltzmann", "lane_power": 7}},
            "explore.lane_power = 7 raises epsilon to powers, and explore.kind = boltzmann has none; leave one out",
        ),
        ({"explore": {"temperature_end": -1}}, "option explore.temperature_end = -1.0: must be at least 0"),
    ],
)
def test_refusals(layer, said):
    assert said in fails(IDENTITY, layer)


def test_what_toml_cannot_hold_is_refused_before_the_run():
    layer = {"workload": "CartPole-v1", "env": {"kwargs": {"f": print}}}
    assert "the config cannot be written down: TOML cannot hold builtin_function" in fails(layer)
    assert "cannot be written down" in fails({"workload": "CartPole-v1", "env": {"kwargs": {"name": "\ud800"}}})


# --- cycles ----------------------------------------------------------------------------------------------------------


def cycled(lanes: int, batch: int, samples: float, steps: int = 0, accumulate: int = 1) -> TrainConfig:
    learner = {"batch_size": batch, "accumulate": accumulate}
    return resolve(
        {"workload": "identity", "lanes": lanes, "samples_per_step": samples, "cycle_steps": steps, "learner": learner},
        {"total_env_steps": 10**15, "replay": {"capacity": 10**9}},
    )


@pytest.mark.parametrize(
    ("lanes", "batch", "samples", "steps", "cycle"),
    [
        (16, 64, 8.0, 0, (4, 8, 64)),
        (10, 128, 12.8, 10, (10, 10, 100)),
        (1, 32, 1.0, 0, (32, 1, 32)),
        (1, 3, 1 / 3, 0, (36, 4, 36)),
        (1, 3, 0.333333333333, 9, (9, 1, 9)),
        (256, 64, 2.0, 0, (4, 32, 1024)),
        (4, 1, 100.0, 0, (4, 1600, 16)),
    ],
)
def test_cycles(lanes, batch, samples, steps, cycle):
    found = cycle_of(cycled(lanes, batch, samples, steps))
    assert (found.steps, found.updates, found.env_steps) == cycle


def test_batches_that_are_accumulated_count_as_one_update():
    assert cycle_of(cycled(16, 16, 8.0, accumulate=4)) == cycle_of(cycled(16, 64, 8.0))


@settings(deadline=None)
@given(
    lanes=st.integers(1, 512),
    batch=st.integers(1, 1024),
    samples=st.floats(1e-4, 1e4) | st.sampled_from([0.25, 0.5, 1.0, 2.0, 8.0, 12.8]),
    steps=st.just(0) | st.integers(1, LONGEST_CYCLE),
)
def test_a_cycle_pays_for_whole_updates_or_the_error_says_what_would(lanes, batch, samples, steps):
    try:
        config = cycled(lanes, batch, samples, steps)
    except UserError as error:
        said = str(error)
        assert "\n" not in said
        needed = re.search(r"needs ([\d.e+-]+) updates of (\d+) per cycle of (\d+) × (\d+) env steps", said)
        assert needed, said
        per_cycle, size, cycle_steps, of_lanes = needed.groups()
        assert (int(size), int(of_lanes)) == (batch, lanes)
        assert float(per_cycle) == pytest.approx(int(cycle_steps) * lanes * samples / batch, rel=1e-5)
        nearest = re.search(r"nearest: --samples-per-step ([\d.e+-]+)", said)
        assert nearest
        cycled(lanes, batch, float(nearest[1]), steps)
        if other := re.search(r"--cycle-steps (\d+)", said):
            assert cycle_of(cycled(lanes, batch, samples, int(other[1]))).steps == int(other[1])
        # What is suggested differs from what was asked for by half an update per cycle at the most, where the
        # cycle's length was given, and by less where it was not.
        off = abs(float(nearest[1]) - samples) * (steps or LONGEST_CYCLE) * lanes / batch
        assert off <= 1 + 1e-6
        return
    cycle = cycle_of(config)
    assert cycle.env_steps == cycle.steps * lanes and 1 <= cycle.steps <= LONGEST_CYCLE and cycle.updates >= 1
    assert cycle.updates * batch == pytest.approx(cycle.env_steps * samples, rel=1e-8)
    assert not steps or cycle.steps == steps


@settings(deadline=None)
@given(
    st.integers(1, 64), st.integers(1, 64), st.integers(1, 8), st.integers(0, 3_000), st.integers(1, 5_000)
)  # fmt: skip
def test_learning_begins_where_it_is_said_to(lanes, batch, n_step, starts, budget):
    """Against a count of every cycle."""
    try:
        config = resolve(
            {
                "workload": "identity",
                "lanes": lanes,
                "learner": {"batch_size": batch},
                "samples_per_step": batch / lanes,
            },
            {"learning_starts_env_steps": starts, "total_env_steps": budget, "replay": {"n_step": n_step}},
        )
    except UserError as error:
        assume("leaves nothing" in str(error))
        config = None
    size = 4 * lanes if config is None else cycle_of(config).env_steps
    assume(config is not None or batch <= lanes * 8)
    learning = [
        at for at in range(0, budget, size) if at >= starts and max(0, at // lanes - n_step + 1) * lanes >= batch
    ]
    if config is not None:
        assert learning and learning[0] == learning_from(config)


# --- anything at all -------------------------------------------------------------------------------------------------

words = st.text(max_size=8) | st.sampled_from(
    ["mlp", "nature_cnn", "dqn", "dueling", "uniform", "none", "true", "1e9", "-3"]
)
numbers = st.integers() | st.floats() | st.sampled_from([0, 1, -1, 1e308, 5e-324, 2**63, 10**40])
leaves = st.none() | st.booleans() | numbers | words | st.dates()
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


def paths(options: Any, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in options.items():
        found.append((*prefix, key))
        if isinstance(value, dict):
            found += paths(value, (*prefix, key))
    return found


PATHS = paths(to_dict(resolve({"workload": "snake"})))


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(["snake", "identity", "cartpole", "CartPole-v1"]),
    st.lists(
        st.tuples(st.sampled_from(PATHS) | st.lists(words, min_size=1, max_size=3).map(tuple), anything), max_size=3
    ),
)
def test_any_options_resolve_or_are_a_user_error_of_one_line(workload, chosen):
    layers: list[dict[str, Any]] = []
    for path, value in chosen:
        layer: Any = value
        for key in reversed(path):
            layer = {key: layer}
        layers.append(layer)
    try:
        config = resolve({"workload": workload}, *layers)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert resolve(toml.loads(toml.dumps(to_dict(config)))) == config


def test_a_preset_may_be_called_with_the_name_of_its_world():
    assert presets.preset("snake", "snake_seed") is presets.preset("snake", "seed")
    assert presets.preset("LunarLander-v3", "lunar") is presets.preset("LunarLander-v3")
    with pytest.raises(UserError, match="unknown preset of cartpole 'snake_seed'"):
        presets.preset("cartpole", "snake_seed")
