"""Rings: what they pass on, what they count and refuse, and what is left of it when workers are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hotloop.collect import ring
from hotloop.collect.ring import DamagedRing, Ring, await_any, bytes_for
from hotloop.core import atomic

pytestmark = pytest.mark.skipif(not atomic.AVAILABLE, reason="worker processes need Linux")
ROOT = Path(__file__).parents[2]


def killing(*asked):
    """What tests/collect/killing.py answers, in a process that has one thread and so may fork."""
    command = [sys.executable, "-m", "tests.collect.killing", json.dumps(asked)]
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=one_thread, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def new(block_bytes: int = 24, blocks: int = 3) -> Ring:
    return Ring(np.zeros(bytes_for(block_bytes, blocks), np.uint8), block_bytes, blocks)


def put(shared: Ring, value: int, env_steps: int = 4) -> None:
    slot = shared.claim(0.0)
    assert slot is not None
    slot[...] = value
    shared.made(env_steps)
    shared.publish(env_steps, value, 1, (value, -value))


# --- one process -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [0, 2**31 - 4, 2**32 - 4, 2**53 - 4])
def test_records_come_out_as_they_went_in_whatever_the_count(begin):
    shared = new()
    shared.words[[ring.WRITE, ring.READ]] = begin
    shared.take_over(7)
    for n in range(20):
        put(shared, n)
        if n % 3 == 2:
            for k in range(n - 2, n + 1):
                header, block = shared.peek(0.0)
                assert (header.seq, header.epoch, header.env_steps) == (begin + k, 7, 4)
                assert (header.weights_version, header.staleness, header.notes[:3]) == (k, 1, (k, -k, 0))
                assert block.shape == (24,) and (block == k).all()
                shared.release()
            assert shared.peek(0.0) is None


def test_blocks_begin_at_cache_lines_and_touch_nothing_else():
    memory = np.zeros(bytes_for(24, 3) + 128, np.uint8)
    at = -memory.ctypes.data % 64
    shared = Ring(memory[at : at + bytes_for(24, 3)], 24, 3)
    for _ in range(3):
        slot = shared.claim(0.0)
        assert slot.ctypes.data % 64 == 0
        put(shared, 255)
    assert (memory[:at] == 0).all() and (memory[at + bytes_for(24, 3) :] == 0).all()
    for n in range(3):
        header, block = shared.peek(0.0)
        assert header.seq == n and (block == 255).all()
        shared.release()


def test_a_full_ring_is_waited_for_or_its_blocks_are_dropped_and_counted():
    shared = new()
    for n in range(3):
        put(shared, n)
    assert shared.claim(0.0) is None and shared.claim(0.02) is None
    assert shared.counts().blocked_ns >= 0.02e9
    shared.made(4)
    shared.drop(4)
    counts = shared.counts()
    assert (counts.produced, counts.in_flight, counts.dropped, counts.blocks_dropped) == (16, 12, 4, 1)
    shared.release()
    put(shared, 3)
    counts = shared.counts()
    assert (counts.produced, counts.stored, counts.in_flight, counts.dropped) == (20, 4, 12, 4)
    assert counts.blocks_in_flight == 3 and counts.making == counts.lost == 0
    shared.release()
    shared.release()
    shared.release()
    assert shared.counts().stored == 16


def test_what_a_dead_worker_had_made_is_lost_once():
    shared = new()
    shared.take_over(1)
    put(shared, 0)
    shared.claim(0.0)[...] = 9
    shared.made(3)
    assert shared.counts().making == 3
    for epoch in (2, 3):
        shared.take_over(epoch)
        assert (shared.counts().lost, shared.counts().making) == (3, 0)
    put(shared, 1)
    assert shared.peek(0.0)[0].lost == 0, "a record tells what was so when it was published"
    shared.release()
    header, block = shared.peek(0.0)
    assert (header.lost, header.epoch, header.produced, header.published) == (3, 3, 11, 8) and (block == 1).all()


@pytest.mark.parametrize("together", [True, False])
def test_a_reader_that_sleeps_is_woken_and_so_is_a_writer(monkeypatch, together):
    monkeypatch.setattr(atomic, "can_sleep_while_all", lambda: together)
    monkeypatch.setattr(ring, "_SLICE_NS", 10**12)  # only being woken ends a sleep
    began = time.monotonic()
    shared, other = new(), new()
    for wait in (lambda: await_any([other, shared], 60.0), lambda: shared.peek(60.0)):
        thread = threading.Timer(0.05, put, (shared, 5))
        thread.start()
        assert wait()
        thread.join()
        assert shared.peek(60.0)[0].weights_version == 5 and not await_any([other], 0.0)
        shared.release()
    for n in range(3):
        put(shared, n)
    thread = threading.Timer(0.05, shared.release)
    thread.start()
    assert shared.claim(60.0) is not None
    thread.join()
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("wait", ["peek", "claim", "any"])
def test_signals_are_looked_after_while_waiting(wait):
    class Alarm(Exception): ...

    def raise_alarm(*_: object) -> None:
        raise Alarm

    shared = new()
    for n in range(3 if wait == "claim" else 0):
        put(shared, n)
    before = signal.signal(signal.SIGALRM, raise_alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            {"peek": shared.peek, "claim": shared.claim, "any": lambda s: await_any([shared], s)}[wait](600.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_misuse_and_damage_are_seen():
    shared = new()
    with pytest.raises(RuntimeError, match="not there"):
        shared.release()
    for n in range(3):
        put(shared, n)
    with pytest.raises(RuntimeError, match="not claimed"):
        shared.publish(1, 1)
    shared.release()
    with pytest.raises(RuntimeError, match="not those that were made"):
        shared.publish(1, 1)
    assert shared.counts().blocks_in_flight == 2
    put(shared, 3)
    shared._headers[1, 0] = 17
    with pytest.raises(DamagedRing, match="record 1"):
        shared.peek(0.0)
    shared.words[ring.WRITE] = 99
    with pytest.raises(DamagedRing, match="more records"):
        shared.peek(0.0)
    with pytest.raises(ValueError, match="two blocks"):
        new(blocks=1)
    with pytest.raises(ValueError, match="memory of 7 bytes"):
        Ring(np.zeros(7, np.uint8), 24, 3)


# --- processes that die ----------------------------------------------------------------------------------------------

WRONG = ("torn", "disordered", "miscounted")


def test_nothing_is_torn_twice_missing_or_miscounted_whoever_dies_where():
    at_points, at_random, kept = killing(
        ("points", {"times": 4}), ("random_kills", {"kills": 40, "seed": 1}), ("leftovers", {"kills": 10})
    )
    assert not any(at_points[name] for name in (*WRONG, "damaged", "in_flight", "making"))
    assert at_points["records"] > 40 and at_points["lost"] == at_points["expected_lost"] == 4 * 16
    assert not any(at_random[name] for name in (*WRONG, "making", "in_flight"))
    assert at_random["records"] > 40 and at_random["most_lost"] <= 8
    assert at_random["produced"] == at_random["stored"] + at_random["dropped"] + at_random["lost"]
    assert kept == {"fds": 0, "names": 0, "mappings": 0}


def test_a_kill_after_any_store_leaves_a_ring_and_weights_whole():
    of_ring, of_weights = killing(("every_store", {}), ("every_store_of_weights", {}))
    assert of_ring["moments"] > 12 and not any(of_ring[name] for name in WRONG)
    published = of_ring["records"].index(4)  # two were there, and one comes after
    assert set(of_ring["records"][:published]) == {3} and set(of_ring["records"][published:]) == {4}
    assert of_ring["lost"][0] == of_ring["lost"][published] == of_ring["lost"][-1] == 0
    assert set(of_ring["lost"]) == {0, 8}
    assert of_weights["moments"] > 7 and of_weights["torn"] == 0
    assert of_weights["read"] == sorted(of_weights["read"]) and set(of_weights["read"]) == {2, 3}


def test_what_would_break_it_is_seen_by_the_same_search():
    first, cursor, early = killing(
        ("points", {"times": 3, "bug": "publish first"}),
        ("points", {"times": 1, "bug": "cursor of its own"}),
        ("random_kills", {"kills": 30, "seed": 2, "releases_first": True}),
    )
    assert first["torn"] and early["torn"]
    assert cursor["damaged"] or cursor["disordered"]


def test_a_read_that_is_overtaken_twice_is_made_again():
    (found,) = killing(("interrupted_reads", {"moments": 6}))
    assert found["steps"] > 1_500 and not found["torn"] and not found["backwards"]


def test_weights_are_whole_under_a_learner_that_never_rests_and_dies_often():
    (looking,) = killing(("weights_under_fire", {"reads": 100, "kills": 5, "seed": 1}))
    assert looking["torn"] == looking["backwards"] == 0 and looking["read"] >= 100


@pytest.mark.prove  # by luck of the scheduler; the fast suite stops reads mid-way instead, and finds it every time
def test_a_reader_that_looks_once_takes_torn_weights():
    (found,) = killing(("weights_under_fire", {"reads": 200_000, "kills": 5, "seed": 1, "looks_once": True}))
    assert found["torn"]


def test_waiting_takes_no_core():
    (found,) = killing(("blocked", {"seconds": 1.0}))
    assert max(found["empty"], found["full"], found["any"]) <= 0.03 < found["looking"]
    assert found["blocked_s"] > 0.9 and found["waited_s"] > 0.9


@pytest.mark.prove
def test_a_thousand_kills_and_ten_million_env_steps():
    at_points, at_random, counted, weights = killing(
        ("points", {"times": 20}),
        ("random_kills", {"kills": 1_000, "seed": 3}),
        ("account", {"env_steps": 10_000_000, "kills": 50, "seed": 4}),
        ("weights_under_fire", {"reads": 200_000, "kills": 200, "seed": 5}),
    )
    for found in (at_points, at_random, counted):
        assert not any(found[name] for name in (*WRONG, "making", "in_flight"))
        assert found["produced"] == found["stored"] + found["dropped"] + found["lost"]
    assert at_points["lost"] == at_points["expected_lost"]
    assert counted["produced"] >= 10_000_000 and counted["kills"] >= 50 and at_random["most_lost"] <= 8
    assert weights["torn"] == weights["backwards"] == 0 and weights["read"] >= 200_000
