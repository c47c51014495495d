"""What every experiment of the doctor of hotloop's own runs must hold to: its trials build, run, and leave the
pipeline that they are compared with alone."""

from __future__ import annotations

import pytest

from hotloop.core.discover import load, names
from hotloop.doctor.own.examine import DIAGNOSES, EXPERIMENTS, trials
from hotloop.doctor.own.side import Side
from hotloop.doctor.own.trial import NotTried, attempt
from tests import running

FLOOD = {"env": {"size": 5, "observation": "flood"}}


def config():
    return running.config("snake", **FLOOD)


@pytest.fixture(scope="module")
def side():
    with Side(config()) as made:
        yield made


@pytest.mark.parametrize("name", names(EXPERIMENTS))
def test_every_trial_runs_beside_the_settings_as_they_are(side, name):
    chosen = trials(config(), [name])
    assert chosen
    for trial in chosen:
        assert trial.name == name and trial.title
        assert bool(trial.cut) != bool(trial.change)  # a part is taken away, or options are changed
        refused = side.pipeline.learner.refused
        found = attempt(config(), side, trial, 2, 0.01)
        assert not isinstance(found, NotTried), found.why
        assert len(found.rounds) == 2 and found.interval[0] <= found.gain <= found.interval[1]
        assert found.samples_per_step[0] == pytest.approx(4.0, rel=0.01)
        assert side.pipeline.learner.refused == refused
        if trial.learning == "same learning":
            assert found.samples_per_step[1] == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize("name", names(DIAGNOSES))
def test_every_diagnosis_is_a_function(name):
    assert callable(load(DIAGNOSES, name).find)
