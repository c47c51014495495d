"""Mario without learning: emulated frames per second of two processes, pictures, rewards and starts of episodes
included, against bare emulators in two processes that emulate the same games and look at nothing."""

from __future__ import annotations

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.measure import Peer, Row, interleaved, ratios, stage

LONG = True  # run only where it is named, or with all
PROCESSES, LANES = 2, 8
SHAPES = {"84×84, skip 4": {"frame": 84, "skip": 4}, "128×128, skip 6": {"frame": 128, "skip": 6}}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    from hotloop.core.errors import UserError
    from hotloop.envs import _mario_console

    try:
        rom = str(_mario_console.find_rom(""))
    except UserError as why:
        raise SystemExit(str(why)) from None
    decisions, repeats = (60, 2) if quick else (400, 9)
    rows = []
    with Peer("bare_nes") as first, Peer("bare_nes") as second, ThreadPoolExecutor(PROCESSES) as both:
        peers = [first, second]
        for peer in peers:
            peer.ask("start", rom=rom)
        for name, shape in SHAPES.items():
            rows += _compared(name, shape, decisions, repeats, peers, both)
    return {"processes": PROCESSES, "lanes": LANES, "decisions_per_repeat": decisions, "actions": "random"}, rows


def _compared(
    name: str, shape: dict[str, int], decisions: int, repeats: int, peers: list[Peer], both: ThreadPoolExecutor
) -> list[Row]:
    import numpy as np

    from hotloop.core.schema import new_steps
    from hotloop.envs import _mario_console, mario

    options = mario.Options(processes=PROCESSES, **shape)
    env = mario.make(options, LANES)
    out = new_steps(env.spec, LANES)
    actions = np.random.default_rng(0).integers(0, env.spec.num_actions, (decisions, LANES)).astype(np.int32)
    frames = decisions * LANES * options.skip

    def ours() -> tuple[float, np.ndarray]:
        env.reset(0, out)
        ended = np.zeros((decisions, LANES), np.bool_)
        began = time.perf_counter()
        for t in range(decisions):
            env.step(actions[t], out)
            ended[t] = out.terminated
        return frames / (time.perf_counter() - began), ended

    env.reset(0, out)
    begin = base64.b64encode(env.state()["machine"][0].tobytes()).decode()
    buttons = [[int(b) for b in mask] for mask in _mario_console.masks(mario.ACTIONS[options.actions])]
    ends = ours()[1]
    share = LANES // PROCESSES
    requests = [
        {
            "state": begin,
            "buttons": buttons,
            "actions": actions[:, k : k + share].T.tolist(),
            "ends": [np.flatnonzero(ends[:, i]).tolist() for i in range(k, k + share)],
            "skip": options.skip,
        }
        for k in range(0, LANES, share)
    ]

    def bare() -> tuple[float, list[str]]:
        replies = list(both.map(lambda pair: pair[0].ask("play", **pair[1]), zip(peers, requests, strict=True)))
        return frames / max(r["seconds"] for r in replies), [s for r in replies for s in r["states"]]

    _assert_same_games(env.state()["machine"], bare()[1])
    found = interleaved({"ours": lambda: ours()[0], "bare": lambda: bare()[0]}, repeats)
    env.close()
    return [
        Row(f"mario {name}: hotloop / bare emulators", "×", ratios(found["ours"], found["bare"]), must=0.85, aim=0.95),
        Row(f"mario {name}: hotloop", "frames/s", tuple(found["ours"])),
        Row(f"mario {name}: bare emulators", "frames/s", tuple(found["bare"])),
    ]


def _assert_same_games(ours: Any, bare: list[str]) -> None:
    """Both sides end in the same state of the machine, byte for byte. An episode's last decision, which ours ends in
    the frame of the death, is emulated to its end by the bare ones: counted alike, so by that much against ours."""
    import numpy as np

    for mine, theirs in zip(ours, bare, strict=True):
        state = np.frombuffer(base64.b64decode(theirs), np.uint8).copy()
        noise = state.tobytes().index(b"NREG") + 8  # two bytes that no game reads
        state[noise : noise + 2] = 0
        assert np.array_equal(mine, state), "the sides did not emulate the same games"


if __name__ == "__main__":
    stage(run)
