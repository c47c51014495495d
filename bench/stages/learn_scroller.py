"""Scroller learnt from pixels: the preset, 5 seeds, how far 50 greedy episodes each get, against random play and the
heuristic that looks at the level itself."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages._learning import trained

LONG = True  # run only where it is named, or with all
GOAL = 60.0  # tiles to the flag


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    from hotloop import api
    from hotloop.collect.policies import Random
    from hotloop.evaluate import evaluation_seed, play

    world = api.configure("scroller", "default").world()
    policies = {"random play": lambda env: Random(env.spec, env.lanes, 0), "the heuristic": world.heuristic}
    reference = {name: play(world, policy, 100, evaluation_seed(0)) for name, policy in policies.items()}
    runs = [
        trained("scroller", "default", seed, "eval_distance", 0.95 * GOAL, quick) for seed in range(1 if quick else 5)
    ]
    distances = tuple(r["measures"]["distance"][0] for r in runs)
    rows = [
        Row(
            f"scroller: mean distance of {GOAL:.0f}, per seed", "tiles", distances, must=0.8 * GOAL, aim=0.95 * GOAL,
            samples_per_step=runs[0]["samples_per_step"],
        ),
        Row("scroller: share of flags, per seed", "", tuple(r["measures"]["flag"][0] for r in runs)),
        Row("scroller: training", "s", tuple(r["train_s"] for r in runs), "less"),
    ]  # fmt: skip
    for name, played in reference.items():
        rows.append(Row(f"scroller: distance of {name}", "tiles", (float(played.measures["distance"].mean()),)))
    return {"preset": "default", "runs": runs}, rows


if __name__ == "__main__":
    stage(run)
