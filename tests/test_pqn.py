"""Whole runs of PQN: equal for one seed, resumed exactly, with the samples per step that were declared; what it does
not go with is refused."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from hotloop import presets
from hotloop.collect.policies import Greedy
from hotloop.config import resolve
from hotloop.core.errors import UserError
from hotloop.pipeline import build_pipeline
from hotloop.trace import Trace
from tests import running

PQN = {
    "variant": {"name": "pqn", "trace_lambda": 0.8},
    "sampler": {"name": "newest"},
    "network": {"name": "mlp", "hidden": [16], "layer_norm": True},
    "samples_per_step": 3.0,
    "cycle_steps": 8,
    "learning_starts_env_steps": 0,
    "replay": {"capacity": 64, "n_step": 1, "truncated_share": 1.0},
    "learner": {"batch_size": 16, "target_every_updates": 0, "optimizer": {"learning_rate": 3e-3}},
}
SNAKE = {"env": {"size": 5}, "lanes": 8}


def pipeline(workload: str = "cartpole", **options):
    made = build_pipeline(running.config(workload, **{**PQN, **options}), Trace())
    made.collector.publish(made.learner.params)
    return made


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize(("workload", "options"), [("cartpole", {}), ("snake", SNAKE), ("CartPole-v1", {})])
def test_one_seed_one_result_and_every_transition_learnt_as_often_as_declared(tmp_path, workload, options, overlap):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        summary = running.train(tmp_path / name, workload, **{**PQN, **options, "seed": seed, "overlap": overlap})
        assert summary["samples_per_step"] == 3.0 and summary["updates"] > 0
    first, second, other = (running.outcome(tmp_path / name) for name in "abc")
    assert first == second and other[0] != first[0]


def test_the_capacity_of_the_replay_decides_nothing(tmp_path):
    for name, capacity in (("a", 64), ("b", 1_000)):
        options = {**PQN, **SNAKE, "replay": {**PQN["replay"], "capacity": capacity}}
        running.train(tmp_path / name, "snake", **options)
    assert running.outcome(tmp_path / "a")[0] == running.outcome(tmp_path / "b")[0]


@pytest.mark.parametrize("overlap", [True, False])
def test_killed_and_resumed_it_ends_the_same(tmp_path, overlap):
    options = {**PQN, **SNAKE, "overlap": overlap, "total_env_steps": 2_000, "checkpoint_every_env_steps": 192}
    running.train(tmp_path / "whole", "snake", **options)
    for at, workload in ((500, "snake"), (1_100, None)):
        process = running.killed(tmp_path / "killed", at, signal.SIGKILL, workload, **options)
        assert process.exitcode == -signal.SIGKILL
    running.resume(tmp_path / "killed")
    running.assert_same(tmp_path / "killed", tmp_path / "whole")


def test_compiled_runs_as_eager(tmp_path):
    """A few cycles, before rounding decides an action."""
    options = {**PQN, "total_env_steps": 160, "explore": {"start": 1.0, "end": 1.0}, "network": {"hidden": [16]}}
    weights = {}
    for compile in (False, True):
        summary = running.train(tmp_path / str(compile), "cartpole", **{**options, "compile": compile})
        assert summary["compiled"] is compile and summary["updates"] > 10
        weights[compile] = running.arrays(tmp_path / str(compile))["learner.params"]
    assert np.abs(weights[True] - weights[False]).max() < 2e-5


@pytest.mark.parametrize("overlap", [True, False])
def test_with_overlap_the_block_before_is_learnt_from_and_without_the_one_just_collected(overlap):
    p = pipeline("snake", **SNAKE, overlap=overlap)
    before = p.collector.next_block()
    p.commit(before)
    rewards = [before.reward.copy()]
    if not overlap:
        block = p.collector.next_block()
        p.commit(block)
        rewards.append(block.reward.copy())
    p.learner.params.fill_(0.0)  # all values are 0, and at λ = 0 the return is the reward
    p.returns._lambda = 0.0
    p.begin_updates()
    found = np.sort(p.learner.batch.reward.reshape(-1))
    assert np.array_equal(found, np.sort(np.tile(rewards[-1].reshape(-1), 3)))
    assert (p.learner.batch.discount == 0).all()
    p.close()


def test_the_returns_are_those_of_the_weights_as_they_stand_when_the_updates_begin():
    p = pipeline("snake", **SNAKE)
    p.commit(p.collector.next_block())
    first = p.begin_updates() and p.learner.batch.reward.copy()
    p.learner.params = p.learner.params * 1.5
    p.begin_updates()
    assert not np.array_equal(first, p.learner.batch.reward)
    values = Greedy(p.spec, p.forward, p.learner.params).values
    again = p.learner.batch.reward.copy()
    p.returns.fill(p._slots, values, p.learner.batch)
    assert np.array_equal(again, p.learner.batch.reward)
    p.close()


def test_a_world_that_cannot_give_its_state_goes_on_from_a_cut(tmp_path):
    options = {**PQN, "total_env_steps": 960, "checkpoint_every_env_steps": 96}
    running.killed(tmp_path / "run", 500, signal.SIGKILL, "CartPole-v1", **options)
    summary = running.resume(tmp_path / "run")
    assert summary["exact"] is False and summary["samples_per_step"] == 3.0


@pytest.mark.parametrize("overlap", [True, False])
def test_identity_is_solved(tmp_path, overlap):
    options = {**PQN, "overlap": overlap, "total_env_steps": 9_600, "log_every_env_steps": 0}
    assert running.train(tmp_path / "run", "identity", **options)["return_mean"] >= 9.5


def test_what_changes_the_block_changes_learning():
    from hotloop.doctor.own.experiments import lanes

    config, dqn = running.config("cartpole", **PQN), running.config("cartpole")
    assert config.learns_from_blocks and not dqn.learns_from_blocks
    assert {t.learning for t in lanes.trials(config, 2)} == {"changes learning"}
    assert {t.learning for t in lanes.trials(dqn, 2)} == {"same learning"}


def test_the_machine_is_not_tuned_by_another_block(monkeypatch):
    from hotloop.doctor.own import tune
    from hotloop.doctor.own.trial import NotTried

    asked = []
    monkeypatch.setattr(tune, "attempt", lambda c, s, trial, *rest: asked.append(trial) or NotTried(trial, "no"))
    monkeypatch.setattr(tune, "Side", lambda config: __import__("contextlib").nullcontext())
    for config, blocks in ((running.config("cartpole", **PQN), True), (running.config("cartpole"), False)):
        asked.clear()
        tune.tune(config, 2, 0.01, lambda text: None)
        assert asked and any({"lanes", "cycle_steps"} & set(t.change) for t in asked) is not blocks


# --- what does not go together ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": {"name": "uniform"}}, "sampler.name = 'newest', not 'uniform'; add --sampler newest"),
        ({"replay": {"n_step": 3}}, "replay.n_step = 1, not 3; add --replay.n-step 1"),
        ({"learner": {"target_every_updates": 50}}, "learner.target_every_updates = 0, not 50; add --learner.target-"),
        ({"sampler": {"name": "uniform"}, "replay": {"n_step": 2}}, "not 'uniform' and replay.n_step = 1, not 2"),
    ],
    ids=str,
)
def test_refused_with_both_options_and_the_way_out(options, message):
    with pytest.raises(UserError) as why:
        resolve(running.BASE, PQN, {"workload": "snake"}, options)
    text = str(why.value)
    assert text.startswith("variant.name = 'pqn' goes with ") and message in text and "\n" not in text


def test_prioritised_replay_is_refused():
    from hotloop.core import discover

    for name in discover.names("hotloop.replay.samplers"):
        if name != "newest":
            with pytest.raises(UserError, match=f"sampler.name = 'newest', not '{name}'"):
                resolve(PQN, {"workload": "snake", "sampler": {"name": name}})


def test_no_target_network_is_for_those_that_need_none():
    with pytest.raises(UserError, match=r"target_every_updates = 0 leaves variant.name = 'dqn' without the target"):
        resolve({"workload": "snake", "learner": {"target_every_updates": 0}})


@pytest.mark.parametrize("workload", ["cartpole", "snake", "LunarLander-v3"])
def test_presets(workload):
    pytest.importorskip("Box2D") if workload.startswith("Lunar") else None
    config = resolve(presets.preset(workload, "pqn"), {"workload": workload})
    assert config.variant["name"] == "pqn" and config.network["layer_norm"] is True
    assert config.replay.capacity == config.cycle_steps * config.lanes and config.replay.truncated_share == 1.0
