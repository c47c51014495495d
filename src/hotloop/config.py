"""Everything a run is made from: names of the chosen parts, their options, and budgets with their units. Only the
pipeline's builder and the command line see the whole; each part is given its own options and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from math import ceil
from typing import Any

from hotloop import matmul
from hotloop.collect import act
from hotloop.collect import workers as worker_processes
from hotloop.core import discover, toml
from hotloop.core.errors import UserError, unknown
from hotloop.core.options import from_dict, option, shown, to_dict
from hotloop.envs._world import World, world
from hotloop.learn import learner
from hotloop.learn.variants import _base as variants
from hotloop.networks import _heads
from hotloop.replay import plan


def _group(help: str) -> Any:
    return field(default_factory=dict, metadata={"help": help, "ge": None, "gt": None, "le": None})


EVERY_NETWORK = tuple(f.name for f in fields(_heads.Options))  # options that stand beside a network's own
LONGEST_CYCLE = 4_096  # batched steps


@dataclass(frozen=True)
class TrainConfig:
    """The resolved configuration. Its TOML form stands in the run folder and is what a resume reads."""

    workload: str = option("", "a native world, a Gymnasium id, or module:factory")
    seed: int = option(0, "all random streams follow from it", ge=0, le=2**63 - 1)
    total_env_steps: int = option(200_000, "budget, rounded up to whole cycles", ge=1)
    lanes: int = option(16, "copies of the environment stepped together", ge=1)
    workers: int = option(0, "processes that collect, each some of the lanes; 0: this one (see collect)", ge=0)
    samples_per_step: float = option(8.0, "samples replayed per env step = updates × batch / env steps", gt=0)
    cycle_steps: int = option(
        0, "batched steps per cycle; 0: chosen so that a cycle pays for whole updates", ge=0, le=LONGEST_CYCLE
    )
    learning_starts_env_steps: int = option(1_000, "env steps collected before the first update", ge=0)
    overlap: bool = option(True, "collect and learn at the same time, with weights one cycle old; false: in turn")
    compile: bool = option(True, "compile update and acting to native code; false: eager, the reference")
    threads: int = option(1, "threads inside one network operation; small networks lose with more than 1", ge=1)
    log_every_env_steps: int = option(0, "env steps between lines of metrics; 0: a hundredth of the budget", ge=0)
    evaluate_every_env_steps: int = option(0, "env steps between greedy evaluations; 0: at the end only", ge=0)
    evaluate_episodes: int = option(100, "episodes of a greedy evaluation", ge=1)
    evaluate_longest: int = option(30_000, "steps after which an episode of an evaluation counts as it stands", ge=1)
    checkpoint_every_env_steps: int = option(0, "env steps between checkpoints; 0: at the end only", ge=0)
    keep_checkpoints: int = option(2, "newest checkpoints kept", ge=1)
    report: bool = option(True, "write report.html, one page about the run, when it ends")
    tensorboard: bool = option(False, "also write TensorBoard events (needs an extra)")
    env: dict[str, Any] = _group("options of the environment")
    network: dict[str, Any] = _group("name, head, and options of the network")
    variant: dict[str, Any] = _group("name and options of the variant of DQN")
    sampler: dict[str, Any] = _group("name and options of what chooses the transitions to learn from")
    explore: act.Options = act.Options()
    collect: worker_processes.Options = worker_processes.Options()
    replay: plan.Options = plan.Options()
    learner: learner.Options = learner.Options()

    @property
    def log_every(self) -> int:
        """env steps between rows of metrics"""
        return self.log_every_env_steps or max(1, self.total_env_steps // 100)

    def world(self) -> World:
        return world(self.workload, self.env)

    def network_options(self) -> dict[str, Any]:
        return {k: v for k, v in self.network.items() if k not in ("name", *EVERY_NETWORK)}

    def variant_options(self) -> dict[str, Any]:
        return {k: v for k, v in self.variant.items() if k != "name"}

    @property
    def learns_from_blocks(self) -> bool:
        """Whether the variant is given returns of whole blocks, so that lanes and the length of a cycle change them."""
        return variants.chosen(self.variant["name"], self.variant_options()).trace_lambda is not None

    def sampler_options(self) -> dict[str, Any]:
        return {k: v for k, v in self.sampler.items() if k != "name"}


DEFAULT_GROUPS = {
    "network": {"name": "mlp", **to_dict(_heads.Options())},
    "variant": {"name": "dqn"},
    "sampler": {"name": "uniform"},
}


def resolve(*layers: Mapping[str, Any]) -> TrainConfig:
    """Later layers win: preset, then file, then flags. Every value is checked, and every option of the chosen parts
    is written out, so that the resolved config means the same when a default changes."""
    merged: dict[str, Any] = {k: dict(v) for k, v in DEFAULT_GROUPS.items()}
    for layer in layers:
        merge(merged, layer)
    if isinstance(given := merged.get("learner"), Mapping) and given.get("precision") == "float16":
        raise UserError("learner.precision = float16 needs a scaled loss and CUDA; on a CPU use bfloat16 or float32")
    config = from_dict(TrainConfig, merged)
    if not config.workload:
        raise UserError("no workload; name a world (hotloop list), a Gymnasium id or module:factory")
    for group, key in (("network", "name"), ("variant", "name"), ("sampler", "name")):
        if not isinstance(name := getattr(config, group)[key], str):
            raise UserError(f"option {group}.{key} = {shown(name)}: expected text")
    filled = {"env": to_dict(config.world().options)}
    own = to_dict(from_dict(_heads.Options, {k: config.network[k] for k in EVERY_NETWORK}, "network."))
    filled["network"] = _filled("hotloop.networks", "network.", {**config.network, **own}, EVERY_NETWORK)
    filled["variant"] = _filled("hotloop.learn.variants", "variant.", config.variant, ())
    filled["sampler"] = _filled("hotloop.replay.samplers", "sampler.", config.sampler, ())
    config = from_dict(TrainConfig, {**to_dict(config), **filled})
    _check_variant(config)
    _check_consistent(config)
    _check_learner(config)
    _check_writable(config)
    return config


def merge(base: dict[str, Any], layer: Mapping[str, Any]) -> None:
    """Write `layer` over `base`, group by group. A part that is renamed starts without the former part's options."""
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            if key in DEFAULT_GROUPS and "name" in value and value["name"] != base[key].get("name"):
                base[key] = {k: v for k, v in base[key].items() if key == "network" and k in EVERY_NETWORK}
            merge(base[key], value)
        else:
            base[key] = _copied(value)


