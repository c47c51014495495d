"""The orderings that the protocols need stand in the machine code that is made for an ARM processor, where a plain load
or store has none. Translated here, on any machine; run on none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from llvmlite import binding
from numba import njit, typeof

from hotloop.collect import ring, weights
from hotloop.core import atomic

WORDS, ADDRESSES, ROOM = np.zeros(64, np.int64), np.zeros(2, np.int64), np.zeros(4, np.int64)
HEADERS, NOTES = np.zeros((3, 16), np.int64), np.zeros(ring.NOTES, np.int64)
BUFFERS, PARAMS = np.zeros(32, np.int32), np.zeros(6, np.int32)


def for_arm(function, *arguments) -> list[str]:
    """Its instructions, and the labels that are jumped to."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    # Without counting references, which numba writes for the machine it runs on.
    bare = njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    bare.compile(tuple(typeof(a) for a in arguments))
    (code,) = bare.inspect_llvm().values()
    code = re.sub(r'^target .*$|"target-(cpu|features)"="[^"]*"', "", code, flags=re.MULTILINE)
    module = binding.parse_assembly(code)
    module.triple = "aarch64-unknown-linux-gnu"
    machine = binding.Target.from_triple(module.triple).create_target_machine(cpu="generic", opt=2)
    lines = [line.split("//")[0].strip() for line in machine.emit_assembly(module).splitlines()]
    return [re.sub(r"\s+", " ", line) for line in lines if line and (line[0] != "." or line.startswith(".LBB"))]


def ordered(code: list[str]) -> str:
    """What orders, with plain stores as s and plain loads as l: 'l A s R' is an acquire before a store."""
    letters = {
        "ldar": "A",
        "stlr": "R",
        "dmb ishld": "[",
        "dmb ish": "|",
        "str": "s",
        "stp": "s",
        "ldr": "l",
        "ldp": "l",
    }
    kinds = [next((v for k, v in letters.items() if re.match(rf"{k}\b", line)), "") for line in code]
    of_stack = ["sp" in line or "x30" in line for line in code]
    return "".join(k for k, stack in zip(kinds, of_stack, strict=True) if not stack)


def test_a_block_is_published_after_it_is_written_and_written_after_its_room_was_seen():
    code = ordered(for_arm(ring._publish.py_func, ADDRESSES, WORDS, HEADERS, 1, 1, 1, 1, NOTES))
    assert re.fullmatch(r"l*A[ls]*s[ls]*Rl*", code), code


def test_a_slot_is_given_back_after_it_was_read():
    code = ordered(for_arm(ring._release.py_func, ADDRESSES, WORDS, HEADERS))
    assert re.fullmatch(r"l*Al*sRl*", code), code


@pytest.mark.parametrize("kernel", [ring._await_room, ring._await_record])
def test_the_last_look_at_the_other_side_acquires(kernel):
    code = ordered(for_arm(kernel.py_func, ADDRESSES, WORDS, 3, 1, ROOM))
    assert code.count("A") >= 2 and not re.search(r"[|\[]", code)


def test_weights_are_written_between_an_odd_sequence_and_an_even_one():
    code = ordered(for_arm(weights._publish.py_func, ADDRESSES, WORDS, BUFFERS, PARAMS, 1))
    assert re.fullmatch(r"l*s\|[ls]*s[ls]*RRl*s?", code), code


def test_weights_are_read_between_two_looks_at_their_sequence():
    code = ordered(for_arm(weights._read.py_func, WORDS, BUFFERS, PARAMS, 1))
    assert re.match(r"l*A[ls]*l[ls]*\[l", code), code
    assert code.count("A") == code.count("[")


def test_plain_words_have_no_order_and_a_loop_that_looks_at_one_never_looks_again():
    def plain(words):
        while words[0] == 0:
            pass
        words[1] = 1

    def atomically(words):
        while atomic.load_acquire(words, 0) == 0:
            pass
        atomic.store_release(words, 1, 1)

    hoisted, looking = for_arm(plain, WORDS), for_arm(atomically, WORDS)
    assert "A" not in ordered(hoisted) and "R" not in ordered(hoisted)
    assert "A" in ordered(looking) and "R" in ordered(looking)
    assert not _loops_with(hoisted, "ld") and _loops_with(looking, "ldar")


def _loops_with(code: list[str], instruction: str) -> bool:
    """Whether there is a jump back over such an instruction."""
    labels = {line.partition(":")[0]: i for i, line in enumerate(code) if line.startswith(".LBB")}
    back = [(labels[t], i) for i, line in enumerate(code) for t in re.findall(r"\.LBB\w+$", line) if labels[t] <= i]
    return any(line.startswith(instruction) for first, last in back for line in code[first:last])
