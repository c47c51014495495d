"""Weights from the learner to its workers: whole, newest first, never back, and nobody waits for anybody."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from hotloop.collect import weights
from hotloop.collect.weights import NOTHING, Weights, bytes_for


def new(count: int = 7) -> Weights:
    return Weights(np.zeros(bytes_for(count), np.uint8), count)


def of(version: int, count: int = 7) -> np.ndarray:
    return np.arange(count, dtype=np.float32) + version


@pytest.mark.parametrize("begin", [0, 2**31 - 2, 2**32 - 2, 2**40])
def test_the_newest_is_read_whole_and_once(begin):
    shared, out = new(), np.full(7, -1, np.float32)
    assert shared.newest() == NOTHING == shared.read(out) and (out == -1).all()
    have = NOTHING
    for k in range(6):
        shared.publish(of(k), begin + k)
        assert shared.newest() == begin + k
        if k in (0, 2, 3, 5):
            have = shared.read(out, have)
            assert have == begin + k and np.array_equal(out, of(k))
            out[...] = -2
        assert shared.read(out, begin + k) == begin + k and (out == -2).all(), "there is nothing newer"


def test_bits_arrive_as_they_are():
    shared, out = new(4), np.zeros(4, np.float32)
    odd = np.array([0x7FC00001, 0xFF800000 - 2**32, 1, -(2**31)], np.int64).astype(np.int32).view(np.float32)
    shared.publish(odd, 0)
    shared.read(out)
    assert odd.tobytes() == out.tobytes()


def test_versions_go_up():
    shared = new()
    shared.publish(of(1), 5)
    for version in (5, 4):
        with pytest.raises(ValueError, match="after those of version 5"):
            shared.publish(of(1), version)
    with pytest.raises(ValueError, match="memory of 3 bytes"):
        Weights(np.zeros(3, np.uint8), 7)


def test_what_is_half_written_is_not_read_and_the_next_learner_writes_over_it():
    shared, out = new(), np.zeros(7, np.float32)
    shared.publish(of(1), 1)
    shared.publish(of(2), 2)
    half = shared.words[weights.LATEST] & 1 ^ 1
    shared.words[weights.SEQUENCE[half]] += 1  # a learner has died while it wrote
    assert shared.read(out) == 2 and np.array_equal(out, of(2))
    shared.publish(of(3), 3)
    assert shared.words[weights.SEQUENCE[half]] % 2 == 0
    assert shared.read(out, 2) == 3 and np.array_equal(out, of(3))


def test_a_reader_that_finds_no_whole_copy_keeps_what_it_has():
    shared, out = new(), of(9)
    shared.publish(of(1), 1)
    shared.words[weights.SEQUENCE[shared.words[weights.LATEST] & 1]] += 1
    assert shared.read(out, 0) == 0 and np.array_equal(out, of(9))


def test_whoever_waits_is_woken_or_told_that_it_was_in_vain(monkeypatch):
    shared = new()
    thread = threading.Timer(0.05, shared.publish, (of(1), 4))
    with monkeypatch.context() as changed:
        changed.setattr(weights, "_SLICE_NS", 10**12)  # only being woken ends a sleep
        began = time.monotonic()
        thread.start()
        assert shared.wait_for(4, 60.0) and shared.wait_for(2, 0.0)
        thread.join()
        assert time.monotonic() - began < 30
    assert not shared.wait_for(5, 0.02) and not shared.wait_for(5, 0.0)
