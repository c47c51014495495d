"""CartPole until a mean of 475 over 100 greedy episodes, from the start of the process and by training time alone, 5
seeds. Weights are kept at intervals on the way and judged afterwards, all by one judge, so judging takes no time."""

from __future__ import annotations

import tempfile
import time
from typing import Any

from bench.measure import Peer, Row, interleaved, stage
from bench.stages._cartpole import layer, terms
from bench.stages._rivals import TITLES, Rivals, absent_row, greedy_return, used

LONG = True  # run only where it is named, or with all
SOLVED, EVERY = 475.0, 2_000  # env steps between two looks
BOUNDS = {"jax_whole": (1.5, 3.0), "cleanrl_style": (3.0, 5.0), "sb3": (6.0, 10.0)}

# Our preset's settings, which who was written here can have as well.
OWN = {
    **terms(lanes=16, total_env_steps=100_000, learning_starts=2_000),
    "env_steps_per_update": 8, "batch": 128, "hidden": [64, 64], "layer_norm": True, "double": True, "loss": "mse",
    "n_step": 5, "gamma": 0.995, "learning_rate": 1e-3, "learning_rate_end": 0.0, "capacity": 20_000,
    "target_every_updates": 100, "epsilon": [1.0, 0.02], "epsilon_decay": 20_000,
}  # fmt: skip
# Those that rl-zoo3 found for Stable-Baselines3, which cannot have ours: 128 updates of 64 every 256 env steps.
ZOO = {
    **terms(lanes=1, total_env_steps=50_000, learning_starts=1_000),
    "env_steps_per_update": 2, "updates_at_once": 128, "cycle_steps": 256, "batch": 64, "hidden": [256, 256],
    "learning_rate": 2.3e-3, "capacity": 100_000, "target_every_updates": 128, "epsilon": [1.0, 0.04],
    "epsilon_decay": 8_000,
}  # fmt: skip
SETTINGS = {"jax_whole": OWN, "cleanrl_style": OWN, "sb3": ZOO}
LABELS = {"ours": "ours", "ours_zoo": "ours, settings of rl-zoo3", **TITLES}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    seeds = range(1 if quick else 5)
    with tempfile.TemporaryDirectory() as cache:
        environment = {"JAX_COMPILATION_CACHE_DIR": cache, **CACHE_ALL}
        sides = {name: _side(name, quick, environment) for name in (*BOUNDS, "ours", "ours_zoo")}
        for name in ("jax_whole", "ours", "ours_zoo"):
            sides[name](None)  # the first start, which fills the caches
        order = iter([s for s in seeds for _ in sides])
        found = interleaved({name: lambda side=side: side(next(order)) for name, side in sides.items()}, len(seeds))
    rows = []
    for name, (must, aim) in BOUNDS.items():
        for at, what in (("process_s", "second start + time to 475"), ("train_s", "training until 475")):
            bounds = (must, aim) if at == "process_s" else (None, None)
            title = f"{what}, {TITLES[name]} / ours"
            if "absent" in found[name][-1]:
                rows.append(absent_row(title, "×", found[name][-1]["absent"], *bounds))
                continue
            pairs = [(a, b) for a, b in zip(found[name], found["ours"], strict=True)]
            values = tuple(a[at] / b[at] if b["reached"] else 0.0 for a, b in pairs)
            late = sum(not a["reached"] for a, _ in pairs)
            note = f"{late} of its {len(pairs)} seeds did not reach it: at least" if late else ""
            rows.append(Row(title, "×", values, "more", *bounds, middle="interquartile mean", note=note))
    for name, runs in found.items():
        if "absent" in runs[-1]:
            continue
        sampled, detail = runs[-1]["samples_per_step"], {"runs": runs}
        rows.append(Row(f"{LABELS[name]}: seeds that reached 475", "seeds", (float(sum(r["reached"] for r in runs)),)))
        for at, what in (("process_s", "second start + time to 475"), ("train_s", "training until 475")):
            values = tuple(r[at] for r in runs if r["reached"])
            if values:
                row = Row(f"{LABELS[name]}: {what}", "s", values, "less", samples_per_step=sampled, detail=detail)
                rows.append(Row(**{**row.__dict__, "middle": "interquartile mean"}))
                detail = {}
    return {"own": OWN, "zoo": ZOO, "judged_every_env_steps": EVERY, "seeds": len(seeds)}, rows


CACHE_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def _side(name: str, quick: bool, environment: dict[str, str]) -> Any:
    """seed -> one run in a process of its own, judged; no seed: the process alone, to fill the caches."""
    work = {**SETTINGS.get(name, ZOO if name == "ours_zoo" else OWN), "snapshot_every_env_steps": EVERY}
    if quick:
        work["total_env_steps"] //= 10

    def side(seed: int | None) -> dict[str, Any]:
        asked, began = {**work, "seed": seed or 0}, time.monotonic()
        if name.startswith("ours"):
            request = {"preset": ("cartpole", "default"), "layer": layer(asked, "cartpole", overlap=True)}
            with Peer("ours") as us:
                if seed is None:
                    return us.ask("first_update", **request)
                found: dict[str, Any] | None = us.ask("train", **request, snapshot_every_env_steps=EVERY)
                peak = us.peak_mb()
        else:
            with Rivals([name], environment) as rivals:
                found = rivals.ask(name, "train" if seed is not None else "first_update", work=asked)
                if found is None:
                    return {"absent": rivals.absent[name]}
                if seed is None:
                    found = rivals.ask(name, "train", work=asked)  # its first update is not all that it compiles
                    return {}
                peak = rivals.peak_mb[name]
        return _judged(found, asked, began, peak)

    return side


def _judged(found: dict[str, Any], work: dict[str, Any], began: float, peak_mb: float | None) -> dict[str, Any]:
    """When the weights first played to 475; where they never did, the whole run, which is less than it would need."""
    out = {"reached": False, "samples_per_step": found["samples_per_step"], "curve": [], **used([found], peak_mb)}
    for env_steps, train_s, at, weights in found["snapshots"]:
        mean = greedy_return(weights, work["hidden"], work.get("layer_norm", False))
        out["curve"].append([env_steps, round(train_s, 3), mean])
        out |= {"env_steps": env_steps, "train_s": train_s, "process_s": at - began}
        if mean >= SOLVED:
            return {**out, "reached": True}
    return out


if __name__ == "__main__":
    stage(run)
