"""An environment that can be imported in the process of a test, and nowhere else."""

from __future__ import annotations

import os

from tests.references.run_envs import Counting

if os.environ.get("HOTLOOP_TEST_IMPORT") != str(os.getpid()):
    import no_such_library  # noqa: F401

Here = Counting
