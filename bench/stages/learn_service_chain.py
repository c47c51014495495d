"""Service chains learnt: the default preset on 2 to 8 data centres at once, 3 seeds, 100 held-out episodes each at 2,
4, 6 and 8, against the heuristic and random play in the same games."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.measure import Row, ratios, stage

LONG = True  # run only where it is named, or with all
CENTRES = (2, 4, 6, 8)
EPISODES = 100
JUDGED = 4  # data centres, where the bounds are
ACCEPTANCE, DELAY = (1.0, 1.2), 0.6  # must and aim over the heuristic; aim


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    seeds, episodes = (1, 8) if quick else (3, EPISODES)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = [_trained(Path(folder) / f"seed{seed}", seed, quick) for seed in range(seeds)]
        for n in CENTRES:
            found[str(n)] = {
                "random": _played(n, "random", episodes),
                "heuristic": _played(n, "heuristic", episodes),
                "trained": [_played(n, str(run), episodes) for run in runs],
            }
    rows = []
    for n, sides in found.items():
        rows += _rows(int(n), sides)
    return {"seeds": seeds, "episodes": episodes, "played": found}, rows


def _trained(folder: Path, seed: int, quick: bool) -> Path:
    words = ["service_chain", "--seed", str(seed), "--run", str(folder), "--json", "--evaluate-episodes", "1"]
    if quick:
        words += ["--env-steps", "100000"]
    subprocess.run([sys.executable, "-m", "hotloop", "train", *words], stdout=subprocess.PIPE, check=True)
    return folder


def _played(centres: int, policy: str, episodes: int) -> dict[str, Any]:
    """Whole episodes at that many data centres, the same games for every policy: acceptance of each, and means with
    their 95 % intervals."""
    import numpy as np

    from hotloop import api
    from hotloop.collect.policies import Random
    from hotloop.envs._world import world
    from hotloop.evaluate import evaluation_seed, interval, play

    found = world("service_chain", {"data_centres_min": centres, "data_centres_max": centres})
    if policy == "random":
        chosen = lambda env: Random(env.spec, env.lanes, 0)  # noqa: E731
    else:
        chosen = found.heuristic if policy == "heuristic" else api.load(policy).policy
    measures = play(found, chosen, episodes, evaluation_seed(0)).measures
    out: dict[str, Any] = {"games": np.round(measures["acceptance"].astype(float), 4).tolist()}
    for name in ("acceptance", "delay_ms", "cpu_used", "storage_used"):
        values = measures[name].astype(float)
        out[name] = [float(values.mean()), *interval(values)]
    kinds = [name.removeprefix("generated_") for name in measures if name.startswith("generated_")]
    for kind in kinds:
        generated = float(measures[f"generated_{kind}"].sum())
        out[kind] = float(measures[f"satisfied_{kind}"].sum()) / generated if generated else None
    return out


def _rows(centres: int, sides: dict[str, Any]) -> list[Row]:
    import numpy as np

    from hotloop.evaluate import interval

    heuristic, trained = sides["heuristic"], sides["trained"]
    games = np.mean([t["games"] for t in trained], axis=0) - np.array(heuristic["games"])
    judged = centres == JUDGED
    must, aim = ACCEPTANCE if judged else (None, None)
    means = {name: [t[name][0] for t in trained] for name in ("acceptance", "delay_ms")}
    over = ratios(means["acceptance"], [heuristic["acceptance"][0]] * len(trained))
    delay = ratios(means["delay_ms"], [heuristic["delay_ms"][0]] * len(trained))
    note = f"random {sides['random']['acceptance'][0]:.3f}, heuristic {heuristic['acceptance'][0]:.3f}"
    gain = {"mean_gain_in_the_same_games": float(games.mean()), "interval": list(interval(games))}
    at = f"{centres} data centres"
    return [
        Row(f"{at}: acceptance, per seed", "ratio", tuple(means["acceptance"]), note=note, detail=gain),
        Row(f"{at}: acceptance, trained / heuristic", "×", over, must=must, aim=aim),
        Row(f"{at}: delay, trained / heuristic", "×", delay, "less", aim=DELAY if judged else None),
    ]


if __name__ == "__main__":
    stage(run)
