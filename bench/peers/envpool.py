"""EnvPool's environments alone, played at random: all lanes at each step, or, as it is fastest, whichever are ready."""

from __future__ import annotations

import time
from typing import Any

import envpool
import numpy as np

from bench.measure import serve, versions


def play(env: str, lanes: int, actions: int, batched_steps: int, threads: int, ready: int = 0) -> dict[str, Any]:
    """Some steps of all lanes -> env steps per second, counted in rows that came back. ready: answer as soon as so many
    lanes are done. The step in which it resets a lane is counted too, which favours it."""
    many = {"batch_size": ready} if ready else {}
    pool = envpool.make_gymnasium(env, num_envs=lanes, num_threads=threads, seed=1, **many)
    drawn = np.random.default_rng(0).integers(0, actions, (64, lanes)).astype(np.int32)
    if ready:
        pool.async_reset()
    else:
        pool.reset()
    rows, began, cpu, total = 0, 0.0, 0.0, batched_steps * lanes
    for t in range(-8, 1 << 62):  # a few steps to warm up
        if t == 0:
            rows, began, cpu = 0, time.perf_counter(), time.process_time()
        if ready:
            rewards, info = _received(pool.recv())
            rows += len(rewards)
            pool.send(drawn[t & 63, : len(rewards)], info["env_id"])
        else:
            rewards, info = _received(pool.step(drawn[t & 63]))
            rows += len(rewards)
        if t >= 0 and rows >= total:
            break
    seconds = time.perf_counter() - began
    return {"env_steps_per_s": rows / seconds, "env_steps": rows, "cores": (time.process_time() - cpu) / seconds}


def _received(answer: Any) -> tuple[np.ndarray, dict[str, Any]]:
    _obs, rewards, _terminated, _truncated, info = answer
    return rewards, info


def about() -> dict[str, Any]:
    return {"versions": versions("envpool", "numpy", "gymnasium"), "settings": "its own threads, actions drawn before"}


if __name__ == "__main__":
    serve({"play": play, "about": about})
