"""Every variant and head in every world: its preset where there is one of that name, else the world's with one thing
changed; 5 seeds, 100 greedy episodes each, and the time a whole training took. Some hours."""

from __future__ import annotations

from typing import Any

from bench.measure import Row, stage
from bench.stages._learning import trained

LONG = True
SEEDS = 5
# name -> flags, where the world has no preset of that name
CHANGES: dict[str, list[str]] = {
    "dqn": ["--variant", "dqn", "--variant.double", "false"],
    "double": ["--variant", "dqn", "--variant.double", "true"],
    "munchausen": ["--variant", "munchausen"],
    "c51": ["--variant", "c51", "--variant.double", "true"],
    "qr_dqn": ["--variant", "qr_dqn", "--variant.double", "true"],
    "iqn": ["--variant", "iqn", "--variant.double", "true"],
    "dueling": ["--head", "dueling"],
    "noisy": ["--network.noisy", "true", "--explore.start", "0", "--explore.end", "0"],
    "per": ["--sampler", "prioritized"],
}
# world -> (workload, preset, what is judged, threshold, least and greatest discounted return for c51)
WORLDS: dict[str, tuple[str, str, str, float, tuple[float, float]]] = {
    "cartpole": ("cartpole", "default", "return_mean", 475.0, (0.0, 200.0)),
    "snake basic": ("snake", "default", "score", 16.8, (-15.0, 120.0)),
    "snake flood": ("snake", "flood", "score", 25.4, (-15.0, 120.0)),
    "lunar": ("LunarLander-v3", "default", "return_mean", 200.0, (-300.0, 300.0)),
}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    from hotloop.presets import presets_of

    worlds = {"cartpole": WORLDS["cartpole"]} if quick else WORLDS
    rows, found = [], {}
    for world, (workload, preset, judged, threshold, (low, high)) in worlds.items():
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CHANGES}
        for seed in range(1 if quick else SEEDS):
            for name, flags in CHANGES.items():  # in turns: what else the machine does hits all
                support = ["--variant.v-min", str(low), "--variant.v-max", str(high)] if name == "c51" else []
                own = name in presets_of(workload)
                chosen, flags = (name, []) if own else (preset, [*flags, *support])
                runs[name].append(trained(workload, chosen, seed, f"eval_{judged}", threshold, quick, flags))
        for name, each in runs.items():
            scores = tuple(r[judged] if judged in r else r["measures"][judged][0] for r in each)
            # Every variant has to solve CartPole; elsewhere the table is what is found.
            must = threshold if world == "cartpole" else None
            seconds = [r["train_s"] for r in each]
            rows.append(
                Row(
                    f"{world}: {name}, per seed", judged.removesuffix("_mean"), scores, must=must,
                    samples_per_step=each[0]["samples_per_step"], detail={"train_s": seconds},
                )
            )  # fmt: skip
        for name, each in runs.items():
            rows.append(Row(f"{world}: {name}, whole training", "s", tuple(r["train_s"] for r in each), "less"))
        found[world] = runs
    return {"changes": CHANGES, "seeds": SEEDS, "runs": found}, rows


if __name__ == "__main__":
    stage(run)
