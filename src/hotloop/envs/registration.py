"""Makes every native world a Gymnasium environment, single and vector: `hotloop/Snake-v0` and its kin. Gymnasium calls
`register` whenever it is imported, so this file imports no world, no numba and, until called, no Gymnasium."""

from __future__ import annotations

from hotloop.envs._world import FOREIGN, own_names

_SPELLING = {"cartpole": "CartPole", "bitflip": "BitFlip"}  # names that are not simply each word capitalised


def ids() -> dict[str, str]:
    """World → the id it is registered under: {"snake": "hotloop/Snake-v0", …}."""
    worlds = [name for name in own_names() if name not in FOREIGN]
    return {w: f"hotloop/{_SPELLING.get(w, w.replace('_', ' ').title().replace(' ', ''))}-v0" for w in worlds}


def register() -> None:
    """Enter every world in Gymnasium's registry; worlds already there are left alone."""
    from gymnasium.envs import registration

    for world, name in ids().items():
        if name not in registration.registry:
            registration.register(
                name,
                entry_point="hotloop.envs._adapters:SingleWorld",
                vector_entry_point="hotloop.envs._adapters:VectorWorld",
                kwargs={"world": world},
            )


register()
