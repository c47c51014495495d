"""One update of an MLP 8-512-512-4, batch 512, with matrix products of float32 and of bfloat16, in turns; then CartPole
learnt with either, 5 seeds. bfloat16 changes learning by rounding, so both are shown."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.measure import Row, interleaved, ratios, stage
from bench.stages._learning import trained

PRECISIONS = ("float32", "bfloat16")
BATCH, UPDATES = 512, 8
SOLVED = 475.0


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    rows = [*speed(quick)]
    seeds = range(1 if quick else 5)
    runs = {
        p: [
            trained("cartpole", "default", s, "eval_return_mean", SOLVED, quick, ("--learner.precision", p))
            for s in seeds
        ]
        for p in PRECISIONS
    }
    for precision, found in runs.items():
        means = tuple(r["return_mean"] for r in found)
        must = SOLVED if precision == "bfloat16" else None
        sampled = found[0]["samples_per_step"]
        what = f"cartpole default, {precision}: greedy return, per seed"
        rows.append(Row(what, "return", means, must=must, samples_per_step=sampled))
    return {"network": [8, 512, 512, 4], "batch": BATCH, "updates_per_call": UPDATES, "runs": runs}, rows


def speed(quick: bool) -> list[Row]:
    import torch

    torch.set_num_threads(1)
    learners = {p: learner(p) for p in PRECISIONS}
    first = {p: made.update()[0][0, 0] for p, made in learners.items()}
    np.testing.assert_allclose(first["bfloat16"], first["float32"], rtol=0.01, err_msg="first loss")

    def per_update(made: Any) -> float:
        calls = 1 if quick else 8
        began = time.perf_counter()
        for _ in range(calls):
            made.update()
        return (time.perf_counter() - began) / (calls * UPDATES) * 1e6

    sides = {p: (lambda made=made: per_update(made)) for p, made in learners.items()}
    interleaved(sides, 1)  # caches, allocator and clock of the CPU
    found = interleaved(sides, 3 if quick else 21)
    fast = torch.cpu._is_avx512_bf16_supported()
    note = "" if fast else "this CPU has no AVX512-BF16"
    whole = ratios(found["float32"], found["bfloat16"])
    gain = Row(
        "update: float32 / bfloat16", "×", whole, must=1.4 if fast else None, aim=1.8 if fast else None, note=note
    )
    return [gain, *(Row(f"update, {p}", "µs", tuple(v), "less") for p, v in found.items())]


def learner(precision: str) -> Any:
    """The same weights and the same batches for both."""
    from hotloop.core.types import EnvSpec, Field
    from hotloop.learn.learner import Learner, Options
    from hotloop.learn.optimizers import Options as Optimizer
    from hotloop.networks._build import build

    spec = EnvSpec("eight numbers", (Field("obs", (8,), "float32"),), num_actions=4)
    options = Options(batch_size=BATCH, precision=precision, optimizer=Optimizer(learning_rate=1e-4))  # type: ignore[arg-type]
    made = Learner(
        spec, build(spec, "mlp", {"hidden": [512, 512]}, "scalar", 0), "dqn", {"double": False}, options,
        updates_per_cycle=UPDATES, total_updates=1_000_000, fingerprint="bench 8-512-512-4", compile=True, threads=1,
    )  # fmt: skip
    assert made.program.origin != "eager", made.program.note
    rng, batch = np.random.default_rng(0), made.batch
    for array in (*batch.obs.values(), *batch.next_obs.values(), batch.reward):
        array[:] = rng.standard_normal(array.shape)
    batch.action[:], batch.discount[:], batch.weight[:] = rng.integers(0, 4, batch.action.shape), 0.99, 1.0
    return made


if __name__ == "__main__":
    stage(run)
