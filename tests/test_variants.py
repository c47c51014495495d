"""Whole runs of each variant: they learn, resume to the same bits, act and evaluate as they were trained, and say what
went wrong."""

from __future__ import annotations

import numpy as np
import pytest

import hotloop
from hotloop import presets
from hotloop.cli import main
from hotloop.core.discover import names
from hotloop.core.errors import UserError
from hotloop.run import RunFolder
from tests import running

# Every variant with every head, and what explores by itself without epsilon.
SETTINGS = {
    "munchausen": {"variant": {"name": "munchausen"}},
    "munchausen dueling": {"variant": {"name": "munchausen"}, "network": {"head": "dueling"}},
    "c51": {"variant": {"name": "c51"}},
    "c51 dueling noisy": {"variant": {"name": "c51", "double": True}, "network": {"head": "dueling", "noisy": True}},
    "qr_dqn dueling": {"variant": {"name": "qr_dqn", "quantiles": 11}, "network": {"head": "dueling"}},
    "qr_dqn noisy": {"variant": {"name": "qr_dqn", "double": True, "quantiles": 11}, "network": {"noisy": True}},
    "iqn": {"variant": {"name": "iqn"}},
    "iqn dueling noisy": {"variant": {"name": "iqn", "double": True}, "network": {"head": "dueling", "noisy": True}},
    "munchausen_iqn": {"variant": {"name": "munchausen_iqn"}},
    "dqn noisy": {"variant": {"name": "dqn"}, "network": {"noisy": True}},
}
NO_EPSILON = {"start": 0.0, "end": 0.0}


def options_of(setting: str) -> dict:
    return {**SETTINGS[setting], **({"explore": NO_EPSILON} if setting == "dqn noisy" else {})}


@pytest.mark.parametrize("setting", SETTINGS)
def test_identity_is_solved(tmp_path, setting):
    agent = hotloop.train("identity", run=tmp_path / "run", quiet=True, compile=False, seed=3, **options_of(setting))
    assert agent.summary["return_mean"] >= 9.9
    assert [agent.act(np.eye(4, dtype=np.float32)[k]) for k in range(4)] == [0, 1, 2, 3]
    values = agent.values(np.eye(4, dtype=np.float32))
    assert values.shape == (4, 4) and (values.argmax(1) == np.arange(4)).all()
    assert agent.evaluate(100).returns.mean() == agent.summary["return_mean"]


def test_every_variant_is_here():
    # dqn and pqn have files of their own
    assert {s.split()[0] for s in SETTINGS} | {"pqn"} == set(names("hotloop.learn.variants"))


@pytest.mark.parametrize("setting", ["munchausen", "c51 dueling noisy", "qr_dqn noisy", "iqn dueling noisy"])
def test_a_run_that_is_extended_ends_as_one_that_was_not(tmp_path, setting):
    options = {**options_of(setting), "learner": {**running.BASE["learner"], "optimizer": {"learning_rate": 3e-3}}}
    running.train(tmp_path / "long", "snake", total_env_steps=800, **options)
    running.train(tmp_path / "short", "snake", total_env_steps=400, **options)
    running.resume(tmp_path / "short", total_env_steps=800)
    running.assert_same(tmp_path / "long", tmp_path / "short")


def test_what_noisy_lanes_do_does_not_depend_on_how_many_there_are(tmp_path):
    """Before the first update nothing but the weights, the lane and the batched step decides."""
    played = []
    for lanes in (4, 8):
        made = running.config("cartpole", lanes=lanes, learning_starts_env_steps=800, **options_of("dqn noisy"))
        from hotloop.pipeline import build_pipeline
        from hotloop.trace import Trace

        pipeline = build_pipeline(made, Trace())
        pipeline.collector.publish(pipeline.learner.params)
        blocks = [pipeline.collector.next_block().action[:, :4].copy() for _ in range(6)]
        pipeline.close()
        played.append(np.concatenate(blocks))
    assert np.array_equal(*played) and 0 < played[0].mean() < 1


def test_the_same_in_processes_of_their_own(tmp_path):
    options = {**options_of("c51 dueling noisy"), "total_env_steps": 640}
    running.train(tmp_path / "here", "cartpole", **options)
    running.train(tmp_path / "there", "cartpole", workers=2, **options)
    here, there = (RunFolder.open(tmp_path / n).read_summary() for n in ("here", "there"))
    assert here["weights_sha256"] == there["weights_sha256"]


def test_rewards_beyond_the_atoms_are_counted_and_said_once(tmp_path):
    shown = running.Rows()
    options = {"variant": {"name": "c51", "v_min": -1.0, "v_max": 2.0}, "replay": {"capacity": 400, "n_step": 3}}
    running.train(tmp_path / "run", "cartpole", shown, **options)
    summary = shown.summary
    assert summary["rewards_outside"] == shown.rows[-1]["rewards_outside"] > 100
    (note,) = [n for n in shown.notes if "rewards" in n]
    assert note.startswith(f"{summary['rewards_outside']:,} of {summary['updates'] * 16:,} sampled rewards lay outside")
    assert "variant.v_min = -1 … variant.v_max = 2" in note and "\n" not in note
    shown = running.Rows()
    running.train(tmp_path / "wide", "cartpole", shown, **{**options, "variant": {"name": "c51", "v_max": 60.0}})
    assert shown.notes == [] and shown.summary["rewards_outside"] == 0
    shown = running.Rows()
    running.train(tmp_path / "dqn", "cartpole", shown)
    assert "rewards_outside" not in shown.summary


REFUSED = {
    "atoms": ({"variant": {"name": "c51", "atoms": 1}}, r"variant\.atoms = 1: must be at least 2"),
    "support": (
        {"variant": {"name": "c51", "v_min": 5.0, "v_max": 5.0}},
        r"variant\.v_min = 5\.0 must be less than variant\.v_max = 5\.0",
    ),
    "quantiles": ({"variant": {"name": "qr_dqn", "quantiles": 0}}, r"variant\.quantiles = 0: must be at least 1"),
    "noisy": ({"network": {"noisy": "perhaps"}}, r"network\.noisy = 'perhaps': expected true or false"),
    "sigma": ({"network": {"noisy_sigma": 0.0}}, r"network\.noisy_sigma = 0\.0: must be more than 0"),
    "head": ({"network": {"head": "duelling"}}, r"network\.head = 'duelling': choose one of scalar, dueling"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_before_anything_is_allocated(case):
    options, message = REFUSED[case]
    with pytest.raises(UserError, match=message) as refused:
        running.config("cartpole", **options)
    assert "\n" not in str(refused.value)


def test_help_lists_what_every_network_and_the_chosen_variant_have(capsys):
    with pytest.raises(SystemExit):
        main(["train", "cartpole", "--variant", "c51", "--help"])
    text = capsys.readouterr().out
    assert all(f"--{flag}" in text for flag in ("network.head", "network.noisy ", "variant.v-min", "variant.atoms"))


@pytest.mark.learn
@pytest.mark.parametrize("preset", ["munchausen", "c51", "qr_dqn", "iqn", "noisy", "dueling"])
def test_cartpole_is_learnt(tmp_path, preset):
    assert preset in presets.presets_of("cartpole")
    scores = []
    for seed in range(3):
        agent = hotloop.train("cartpole", preset=preset, run=tmp_path / str(seed), quiet=True, seed=seed)
        scores.append(agent.summary["return_mean"])
    assert sorted(scores)[1] >= 475, scores
