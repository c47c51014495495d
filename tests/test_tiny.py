"""The promise of the project in one file: train, solve, resume to the same bits, load, act. Seconds, no compiler."""

from __future__ import annotations

import numpy as np

import hotloop
from hotloop.cli import main

OPTIONS = {"compile": False, "checkpoint_every_env_steps": 400}


def test_the_promise(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    # It solves the world that anything sound solves …
    agent = hotloop.train("identity", run="whole", quiet=True, **OPTIONS)
    assert agent.summary["return_mean"] >= 9.9

    # … with exactly the samples per step it declared …
    assert agent.summary["samples_per_step"] == agent.config.samples_per_step == 8.0

    # … to the same bits when it is run again, and when it is stopped in the middle and resumed …
    again = hotloop.train("identity", run="again", quiet=True, **OPTIONS)
    hotloop.train("identity", run="half", quiet=True, **OPTIONS, total_env_steps=2_000)
    try:
        main(["resume", "half", "--env-steps", "4000", "--quiet"])
    except SystemExit as left:
        assert not left.code
    digests = {hotloop.load(name).summary["weights_sha256"] for name in ("whole", "again", "half")}
    assert digests == {again.summary["weights_sha256"]}

    # … and what was trained acts as it was evaluated.
    loaded = hotloop.load("half")
    assert [loaded.act(np.eye(4, dtype=np.float32)[k]) for k in range(4)] == [0, 1, 2, 3]
    assert loaded.evaluate(100).returns.mean() == agent.summary["return_mean"]
