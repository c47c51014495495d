"""Collecting and learning at once against in turn, at a load where both halves take equal time. The load is found
first: `samples_per_step` is set so that a cycle's updates take as long as its env steps, on this machine."""

from __future__ import annotations

from typing import Any

from bench.measure import Peer, Row, interleaved, ratios, stage

LOADS: dict[str, tuple[tuple[str, str], dict[str, Any]]] = {
    "snake flood, 256 lanes": (
        ("snake", "flood"),
        {"lanes": 256, "cycle_steps": 32, "learning_starts_env_steps": 20_000, "explore": {"decay_env_steps": 1}},
    ),
    "Gymnasium's CartPole-v1, 16 lanes": (
        ("cartpole", "default"),
        {
            "workload": "CartPole-v1", "lanes": 16, "cycle_steps": 64, "learning_starts_env_steps": 2_000,
            "explore": {"decay_env_steps": 1},
        },
    ),
}  # fmt: skip
JUDGED = next(iter(LOADS))
COLLECT, LEARN = ("act", "env"), ("sample", "update")  # sections of the run's own trace
NAMES = {True: "on", False: "off"}


def run(quick: bool) -> tuple[dict[str, Any], list[Row]]:
    settings: dict[str, Any] = {}
    rows: list[Row] = []
    with Peer("ours") as us:
        for name, (preset, layer) in LOADS.items():
            load, said = _balanced(us, preset, layer, seconds=0.4 if quick else 3.0)
            sides = {
                NAMES[on]: lambda on=on, load=load, preset=preset: us.ask(
                    "train", preset=preset, layer={**load, "overlap": on}
                )
                for on in NAMES
            }
            found = interleaved(sides, 2 if quick else 9)
            speeds = {side: [r["env_steps_per_s"] for r in runs] for side, runs in found.items()}
            said["balance_when_measured"] = [round(_halves(r["summary"])[2], 3) for r in found["off"]]
            settings[name] = said
            sampled = found["on"][-1]["samples_per_step"]
            must, aim = (1.4, 1.8) if name == JUDGED else (None, None)
            what = f"{name}: overlap on / off, balanced load"
            rows.append(Row(what, "×", ratios(speeds["on"], speeds["off"]), "more", must, aim, sampled))
            for side, values in speeds.items():
                rows.append(Row(f"{name}, overlap {side}", "env steps/s", tuple(values), samples_per_step=sampled))
    return settings, rows


def _balanced(
    us: Peer, preset: tuple[str, str], layer: dict[str, Any], seconds: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The load with equal halves, lasting about `seconds` in turn, and what is to be said of it."""
    batch, updates = 64, 40
    cycle = layer["lanes"] * layer["cycle_steps"]
    starts, collect, learn = layer["learning_starts_env_steps"], 1.0, 1.0
    for _ in range(3):
        load = {
            **layer,
            "samples_per_step": updates * batch / cycle,
            "learner": {"batch_size": batch},
            "overlap": False,
        }
        load["total_env_steps"] = starts + 25 * cycle
        collect, learn, _ = _halves(us.ask("train", preset=preset, layer=load)["summary"])
        updates = max(1, round(updates * collect / learn))
    cycles = max(20, round(seconds / (2 * collect)))
    load = {**load, "samples_per_step": updates * batch / cycle, "total_env_steps": starts + cycles * cycle}
    said = {
        "lanes": layer["lanes"],
        "cycle_env_steps": cycle,
        "cycle_updates": updates,
        "batch": batch,
        "cycle_ms_collect": round(collect * 1e3, 3),
    }
    return load, said


def _halves(summary: dict[str, Any]) -> tuple[float, float, float]:
    """Seconds of one cycle of a run in turn: collecting, learning; and their ratio. All on the main thread."""
    calls = {k.partition("/")[2]: v for k, v in summary["sections"].items()}
    collect = sum(calls[k][1] for k in COLLECT) / calls["commit"][0]
    learn = sum(calls[k][1] for k in LEARN) / calls["update"][0]
    return collect, learn, learn / collect


if __name__ == "__main__":
    stage(run)
