"""PQN against DQN on CartPole: the presets `pqn` and `default` in turns, 5 seeds, whole runs as a user starts them."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, ratios, stage
from bench.stages._learning import trained

SOLVED = 475.0
PRESETS = ("default", "pqn")


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    runs: dict[str, list[dict[str, Any]]] = {preset: [] for preset in PRESETS}
    for seed in range(2 if quick else 5):
        for preset in PRESETS:  # in turns: what else the machine does hits both
            runs[preset].append(trained("cartpole", preset, seed, "eval_return_mean", SOLVED, quick))
    ours, theirs = runs["pqn"], runs["default"]
    sampled = {preset: found[0]["samples_per_step"] for preset, found in runs.items()}
    note = f"samples per step: pqn {sampled['pqn']:g}, dqn {sampled['default']:g}; not the same work, the same end"
    rows = [
        Row(
            f"cartpole: seeds of pqn at {SOLVED:g} or above, of {len(ours)}", "seeds",
            (float(sum(r["return_mean"] >= SOLVED for r in ours)),), must=5, samples_per_step=sampled["pqn"],
        ),
        Row(
            "cartpole: greedy return of pqn, per seed", "return", tuple(r["return_mean"] for r in ours),
            must=SOLVED, samples_per_step=sampled["pqn"],
        ),
        Row(
            "cartpole: whole training, dqn / pqn", "×",
            ratios([r["train_s"] for r in theirs], [r["train_s"] for r in ours]), must=1.0, note=note,
        ),
    ]  # fmt: skip
    times = [(dqn["seconds_to_threshold"], pqn["seconds_to_threshold"]) for dqn, pqn in zip(theirs, ours, strict=True)]
    met = [pair for pair in times if None not in pair]
    if met:
        what = f"cartpole: training until an evaluation reached {SOLVED:g}"
        rows.append(
            Row(f"{what}, dqn / pqn", "×", ratios([a for a, _ in met], [b for _, b in met]), must=1.0, note=note)
        )
        rows.append(Row(f"{what}, pqn", "s", tuple(b for _, b in met), "less", samples_per_step=sampled["pqn"]))
    return {"presets": list(PRESETS), "runs": runs}, rows


if __name__ == "__main__":
    stage(run)
