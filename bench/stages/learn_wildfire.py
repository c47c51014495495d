"""Wildfire learnt: preset default, 3 seeds. Share of the cells that burn on 100 landscapes × 50 fires that no training
saw, against no breaks, random breaks and the heuristic on the same landscapes and the same fires."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Row, stage

LONG = True  # run only where it is named
LANDSCAPES, FIRES, SEEDS = 100, 50, 3
HELD_OUT_SEED = 0  # of the evaluation; training draws from other streams whatever its seed


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    from hotloop import api
    from hotloop.collect.policies import Random
    from hotloop.evaluate import evaluation_seed, play

    config = api.configure("wildfire", "default", {"env": {"evaluation_fires": FIRES}})
    world, seed = config.world(), evaluation_seed(HELD_OUT_SEED)
    by_chance = play(world, lambda env: Random(env.spec, env.lanes, 1), LANDSCAPES, seed)
    guided = play(world, world.heuristic, LANDSCAPES, seed)
    burned = {"unbroken": guided.measures["burned_unbroken"], "random": by_chance.measures["burned"]}
    burned["heuristic"] = guided.measures["burned"]
    assert np.array_equal(by_chance.measures["burned_unbroken"], burned["unbroken"]), "not the same landscapes"
    runs = []
    for number in range(1 if quick else SEEDS):
        trained, summary = _trained(number, config.total_env_steps // 20 if quick else config.total_env_steps)
        assert np.array_equal(trained.measures["burned_unbroken"], burned["unbroken"]), "not the same landscapes"
        burned[f"seed {number}"] = trained.measures["burned"]
        runs.append(summary)
    settings = {"preset": "wildfire default", "landscapes": LANDSCAPES, "fires": FIRES, "runs": runs}
    return settings, _rows(burned, runs)


def _trained(seed: int, env_steps: int) -> tuple[Any, dict[str, Any]]:
    """A run as a user starts it -> its greedy policy on the held-out landscapes, and what it cost."""
    from hotloop import api

    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        words = ["wildfire", "--seed", str(seed), "--run", run, "--json", "--env-steps", str(env_steps)]
        words += ["--env.evaluation-fires", str(FIRES)]
        done = subprocess.run(
            [sys.executable, "-m", "hotloop", "train", *words], stdout=subprocess.PIPE, text=True, check=True
        )
        summary = json.loads(done.stdout.splitlines()[-1])
        played = api.load(run).evaluate(LANDSCAPES, HELD_OUT_SEED)
    kept = ("seed", "env_steps", "updates", "samples_per_step", "train_s", "cold_start_s", "env_steps_per_s")
    return played, {name: summary[name] for name in kept}


def _rows(burned: dict[str, np.ndarray], runs: list[dict[str, Any]]) -> list[Row]:
    seeds = [name for name in burned if name.startswith("seed")]
    sampled = runs[0]["samples_per_step"]
    rows = [_row(name, burned[name]) for name in ("unbroken", "random", "heuristic")]
    rows.append(
        Row(
            "wildfire: burned, trained, per seed",
            "%",
            tuple(100 * float(burned[s].mean()) for s in seeds),
            "less",
            samples_per_step=sampled,
            detail={s: _interval(100 * burned[s]) for s in seeds},
        )
    )
    for other, must, aim in (("random", -5.0, None), ("heuristic", 0.0, -2.0)):
        change = tuple(100 * float(burned[s].mean() / burned[other].mean() - 1) for s in seeds)
        rows.append(
            Row(
                f"wildfire: trained against {other}, same landscapes and fires",
                "% more burned",
                change,
                "less",
                must=must,
                aim=aim,
                samples_per_step=sampled,
                detail={s: _interval(burned[s], burned[other]) for s in seeds},
            )
        )
    rows.append(Row("wildfire: training", "s", tuple(r["train_s"] for r in runs), "less", samples_per_step=sampled))
    return rows


def _row(name: str, shares: np.ndarray) -> Row:
    return Row(
        f"wildfire: burned, {name}", "%", (100 * float(shares.mean()),), "less", detail={name: _interval(100 * shares)}
    )


def _interval(shares: np.ndarray, other: np.ndarray | None = None, resamples: int = 10_000) -> list[float]:
    """95 % percentile bootstrap over landscapes: of the mean, or of how much more burns than with the other, in
    per cent, each landscape drawn with both of its figures."""
    draws = np.random.default_rng(0).integers(0, len(shares), (resamples, len(shares)))
    means = shares[draws].mean(axis=1)
    if other is not None:
        means = 100 * (means / other[draws].mean(axis=1) - 1)
    return [float(q) for q in np.quantile(means, [0.025, 0.975])]


if __name__ == "__main__":
    stage(run)
