"""Whole runs: equal for one seed, in the order that is promised, with the samples per step that were declared, and
never with values that are not finite."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from hotloop import aot, api
from hotloop import config as configs
from hotloop.core.errors import UserError
from hotloop.pipeline import build_pipeline, total_updates
from hotloop.replay.samplers.uniform import _Uniform as Uniform
from hotloop.run import RunFolder
from hotloop.trace import Trace
from tests import running

NATIVE = ("identity", "cartpole", "snake")
SUMMARY = [
    *("env_steps", "updates", "batch", "samples_per_step", "env_steps_per_s", "first_window_ratio", "cold_start_s"),
    *("warm_start", "peak_rss_mb", "return_mean", "return_ci", "episodes", "weights_sha256", "versions", "machine"),
    *("first_update_s", "exact"),
]


# --- one seed, one result --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("workload", NATIVE)
def test_two_runs_with_one_seed_are_equal_and_another_seed_differs(tmp_path, workload, overlap):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        running.train(tmp_path / name, workload, seed=seed, overlap=overlap)
    first, second, other = (running.outcome(tmp_path / name) for name in "abc")
    assert first == second
    assert other[0] != first[0]


@pytest.mark.parametrize("overlap", [True, False])
def test_two_compiled_runs_are_equal(tmp_path, overlap):
    summaries = [running.train(tmp_path / n, "cartpole", compile=True, overlap=overlap) for n in "ab"]
    assert [s["compiled"] for s in summaries] == [True, True]
    running.assert_same(tmp_path / "a", tmp_path / "b")


def test_eager_runs_with_overlap_stay_equal_over_many_cycles(tmp_path):
    # Acting and learning in the same module at the same time went wrong in one run of ten such as these.
    for i in range(4):
        running.train(tmp_path / str(i), "identity", total_env_steps=2_000, cycle_steps=8)
    assert len({running.outcome(tmp_path / str(i))[1] for i in range(4)}) == 1


def test_acting_and_learning_never_call_the_same_module(tmp_path, monkeypatch):
    """Calling a module eagerly puts the given parameters into it for as long as the call lasts."""
    from tests.references import run_networks

    class shown(running.Rows):
        def ready(self, pipeline, env_steps):
            run_networks.CALLED.clear()  # of the warm-up

    monkeypatch.chdir(Path(__file__).parent.parent)
    network = {"name": "tests.references.run_networks:Recorded"}
    base = {k: v for k, v in running.BASE.items() if k != "network"}
    config = configs.resolve(base, {"workload": "identity", "network": network})
    api.start(config, RunFolder.create(tmp_path / "run", "identity", 0), shown())
    acting, learning = run_networks.CALLED["MainThread"], run_networks.CALLED["learn"]
    assert acting and learning and not acting & learning


def test_no_thread_of_a_run_takes_more_cores_than_it_was_given(tmp_path, monkeypatch):
    maps = Path("/proc/self/maps")
    found = {x.split()[-1] for x in maps.read_text().splitlines() if "gomp" in x} if maps.exists() else ()
    if not found:
        pytest.skip("no OpenMP to ask")
    import ctypes

    ask, choose, seen = ctypes.CDLL(min(found)).omp_get_max_threads, Uniform.choose, {}
    run = aot.Chain.run

    def spy(*args):
        seen[threading.current_thread().name] = ask()
        choose(*args)

    def spy_run(job):
        seen[threading.current_thread().name] = ask()
        run(job)

    monkeypatch.setattr(Uniform, "choose", spy)
    monkeypatch.setattr(aot.Chain, "run", spy_run)
    running.train(tmp_path / "run", "identity")
    assert seen == {"MainThread": 1, "learn": 1}


def test_a_run_of_another_process_is_the_same(tmp_path):
    here = running.train(tmp_path / "here", "cartpole")
    (tmp_path / "config.toml").write_text((tmp_path / "here" / "config.toml").read_text())
    command = ["-m", "hotloop", "train", "cartpole", "--json", "--run", tmp_path / "b", "--config"]
    done = subprocess.run(
        [sys.executable, *command, tmp_path / "config.toml"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1])["weights_sha256"] == here["weights_sha256"]
    running.assert_same(tmp_path / "b", tmp_path / "here")


# --- the order of a cycle --------------------------------------------------------------------------------------------


def learn(pipeline):
    job = pipeline.begin_updates()
    job.run()
    return pipeline.end_updates(job)


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("workload", ["cartpole", "snake"])
def test_a_run_is_the_plain_loop(tmp_path, workload, overlap):
    """With overlap: collect, learn from the replay as it stood before, write, publish. Without: write before."""
    running.train(tmp_path / "run", workload, overlap=overlap)
    config = running.config(workload, overlap=overlap)
    p = build_pipeline(config, Trace())
    while p.collector.env_steps < config.total_env_steps:
        p.collector.publish(p.learner.params)
        learns = p.learning(p.collector.env_steps)
        block = p.collector.next_block()
        if overlap:
            stats = learn(p) if learns else None
            p.commit(block)
        else:
            p.commit(block)
            stats = learn(p) if learns else None
        assert (stats is not None) == learns
    mine, saved = p.state(), running.arrays(tmp_path / "run")
    assert mine.keys() == saved.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, saved[name], err_msg=name)


@pytest.mark.parametrize("overlap", [True, False])
def test_what_is_sampled_is_the_replay_at_the_start_of_the_cycle(tmp_path, monkeypatch, overlap):
    choose, seen = Uniform.choose, []

    def spy(self, window, *rest):
        seen.append(window)
        choose(self, window, *rest)

    class Shown(running.Rows):
        def ready(self, pipeline, env_steps):
            seen.clear()  # of the warm-up

    monkeypatch.setattr(Uniform, "choose", spy)
    running.train(tmp_path / "run", "identity", shown=Shown(), overlap=overlap)
    ends = [(w.first + w.count) * w.lanes for w in seen]
    first = 128 if overlap else 128 + 16  # a block is in before its cycle learns, where the two take turns
    assert ends == list(range(first, 960 + (0 if overlap else 1), 16))


def test_it_does_not_matter_which_half_is_faster(tmp_path, monkeypatch):
    """Once as it comes; once each update waits until its cycle's block is collected; once each block waits until the
    updates of its cycle are made."""
    from hotloop.collect.inline import Inline

    main, run, next_block = threading.main_thread().ident, aot.Chain.run, Inline.next_block
    made = threading.Event()

    def late(job):
        while threading.get_ident() != main and sys._current_frames()[main].f_code.co_name != "wait":
            pass  # until the main thread waits for this one
        run(job)

    def early(job):
        run(job)
        made.set()

    def after(collector):
        if learning:
            assert made.wait(10)
            made.clear()
        elif collector.env_steps + 16 == 128:
            learning.append(True)  # from the next cycle on
            made.clear()  # of the warm-up
        return next_block(collector)

    learning: list[bool] = []
    running.train(tmp_path / "as it comes", "identity")
    with monkeypatch.context() as patch:
        patch.setattr(aot.Chain, "run", late)
        running.train(tmp_path / "late", "identity")
    with monkeypatch.context() as patch:
        patch.setattr(aot.Chain, "run", early)
        patch.setattr(Inline, "next_block", after)
        running.train(tmp_path / "early", "identity")
    assert learning
    running.assert_same(tmp_path / "as it comes", tmp_path / "late")
    running.assert_same(tmp_path / "as it comes", tmp_path / "early")


def test_acting_uses_the_weights_of_the_cycle_before(tmp_path, monkeypatch):
    from hotloop.collect.inline import Inline
    from hotloop.learn.learner import Learner

    learnt, acted = [], []
    end, next_block = Learner.end, Inline.next_block

    def spy_end(self, job):
        out = end(self, job)
        learnt.append(self.params.clone())
        return out

    def spy_block(self):
        before = self._weights.clone()
        block = next_block(self)
        assert torch.equal(before, self._weights), "the weights changed while they were acted with"
        acted.append(before)
        return block

    class shown(running.Rows):
        def ready(self, pipeline, env_steps):
            learnt.clear()
            acted.clear()

    monkeypatch.setattr(Learner, "end", spy_end)
    monkeypatch.setattr(Inline, "next_block", spy_block)
    running.train(tmp_path / "run", "identity", shown=shown())
    assert (len(acted), len(learnt)) == (60, 52)  # the first eight cycles do not learn
    assert all(torch.equal(a, p) for a, p in zip(acted[9:], learnt[:-1], strict=True))
    assert not torch.equal(acted[10], acted[-1])


# --- the contract ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize(
    ("lanes", "batch", "samples", "cycle_steps", "budget"),
    [(1, 4, 4.0, 0, 100), (3, 16, 2.0, 0, 700), (8, 32, 1.0, 4, 1_000), (5, 8, 1.6, 6, 333), (16, 7, 0.875, 0, 900)],
)
def test_samples_per_step_are_kept(tmp_path, lanes, batch, samples, cycle_steps, budget, overlap):
    options = {
        "lanes": lanes, "samples_per_step": samples, "cycle_steps": cycle_steps, "total_env_steps": budget,
        "learning_starts_env_steps": 50, "overlap": overlap, "learner": {"batch_size": batch},
    }  # fmt: skip
    shown = running.Rows()
    summary = running.train(tmp_path / "run", "identity", shown, **options)
    config = running.config("identity", **options)
    cycle, start = configs.cycle_of(config), configs.learning_from(config)
    steps = -(-budget // cycle.env_steps) * cycle.env_steps
    assert (summary["env_steps"], summary["learning_env_steps"]) == (steps, steps - start)
    assert summary["updates"] * batch == round(samples * (steps - start))
    assert summary["samples_per_step"] == pytest.approx(samples, rel=1e-12)
    assert summary["updates"] == total_updates(config)
    for row in shown.rows:
        assert row["updates"] * batch == round(samples * max(0, row["env_steps"] - start))


def test_a_run_that_does_not_keep_them_fails(tmp_path):
    pipeline = build_pipeline(running.config("identity"), Trace())
    pipeline.began_env_steps, pipeline.collector.env_steps, pipeline.learner.updates = 128, 192, 16
    pipeline.check_contract()
    pipeline.learner.updates += 1
    with pytest.raises(AssertionError, match=r"declared 4\.0, was 4\.25"):
        pipeline.check_contract()


# --- what a run leaves behind ----------------------------------------------------------------------------------------


def test_the_summary_holds_what_it_should(tmp_path):
    summary = running.train(tmp_path / "run", "cartpole")
    assert set(SUMMARY) <= set(summary)
    assert summary == RunFolder.open(tmp_path / "run").read_summary()
    assert not [k for k in SUMMARY if summary[k] is None]
    assert summary["return_ci"][0] <= summary["return_mean"] <= summary["return_ci"][1]
    assert 0 < summary["cold_start_s"] < 120 and summary["first_update_s"] > 0
    assert {"torch", "numpy", "numba", "python", "hotloop", "gymnasium"} <= set(summary["versions"])
    assert summary["sections"]["learn/update"][0] == 52  # cycles that learnt
    assert summary["exact"] is True and summary["warm_start"] is True and summary["compiled"] is False


def test_rows_are_monotone_and_strict_json(tmp_path):
    running.train(tmp_path / "run", "cartpole", evaluate_every_env_steps=200)
    text = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()

    def refuse(constant):
        raise AssertionError(constant)

    rows = [json.loads(line, parse_constant=refuse) for line in text]
    steps = [row["env_steps"] for row in rows]
    assert steps == list(range(16, 961, 16))
    assert [r["env_steps"] for r in rows if "eval_return_mean" in r] == [208, 400, 608, 800]
    for key in ("updates", "seconds", "episodes"):
        values = [row[key] for row in rows]
        assert values == sorted(values), key
    assert rows[0]["loss"] is None and rows[-1]["loss"] > 0
    epsilons = [row["epsilon"] for row in rows]
    assert epsilons == sorted(epsilons, reverse=True) and epsilons[-1] == pytest.approx(0.1)


def test_accumulated_batches_keep_the_samples_per_step(tmp_path):
    whole = running.train(tmp_path / "whole", "cartpole")
    parts = running.train(tmp_path / "parts", "cartpole", learner={"batch_size": 4, "accumulate": 4})
    for key in ("updates", "batch", "samples_per_step", "learning_env_steps"):
        assert parts[key] == whole[key], key
    assert parts["batch"] == 16 and parts["samples_per_step"] == 4.0


def test_rows_come_every_so_many_env_steps_and_a_hundred_by_default(tmp_path):
    running.train(tmp_path / "a", "identity", log_every_env_steps=100)
    steps = [row["env_steps"] for row in RunFolder.open(tmp_path / "a").read_metrics()]
    assert steps == [112, 208, 304, 400, 512, 608, 704, 800, 912]
    assert running.config("identity", log_every_env_steps=0, total_env_steps=5_000).log_every == 50


def test_tensorboard_gets_the_rows(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader

    running.train(tmp_path / "run", "identity", tensorboard=True, log_every_env_steps=320)
    (file,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert len(list(RawEventFileLoader(str(file)).Load())) == 1 + 3  # the version, then the rows


def test_evaluations_change_nothing(tmp_path):
    running.train(tmp_path / "a", "cartpole")
    running.train(tmp_path / "b", "cartpole", evaluate_every_env_steps=64, checkpoint_every_env_steps=64)
    assert running.outcome(tmp_path / "a")[:2] == running.outcome(tmp_path / "b")[:2]


# --- values that are not finite --------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [True, False])
def test_rewards_of_nan_stop_the_run_with_sound_weights(tmp_path, monkeypatch, overlap):
    monkeypatch.chdir(Path(__file__).parent.parent)
    options = {"env": {"kwargs": {"after": 90}}, "overlap": overlap, "lanes": 4, "learner": {"batch_size": 64}}
    with pytest.raises(UserError, match=r"not finite; batch in .*not_finite_batch.safetensors, checkpoint") as stopped:
        running.train(tmp_path / "run", "tests.references.run_envs:Poisoned", **options)
    assert "\n" not in str(stopped.value)
    from safetensors.numpy import load_file

    assert np.isnan(load_file(tmp_path / "run" / "not_finite_batch.safetensors")["reward"]).any()
    arrays = running.arrays(tmp_path / "run")
    for name in ("params", "target", "moment0", "moment1"):
        assert np.isfinite(arrays[f"learner.{name}"]).all(), name
    assert arrays["learner.counters"][1] >= 10
    # All env steps that are counted are in the replay, so that a resume goes on where the lanes stand.
    assert arrays["store.cursor"][0] * 4 == arrays["collector.counters"][0] > 90 * 4
    rows = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(v is None or math.isfinite(v) for row in rows for v in row.values() if isinstance(v, float | None))


def test_a_single_reward_of_nan_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    options = {"env": {"kwargs": {"after": 90, "until": 90}}, "lanes": 4, "replay": {"capacity": 400}}
    summary = running.train(tmp_path / "run", "tests.references.run_envs:Poisoned", **options)
    assert 0 < summary["refused_updates"] < summary["updates"]
    assert np.isfinite(running.arrays(tmp_path / "run")["learner.params"]).all()


def test_evaluations_come_when_asked_whatever_the_log(tmp_path):
    """2,500 is no multiple of 1,000: an evaluation has a row of its own then."""
    rows, _ = evaluated(tmp_path, log_every_env_steps=1_000, evaluate_every_env_steps=2_500)
    assert len([r for r in rows if "eval_return_mean" in r]) == 4_000 // 2_500


def evaluated(tmp_path, **options):
    agent = api.train("identity", run=tmp_path / "run", quiet=True, compile=False, evaluate_episodes=2, **options)
    lines = (agent.path / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], agent
