"""The terms of the comparisons with Stable-Baselines3 on CartPole, said once and given to both sides."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bench.measure import Peer, Row, interleaved, ratios, rival_python

PRESET = ("cartpole", "cleanrl")
RIVAL = "Stable-Baselines3"


def terms(lanes: int, total_env_steps: int, learning_starts: int) -> dict[str, Any]:
    """One update of 128 per 10 env steps. Huber and a clip at 10, since the rival can do no other."""
    return {
        "lanes": lanes,
        "total_env_steps": total_env_steps,
        "learning_starts": learning_starts,
        "env_steps_per_update": 10,
        "batch": 128,
        "hidden": [120, 84],
        "learning_rate": 2.5e-4,
        "gamma": 0.99,
        "capacity": 10_000,
        "target_every_updates": 50,
        "epsilon": [1.0, 0.05],
        "epsilon_decay": total_env_steps // 2,
        "max_grad_norm": 10.0,
        "seed": 1,
    }


def layer(work: dict[str, Any], workload: str, overlap: bool) -> dict[str, Any]:
    """The same terms in our words, over the preset cleanrl."""
    return {
        "workload": workload,
        "seed": work["seed"],
        "lanes": work["lanes"],
        "total_env_steps": work["total_env_steps"],
        "learning_starts_env_steps": work["learning_starts"],
        "samples_per_step": work["batch"] / work["env_steps_per_update"],
        "cycle_steps": 10,
        "overlap": overlap,
        "network": {"name": "mlp", "head": "scalar", "hidden": work["hidden"]},
        "variant": {"name": "dqn", "loss": "huber"},
        "explore": {"start": work["epsilon"][0], "end": work["epsilon"][1], "decay_env_steps": work["epsilon_decay"]},
        "replay": {"capacity": work["capacity"]},
        "learner": {
            "batch_size": work["batch"],
            "gamma": work["gamma"],
            "target_every_updates": work["target_every_updates"],
            "optimizer": {"learning_rate": work["learning_rate"], "max_grad_norm": work["max_grad_norm"]},
        },
    }


def assert_same_update(ours: Peer, rival: Peer, work: dict[str, Any]) -> None:
    """Same weights, same batch, some errors beyond 1 and some episodes over: same loss, same weights afterwards."""
    rng = np.random.default_rng(0)
    sizes = [4, *work["hidden"], 2]
    count = sum(a * b + b for a, b in pairwise(sizes))
    params = rng.normal(0, 0.2, count).astype(np.float32).tolist()
    batch = {
        "obs": rng.normal(0, 1, (work["batch"], 4)).tolist(),
        "next_obs": rng.normal(0, 1, (work["batch"], 4)).tolist(),
        "action": rng.integers(0, 2, work["batch"]).tolist(),
        "reward": rng.normal(0, 2, work["batch"]).tolist(),
        "terminated": (rng.random(work["batch"]) < 0.1).astype(float).tolist(),
    }
    a = ours.ask("one_update", preset=PRESET, layer=layer(work, "cartpole", True), params=params, batch=batch)
    b = rival.ask("one_update", work=work, params=params, batch=batch)
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-5, err_msg="loss on the same batch")
    np.testing.assert_allclose(a["params"], b["params"], rtol=0, atol=2e-6, err_msg="weights after one update")


def compare(
    work: dict[str, Any], ours: dict[str, dict[str, Any]], judged: str, must: float, aim: float, repeats: int
) -> tuple[dict[str, Any], list[Row]]:
    """ours: label -> layer. Ratios per round against the rival; only those of `judged` have bounds."""
    with Peer("ours") as us, Peer("sb3", rival_python("sb3")) as them:
        assert_same_update(us, them, work)
        sides = {RIVAL: lambda: them.ask("train", work=work)}
        for label, one in ours.items():
            sides[label] = lambda one=one: us.ask("train", preset=PRESET, layer=one)
        for label in ours:
            sides[label]()  # compile, where the cache has it not
        found = interleaved(sides, repeats)
        about = {"ours": us.ask("about"), "rival": them.ask("about")}
    assert all(side["torch_threads"] == 1 for side in about.values()), about
    asked = work["batch"] / work["env_steps_per_update"]
    for label, runs in found.items():
        for run in runs:
            assert abs(run["samples_per_step"] / asked - 1) < 0.01, (
                f"{label}: {run['samples_per_step']} samples per step"
            )
    speeds = {label: [r["env_steps_per_s"] for r in runs] for label, runs in found.items()}
    rows = []
    for label in ours:
        bounds = {"must": must, "aim": aim} if label == judged else {}
        name, values = f"env steps/s, {label} / {RIVAL}", ratios(speeds[label], speeds[RIVAL])
        rows.append(Row(name, "×", values, samples_per_step=_sampled(found[label]), **bounds))
    for label, values in speeds.items():
        rows.append(Row(label, "env steps/s", tuple(values), samples_per_step=_sampled(found[label])))
    window = {label: {k: runs[-1][k] for k in ("env_steps", "updates", "seconds")} for label, runs in found.items()}
    return {"terms": work, "window_of_last_round": window, **about}, rows


def _sampled(runs: list[dict[str, Any]]) -> float:
    return round(float(np.median([r["samples_per_step"] for r in runs])), 3)
