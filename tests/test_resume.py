"""A run that was killed, interrupted or extended ends as one that was not, bit for bit; where it cannot, it says so."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hotloop import checkpoint
from hotloop.core.errors import UserError
from hotloop.run import RunFolder
from tests import running

ROOT = Path(__file__).parent.parent
OPTIONS = {"total_env_steps": 2_400, "checkpoint_every_env_steps": 160}
SIGNALLING = "tests.references.run_envs:Signalling"


def cli(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hotloop", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)


def no_gaps(path: Path, cycle: int, last: int) -> None:
    assert [row["env_steps"] for row in RunFolder.open(path).read_metrics()] == list(range(cycle, last + 1, cycle))


@pytest.mark.parametrize("workload", ["cartpole", "snake"])
@pytest.mark.parametrize("overlap", [True, False])
def test_killed_five_times_and_resumed_it_ends_the_same(tmp_path, workload, overlap):
    options = {**OPTIONS, "overlap": overlap, "compile": workload == "cartpole"}
    running.train(tmp_path / "whole", workload, **options)
    draw = random.Random(f"{workload}{overlap}")
    path, first = tmp_path / "killed", workload
    for at in sorted(draw.sample(range(200, 1_700), 5)):
        process = running.killed(path, at, signal.SIGKILL, first, **options)
        assert process.exitcode == -signal.SIGKILL
        assert not (path / "summary.json").exists()
        first = None
    shown = running.Rows()
    running.resume(path, shown)
    assert shown.notes == [] and shown.began and shown.began >= 160
    running.assert_same(path, tmp_path / "whole")
    no_gaps(path, 4 * (4 if workload == "cartpole" else 8), 2_400)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_cycle_and_saves(tmp_path, number):
    running.train(tmp_path / "whole", "cartpole", **OPTIONS)
    path = tmp_path / "stopped"
    process = running.killed(path, 700, number, "cartpole", **OPTIONS)
    assert process.exitcode == 0
    summary = RunFolder.open(path).read_summary()
    assert summary["stopped_by_signal"] == number and 700 <= summary["env_steps"] < 2_400
    assert checkpoint.load_latest(path / "checkpoints").env_steps == summary["env_steps"]
    assert summary["samples_per_step"] == 4.0
    again = running.resume(path)
    assert again["stopped_by_signal"] is None
    running.assert_same(path, tmp_path / "whole")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_exit_code_names_the_signal(tmp_path, number, code):
    run = tmp_path / "run"
    done = cli(
        *("train", SIGNALLING, "--run", run, "--json"),
        *("--config", config_file(tmp_path, lanes=1, env={"kwargs": {"after": 300, "number": int(number)}})),
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["stopped_by_signal"] == number and summary["env_steps"] < 960


def test_a_second_signal_leaves_at_once_and_the_last_checkpoint_whole(tmp_path):
    run = tmp_path / "run"
    file = config_file(tmp_path, env={"kwargs": {"after": 100, "times": 2}}, checkpoint_every_env_steps=160)
    done = cli("train", SIGNALLING, "--run", run, "--config", file)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert not (run / "summary.json").exists()
    assert checkpoint.load_latest(run / "checkpoints").env_steps == 320


def config_file(folder: Path, **options: object) -> Path:
    from hotloop.core import toml

    layers = {**running.BASE, "lanes": 4, **options}
    (folder / "options.toml").write_text(toml.dumps(layers))
    return folder / "options.toml"


# --- extending -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "explore", [{}, {"start": 0.4, "end": 0.4, "lane_power": 7.0}, {"kind": "boltzmann"}], ids=["alike", "lane", "soft"]
)
def test_more_env_steps_end_as_if_they_had_been_asked_for_at_once(tmp_path, explore):
    """Without a learning rate schedule nothing depends on the budget."""
    running.train(tmp_path / "long", "snake", total_env_steps=1_600, explore=explore)
    running.train(tmp_path / "short", "snake", total_env_steps=800, explore=explore)
    shown = running.Rows()
    running.resume(tmp_path / "short", shown, total_env_steps=1_600)
    assert shown.notes == ["the budget was 800 env steps and is 1,600"]
    running.assert_same(tmp_path / "short", tmp_path / "long")
    assert RunFolder.open(tmp_path / "short").read_config() == RunFolder.open(tmp_path / "long").read_config()


def test_a_learning_rate_that_falls_with_the_budget_is_said_to_change(tmp_path):
    options = {"learner": {"optimizer": {"learning_rate_end": 0.0}}}
    running.train(tmp_path / "run", "identity", **options)
    shown = running.Rows()
    running.resume(tmp_path / "run", shown, total_env_steps=1_200)
    assert shown.notes == [
        "the budget was 960 env steps and is 1,200; the learning rate goes on along the schedule of the new one"
    ]


@pytest.mark.parametrize("budget", [960, 500])
def test_a_finished_run_has_nothing_left_to_do(tmp_path, budget):
    running.train(tmp_path / "run", "identity")
    before = running.outcome(tmp_path / "run")
    summary = running.resume(tmp_path / "run", total_env_steps=budget)
    assert summary["env_steps"] == 960
    assert running.outcome(tmp_path / "run") == before


# --- what cannot be resumed, or not exactly --------------------------------------------------------------------------


def test_a_gymnasium_run_says_that_it_is_not_exact(tmp_path):
    done = cli("train", "CartPole-v1", "--run", tmp_path / "run", "--config", config_file(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "exact: false" in done.stdout
    assert RunFolder.open(tmp_path / "run").read_summary()["exact"] is False
    done = cli("resume", tmp_path / "run", "--env-steps", 1_200)
    assert "exact: false" in done.stdout and "resumed at 960" in done.stdout
    assert RunFolder.open(tmp_path / "run").read_summary()["samples_per_step"] == 4.0


def test_no_transition_crosses_a_restart_of_lanes(tmp_path, monkeypatch):
    """The environment numbers its episodes at random and counts their steps: in every transition that may be sampled
    the next observation is one step older and of the same episode."""
    from hotloop.core.schema import new_batch
    from hotloop.pipeline import build_pipeline
    from hotloop.trace import Trace

    monkeypatch.chdir(ROOT)
    options = {"lanes": 4, "total_env_steps": 500, "replay": {"n_step": 2}, "cycle_steps": 4}
    world = "tests.references.run_envs:Counting"
    running.train(tmp_path / "run", world, **options)  # 512 env steps are 12 episodes of 10 per lane, and 8 steps
    running.resume(tmp_path / "run", total_env_steps=800)
    pipeline = build_pipeline(running.config(world, **options), Trace())
    store = pipeline.store
    store.set_state({k[6:]: v for k, v in running.arrays(tmp_path / "run").items() if k.startswith("store.")})
    window = store.window()
    assert window.size == 800 - 4
    positions = (window.oldest + np.arange(window.count)) % window.slots_per_lane
    slots = (np.arange(4)[:, None] * window.slots_per_lane + positions).astype(np.int64)
    batch = new_batch(pipeline.spec, *slots.shape)
    store.gather(slots, batch)
    goes_on = batch.discount > 0
    old, new = batch.obs["obs"][goes_on], batch.next_obs["obs"][goes_on]
    assert goes_on.sum() > 500
    np.testing.assert_array_equal(new[:, 1], old[:, 1])
    steps = new[:, 0] - old[:, 0]
    # The one before a restart ends at the restart: one step where two were asked for.
    assert set(steps) == {1.0, 2.0} and (steps == 1).sum() == 4


def test_it_goes_on_from_the_newest_sound_checkpoint(tmp_path):
    running.train(tmp_path / "whole", "cartpole", **OPTIONS)
    path = tmp_path / "run"
    running.killed(path, 1_000, signal.SIGKILL, "cartpole", **OPTIONS)
    newest = sorted((path / "checkpoints").glob("checkpoint-*"))[-1]
    data = newest / "arrays.safetensors"
    data.write_bytes(data.read_bytes()[:-1] + b"x")
    shown = running.Rows()
    running.resume(path, shown)
    (note,) = shown.notes
    assert note.startswith(f"refused {newest.name}") and "going on from checkpoint-" in note
    running.assert_same(path, tmp_path / "whole")


def test_without_a_sound_checkpoint_it_is_refused_before_anything_is_built(tmp_path):
    running.train(tmp_path / "run", "identity")
    for damage, message in (
        (lambda f: (f / "manifest.json").unlink(), "no sound checkpoint"),
        (shutil.rmtree, "no check"),
    ):
        for found in (tmp_path / "run" / "checkpoints").glob("checkpoint-*"):
            damage(found)
        with pytest.raises(UserError, match=message) as refused:
            running.resume(tmp_path / "run")
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "change",
    [{"network": {"hidden": [8]}}, {"lanes": 8}, {"replay": {"capacity": 200}}, {"env": {"size": 3}},
     {"learner": {"optimizer": {"name": "rmsprop"}}}],
)  # fmt: skip
def test_a_config_that_was_changed_underneath_is_refused(tmp_path, change):
    running.train(tmp_path / "run", "identity")
    with pytest.raises(UserError, match=r"does not fit .*config.toml: .* expected .*; restore"):
        running.resume(tmp_path / "run", **change)


def test_other_versions_and_threads_are_said_not_to_be_exact(tmp_path):
    running.train(tmp_path / "run", "identity", threads=2)
    shown = running.Rows()
    running.resume(tmp_path / "run", shown, threads=1, total_env_steps=1_000)
    assert shown.notes[0] == "not exact: threads was 2, is 1"


def test_a_run_in_use_is_not_resumed(tmp_path):
    running.train(tmp_path / "run", "identity")
    with RunFolder.open(tmp_path / "run").lock():
        done = cli("resume", tmp_path / "run")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"is in use by process {os.getpid()}" in done.stderr
