"""Runs that must learn with other samplers than the uniform one, and with hindsight."""

from __future__ import annotations

import pytest

import hotloop


@pytest.mark.learn
@pytest.mark.parametrize("options", [{"preset": "per"}, {"sampler": {"name": "combined"}}], ids=["per", "combined"])
def test_cartpole_is_learnt(tmp_path, options):
    scores = []
    for seed in range(3):
        agent = hotloop.train("cartpole", run=tmp_path / str(seed), quiet=True, seed=seed, **options)
        scores.append(agent.summary["return_mean"])
    assert sorted(scores)[1] >= 475, scores


@pytest.mark.learn
@pytest.mark.parametrize(("preset", "least", "most"), [("default", 0.95, 1.0), ("plain", 0.0, 0.05)])
def test_bits_are_flipped_right_with_hindsight_and_not_without(tmp_path, preset, least, most):
    for seed in range(3):
        agent = hotloop.train("bitflip", preset=preset, run=tmp_path / str(seed), quiet=True, seed=seed)
        assert least <= agent.summary["measures"]["solved"][0] <= most
