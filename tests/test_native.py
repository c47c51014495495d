"""Packages called through their C interface: the same results, and Python runs on meanwhile."""

from __future__ import annotations

import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from hotloop import aot

SIZE = 900


def powers(x: torch.Tensor) -> list[torch.Tensor]:
    """Some tens of milliseconds of work."""
    y = x
    for _ in range(12):
        y = x @ y
    return [y, y.sum()]


@pytest.fixture(scope="module")
def programs():
    """The same package loaded both ways."""
    x = torch.eye(SIZE) + 1e-4
    made = [
        aot.compiled("powers", powers, [x], {}, fingerprint="native", threads=1, beside=beside)
        for beside in (False, True)
    ]
    assert [p.origin == "eager" for p in made] == [False, False], made
    return x, *made


def test_both_ways_give_the_same_bits(programs):
    x, held, beside = programs
    for ours, torchs in zip(beside.call([x]), held.call([x]), strict=True):
        assert torch.equal(ours, torchs)


def test_results_are_tensors_of_their_own(programs):
    x, _, beside = programs
    first = beside.call([x])
    kept = first[0].clone()
    second = beside.call([x * 1.1])
    assert torch.equal(first[0], kept)
    assert not torch.equal(second[0], kept)


def test_python_runs_on_beside_the_call(programs):
    """Nobody insists on the interpreter for ten seconds, so whoever keeps it has it for all of the call."""
    x, held, beside = programs
    before = sys.getswitchinterval()
    sys.setswitchinterval(10.0)
    try:
        assert _longest_without_python(lambda: beside.call([x])) < 0.5
        # The test can tell, and the detour is still needed: torch's own way lets go for a moment at most.
        assert _longest_without_python(lambda: held.call([x])) > 0.5
    finally:
        sys.setswitchinterval(before)


def _longest_without_python(call) -> float:
    """The longest time that this thread could not have the interpreter while the call ran, as a share of the call."""
    moments: list[float] = []
    span: list[float] = []

    def run():
        began = time.perf_counter()
        call()
        span.extend((began, time.perf_counter()))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        moments.append(time.perf_counter())
        thread.join(0.001)  # lets go of the interpreter, which is not given back before the other thread does
    began, ended = span
    edges = [began, *(m for m in moments if began < m < ended), ended]
    return max(b - a for a, b in pairwise(edges)) / (ended - began)


def test_a_chain_is_its_calls_one_after_the_other():
    """Running sums: the state goes from call to call, each call's own output is its own."""

    def add(total, x):
        return [total + x, total * 10]

    zero = torch.zeros(3)
    program = aot.compiled("add", add, [zero, zero], {}, fingerprint="chain", threads=1, beside=True)
    assert program.native, program.note
    rows = [torch.tensor([1.0, 2.0, 3.0]) * k for k in range(1, 5)]
    for runs in range(3):
        eager = aot.eager("add", add).chain([zero], [[r] for r in rows])
        ours = program.chain([zero], [[r.clone()] for r in rows])  # its tensors are its own to keep alive
        for job in (eager, ours):
            job.run()
        expected = eager.results()
        for mine, theirs in zip(ours.results(), expected, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True)), runs
        assert expected[-1][0].tolist() == [10.0, 20.0, 30.0]


def test_chains_leave_nothing_behind():
    x = torch.eye(SIZE)
    program = aot.compiled("powers", powers, [x], {}, fingerprint="native", threads=1, beside=True)
    before = None
    for i in range(30):  # 6 MB each
        job = program.chain([], [[x.clone()]])
        job.run()
        assert len(job.results()[0]) == 2
        if i == 4:
            before = _private_mb()
    assert before is not None and _private_mb() - before < 30


def _private_mb() -> float:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private")) / 1024


def test_a_function_without_an_owner_is_let_go():
    x = torch.eye(SIZE)
    for _ in range(3):
        program = aot.compiled("powers", powers, [x], {}, fingerprint="native", threads=1, beside=True)
        assert program.call([x])[0].shape == (SIZE, SIZE)
        del program
