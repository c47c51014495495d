"""Every replay test runs on poisoned memory, so that a value read before it was written is obvious."""

from __future__ import annotations

import numpy as np
import pytest

from hotloop.core import schema


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema, "POISON", True)
    with np.errstate(over="ignore"):  # as plain Python (NUMBA_DISABLE_JIT=1) NumPy warns where hashing wraps
        yield
