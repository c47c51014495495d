"""The whole of DQN as one JAX program: gymnax steps, flashbax remembers, optax updates, and `lax.scan` runs the loop,
so that no Python runs between two updates. Written to be as fast as JAX is on a CPU."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

# One thread per operation: more cost more than they give at this size. Read when JAX is imported.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import flashbax
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import optax

from bench.counting import Window, in_order, transposed, until_first_update
from bench.measure import serve, versions

OBS, ACTIONS = 4, 2
Params = list[jax.Array]


class State(NamedTuple):
    params: Params  # matrix [in, out], vector, and LayerNorm's scale and shift, layer by layer
    target: Params
    moments: Any  # optax's; its own count is the number of updates
    memory: Any  # flashbax's
    world: Any  # gymnax's, [N]
    obs: jax.Array  # [N, 4]
    key: jax.Array
    env_steps: jax.Array  # counted in the program, lane by lane
    samples: jax.Array  # rows sampled


class Program:
    """The functions of one set of terms; `compiled` compiles them before anything is timed."""

    def __init__(self, work: Mapping[str, Any]) -> None:
        """work: the terms of the comparison, in the words of stages/_cartpole.py."""
        self.work = dict(work)
        self.lanes, every = work["lanes"], work["env_steps_per_update"]
        # Batched steps per cycle, and the updates that they pay for.
        self.steps, self.updates = max(every // self.lanes, 1), max(self.lanes // every, 1)
        assert self.steps * self.lanes == self.updates * every, "lanes and updates do not meet"
        self.n_step, self.layer_norm = work.get("n_step", 1), work.get("layer_norm", False)
        self.env, self.env_params = gymnax.make("CartPole-v1")
        rate: Any = work["learning_rate"]
        if work.get("learning_rate_end", -1.0) >= 0:
            updates = (work["total_env_steps"] - work["learning_starts"]) // work["env_steps_per_update"]
            rate = optax.linear_schedule(rate, work["learning_rate_end"], max(updates - 1, 1))
        clip = [optax.clip_by_global_norm(work["max_grad_norm"])] if work["max_grad_norm"] else []
        self.optimizer = optax.flatten(optax.chain(*clip, optax.adam(rate)))  # all tensors in one pass
        self.buffer = flashbax.make_trajectory_buffer(
            add_batch_size=self.lanes, sample_batch_size=work["batch"], sample_sequence_length=self.n_step, period=1,
            min_length_time_axis=self.n_step, max_length_time_axis=work["capacity"] // self.lanes,
        )  # fmt: skip
        # The state is given away, so that the replay is written in place.
        in_place = partial(jax.jit, donate_argnums=0, static_argnums=1)
        self.fill, self.learn = in_place(self._fill), in_place(self._learn)

    # --- acting ----------------------------------------------------------------------------------------------------

    def q(self, params: Params, obs: jax.Array) -> jax.Array:
        per_layer = 4 if self.layer_norm else 2
        *hidden, last = [params[i : i + per_layer] for i in range(0, len(params), per_layer)]
        for weight, bias, *norm in hidden:
            obs = obs @ weight + bias
            if norm:
                centred = obs - obs.mean(-1, keepdims=True)
                obs = centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * norm[0] + norm[1]
            obs = jax.nn.relu(obs)
        return obs @ last[0] + last[1]

    def _act(self, state: State) -> State:
        """One batched step: epsilon-greedy per lane, and the transitions into the replay."""
        key, coins, choice, world = jax.random.split(state.key, 4)
        start, end = self.work["epsilon"]
        epsilon = start + (end - start) * jnp.minimum(state.env_steps / self.work["epsilon_decay"], 1.0)
        greedy = self.q(state.params, state.obs).argmax(-1)
        explores = jax.random.uniform(coins, (self.lanes,)) < epsilon
        action = jnp.where(explores, jax.random.randint(choice, (self.lanes,), 0, ACTIONS), greedy)
        step = jax.vmap(self.env.step, in_axes=(0, 0, 0, None))
        obs, after, reward, ended, cut, info = step(
            jax.random.split(world, self.lanes), state.world, action, self.env_params
        )
        # One row per transition, so that a batch is one gather: obs, next obs, action, reward, terminated, over.
        rest = jnp.stack([action.astype(jnp.float32), reward.astype(jnp.float32), ended, ended | cut], -1)
        row = jnp.concatenate([state.obs, info["final_observation"], rest], -1)
        memory = self.buffer.add(state.memory, row[:, None])
        count = state.env_steps + action.size
        return state._replace(memory=memory, world=after, obs=obs, key=key, env_steps=count)

    # --- learning --------------------------------------------------------------------------------------------------

    def loss(self, params: Params, target: Params, rows: jax.Array) -> jax.Array:
        """rows [B, n, 12], n steps of a lane from the sampled one on."""
        gamma, double = self.work["gamma"], self.work.get("double", False)
        action, reward, ended, over = (rows[:, :, 2 * OBS + i] for i in range(4))
        returns, weight = jnp.zeros(len(rows)), jnp.ones(len(rows))  # weight: gamma^k while the episode goes on, else 0
        bootstrap, final = jnp.zeros(len(rows)), rows[:, 0, OBS : 2 * OBS]
        for k in range(self.n_step):
            alive = weight > 0
            returns += weight * reward[:, k]
            final = jnp.where(alive[:, None], rows[:, k, OBS : 2 * OBS], final)
            bootstrap = jnp.where(alive, weight * gamma * (1 - ended[:, k]), bootstrap)
            weight = weight * gamma * (1 - over[:, k])
        value = self.q(target, final)
        if double:
            best = self.q(params, final).argmax(-1)
            value = jnp.take_along_axis(value, best[:, None], -1)[:, 0]
        else:
            value = value.max(-1)
        wanted = jax.lax.stop_gradient(returns + bootstrap * value)
        q = self.q(params, rows[:, 0, :OBS])
        chosen = jnp.take_along_axis(q, action[:, :1].astype(jnp.int32), -1)[:, 0]
        if self.work.get("loss", "huber") == "mse":
            return ((chosen - wanted) ** 2).mean()
        return optax.huber_loss(chosen, wanted).mean()

    def update(self, state: State, rows: jax.Array) -> tuple[State, jax.Array]:
        loss, gradient = jax.value_and_grad(self.loss)(state.params, state.target, rows)
        change, moments = self.optimizer.update(gradient, state.moments)
        params = optax.apply_updates(state.params, change)
        return state._replace(params=params, moments=moments, samples=state.samples + len(rows)), loss

    def _cycle(self, state: State, _: None) -> tuple[State, None]:
        """Some env steps, and the updates that they pay for."""
        for _step in range(self.steps):
            state = self._act(state)
        for _update in range(self.updates):
            key, draw = jax.random.split(state.key)
            rows = self.buffer.sample(state.memory, draw).experience
            state, _loss = self.update(state._replace(key=key), rows)
        return state, None

    # --- the loop --------------------------------------------------------------------------------------------------

    def _fill(self, state: State, steps: int) -> State:
        """Batched steps without learning."""
        return jax.lax.scan(lambda s, _: (self._act(s), None), state, None, steps)[0]

    def _learn(self, state: State, periods: int) -> State:
        """So many times as many updates as lie between two assignments of the target, and the assignment."""

        def period(state: State, _: None) -> tuple[State, None]:
            state = jax.lax.scan(self._cycle, state, None, self.work["target_every_updates"] // self.updates)[0]
            return state._replace(target=state.params), None

        return jax.lax.scan(period, state, None, periods)[0]

    def start(self, seed: int) -> State:
        params_key, env_key, key = jax.random.split(jax.random.key(seed), 3)
        sizes = (OBS, *self.work["hidden"], ACTIONS)
        params: Params = []
        for i, (n, m) in enumerate(pairwise(sizes)):
            for shape in ((n, m), (m,)):  # as PyTorch initialises a linear layer
                params_key, draw = jax.random.split(params_key)
                params.append(jax.random.uniform(draw, shape, minval=-(n**-0.5), maxval=n**-0.5))
            if self.layer_norm and i < len(sizes) - 2:
                params += [jnp.ones(m), jnp.zeros(m)]
        obs, world = jax.vmap(self.env.reset, in_axes=(0, None))(jax.random.split(env_key, self.lanes), self.env_params)
        world = jax.tree.map(jnp.asarray, world)
        counts = [jnp.zeros((), jnp.int32) for _ in range(2)]  # apart, since each is given away
        target = [p.copy() for p in params]
        memory = self.buffer.init(jnp.zeros(2 * OBS + 4))
        return State(params, target, self.optimizer.init(params), memory, world, obs, key, *counts)


def updates_in(state: State) -> int:
    """As Adam has counted them; a schedule has a count of its own, the same."""
    (_path, count), *_ = optax.tree.get_all_with_path(state.moments, "count")
    return int(count)


@cache
def compiled(terms: str) -> tuple[Program, Any, Any, Any]:
    """The program of these terms, and its parts compiled: all steps before learning, the first target period, and as
    many as lie between two looks from outside."""
    work = json.loads(terms)
    program = Program(work)
    state = program.start(0)
    env_steps = work["target_every_updates"] * work["env_steps_per_update"]
    looks = work.get("snapshot_every_env_steps") or (work["total_env_steps"] - work["learning_starts"]) // 4
    chunk = max(1, looks // env_steps)
    fill = program.fill.lower(state, work["learning_starts"] // work["lanes"]).compile()
    first = program.learn.lower(state, 1).compile()
    learn = program.learn.lower(state, chunk).compile() if chunk > 1 and not work.get("only_first_update") else first
    return program, fill, first, learn


def train(work: dict[str, Any]) -> dict[str, Any]:
    """One run -> its learning phase, counted by the program itself. Compiling comes before it."""
    program, fill, first, learn = compiled(json.dumps({**work, "seed": 0}, sort_keys=True))
    per_period = work["target_every_updates"]
    periods = (work["total_env_steps"] - work["learning_starts"]) // work["env_steps_per_update"] // per_period
    state = program.start(work["seed"])
    window = Window(work, lambda: in_order([np.asarray(p) for p in state.params]))
    state = jax.block_until_ready(fill(state))
    seen_samples = seen_updates = 0
    run = first
    while seen_updates // per_period < periods:
        state = jax.block_until_ready(run(state))
        steps, samples, updates = int(state.env_steps), int(state.samples), updates_in(state)
        window.env_steps = steps
        window.sampled(samples - seen_samples)
        window.updated(updates - seen_updates)
        seen_samples, seen_updates, run = samples, updates, learn
    return window.report()


def one_update(work: dict[str, Any], params: list[float], batch: Mapping[str, Any]) -> dict[str, Any]:
    """One update from `params` [P], which are the target's too -> its loss, and the parameters after it."""
    program = Program(work)
    sizes = (OBS, *work["hidden"], ACTIONS)
    given = [jnp.asarray(t) for t in transposed(np.array(params, np.float32), sizes, program.layer_norm)]
    state = program.start(0)._replace(params=given, target=given, moments=program.optimizer.init(given))
    over = np.array(batch["terminated"], np.float32)[:, None]
    column = [np.array(batch[name], np.float32)[:, None] for name in ("action", "reward")]
    rows = np.concatenate([np.array(batch["obs"]), np.array(batch["next_obs"]), *column, over, over], 1)
    after, loss = jax.jit(program.update)(state, jnp.asarray(rows[:, None], jnp.float32))
    return {"loss": float(loss), "params": in_order([np.asarray(p) for p in after.params]).tolist()}


def about() -> dict[str, Any]:
    packages = versions("jax", "jaxlib", "gymnax", "flashbax", "optax", "numpy")
    return {"versions": packages, "settings": "one jitted scan, CPU, XLA_FLAGS " + os.environ.get("XLA_FLAGS", "none")}


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")  # the fastest of its random number generators on a CPU
    serve({"train": train, "first_update": until_first_update(train), "one_update": one_update, "about": about})
