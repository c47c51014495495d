"""Replay memories side by side: 16 lanes' steps put in, batches of 256 taken out as arrays, uniform and prioritized
(with new priorities for all that was taken), in a full memory of 10^4 … 10^6 transitions of 8 numbers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from bench.measure import Peer, Row, interleaved, ratios, rival_python, stage
from bench.stages._rivals import absent_row

SIZES = (10_000, 100_000, 1_000_000)
JUDGED = 1_000_000
AT_ONCE = 16  # batches that a call of ours gives in a run
# rival -> (the environment it runs in, whether it has a prioritized memory)
RIVALS = {
    "replay_cpprb": ("cpprb", True),
    "replay_torchrl": ("torchrl", True),
    "replay_flashbax": ("jax_whole", True),
    "replay_sb3": ("sb3", False),
}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    rows: list[Row] = []
    versions: dict[str, Any] = {}
    for prioritized in (True, False):
        for size in SIZES[:1] if quick else SIZES:
            rows += _at(size, prioritized, quick, versions)
    return {"batch": 256, "lanes": 16, "numbers": 8, "threads": 1, "versions": versions}, rows


def _at(size: int, prioritized: bool, quick: bool, versions: dict[str, Any]) -> list[Row]:
    """All memories of one size, in turns."""
    with ExitStack() as stack:
        peers = {"ours": stack.enter_context(Peer("ours_replay"))}
        ours_16 = peers[f"ours, {AT_ONCE} at once"] = stack.enter_context(Peer("ours_replay"))
        for name, (place, has) in RIVALS.items():
            if has or not prioritized:
                peers[name.removeprefix("replay_")] = stack.enter_context(Peer(name, rival_python(place)))
        absent = {}
        for name, peer in list(peers.items()):
            more = {"at_once": AT_ONCE} if peer is ours_16 else {}
            try:
                filled = peer.ask("fill", entries=size, prioritized=prioritized, **more)
            except RuntimeError as why:
                absent[name] = str(why).strip().splitlines()[-1]
                del peers[name]
                continue
            _assert_full(name, filled, size)
            versions[name] = filled["versions"]
        rounds = 3 if quick else 11
        taken = interleaved({n: _taking(p, 64 if quick else 320) for n, p in peers.items()}, rounds)
        put = interleaved({n: _putting(p, 64 if quick else 320) for n, p in peers.items()}, rounds)
    kind = f"{'prioritized' if prioritized else 'uniform'}, {size:,} entries"
    rows = [*_rows(kind, "take 256", taken, prioritized and size == JUDGED), *_rows(kind, "put 16", put, False)]
    return rows + [absent_row(f"{name}: {kind}", "µs", why) for name, why in absent.items()]


def _assert_full(name: str, filled: dict[str, Any], size: int) -> None:
    """What is taken is from the whole memory and from nothing older."""
    newest = size + 64 * 16
    spread = filled["newest"] - filled["oldest"]
    assert filled["oldest"] >= newest - size - 32 and filled["newest"] < newest + 32, (name, filled, size)
    assert spread > 0.9 * size, f"{name} gives entries {filled['oldest']:.0f} … {filled['newest']:.0f} of {size}"


def _taking(peer: Peer, batches: int) -> Callable[[], float]:
    return lambda: peer.ask("sample", batches=batches)["seconds"] / batches * 1e6


def _putting(peer: Peer, steps: int) -> Callable[[], float]:
    return lambda: peer.ask("insert", steps=steps)["seconds"] / steps * 1e6


def _rows(kind: str, what: str, found: dict[str, list[float]], judged: bool) -> list[Row]:
    rows = [Row(f"{name}: {what}, {kind}", "µs", tuple(times), "less") for name, times in found.items()]
    rivals = [name for name in found if not name.startswith("ours")]
    best = min(rivals, key=lambda name: float(np.median(found[name])))
    must, aim = (1.0, 2.0) if judged else (None, None)
    for side in ("ours", f"ours, {AT_ONCE} at once"):
        title = f"{best}, the fastest rival / {side}: {what}, {kind}"
        # Judged is the call that does what a rival's call does.
        bounds = (must, aim) if side == "ours" else (None, None)
        rows.append(Row(title, "×", ratios(found[best], found[side]), "more", *bounds))
    return rows


if __name__ == "__main__":
    stage(run)
