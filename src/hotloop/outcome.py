"""What a run has to say for itself: gauges, evaluations, the summary, and what its exactness depends on."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from hotloop import checkpoint
from hotloop.collect import act
from hotloop.collect.policies import Greedy
from hotloop.config import TrainConfig
from hotloop.core.errors import UserError
from hotloop.evaluate import Played, evaluation_seed, interval, play
from hotloop.meter import Meter
from hotloop.networks._flat import layout_of
from hotloop.pipeline import Pipeline, build_network
from hotloop.run import RunFolder
from hotloop.trace import Trace

REPORT = "report.html"  # in the run folder


def gauges(pipeline: Pipeline) -> dict[str, Any]:
    """Present values, for a row of metrics."""
    return {
        **act.gauges(pipeline.config.explore, pipeline.collector.env_steps, pipeline.config.lanes),
        "samples_per_step": pipeline.samples_per_step,
        "replay_size": pipeline.store.size,
        "refused_updates": pipeline.learner.refused,
        **_rewards_outside(pipeline),
        "rss_mb": _resident_mb(),
        **pipeline.collector.gauges(),
    }


def _rewards_outside(pipeline: Pipeline) -> dict[str, int]:
    """Of all rewards that were sampled, those that the variant cannot tell apart; nothing where it can tell all."""
    return {"rewards_outside": pipeline.learner.rewards_outside} if pipeline.learner.reward_range else {}


def remarks(pipeline: Pipeline) -> list[str]:
    """What went wrong quietly, one line each, for the user."""
    learner, batch = pipeline.learner, pipeline.config.learner.samples_per_update
    if not learner.rewards_outside:
        return []
    low, high = learner.reward_range or (0.0, 0.0)
    return [
        f"{learner.rewards_outside:,} of {learner.updates * batch:,} sampled rewards lay outside of variant.v_min = "
        f"{low:g} … variant.v_max = {high:g} and were cut; widen these, or scale the rewards"
    ]


def _resident_mb() -> float | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def greedy(pipeline: Pipeline, number: int) -> Played:
    """Episodes of the present weights, held out. `number` tells this evaluation from others of the run."""
    policy = Greedy(pipeline.spec, pipeline.forward, pipeline.learner.params, pipeline.learner.noise)
    config = pipeline.config
    seed = evaluation_seed(config.seed, number)
    world = config.world()
    if config.workers and not world.native:
        world = world.apart(config.workers)  # what has to be kept out of this process while training, has to be here
    return play(world, lambda env: policy, config.evaluate_episodes, seed, longest=config.evaluate_longest)


def evaluation(pipeline: Pipeline, number: int) -> dict[str, Any]:
    """A greedy evaluation as columns of a row; none where the environment did not last that long."""
    played, why = _tried(pipeline, number)
    if why:
        return {"not_evaluated": why}
    return {
        "eval_return_mean": float(played.returns.mean()),
        "eval_return_ci": list(interval(played.returns)),
        **{f"eval_{k}": v for k, v in _means(played).items()},
    }


def _tried(pipeline: Pipeline, number: int) -> tuple[Played, str]:
    """(what was played, why nothing was): an environment that ends its process costs the evaluation, not the run."""
    try:
        return greedy(pipeline, number), ""
    except (UserError, RuntimeError) as why:
        if not pipeline.config.workers:
            raise
        nothing = np.full(1, np.nan)
        return Played(nothing, nothing, {}), " ".join(str(why).split())[:300]


def _means(played: Played) -> dict[str, float]:
    return {name: float(np.nanmean(values)) for name, values in played.measures.items() if np.isfinite(values).any()}


def finish(pipeline: Pipeline, meter: Meter, run: RunFolder, trace: Trace, stopped_by: int | None) -> dict[str, Any]:
    """Check the contract, evaluate, write weights -> the summary."""
    config, learner, env_steps = pipeline.config, pipeline.learner, pipeline.collector.env_steps
    pipeline.check_contract()
    with meter.pause("evaluate"):
        played, why = _tried(pipeline, 0)
    write_weights(run, pipeline)
    programs = (pipeline.forward, learner.program)
    return {
        "workload": config.workload,
        "run": str(run.path),
        "seed": config.seed,
        "env_steps": env_steps,
        "updates": learner.updates,
        "batch": config.learner.samples_per_update,
        "samples_per_step": pipeline.samples_per_step,
        "learning_env_steps": pipeline.learning_env_steps,
        **meter.speed(),
        "cold_start_s": round(sum(pipeline.warm_seconds.values()), 3),
        "cold_start": {k: round(v, 3) for k, v in pipeline.warm_seconds.items()},
        "warm_start": all(p.origin != "compiled" for p in programs),
        "compiled": all(p.origin != "eager" for p in programs),
        "first_update_s": pipeline.first_update_s,
        "train_s": round(meter.seconds_before + meter.now() / 1e9, 3),
        "paused_s": {k: round(v, 3) for k, v in meter.paused.items()},
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "return_mean": float(played.returns.mean()),
        "return_ci": list(interval(played.returns)),
        "return_min": float(played.returns.min()),
        "return_max": float(played.returns.max()),
        "length_mean": float(played.lengths.mean()),
        "not_evaluated": why,
        "measures": {k: [v, *interval(played.measures[k])] for k, v in _means(played).items()},
        "episodes": played.episodes,
        "unfinished_episodes": played.unfinished,
        "training_episodes": meter.episodes,
        "workers": pipeline.collector.gauges(),
        "refused_updates": learner.refused,
        **_rewards_outside(pipeline),
        "exact": pipeline.exact,
        "stopped_by_signal": stopped_by,
        "resumed_at_env_steps": meter.resumed,
        "report": REPORT if config.report else None,
        "weights_sha256": weights_digest(pipeline),
        "sections": {f"{s.track}/{s.name}": [s.calls, round(s.total_ns / 1e9, 6)] for s in trace.totals()},
        **fingerprint(config),
    }


def weights_digest(pipeline: Pipeline) -> str:
    return checkpoint.digest({"params": pipeline.learner.params.numpy()})


def write_weights(run: RunFolder, pipeline: Pipeline) -> Path:
    """weights.safetensors: the network's parameters by name, whole or not at all."""
    layout = layout_of(build_network(pipeline.config, pipeline.spec))
    views = dict(zip(layout.names, layout.views(pipeline.learner.params), strict=True))
    path = run.weights
    temporary = path.with_name(f".writing-{path.name}")
    save_file({k: v.numpy() for k, v in views.items()}, temporary)
    os.replace(temporary, path)
    return path


