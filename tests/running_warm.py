"""Imported once by the process that `running.killed` forks from: loads everything, so that each run starts at once."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests import running

with tempfile.TemporaryDirectory() as folder:
    running.train(Path(folder) / "run", "identity")
