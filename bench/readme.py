"""Writes the figures of README.md from the committed results: python bench/readme.py [--check]"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.run import RESULTS, ROOT, figure

README = ROOT / "README.md"
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"

# stage -> the rows that are shown, by how they begin, in words for a reader. Losses stand here as well as wins.
SHOWN: dict[str, dict[str, str]] = {
    "cartpole_vs_sb3": {
        "env steps/s, ours, native CartPole, overlap": "train CartPole, 10 lanes, against Stable-Baselines3",
        "env steps/s, ours, Gymnasium's CartPole-v1": "… both on Gymnasium's CartPole-v1",
    },
    "cartpole_rivals": {
        **{
            f"env steps/s, ours, native CartPole, overlap (2 cores) / {title}": f"… against {words}"
            for title, words in (
                ("Tianshou", "Tianshou"),
                ("SBX", "SBX"),
                ("TorchRL", "TorchRL"),
                ("RLlib", "RLlib"),
                ("JAX, the whole program", "the whole of DQN as one JAX program"),
            )
        },
        "env steps/s, ours, native CartPole, no overlap (1 core) / JAX": "… the same on one core",
    },
    "cartpole_one_lane": {
        "env steps/s, ours, native CartPole": "… one lane, one core, against DQN in one file of PyTorch",
    },
    "cartpole_serial": {
        "env steps/s, ours, native CartPole": "… one lane, nothing at the same time, one core each",
        "env steps/s, ours, Gymnasium's CartPole-v1": "… both on Gymnasium's CartPole-v1",
    },
    "update_small": {
        "eager / ours, 8 updates": "one update, 4-64-2, batch 32, against eager PyTorch with fused Adam",
        "ours, 8 updates": "… ours",
    },
    "update_medium": {"eager / ours, 8 updates": "one update, 4-120-84-2, batch 128, against the same"},
    "snake_env": {
        "snake basic, drawing": "Snake alone, one core",
        "snake flood, drawing": "… with the exact flood fill",
    },
    "snake_train": {"snake training": "train Snake, 256 lanes"},
    "learn_snake": {
        "snake basic: mean score": "Snake learnt, score (published: 16.8)",
        "snake flood: mean score": "… with flood-fill features (published: 25.4)",
    },
    "learn_cartpole": {
        "cartpole: greedy return": "CartPole learnt, return",
        "cartpole: training until": "… training until 475",
    },
    "learn_pqn": {
        "cartpole: training until an evaluation reached 475, pqn": "… by PQN, training until 475",
    },
    "time_to_475": {
        "second start + time to 475, JAX": "CartPole at 475, from the start of the process, against the JAX program",
        "second start + time to 475, PyTorch": "… against DQN in one file of PyTorch",
        "second start + time to 475, Stable": "… against Stable-Baselines3 at the settings of its zoo",
        "training until 475, JAX": "… training alone, against the JAX program",
    },
    "cold_start": {
        "JAX, the whole program: second": "second start to first update of the JAX program",
        "Stable-Baselines3: second": "… of Stable-Baselines3",
    },
    "snake_envpool": {"env steps/s, ours, ten": "Snake alone, one core, against EnvPool's on two"},
    "overlap": {
        "snake flood, 256 lanes: overlap on / off": "collecting and learning at once against in turn, native",
        "Gymnasium's CartPole-v1, 16 lanes: overlap on / off": "… an environment that holds the interpreter",
    },
    "first_window": {"snake: first": "first 5 % of a run against its median window"},
    "second_start": {"second start to first update": "second start: process start to first update"},
    "learn_lunar": {"LunarLander-v3": "LunarLander-v3 learnt in 300,000 env steps, return"},
    "learn_lunar_per": {"LunarLander-v3, Double + PER: greedy": "… with prioritized replay (published: 266)"},
    "service_chain_env": {
        "service chains, random": "service_chain alone, one core",
        "service chains / plain": "… against plain Python",
    },
    "wildfire_env": {
        "wildfire, drawing": "wildfire 20×20 alone, 10 fires per env step, one core",
        "wildfire / plain": "… against plain Python",
    },
    "learn_service_chain": {
        "4 data centres: acceptance, trained": "service_chain learnt, acceptance against the heuristic's",
    },
    "workers_cartpole": {
        "CartPole-v1, 16 environments: 2 workers / AsyncVectorEnv": "collect from Gymnasium's CartPole in 2 workers, "
        "against `AsyncVectorEnv`",
        "CartPole-v1, 16 environments: 2 workers / SubprocVecEnv": "… against Stable-Baselines3's `SubprocVecEnv`",
    },
    "transport": {"blocks: ring /": "blocks of frames from a worker, against `multiprocessing.Queue`"},
    "mario_frames": {"mario 128×128, skip 6, stack 8: hotloop /": "mario in 2 workers, frames against bare emulators"},
    "update_variants": {
        "double / dqn": "one update of Double DQN, 256-256, batch 256, against DQN's",
        "noisy / dqn": "… noisy",
        "c51 / dqn": "… C51",
        "qr_dqn / dqn": "… QR-DQN",
        "iqn / dqn": "… IQN",
    },
    "update_per": {"prioritized / uniform": "… prioritized against uniform, the tree and its writing back included"},
    "update_bf16": {"update: float32 / bfloat16": "one update, 512-512, batch 512: bfloat16 against float32"},
    "seeds_at_once": {"8 seeds of CartPole, whole": "eight seeds at once against eight commands one after another"},
}


def block() -> str:
    """The table between the marks."""
    lines = ["| what | measured, median [95 %] | samples per step |", "|---|---|---|"]
    notes: dict[str, None] = {}
    for stage, shown in SHOWN.items():
        file = RESULTS / f"{stage}.json"
        if not file.exists():
            continue
        result = json.loads(file.read_text())
        for begins, words in shown.items():
            row = next(r for r in result["rows"] if r["what"].startswith(begins))
            lines.append(f"| {words} | {measured(row)} | {sampled(row)} |")
        machine = result["machine"]
        notes[f"{machine['cpu']}, {machine['cores']} cores, torch {result['versions']['torch']}"] = None
    command = "`python bench/run.py --only STAGE` measures a row anew; the JSON of each stands in `bench/results/`."
    return "\n".join([*lines, "", f"{'; '.join(notes)}. {command}"])


def measured(row: dict[str, Any]) -> str:
    if not row["values"]:
        return row["note"]
    low, high = row["interval"]
    value = f"{figure(row['median'])} {row['unit']}".replace(" ×", "×")
    span = f" [{figure(low)}, {figure(high)}]" if len(row["values"]) > 1 else ""
    span += " interquartile mean" if row.get("middle", "median") != "median" else ""
    return f"**{value}**{span}{', less than it must be' if row['verdict'] == 'MISSED' else ''}"


def sampled(row: dict[str, Any]) -> str:
    return "" if row["samples_per_step"] is None else f"{row['samples_per_step']:g}"


def written() -> str:
    """README.md with the table of now."""
    before, rest = README.read_text("utf-8").split(BEGIN)
    return f"{before}{BEGIN}\n{block()}\n{END}{rest.split(END)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="say whether the table is that of the results")
    text = written()
    if parser.parse_args().check:
        return int(text != README.read_text("utf-8"))
    README.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
