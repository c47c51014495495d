"""Lanes that are stepped by processes play the games that they play in one."""

from __future__ import annotations

import signal

import pytest

from tests import running

OPTIONS = {"total_env_steps": 960, "checkpoint_every_env_steps": 160}


@pytest.mark.parametrize("workload", ["snake", "CartPole-v1"])
def test_any_number_of_processes_ends_the_same(tmp_path, workload):
    for workers in (0, 1, 2):
        summary = running.train(tmp_path / str(workers), workload, workers=workers)
        assert summary["updates"] > 0
    running.assert_same(tmp_path / "1", tmp_path / "0")
    running.assert_same(tmp_path / "2", tmp_path / "0")


def test_killed_and_resumed_with_processes_it_ends_the_same(tmp_path):
    running.train(tmp_path / "whole", "snake", **OPTIONS)
    path = tmp_path / "killed"
    assert running.killed(path, 500, signal.SIGKILL, "snake", workers=2, **OPTIONS).exitcode == -signal.SIGKILL
    running.resume(path)
    running.assert_same(path, tmp_path / "whole")
