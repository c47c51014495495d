"""The speed gate: a loss that is there is found, noise is no loss, and every part does its work."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bench import gate


class Noisy:
    """A side whose work takes about so long, with neighbours that now and then take some of its time."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.seconds, self.random = seconds, np.random.default_rng(seed)

    def ask(self, do: str, part: str) -> dict[str, float]:
        late = 1.5 if self.random.random() < 0.1 else 1.0
        return {"seconds": self.seconds * late * self.random.normal(1, 0.04)}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_equally_fast_passes_and_a_fifth_slower_does_not(seed):
    verdicts = []
    for planted in (1.0, 1.2):
        found = gate.compared(Noisy(1.0, seed), Noisy(1.0, 100 + seed), "part", planted)
        verdicts.append(gate.interval(found)[0] > gate.ALLOWED)
        assert len(found) <= gate.MOST_ROUNDS
    assert verdicts == [False, True]


def test_it_goes_on_while_the_interval_does_not_decide():
    assert not gate.decided([0.9, 1.3] * 10)
    assert gate.decided([1.0] * 15) and gate.decided([1.2] * 15)


def test_a_commit_that_is_not_there_is_one_line():
    with pytest.raises(SystemExit, match="not to be had"), gate.checked_out("0" * 40):
        pass


def test_the_baseline_is_a_commit_of_this_history():
    """A rebase gives commits other names: then a fresh clone would not have it."""
    (commit,) = gate.BASELINE.read_text().split()
    known = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=gate.ROOT, check=False)
    assert known.returncode == 0


@pytest.mark.parametrize("part", gate.parts())
def test_a_part_says_what_it_is_and_can_be_made(part):
    module = importlib.import_module(f"bench.parts.{part}")
    assert module.__doc__ and callable(module.make)
    assert len(Path(module.__file__ or "").read_text().splitlines()) < 60
