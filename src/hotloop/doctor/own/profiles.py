"""Other people's profilers on a slice of a run: cProfile for the Python of the main thread, PyTorch's for its
operations."""

from __future__ import annotations

import cProfile
from pathlib import Path

from hotloop.config import TrainConfig
from hotloop.core.errors import UserError
from hotloop.doctor.own.side import Side

SECONDS = 2.0


def with_cprofile(config: TrainConfig, path: Path) -> None:
    """A file for pstats and snakeviz."""
    _writable(path, "--cprofile")
    profile = cProfile.Profile()
    with Side(config) as side:
        profile.enable()
        try:
            side.run(SECONDS)
        finally:
            profile.disable()
    profile.dump_stats(path)


def with_torch_profile(config: TrainConfig, path: Path) -> None:
    """A Chrome trace. Compiled updates are one native call each; --compile false shows their operations."""
    _writable(path, "--torch-profile")
    from torch.profiler import ProfilerActivity, profile

    with Side(config) as side, profile(activities=[ProfilerActivity.CPU]) as found:
        side.run(SECONDS)
    found.export_chrome_trace(str(path))


def _writable(path: Path, flag: str) -> None:
    """Said before the seconds are spent."""
    try:
        path.touch()
    except OSError as why:
        raise UserError(f"{flag} {path}: {why.strerror}") from None
