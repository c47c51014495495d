"""Run folders as training leaves them, made by hand: finished, interrupted, strange."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotloop.core import toml

CONFIG: dict[str, Any] = {
    "workload": "snake",
    "seed": 0,
    "total_env_steps": 20_000,
    "lanes": 16,
    "samples_per_step": 2.0,
    "env": {"size": 10},
    "network": {"name": "mlp", "hidden": [64, 64]},
    "learner": {"batch_size": 32, "gamma": 0.99, "optimizer": {"learning_rate": 1e-3}},
}
HOSTILE = "</script><img src=x onerror=alert(1)>"


def row(k: int, seed: int = 0, **more: Any) -> dict[str, Any]:
    """The k-th of a run that learns from 1,000 env steps on."""
    learns = max(k - 1, 0)
    return {
        "env_steps": 1_000 * (k + 1),
        "updates": 62.5 * learns,
        "seconds": 0.01 + 0.1 * learns,
        "env_steps_per_s": 10_000.0 if learns else 100_000.0,
        "updates_per_s": 625.0 if learns else 0.0,
        "episodes": 10 * k,
        "loss": math.exp(-k / 5) if learns else None,
        "q": float(k),
        "grad_norm": 1.0 / (k + 1),
        "return_mean": 10.0 * k + seed,
        "length_mean": 20.0 + k,
        "score": 1.0 * k,
        "death_wall": 0.5,
        "death_self": 0.25,
        "epsilon": 1.0 / (k + 1),
        "samples_per_step": 2.0,
        "replay_size": 1_000 * k,
        "refused_updates": 0,
        **more,
    }


def rows(n: int = 20, seed: int = 0) -> list[dict[str, Any]]:
    return [row(k, seed) for k in range(n)]


SUMMARY: dict[str, Any] = {
    "workload": "snake",
    "seed": 0,
    "env_steps": 20_000,
    "updates": 1_125,
    "batch": 32,
    "samples_per_step": 2.0,
    "env_steps_per_s": 10_000.0,
    "first_window_ratio": 0.96,
    "env_steps_per_s_windows": [9_600.0, *[10_000.0] * 19],
    "cold_start_s": 2.5,
    "cold_start": {"compile": 2.0, "replay": 0.5, "lanes": 0.0},
    "warm_start": True,
    "compiled": True,
    "first_update_s": 4.0,
    "train_s": 2.0,
    "paused_s": {"evaluate": 0.25},
    "peak_rss_mb": 345.6,
    "return_mean": 190.0,
    "return_ci": [180.0, 200.0],
    "measures": {"score": [19.0, 18.0, 20.0], "death_wall": [0.5, 0.4, 0.6], "death_self": [0.25, 0.2, 0.3]},
    "episodes": 100,
    "unfinished_episodes": 0,
    "refused_updates": 0,
    "exact": True,
    "stopped_by_signal": None,
    "report": "report.html",
    "weights_sha256": "0123456789abcdef0123",
    "sections": {"main/act": [100, 0.5], "main/wait": [100, 1.0], "learn/update": [100, 1.2]},
    "versions": {"hotloop": "0.1.0", "torch": "2.13.0"},
    "machine": {"cpu": "abacus", "cores": 2},
}
FINDING: dict[str, Any] = {
    "name": "waiting",
    "title": "Acting waits for learning",
    "file": "train.py",
    "line": 12,
    "share": 0.4,
    "remedy": "overlap them",
    "evidence": ["the main thread slept"],
    "predicted_gain": 1.67,
    "measured_gain": 1.5,
    "interval": [1.4, 1.6],
    "learning": "changes",
}


def folder(
    path: Path,
    config: Mapping[str, Any] | None = None,
    metrics: Sequence[Mapping[str, Any]] | None = None,
    summary: Mapping[str, Any] | None = None,
    findings: Sequence[Any] | None = None,
    trace: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Path:
    """A run on disk; what is None is not written, apart from the config, which every run has."""
    path.mkdir(parents=True)
    (path / "config.toml").write_text(toml.dumps({**CONFIG, "seed": seed, **(config or {})}))
    if metrics is not None:
        (path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in metrics))
    for name, value in (("summary", summary), ("trace", trace)):
        if value is not None:
            (path / f"{name}.json").write_text(json.dumps(value))
    if findings is not None:
        (path / "doctor.json").write_text(json.dumps({"findings": findings}))
    return path


def finished(path: Path, seed: int = 0, config: Mapping[str, Any] | None = None, **more: Any) -> Path:
    """A run that went well."""
    told = {**SUMMARY, "seed": seed, "return_mean": 190.0 + seed, **more}
    return folder(path, config, rows(seed=seed), told, trace=trace(), seed=seed)


def trace(seconds: int = 10) -> dict[str, Any]:
    """Of each second the main thread acts for a half, a quarter of the second being the environment's, and waits for a
    tenth."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in ((1, "main"), (2, "learn"))
    ]
    for s in range(seconds):
        at = 1e6 * (s + 3)
        events += [
            {"ph": "X", "name": name, "ts": at + start, "dur": took, "pid": 1, "tid": tid}
            for name, start, took, tid in (
                ("act", 0.0, 5e5, 1),
                ("env", 1e5, 2.5e5, 1),
                ("wait", 9e5, 1e5, 1),
                ("update", 0.0, 1e6, 2),
            )
        ]
    return {"traceEvents": events, "otherData": {"dropped_events": {"main": 0, "learn": 0}}}
