"""The terms of the comparisons with rivals on CartPole, said once and given to all sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from bench.measure import Peer, Row, interleaved, ratios
from bench.stages._rivals import TITLES, Rivals, absent_row, assert_equal_work, greedy_return, in_words, used

PRESET = ("cartpole", "cleanrl")


def terms(lanes: int, total_env_steps: int, learning_starts: int) -> dict[str, Any]:
    """One update of 128 per 10 env steps. Huber and a clip at 10, since some rivals can do no other. Optional
    terms, which not every rival knows: loss, activation, layer_norm, n_step, double, target_tau, learning_rate_end,
    updates_at_once."""
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
        "cycle_steps": work.get("cycle_steps", 10),
        "overlap": overlap,
        "network": {
            "name": "mlp",
            "head": "scalar",
            "hidden": work["hidden"],
            "activation": work.get("activation", "relu"),
            "layer_norm": work.get("layer_norm", False),
        },
        "variant": {"name": "dqn", "loss": work.get("loss", "huber"), "double": work.get("double", False)},
        "explore": {"start": work["epsilon"][0], "end": work["epsilon"][1], "decay_env_steps": work["epsilon_decay"]},
        "replay": {"capacity": work["capacity"], "n_step": work.get("n_step", 1)},
        "learner": {
            "batch_size": work["batch"],
            "gamma": work["gamma"],
            "target_every_updates": work["target_every_updates"],
            "target_tau": work.get("target_tau", 1.0),
            "optimizer": {
                "learning_rate": work["learning_rate"],
                "learning_rate_end": work.get("learning_rate_end", -1.0),
                "max_grad_norm": work["max_grad_norm"],
            },
        },
    }


def assert_same_update(ours: Peer, rival: Peer, work: dict[str, Any], preset: tuple[str, str] = PRESET) -> None:
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
    a = ours.ask("one_update", preset=preset, layer=layer(work, "cartpole", True), params=params, batch=batch)
    b = rival.ask("one_update", work=work, params=params, batch=batch)
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-5, err_msg="loss on the same batch")
    np.testing.assert_allclose(a["params"], b["params"], rtol=0, atol=2e-6, err_msg="weights after one update")


def compare(
    work: dict[str, Any],
    ours: dict[str, dict[str, Any]],
    judged: str,
    bounds: Mapping[str, tuple[float, float]],
    repeats: int,
    changes: Mapping[str, dict[str, Any]] | None = None,
    preset: tuple[str, str] = PRESET,
) -> tuple[dict[str, Any], list[Row]]:
    """ours: label -> layer. bounds: rival -> what the ratio of `judged` to it must and should be. changes: rival -> in
    which terms it differs, none of which changes the work per env step. Ratios are taken within each round."""
    changes = changes or {}
    with Peer("ours") as us, Rivals(list(bounds)) as rivals:
        for name in list(rivals.open):
            if name != "rllib":  # a learner that takes episodes only
                assert_same_update(us, rivals.open[name], work, preset)
        sides: dict[str, Callable[[], Any]] = {
            name: lambda name=name: rivals.ask(name, "train", work={**work, **changes.get(name, {})}) for name in bounds
        }
        for name in [n for n in WARMED if n in bounds]:
            sides[name]()  # compile, where each process has to
        for label, one in ours.items():
            sides[label] = lambda one=one: us.ask("train", preset=preset, layer=one)
            sides[label]()  # compile, where the cache has it not
        found = interleaved(sides, repeats)
        about = {"ours": us.ask("about"), **rivals.about}
        peak = {**rivals.peak_mb, **dict.fromkeys(ours, us.peak_mb())}
    assert all(side.get("torch_threads", 1) == 1 for side in about.values()), about
    found = {name: runs for name, runs in found.items() if name not in rivals.absent}
    for label, runs in found.items():
        assert_equal_work(label, runs, work["batch"] / work["env_steps_per_update"])
    speeds = {label: [r["env_steps_per_s"] for r in runs] for label, runs in found.items()}
    rows = []
    for rival, (must, aim) in bounds.items():
        for label in ours:
            name, bound = f"env steps/s, {label} / {TITLES[rival]}", (must, aim) if label == judged else (None, None)
            if rival in rivals.absent:
                rows.append(absent_row(name, "×", rivals.absent[rival], *bound))
                continue
            sampled = _sampled(found[label])
            rows.append(Row(name, "×", ratios(speeds[label], speeds[rival]), "more", *bound, sampled))
    for label, values in speeds.items():
        detail = used(found[label], peak[label])
        played = [r["weights"] for r in found[label]]
        detail["greedy_return"] = float(np.median([greedy_return(w, work["hidden"], **_judged(work)) for w in played]))
        title = TITLES.get(label, label)
        sampled = _sampled(found[label])
        row = Row(title, "env steps/s", tuple(values), samples_per_step=sampled, note=in_words(detail), detail=detail)
        rows.append(row)
    window = {label: {k: runs[-1][k] for k in ("env_steps", "updates", "seconds")} for label, runs in found.items()}
    settings = {"terms": work, "changes": changes, "window_of_last_round": window, "absent": rivals.absent}
    return {**settings, "sides": about}, rows


WARMED = ("jax_whole", "sbx", "torchrl", "tianshou", "rllib")


def _judged(work: Mapping[str, Any]) -> dict[str, Any]:
    return {"layer_norm": work.get("layer_norm", False), "activation": work.get("activation", "relu")}


def _sampled(runs: list[dict[str, Any]]) -> float:
    return round(float(np.median([r["samples_per_step"] for r in runs])), 3)