def _copied(value: Any) -> Any:
    """Groups all the way down: what is merged over a layer must not be written into it, least of all into a preset."""
    return {k: _copied(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _filled(package: str, path: str, group: Mapping[str, Any], own: tuple[str, ...]) -> dict[str, Any]:
    """A part's group with all of its options written out."""
    named = {k: group[k] for k in ("name", *own)}
    rest = {k: v for k, v in group.items() if k not in named}
    if ":" in named["name"]:
        return {**named, **rest}
    module = discover.load(package, named["name"])
    return {**named, **to_dict(from_dict(module.Options, rest, path))}


@dataclass(frozen=True)
class Cycle:
    """The grain of the pipeline: T batched steps collected, and the U updates they pay for."""

    steps: int  # T
    updates: int  # U
    env_steps: int  # T × lanes


def cycle_of(config: TrainConfig) -> Cycle:
    """T and U with U × batch = T × lanes × samples_per_step, or an error with the nearest ratio that works."""
    samples, lanes, batch, asked = (
        config.samples_per_step,
        config.lanes,
        config.learner.samples_per_update,
        config.cycle_steps,
    )
    ratio, other = _updates_per_batched_step(samples, lanes, batch), ""
    if ratio:
        steps = asked or _chosen_steps(ratio)
        if steps % ratio.denominator == 0:
            return Cycle(steps, int(steps * ratio), steps * lanes)
        times = min(max(1, round(steps / ratio.denominator)), LONGEST_CYCLE // ratio.denominator)
        other = f", or --cycle-steps {ratio.denominator * times}"
    exact = Fraction(samples) * lanes / batch
    if asked:
        nearest = Fraction(max(1, round(asked * exact)), asked)
    else:
        nearest = max(exact.limit_denominator(LONGEST_CYCLE), Fraction(1, LONGEST_CYCLE))
    steps = asked or nearest.denominator
    raise UserError(
        f"samples_per_step = {samples:g} needs {float(steps * exact):.10g} updates of {batch} per cycle of {steps} × "
        f"{lanes} env steps, not a whole number; nearest: --samples-per-step {_written(nearest, lanes, batch)}{other}"
    )


def _updates_per_batched_step(samples: float, lanes: int, batch: int) -> Fraction | None:
    """None where no cycle is long enough. A number written with few digits means the fraction next to it, such as
    0.3333333333 a third."""
    exact = Fraction(samples) * lanes / batch
    ratio = exact.limit_denominator(LONGEST_CYCLE)
    return ratio if abs(ratio - exact) <= exact / 10**9 else None


def _written(ratio: Fraction, lanes: int, batch: int) -> str:
    """Samples per step with as few digits as mean this ratio of updates per batched step."""
    texts = [f"{float(ratio * batch / lanes):.{digits}g}" for digits in range(3, 18)]
    return next((t for t in texts if _updates_per_batched_step(float(t), lanes, batch) == ratio), texts[-1])


def learning_from(config: TrainConfig) -> int:
    """Env steps after which the first cycle that learns begins: enough by the config, and enough for one batch."""
    cycle = cycle_of(config).env_steps
    needed = config.learner.samples_per_update + config.lanes * (config.replay.n_step - 1)
    return -(-max(config.learning_starts_env_steps, needed) // cycle) * cycle


def _chosen_steps(ratio: Fraction) -> int:
    """The fewest batched steps that pay for whole updates, and for enough of them to make a call worth its cost:
    8 updates, or 32 batched steps where updates are rare; never fewer than 4, since a cycle has its own cost."""
    smallest = ratio.denominator
    wanted = max(4, min(ceil(8 / ratio), 32))
    return smallest * max(1, ceil(wanted / smallest))


def _check_variant(config: TrainConfig) -> None:
    """What the chosen variant cannot go with."""
    name = config.variant["name"]
    needs = variants.chosen(name, config.variant_options()).goes_with
    found = {path: option_at(config, path) for path in needs}
    if wrong := [path for path in needs if found[path] != needs[path]]:
        told = " and ".join(f"{path} = {shown(needs[path])}, not {shown(found[path])}" for path in wrong)
        flags = " ".join(f"--{path.removesuffix('.name').replace('_', '-')} {needs[path]}" for path in wrong)
        raise UserError(f"variant.name = {shown(name)} goes with {told}; add {flags}")
    if not config.learner.target_every_updates and "learner.target_every_updates" not in needs:
        raise UserError(
            f"learner.target_every_updates = 0 leaves variant.name = {shown(name)} without the target network that it "
            "learns from; say after how many updates it moves"
        )


def option_at(config: TrainConfig, path: str) -> Any:
    """The value of an option by its dotted path."""
    here: Any = config
    for name in path.split("."):
        known = here if isinstance(here, dict) else getattr(here, "__dataclass_fields__", {})
        if name not in known:
            raise unknown("option", path, [f"{path.rpartition('.')[0]}.{k}".lstrip(".") for k in known])
        here = here[name] if isinstance(here, dict) else getattr(here, name)
    return here


def _check_consistent(config: TrainConfig) -> None:
    batch, capacity = config.learner.samples_per_update, config.replay.capacity
    if batch > capacity:
        raise UserError(f"{_batch_of(config)} is more than replay.capacity = {capacity}; lower one, raise the other")
    if config.sampler["name"] == "combined" and config.samples_per_step <= 1:
        raise UserError(
            "sampler.name = combined learns from each new transition at once, for which samples_per_step = "
            f"{config.samples_per_step:g} leaves no room; raise it above 1, or choose --sampler uniform"
        )
    if config.workers and config.lanes % config.workers:
        fewer = max(w for w in range(1, min(config.workers, config.lanes) + 1) if config.lanes % w == 0)
        more = -(-config.lanes // config.workers) * config.workers
        raise UserError(
            f"lanes = {config.lanes} cannot be shared equally by workers = {config.workers}; nearest: "
            f"--workers {fewer}, or --lanes {more}"
        )
    if config.explore.kind != "epsilon" and config.explore.lane_power:
        raise UserError(
            f"explore.lane_power = {config.explore.lane_power:g} raises epsilon to powers, and explore.kind = "
            f"{config.explore.kind} has none; leave one out"
        )
    cycle, window = cycle_of(config), capacity // config.lanes
    if config.replay.n_step > max(1, window):
        raise UserError(
            f"replay.n_step = {config.replay.n_step} is more than the {window} transitions a lane keeps "
            f"(capacity {capacity} / lanes {config.lanes}); raise replay.capacity"
        )
    if cycle.env_steps > capacity:
        raise UserError(
            f"a cycle of {cycle.steps} × {config.lanes} = {cycle.env_steps} env steps does not fit replay.capacity = "
            f"{capacity}; raise it, or lower --lanes"
        )
    last = (-(-config.total_env_steps // cycle.env_steps) - 1) * cycle.env_steps
    if learning_from(config) > last:
        starts = config.learning_starts_env_steps
        raise UserError(
            f"{f'learning_starts_env_steps = {starts}' if starts > last else _batch_of(config)} leaves nothing of "
            f"total_env_steps = {config.total_env_steps} to learn in, whose last cycle begins at {last}; lower it"
        )


def _batch_of(config: TrainConfig) -> str:
    """Transitions of one update, in the words of the config."""
    times = f" × learner.accumulate = {config.learner.accumulate}" if config.learner.accumulate > 1 else ""
    return f"learner.batch_size = {config.learner.batch_size}{times}"


def _check_learner(config: TrainConfig) -> None:
    if config.learner.precision == "bfloat16" and config.learner.batch_size < matmul.LEAST:
        raise UserError(
            f"learner.batch_size = {config.learner.batch_size} is too small for learner.precision = bfloat16, which "
            f"rounds products of {matmul.LEAST} rows or more; raise it, or use float32"
        )
    chosen = config.learner.optimizer
    if chosen.weight_decay and chosen.name != "adamw":
        raise UserError(
            f"learner.optimizer.weight_decay = {chosen.weight_decay:g} is for adamw, and learner.optimizer.name = "
            f"{chosen.name}; leave it out, or choose adamw"
        )


def _check_writable(config: TrainConfig) -> None:
    """A run's folder holds its config, and a resume reads it."""
    try:
        toml.dumps(to_dict(config)).encode()
    except (TypeError, UnicodeEncodeError, RecursionError) as why:
        raise UserError(f"the config cannot be written down: {' '.join(str(why).split())}; use plain values") from None
