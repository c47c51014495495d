"""Rivals opened, asked and left out where they cannot run; how well a network plays CartPole, by one judge for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from bench.counting import transposed, unpacked
from bench.measure import Peer, Row, rival_python

TITLES = {
    "sb3": "Stable-Baselines3",
    "tianshou": "Tianshou",
    "sbx": "SBX",
    "torchrl": "TorchRL",
    "rllib": "RLlib",
    "jax_whole": "JAX, the whole program",
    "cleanrl_style": "PyTorch in one file",
    "envpool": "EnvPool",
    "gymnax_env": "gymnax",
}
CLOSE = 0.02  # samples per step may differ by so much: RLlib collects a little more than it is asked for


class Rivals:
    """Peers by name; one that cannot start or fails is closed, and why is kept for its row."""

    def __init__(self, names: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.open: dict[str, Peer] = {}
        self.absent: dict[str, str] = {}
        self.peak_mb: dict[str, float | None] = {}
        self.about: dict[str, Any] = {}
        self._stack = ExitStack()
        for name in names:
            try:
                self.open[name] = self._stack.enter_context(Peer(name, rival_python(name), environment=environment))
                self.about[name] = self.open[name].ask("about")
            except (RuntimeError, OSError) as why:
                self.leave_out(name, why)

    def leave_out(self, name: str, why: BaseException) -> None:
        self.absent[name] = str(why).strip().splitlines()[-1][:200]
        self.open.pop(name, None)

    def ask(self, name: str, do: str, **request: Any) -> dict[str, Any] | None:
        """The rival's answer, or None where it has failed, now or before."""
        if name not in self.open:
            return None
        try:
            answer = self.open[name].ask(do, **request)
            self.peak_mb[name] = self.open[name].peak_mb()
            return answer
        except RuntimeError as why:
            self.leave_out(name, why)
            return None

    def __enter__(self) -> Rivals:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def absent_row(what: str, unit: str, why: str, must: float | None = None, aim: float | None = None) -> Row:
    return Row(what, unit, (), must=must, aim=aim, note=f"not measured here: {why}")


def assert_equal_work(label: str, runs: Sequence[Mapping[str, Any]], asked: float) -> None:
    for run in runs:
        counted = run["samples_per_step"]
        assert abs(counted / asked - 1) < CLOSE, f"{label}: {counted} samples per step, not {asked}"


def used(runs: Sequence[Mapping[str, Any]], peak_mb: float | None) -> dict[str, Any]:
    """What it took beside the time, for a row's detail."""
    return {
        "cores": round(float(np.median([r["cores"] for r in runs])), 2),
        "updates_per_s": round(float(np.median([r["updates_per_s"] for r in runs])), 1),
        "peak_mb": peak_mb,
    }


def in_words(detail: Mapping[str, Any]) -> str:
    """… and for people."""
    parts = [f"{detail['cores']:g} cores", f"{detail['updates_per_s']:,.0f} updates/s"]
    if detail["peak_mb"]:
        parts.append(f"{detail['peak_mb']:,.0f} MB")
    if "greedy_return" in detail:
        parts.append(f"plays {detail['greedy_return']:.0f} of 500")
    return ", ".join(parts)


# --- the judge -------------------------------------------------------------------------------------------------------

ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
}


def greedy_return(
    weights: str, hidden: Sequence[int], layer_norm: bool = False, activation: str = "relu", episodes: int = 100
) -> float:
    """Mean return of so many episodes of Gymnasium's CartPole-v1, always the same ones, of the greedy policy."""
    import gymnasium

    sizes = (4, *hidden, 2)
    tensors, per_layer = transposed(unpacked(weights), sizes, layer_norm), 4 if layer_norm else 2
    layers = [tensors[i : i + per_layer] for i in range(0, len(tensors), per_layer)]

    def q(x: np.ndarray) -> np.ndarray:
        for weight, bias, *norm in layers[:-1]:
            x = x @ weight + bias
            if norm:
                x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * norm[0] + norm[1]
            x = ACTIVATIONS[activation](x)
        return x @ layers[-1][0] + layers[-1][1]

    env = gymnasium.make_vec("CartPole-v1", episodes, vectorization_mode="vector_entry_point")
    obs, _ = env.reset(seed=475)
    alive, lengths = np.ones(episodes, bool), np.zeros(episodes)
    while alive.any():
        obs, _, terminated, truncated, _ = env.step(q(obs).argmax(1))
        lengths += alive
        alive &= ~(terminated | truncated)
    return float(lengths.mean())
