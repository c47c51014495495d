"""gymnax's environments alone, played at random: one jitted scan over the steps of all lanes, which counts them."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import gymnax
import jax
import jax.numpy as jnp

from bench.measure import serve, versions


@cache
def program(env: str, lanes: int, batched_steps: int) -> Any:
    """key -> (env steps, sum of rewards), compiled. The sum keeps the compiler from leaving the steps out."""
    world, params = gymnax.make(env)

    def step(carry: Any, _: None) -> tuple[Any, None]:
        key, state, count, total = carry
        key, draw, move = jax.random.split(key, 3)
        action = jax.random.randint(draw, (lanes,), 0, world.num_actions)
        obs, state, reward, *_rest = jax.vmap(world.step, in_axes=(0, 0, 0, None))(
            jax.random.split(move, lanes), state, action, params
        )
        return (key, state, count + len(reward), total + reward.sum() + obs.sum()), None

    def play(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, state = jax.vmap(world.reset, in_axes=(0, None))(jax.random.split(key, lanes), params)
        state = jax.tree.map(jnp.asarray, state)
        carry = (key, state, jnp.zeros((), jnp.int32), jnp.zeros(()))
        return jax.lax.scan(step, carry, None, batched_steps)[0][2:]

    return jax.jit(play).lower(jax.random.key(0)).compile()


def play(env: str, lanes: int, batched_steps: int) -> dict[str, Any]:
    run = program(env, lanes, batched_steps)
    began, cpu = time.perf_counter(), time.process_time()
    count, _ = jax.block_until_ready(run(jax.random.key(1)))
    seconds = time.perf_counter() - began
    cores = (time.process_time() - cpu) / seconds
    return {"env_steps_per_s": int(count) / seconds, "env_steps": int(count), "cores": cores}


def about() -> dict[str, Any]:
    return {"versions": versions("gymnax", "jax", "jaxlib"), "settings": "one jitted scan, its own threads"}


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_default_prng_impl", "unsafe_rbg")  # the fastest of its random number generators on a CPU
    serve({"play": play, "about": about})
