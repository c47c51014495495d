"""What holds for every test: poisoned memory, one torch thread, and hashing that may wrap. Compiled programs are kept
in the user's usual cache, so that a second run is fast; tests of the cache itself use a folder of their own."""

from __future__ import annotations

import os
import sys

os.environ["HOTLOOP_POISON"] = "1"  # read when hotloop.core.schema is imported, so it stands before any import

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _one_torch_thread():
    if "torch" in sys.modules:  # tests that need no torch do not pay for it
        import torch

        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _wrapping_is_meant():
    with np.errstate(over="ignore"):  # as plain Python (NUMBA_DISABLE_JIT=1) NumPy warns where hashing wraps
        yield
