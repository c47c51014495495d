"""Two workers × 8 lanes on Gymnasium's CartPole-v1 against AsyncVectorEnv and SubprocVecEnv with the same 16
environments: random actions, no learner. Ours choose their actions, and end in blocks; the others are given theirs."""

from __future__ import annotations

from typing import Any

from bench.measure import Peer, Row, interleaved, ratios, rival_python, stage
from bench.stages._collecting import collector, cycles

WORKERS, LANES, STEPS = 2, 16, 32


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    batched, repeats = (320, 2) if quick else (6_400, 9)
    made = collector("CartPole-v1", WORKERS, LANES, STEPS)
    with Peer("gymnasium_async") as gymnasium, Peer("sb3_subproc", rival_python("sb3")) as sb3:
        about = {name: p.ask("start", id="CartPole-v1", lanes=LANES) for name, p in (("a", gymnasium), ("s", sb3))}

        def ours() -> float:
            seconds, actions, ended = cycles(made, batched // STEPS)
            _refuse_other_games(ended.sum(), actions.size)
            return actions.size / seconds

        def theirs(peer: Peer) -> float:
            reply = peer.ask("play", steps=batched)
            _refuse_other_games(reply["episodes"], reply["env_steps"])
            return reply["env_steps"] / reply["seconds"]

        sides = {"ours": ours, "AsyncVectorEnv": lambda: theirs(gymnasium), "SubprocVecEnv": lambda: theirs(sb3)}
        found = interleaved(sides, repeats)
    made.close()
    settings = {"workers": WORKERS, "lanes": LANES, "block_steps": STEPS, "batched_steps_per_repeat": batched, **about}
    rows = [
        Row(f"CartPole-v1, 16 environments: 2 workers / {name}", "×", ratios(found["ours"], found[name]), must=2, aim=4)
        for name in ("AsyncVectorEnv", "SubprocVecEnv")
    ]
    return settings, rows + [Row(name, "env steps/s", tuple(values)) for name, values in found.items()]


def _refuse_other_games(episodes: int, env_steps: int) -> None:
    """A random player's pole stands for some 22 steps."""
    assert 15 < env_steps / max(1, episodes) < 35, f"{episodes} episodes in {env_steps} env steps"


if __name__ == "__main__":
    stage(run)
