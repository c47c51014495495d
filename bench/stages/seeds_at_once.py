"""Eight seeds of CartPole in one process, `hotloop train cartpole --seeds 8`, against eight runs one after another:
whole commands from start to end, and env steps/s of all while they learn. The weights they end with are the same."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from typing import Any

from bench.measure import Row, interleaved, ratios, stage
from bench.stages._starts import COMMAND, train

SEEDS = 8


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    words = ("cartpole", "--env-steps", "12000" if quick else "100000")
    train(*words)  # compile, where the cache has it not
    found = interleaved(
        {"at once": lambda: at_once(*words), "one by one": lambda: one_by_one(*words)}, 1 if quick else 5
    )
    for together, alone in zip(found["at once"], found["one by one"], strict=True):
        assert together["weights"] == alone["weights"], "other weights at the end"
        assert together["env_steps"] == alone["env_steps"] and together["updates"] == alone["updates"]
    sampled = found["at once"][-1]["samples_per_step"]
    whole = {side: [r["env_steps"] / r["seconds"] for r in runs] for side, runs in found.items()}
    learning = {side: [r["env_steps_per_s"] for r in runs] for side, runs in found.items()}
    rows = [
        Row(
            f"{SEEDS} seeds of CartPole, whole commands: at once / one by one",
            "×", ratios(whole["at once"], whole["one by one"]), must=3.0, samples_per_step=sampled,
            detail={side: [round(r["seconds"], 3) for r in runs] for side, runs in found.items()},
        ),
        Row(
            f"{SEEDS} seeds of CartPole, env steps/s of all while learning: at once / one by one",
            "×", ratios(learning["at once"], learning["one by one"]), samples_per_step=sampled,
        ),
    ]  # fmt: skip
    rows += [
        Row(f"{SEEDS} seeds, {side}, while learning", "env steps/s", tuple(values), samples_per_step=sampled)
        for side, values in learning.items()
    ]
    return {"command": "hotloop train " + " ".join([*words, "--seeds", str(SEEDS)])}, rows


def at_once(*words: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        command = [*COMMAND, *words, "--seeds", str(SEEDS), "--run", f"{folder}/runs", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - began
    summary = json.loads(done.stdout.splitlines()[-1])
    return _figures(summary["agents"], seconds, summary["env_steps_per_s"])


def one_by_one(*words: str) -> dict[str, Any]:
    runs = [train(*words, "--seed", str(seed)) for seed in range(SEEDS)]
    # Equal shares of the work, so the speed of all is the harmonic mean of theirs.
    speed = SEEDS / sum(1 / r["env_steps_per_s"] for r in runs)
    return _figures(runs, sum(r["process_s"] for r in runs), speed)


def _figures(runs: list[dict[str, Any]], seconds: float, env_steps_per_s: float) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "env_steps_per_s": env_steps_per_s,
        "env_steps": sum(r["env_steps"] for r in runs),
        "updates": sum(r["updates"] for r in runs),
        "samples_per_step": runs[0]["samples_per_step"],
        "weights": [r["weights_sha256"] for r in runs],
    }


if __name__ == "__main__":
    stage(run)
