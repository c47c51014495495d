"""How far it scales on this machine: snake with learning against lanes, cycle, batch, width and replay size, and
CartPole-v1 against workers, each beside what ends it: matrix products, memory, the environment on one core."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from bench.measure import Peer, Row, stage

LONG = True  # run only where it is named: most of it is compiling
BASE: dict[str, Any] = {"lanes": 256, "samples_per_step": 2.0, "learner": {"batch_size": 64}}
HIDDEN = 128
SECONDS = 1.5  # of a run, about

# name of a sweep -> (preset, the values, value -> its part of the config)
SWEEPS: dict[str, tuple[tuple[str, str], tuple[int, ...], Any]] = {
    "lanes": (("snake", "default"), (1, 4, 16, 64, 256, 1024, 4096), lambda n: {"lanes": n}),
    "cycle_steps": (("snake", "default"), (1, 2, 4, 16, 64, 256), lambda n: {"cycle_steps": n}),
    "batch_size": (
        ("snake", "default"), (32, 64, 128, 256, 512, 1024, 2048, 4096), lambda n: {"learner": {"batch_size": n}},
    ),
    "width": (
        ("snake", "default"), (32, 64, 128, 256, 512, 1024), lambda n: {"network": {"hidden": [n, n]}},
    ),
    "replay_capacity": (
        ("snake", "default"), (10_000, 100_000, 1_000_000, 10_000_000), lambda n: {"replay": {"capacity": n}},
    ),
    "workers": (
        ("cartpole", "default"), (0, 1, 2, 4),
        lambda n: {"workload": "CartPole-v1", "lanes": 16, "workers": n, "samples_per_step": 0.5, "cycle_steps": 64},
    ),
}  # fmt: skip


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    rows = list(_ceilings())
    settings: dict[str, Any] = {
        "base": BASE,
        "hidden": [HIDDEN, HIDDEN],
        "sweeps": {k: v[1] for k, v in SWEEPS.items()},
    }
    with Peer("ours") as us:
        for sweep, (preset, values, part) in SWEEPS.items():
            for value in values[:2] if quick else values:
                layer = merged(BASE, {"env": {}}, part(value))
                rows.append(_point(us, sweep, value, preset, layer, repeats=1 if quick else 3))
    return settings, rows


def _point(us: Peer, sweep: str, value: int, preset: tuple[str, str], layer: dict[str, Any], repeats: int) -> Row:
    """A short run says how fast it is, and longer ones are then measured."""
    lanes, batch = layer["lanes"], layer["learner"]["batch_size"]
    cycle = max(lanes * max(4, layer.get("cycle_steps", 0)), int(batch / layer["samples_per_step"]))
    starts = 2 * max(batch, lanes)
    layer = merged(layer, {"learning_starts_env_steps": starts})
    tried = us.ask("train", preset=preset, layer={**layer, "total_env_steps": starts + 30 * cycle})
    total = starts + int(max(30 * cycle, SECONDS * tried["env_steps_per_s"]))
    runs = [us.ask("train", preset=preset, layer={**layer, "total_env_steps": total}) for _ in range(repeats)]
    updates = float(np.median([r["updates"] / r["seconds"] for r in runs]))
    hidden = layer.get("network", {}).get("hidden", [HIDDEN, HIDDEN])
    detail = {
        "sweep": sweep,
        "value": value,
        "updates_per_s": round(updates, 1),
        "gflops": round(updates * _operations(hidden, batch) / 1e9, 2) if preset[0] == "snake" else None,
        "shares": _shares(runs[-1]["summary"]),
    }
    speeds = tuple(r["env_steps_per_s"] for r in runs)
    return Row(
        f"{preset[0]}, {sweep} {value:,}", "env steps/s", speeds, samples_per_step=runs[-1]["samples_per_step"],
        detail=detail,
    )  # fmt: skip


def _operations(hidden: list[int], batch: int) -> float:
    """Of one update: forward of the online network and of the target, and twice a forward back, less the gradient
    of the input; snake sees 10 numbers and has 3 actions."""
    sizes = (10, *hidden, 3)
    products = [a * b for a, b in pairwise(sizes)]
    return 2.0 * batch * (4 * sum(products) - products[0])


def _shares(summary: Mapping[str, Any]) -> dict[str, float]:
    """What each thread did with its time."""
    sections = {k: v[1] for k, v in summary["sections"].items()}
    total = summary["train_s"]
    return {k: round(v / total, 3) for k, v in sections.items() if v / total > 0.01}


def _ceilings() -> list[Row]:
    """What this machine can do on one core."""
    import torch

    from hotloop import aot

    torch.set_num_threads(1)
    left, right = torch.randn(256, 256), torch.randn(256, 256)
    chain = 16

    def products(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        for _ in range(chain):
            a = a @ b * 0.01
        return [a]

    program = aot.compiled("ceiling", products, [left, right], {}, fingerprint="256", threads=1)
    rates = [2 * 256**3 * chain / _seconds(lambda: program.call([left, right])) / 1e9 for _ in range(9)]
    big, room = np.ones(2**26, np.uint8), np.empty(2**26, np.uint8)
    copies = [2 * big.nbytes / _seconds(lambda: np.copyto(room, big)) / 1e9 for _ in range(9)]
    return [
        Row("ceiling: matrix products 256×256, one core", "GFLOP/s", tuple(rates)),
        Row("ceiling: memory, read and written, one core", "GB/s", tuple(copies)),
    ]


def _seconds(call: Any) -> float:
    call()
    began = time.perf_counter()
    for _ in range(5):
        call()
    return (time.perf_counter() - began) / 5


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            out[key] = {**out.get(key, {}), **value} if isinstance(value, Mapping) else value
    return out


if __name__ == "__main__":
    stage(run)
