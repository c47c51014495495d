"""Seeds trained at once end as the same seeds trained one by one, and can be stopped, resumed and read like them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hotloop
from hotloop import api, aside, checkpoint, cli, seeds
from hotloop.core.errors import UserError
from hotloop.report import scores
from hotloop.run import RunFolder
from tests import running

FIRST, COUNT = 3, 3
SAVING = {"checkpoint_every_env_steps": 160}


def train(path: Path, workload: str, shown: Any = None, **options: Any) -> dict[str, Any]:
    config = running.config(workload, seed=FIRST, **options)
    folder = seeds.SeedsFolder.create(path, config, COUNT)
    return api.start_seeds(seeds.spread(config, COUNT), folder, shown or running.Rows())


def resume(path: Path, shown: Any = None, **options: Any) -> dict[str, Any]:
    folder = seeds.SeedsFolder.open(path)
    return api.start_seeds(folder.configs(options), folder, shown or running.Rows(), resume=True)


def own(path: Path) -> list[Path]:
    return [path / f"s{FIRST + i}" for i in range(COUNT)]


def assert_all_same(path: Path, other: Path) -> None:
    for mine, theirs in zip(own(path), own(other), strict=True):
        running.assert_same(mine, theirs)


class Stops(running.Rows):
    """Sends this process a signal once the runs are so far."""

    def __init__(self, at: int, number: int) -> None:
        super().__init__()
        self.at, self.number = at, number

    def row(self, row: dict[str, Any]) -> None:
        super().row(row)
        if row["env_steps"] >= self.at:
            self.at = 2**62
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        ("cartpole", {}),
        ("cartpole", {"overlap": False, "evaluate_every_env_steps": 320}),
        ("snake", {"explore": {"lane_power": 7.0}, "learner": {"target_every_updates": 1, "target_tau": 0.1}}),
        ("CartPole-v1", {}),
        ("cartpole", {"compile": True}),
        ("cartpole", {"sampler": {"name": "prioritized"}, "network": {"noisy": True}}),
    ],
    ids=["overlap", "in turn", "masked", "Gymnasium", "compiled", "priorities and noise"],
)
def test_each_ends_as_it_would_alone(tmp_path, workload, options):
    train(tmp_path / "all", workload, **options)
    for i, path in enumerate(own(tmp_path / "all")):
        running.train(tmp_path / f"alone{i}", workload, seed=FIRST + i, **options)
        running.assert_same(path, tmp_path / f"alone{i}")
        assert RunFolder.open(path).read_config() == RunFolder.open(tmp_path / f"alone{i}").read_config()


def test_the_summary_is_that_of_all(tmp_path):
    shown = running.Rows()
    summary = train(tmp_path / "all", "cartpole", shown)
    assert summary == shown.summary
    written = json.loads((tmp_path / "all" / "summary.json").read_text())
    agents = [RunFolder.open(path).read_summary() for path in own(tmp_path / "all")]
    assert written["agents"] == agents and written["seeds"] == [3, 4, 5]
    returns = np.array([a["return_mean"] for a in agents])
    assert len(set(returns)) > 1
    assert written["return_mean"] == pytest.approx(returns.mean())
    assert written["return_interquartile_mean"] == pytest.approx(float(scores.interquartile_mean(returns)))
    assert tuple(written["return_ci"]) == pytest.approx(scores.interval(returns))
    assert (written["return_min"], written["return_max"]) == (returns.min(), returns.max())
    assert written["env_steps"] == 3 * 960 and written["updates"] == sum(a["updates"] for a in agents)
    assert written["env_steps_per_s"] == pytest.approx(sum(a["env_steps_per_s"] for a in agents))
    assert all(a["together"] == [3, 4, 5] and a["samples_per_step"] == 4.0 for a in agents)
    last = shown.rows[-1]
    means = [RunFolder.open(path).read_metrics()[-1]["return_mean"] for path in own(tmp_path / "all")]
    assert last["agents"] == 3 and last["env_steps"] == 960
    assert last["return_mean"] == pytest.approx(np.mean(means))
    assert last["return_mean_range"] == [min(means), max(means)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_and_they_go_on_together_or_alone(tmp_path, number):
    train(tmp_path / "whole", "cartpole")
    path = tmp_path / "stopped"
    summary = train(path, "cartpole", Stops(400, number))
    assert summary["stopped_by_signal"] == number and summary["agents"][0]["env_steps"] == 400
    shutil.copytree(path, tmp_path / "alone")
    shown = running.Rows()
    again = resume(path, shown)
    assert again["stopped_by_signal"] is None and shown.notes == [] and shown.began == 400
    assert_all_same(path, tmp_path / "whole")
    one = own(tmp_path / "alone")[1]
    running.resume(one)
    running.assert_same(one, own(tmp_path / "whole")[1])


def test_killed_between_two_saves_they_go_on_from_what_all_have(tmp_path):
    train(tmp_path / "whole", "cartpole", **SAVING)
    path = tmp_path / "killed"
    train(path, "cartpole", Stops(400, signal.SIGTERM), **SAVING)
    newest = checkpoint.load_latest(own(path)[2] / "checkpoints").path
    shutil.rmtree(newest)
    shown = running.Rows()
    resume(path, shown)
    assert shown.began == 320
    assert_all_same(path, tmp_path / "whole")
    shutil.rmtree(own(path)[2] / "checkpoints")
    shutil.copytree(own(tmp_path / "whole")[2] / "checkpoints", own(path)[2] / "checkpoints")
    (oldest, _) = sorted((own(path)[2] / "checkpoints").iterdir())
    shutil.rmtree(sorted((own(path)[2] / "checkpoints").iterdir())[1])
    for other in own(path)[:2]:
        shutil.rmtree(other / "checkpoints" / oldest.name)
    with pytest.raises(UserError, match=r"s3 has no checkpoint at \d+ env steps"):
        resume(path)


def test_more_env_steps_for_all(tmp_path):
    train(tmp_path / "long", "identity", total_env_steps=1_120)
    train(tmp_path / "short", "identity")
    shown = running.Rows()
    resume(tmp_path / "short", shown, total_env_steps=1_120)
    assert shown.notes == ["the budget was 960 env steps and is 1,120"]
    assert_all_same(tmp_path / "short", tmp_path / "long")


def test_one_that_cannot_go_on_stops_all_and_says_which(tmp_path, monkeypatch):
    from hotloop.learn.learner import Learner, NotFinite

    ends: list[Learner] = []
    real = Learner.end

    def end(self, job):
        out = real(self, job)
        ends.append(self)
        if len(ends) == 3 * 20 + 2:  # warm-up apart, the second agent
            raise NotFinite("no longer finite")
        return out

    monkeypatch.setattr(Learner, "end", end)
    with pytest.raises(UserError, match=r"seed \d: no longer finite; batch in .*s\d/not_finite_batch.safetensors"):
        train(tmp_path / "all", "identity")
    saved = {checkpoint.load_latest(path / "checkpoints").env_steps for path in own(tmp_path / "all")}
    assert len(saved) == 1 and saved != {0}


def test_the_python_door_gives_an_agent_of_each(tmp_path):
    options = {"compile": False, "total_env_steps": 3_000, "seed": 4}
    agents = hotloop.train_seeds("identity", 2, run=tmp_path / "group", quiet=True, **options)
    assert [a.summary["seed"] for a in agents] == [4, 5]
    alone = hotloop.train("identity", run=tmp_path / "alone", quiet=True, **{**options, "seed": 5})
    assert agents[1].summary["weights_sha256"] == alone.summary["weights_sha256"]
    with pytest.raises(UserError, match="two or more"):
        hotloop.train_seeds("identity", 1)


def test_the_command_line(tmp_path, capsys):
    from hotloop.core import toml

    file = tmp_path / "options.toml"
    file.write_text(toml.dumps({**running.BASE, "lanes": 4, "replay": {"capacity": 400}, "report": True}))
    words = ["cartpole", "--config", str(file), "--seed", "3", "--seeds", "2", "--run", str(tmp_path / "all")]
    assert cli.run(["train", *words, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["seeds"] == [3, 4] and len(summary["agents"]) == 2
    assert (tmp_path / "all" / "report.html").exists()
    one = str(tmp_path / "all" / "s4")
    assert cli.run(["eval", one, "--episodes", "4", "--json"]) == 0
    assert cli.run(["report", one]) == 0
    assert cli.run(["compare", str(tmp_path / "all" / "s3"), one]) == 0
    assert cli.run(["resume", str(tmp_path / "all"), "--env-steps", "1120"]) == 0
    said = capsys.readouterr().out
    assert "each of 2 seeds, 3 to 4" in said and "by seed: 3: " in said
    with pytest.raises(UserError, match="already holds a run"):
        cli.run(["train", *words])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--seeds", "0"), "--seeds 0: must be at least 1"),
        (("--seeds", str(aside.MOST_PARTS + 1)), "at most"),
        (("--seeds", "2", "--workers", "2"), "workers = 2"),
        (("--seeds", "2", "--seed", str(2**63 - 1)), "choose a lower --seed"),
    ],
)
def test_what_cannot_be_trained_at_once_is_refused_before_anything_is_made(tmp_path, monkeypatch, words, why):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=why) as refused:
        cli.run(["train", "cartpole", *words])
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_built_leaves_no_folder(tmp_path):
    with pytest.raises(UserError):
        train(tmp_path / "all", "cartpole", replay={"capacity": 10**12})
    assert not (tmp_path / "all").exists()
