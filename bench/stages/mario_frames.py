"""Mario without learning: emulated frames per second of two workers, pictures, rewards, starts of episodes and blocks
included, against bare emulators in two processes that emulate the same games and look at nothing."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.measure import Peer, Row, interleaved, ratios, stage
from bench.stages._collecting import collector, cycles

LONG = True  # run only where it is named, or with all
PROCESSES, LANES = 2, 8
STEPS = 20  # decisions of each lane in a block
SHAPES = {
    "84×84, skip 4, stack 4": {"frame": 84, "skip": 4, "stack": 4},
    "128×128, skip 6, stack 8": {"frame": 128, "skip": 6, "stack": 8},
}


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

    from hotloop.envs import _mario_console, mario

    made = collector("mario", PROCESSES, LANES, STEPS, shape)
    buttons = [[int(b) for b in mask] for mask in _mario_console.masks(mario.ACTIONS[mario.Options().actions])]
    begin = base64.b64encode(made.state()["env.machine"][0].tobytes()).decode()
    frames, share = decisions * LANES * shape["skip"], LANES // PROCESSES
    _, actions, ends = cycles(made, decisions // STEPS)
    requests = [
        {
            "state": begin,
            "buttons": buttons,
            "actions": actions[:, k : k + share].T.tolist(),
            "ends": [np.flatnonzero(ends[:, i]).tolist() for i in range(k, k + share)],
            "skip": shape["skip"],
        }
        for k in range(0, LANES, share)
    ]

    def bare() -> tuple[float, list[str]]:
        replies = list(both.map(lambda pair: pair[0].ask("play", **pair[1]), zip(peers, requests, strict=True)))
        return frames / max(r["seconds"] for r in replies), [s for r in replies for s in r["states"]]

    _assert_same_games(made.state()["env.machine"], bare()[1])
    sides = {"ours": lambda: frames / cycles(made, decisions // STEPS)[0], "bare": lambda: bare()[0]}
    found = interleaved(sides, repeats)
    made.close()
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
