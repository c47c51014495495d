"""`hotloop doctor WORKLOAD`, `hotloop tune-system` and the profilers, as the command line calls them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hotloop.config import TrainConfig
from hotloop.doctor.own import examine, profiles, telling, tune


def doctor(
    config: TrainConfig, only: Sequence[str], rounds: int, seconds: float, trace: str, cprofile: str | None,
    torch_profile: str | None, as_json: bool,
) -> int:  # fmt: skip
    """A profile where one is asked for, else the examination."""
    examine.check_counts(rounds, seconds)
    if cprofile or torch_profile:
        if cprofile:
            profiles.with_cprofile(config, Path(cprofile))
        if torch_profile:
            profiles.with_torch_profile(config, Path(torch_profile))
        print(f"profile {cprofile or torch_profile}", file=sys.stderr)
        return 0
    seen = examine.examine(config, only, rounds, seconds, Path(trace), _say)
    found = examine.advice(seen)
    if as_json:
        print(json.dumps(telling.as_json(seen, found)))
    else:
        print(telling.text(seen, found))
        print(f"\ntrace        {trace} (open in ui.perfetto.dev)")
    return 0


def tune_system(config: TrainConfig, rounds: int, seconds: float, out: str) -> int:
    examine.check_counts(rounds, seconds)
    best, said = tune.tune(config, rounds, seconds, _say)
    gain = tune.compared(config, best, rounds, seconds)
    tune.write(Path(out), config, best, gain, said)
    print("\n".join(said))
    print(f"all together: {gain}")
    print(f"written      {out}; use it with: hotloop train {config.workload} --config {out}")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