def dump_batch(run: RunFolder, pipeline: Pipeline) -> Path:
    """The batches of the cycle that could not be learnt from."""
    batch = pipeline.learner.batch
    arrays = {"action": batch.action, "reward": batch.reward, "discount": batch.discount, "weight": batch.weight}
    arrays |= {f"obs.{k}": v for k, v in batch.obs.items()} | {f"next_obs.{k}": v for k, v in batch.next_obs.items()}
    path = run.path / "not_finite_batch.safetensors"
    save_file(arrays, path)
    return path


def fingerprint(config: TrainConfig) -> dict[str, Any]:
    """What a bit may depend on besides the config: where one of these differs, a resume says so."""
    return {"versions": versions(), "machine": {**machine(), "threads": config.threads}}


def changes(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One line for each difference of two fingerprints."""
    out = []
    for group in ("versions", "machine"):
        for key in sorted({*saved.get(group, {}), *now[group]}):
            before, after = saved.get(group, {}).get(key), now[group].get(key)
            if before != after:
                out.append(f"{key} was {before}, is {after}")
    return out


def versions() -> dict[str, str]:
    out = {"python": platform.python_version()}
    for package in ("hotloop", "torch", "numpy", "numba", "gymnasium"):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = "unknown"
    return out


def machine() -> dict[str, Any]:
    names = [x.partition(":")[2].strip() for x in _lines("/proc/cpuinfo") if x.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor() or platform.machine(),
        "isa": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count() or 1,
        "system": platform.system(),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
