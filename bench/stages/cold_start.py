"""From the start of a process to its first update, each rival on CartPole, with empty caches and again with those that
the first start has left."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import Peer, Row, interleaved, stage
from bench.stages._cartpole import PRESET, layer, terms
from bench.stages._rivals import TITLES, Rivals, absent_row
from bench.stages.time_to_475 import CACHE_ALL

LONG = True  # run only where it is named, or with all
NAMES = ("sb3", "tianshou", "sbx", "torchrl", "rllib", "jax_whole", "cleanrl_style")


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    work = terms(lanes=10, total_env_steps=4_000, learning_starts=1_000)
    with tempfile.TemporaryDirectory() as folder:
        sides = {name: _side(name, work, Path(folder) / name) for name in ("ours", *NAMES)}
        first = {name: side() for name, side in sides.items()}
        found = interleaved(sides, 1 if quick else 3)
    rows = []
    for name in sides:
        title = TITLES.get(name, name)
        if isinstance(first[name], str):
            rows.append(absent_row(f"{title}: second start to first update", "s", first[name]))
            continue
        values = tuple(x for x in found[name] if not isinstance(x, str))
        bounds = (4.0, 2.5) if name == "ours" else (None, None)
        rows.append(Row(f"{title}: second start to first update", "s", values, "less", *bounds))
        rows.append(Row(f"{title}: first start, caches empty, once", "s", (first[name],), "less"))
    return {"terms": work, "learning_starts_env_steps": work["learning_starts"]}, rows


def _side(name: str, work: dict[str, Any], caches: Path) -> Any:
    """→ seconds, or why there are none."""
    keys = ("HOTLOOP_CACHE", "NUMBA_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    environment = {key: str(caches / key.lower()) for key in keys} | CACHE_ALL

    def side() -> float | str:
        began = time.monotonic()
        if name == "ours":
            with Peer("ours", environment=environment) as us:
                at = us.ask("first_update", preset=PRESET, layer=layer(work, "cartpole", overlap=True))["at"]
            return at - began
        with Rivals([name], environment) as rivals:
            found = rivals.ask(name, "first_update", work=work)
            return rivals.absent[name] if found is None else found["at"] - began

    return side


if __name__ == "__main__":
    stage(run)
