"""Whole runs with every sampler: equal for one seed, exact when resumed, and they learn."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import hotloop
from hotloop import checkpoint
from hotloop.core.discover import names
from hotloop.core.errors import UserError
from hotloop.replay.samplers._base import PACKAGE
from hotloop.run import RunFolder
from tests import running

SAMPLERS = names(PACKAGE)
each = pytest.mark.parametrize("name", SAMPLERS)


@each
@pytest.mark.parametrize("overlap", [True, False])
def test_two_runs_are_equal_and_one_that_is_resumed_too(tmp_path, name, overlap):
    options = {
        "overlap": overlap, "sampler": {"name": name}, "checkpoint_every_env_steps": 480, "keep_checkpoints": 3
    }  # fmt: skip
    for run in ("whole", "again"):
        running.train(tmp_path / run, "snake", **options)
    running.assert_same(tmp_path / "whole", tmp_path / "again")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    folder = RunFolder.open(tmp_path / "resumed")
    shutil.rmtree(checkpoint.load_latest(folder.checkpoints).path)
    assert checkpoint.load_latest(folder.checkpoints).env_steps == 480
    running.resume(tmp_path / "resumed")
    running.assert_same(tmp_path / "resumed", tmp_path / "whole")


@each
def test_the_sampler_matters(tmp_path, name):
    if name == "uniform":
        return
    digests = {running.train(tmp_path / n, "snake", sampler={"name": n})["weights_sha256"] for n in (name, "uniform")}
    assert len(digests) == 2


@each
@pytest.mark.parametrize("overlap", [True, False])
def test_identity_is_solved(tmp_path, name, overlap):
    agent = hotloop.train(
        "identity", run=tmp_path / "run", quiet=True, compile=False, overlap=overlap, sampler={"name": name}
    )
    assert agent.summary["return_mean"] >= 9.9


def test_an_environment_that_begins_anew_is_sampled_soundly(tmp_path):
    """Where lanes cannot be resumed the store is cut, and the sampler is told."""
    options = {"sampler": {"name": "prioritized"}, "lanes": 4, "replay": {"capacity": 400, "truncated_share": 0.01}}
    running.train(tmp_path / "run", "CartPole-v1", **options)
    summary = running.resume(tmp_path / "run", total_env_steps=1_400)
    assert summary["env_steps"] >= 1_400 and np.isfinite(summary["return_mean"])


def test_a_budget_that_beta_depends_on_is_said_to_change(tmp_path):
    running.train(tmp_path / "run", "identity", sampler={"name": "prioritized"})
    shown = running.Rows()
    running.resume(tmp_path / "run", shown, total_env_steps=1_200)
    assert shown.notes == [
        "the budget was 960 env steps and is 1,200; sampler.beta goes on along the schedule of the new one"
    ]


@pytest.mark.parametrize(
    ("sampler", "said"),
    [
        ({"alpha": -0.1}, "option sampler.alpha = -0.1: must be at least 0"),
        ({"alpha": 2}, "option sampler.alpha = 2.0: must be at most 1"),
        ({"beta": 1.5}, "option sampler.beta = 1.5: must be at most 1"),
        ({"beta_end": -1}, "option sampler.beta_end = -1.0: must be at least 0"),
        ({"beta_anneal_env_steps": -1}, "option sampler.beta_anneal_env_steps = -1: must be at least 0"),
        ({"floor": 0}, "option sampler.floor = 0.0: must be at least 1e-30"),
        ({"aplha": 0.5}, "unknown option 'sampler.aplha'; did you mean 'sampler.alpha'?"),
    ],
)
def test_what_prioritized_refuses(sampler, said):
    with pytest.raises(UserError) as error:
        running.config("identity", sampler={"name": "prioritized", **sampler})
    assert str(error.value).startswith(said)


@each
def test_returns_of_many_steps_are_sampled(tmp_path, name):
    summary = running.train(tmp_path / "run", "cartpole", sampler={"name": name}, replay={"n_step": 60})
    assert summary["refused_updates"] == 0


def test_a_sampler_of_the_user_s_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_samplers.py").write_text(
        "from hotloop.replay.samplers import uniform\n"
        "def mine(options, lanes, slots_per_lane, total_env_steps):\n"
        "    assert options == {'depth': 3} and total_env_steps == 960\n"
        "    return uniform.make(uniform.Options(), lanes, slots_per_lane, total_env_steps)\n"
    )
    own = running.train(tmp_path / "own", "identity", sampler={"name": "my_samplers:mine", "depth": 3})
    plain = running.train(tmp_path / "plain", "identity")
    assert own["weights_sha256"] == plain["weights_sha256"]


# --- goals in hindsight ----------------------------------------------------------------------------------------------

FLIPS = {
    "total_env_steps": 20_000,
    "learning_starts_env_steps": 500,
    "explore": {"decay_env_steps": 8_000},
    "env": {"size": 10},
}


def test_bits_are_flipped_right(tmp_path):
    """That they are not without hindsight takes longer to show: `make learn` does."""
    agent = hotloop.train("bitflip", run=tmp_path / "run", quiet=True, compile=False, **FLIPS)
    assert agent.summary["measures"]["solved"][0] >= 0.9


@pytest.mark.parametrize("overlap", [True, False])
def test_hindsight_with_priorities_and_n_steps_is_exact(tmp_path, overlap):
    options = {
        "overlap": overlap, "lanes": 4, "env": {"size": 5}, "sampler": {"name": "prioritized"},
        "replay": {"capacity": 300, "hindsight": 4, "n_step": 3},
    }  # fmt: skip
    running.train(tmp_path / "whole", "bitflip", **options)
    running.killed(tmp_path / "killed", 500, 9, "bitflip", checkpoint_every_env_steps=160, **options)
    running.resume(tmp_path / "killed", checkpoint_every_env_steps=0)
    running.assert_same(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.parametrize("workload", ["cartpole", "CartPole-v1"])
def test_hindsight_without_goals_is_refused_naming_both(tmp_path, workload):
    with pytest.raises(UserError) as error:
        running.train(tmp_path / "run", workload, replay={"capacity": 400, "hindsight": 4})
    said = str(error.value)
    assert said.startswith(f"replay.hindsight = 4 needs goals, and workload = {workload} has none") and "\n" not in said
    assert not (tmp_path / "run").exists()
