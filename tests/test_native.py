"""Packages called through their C interface: the same results, and Python runs on meanwhile."""

from __future__ import annotations

import sys
import threading

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
        assert _python_ran_during(lambda: beside.call([x]))
        assert not _python_ran_during(lambda: held.call([x]))  # the test can tell, and the detour is still needed
    finally:
        sys.setswitchinterval(before)


def _python_ran_during(call) -> bool:
    entered, left = threading.Event(), threading.Event()

    def run():
        entered.set()
        call()
        left.set()

    thread = threading.Thread(target=run)
    thread.start()
    entered.wait()
    ran = not left.is_set()
    thread.join()
    return ran


def test_a_function_without_an_owner_is_let_go():
    x = torch.eye(SIZE)
    for _ in range(3):
        program = aot.compiled("powers", powers, [x], {}, fingerprint="native", threads=1, beside=True)
        assert program.call([x])[0].shape == (SIZE, SIZE)
        del program
