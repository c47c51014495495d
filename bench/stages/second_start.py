"""From the start of the process to the end of the first updates, `hotloop train cartpole`, when it ran before."""

from __future__ import annotations

import tempfile
from typing import Any

from bench.measure import Row, stage
from bench.stages import _starts

WORDS = ("cartpole", "--env-steps", "4000", "--evaluate-episodes", "1")


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    _starts.train(*WORDS)
    runs = [_starts.train(*WORDS) for _ in range(2 if quick else 9)]
    assert all(r["warm_start"] for r in runs)
    sampled = runs[-1]["samples_per_step"]
    seconds = tuple(r["first_update_s"] for r in runs)
    parts = {"before step 1, of it": [r["cold_start"] for r in runs]}
    rows = [
        Row("second start to first update", "s", seconds, "less", 4.0, 2.5, sampled, detail=parts),
        Row("second start, whole process", "s", tuple(r["process_s"] for r in runs), "less", samples_per_step=sampled),
    ]
    if not quick:
        with tempfile.TemporaryDirectory() as empty:
            caches = {"HOTLOOP_CACHE": f"{empty}/hotloop", "NUMBA_CACHE_DIR": f"{empty}/numba"}
            cold = _starts.train(*WORDS, env=caches)
        assert not cold["warm_start"]
        what = "very first start to first update, caches empty, once"
        rows.append(Row(what, "s", (cold["first_update_s"],), "less", samples_per_step=cold["samples_per_step"]))
    return {"command": "hotloop train " + " ".join(WORDS)}, rows


if __name__ == "__main__":
    stage(run)
