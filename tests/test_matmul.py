"""The matrix kernel against float64, at every remainder of its tiles and every way an operand can lie in memory."""

from __future__ import annotations

import itertools

import pytest
import torch

from hotloop import aot, matmul

# Remainders of 12 rows, of 32, 16 and 8 columns, the few-columns path and both sides of it, and K from nothing much.
SHAPES = [
    (1, 1, 1),
    (12, 32, 16),
    (13, 33, 17),
    (11, 31, 3),
    (5, 4, 40),
    (7, 5, 40),
    (25, 2, 84),
    (64, 128, 10),
    (3, 96, 129),
]


@pytest.fixture(scope="module")
def cases():
    """(left, right, bias) of each shape, contiguous and transposed on each side."""
    generator = torch.Generator().manual_seed(0)
    out = []
    for (m, n, k), left_t, right_t in itertools.product(SHAPES, (False, True), (False, True)):
        left = torch.randn(k, m, generator=generator).t() if left_t else torch.randn(m, k, generator=generator)
        right = torch.randn(n, k, generator=generator).t() if right_t else torch.randn(k, n, generator=generator)
        out.append((left, right, torch.randn(n, generator=generator)))
    return out


def product(bias, left, right):
    return left @ right if bias is None else torch.addmm(bias, left, right)


@pytest.fixture(scope="module")
def results(cases):
    """All products from one compiled program: with bias, then without."""
    flat = [t for case in cases for t in case]

    def every(*tensors):
        triples = [tensors[i : i + 3] for i in range(0, len(tensors), 3)]
        return [torch.addmm(b, x, y) for x, y, b in triples] + [x @ y for x, y, _ in triples]

    program = aot.compiled(
        "products", every, flat, {}, fingerprint="strides " + str([t.stride() for t in flat]), threads=1
    )
    if program.origin == "eager":
        pytest.fail(program.note)
    return program.call(list(flat))


def test_products_equal_float64(cases, results):
    for i, (left, right, bias) in enumerate(cases):
        exact = left.double() @ right.double()
        scale = left.double().abs() @ right.double().abs() + 1
        for got, want in ((results[i], exact + bias), (results[len(cases) + i], exact)):
            assert got.shape == want.shape
            assert ((got - want).abs() / scale).max() < 1e-6, (left.shape, right.shape, left.stride(), right.stride())


def test_the_kernel_is_the_one_that_runs(cases):
    """The pass rewrites the graph, also inside a loop's body; elsewhere this file would test torch against itself."""
    if matmul.passes(1) is None:
        pytest.skip("this machine has no AVX2: torch's own products are used, as matmul.passes says")
    inner = torch.fx.symbolic_trace(lambda x, y: torch.ops.aten.mm.default(x, y))
    for node, value in zip(inner.graph.nodes, (torch.empty(2, 3), torch.empty(3, 4), torch.empty(2, 4)), strict=False):
        node.meta["val"] = value
    outer = torch.fx.GraphModule({}, torch.fx.Graph())
    outer.add_module("body", inner)
    matmul.Passes()(outer.graph)
    targets = [n.target for n in inner.graph.nodes if n.op == "call_function"]
    assert targets == [torch.ops.hotloop.addmm.default]


@pytest.mark.parametrize(
    ("left", "threads"), [(torch.empty(2, matmul.DEEPEST + 1), 1), (torch.empty(2, 3, dtype=torch.float64), 1)]
)
def test_what_it_does_not_serve_is_left_alone(left, threads):
    graph = torch.fx.symbolic_trace(lambda x, y: torch.ops.aten.mm.default(x, y))
    for node, value in zip(graph.graph.nodes, (left, left.t(), left @ left.t()), strict=False):
        node.meta["val"] = value
    matmul.Passes()(graph.graph)
    assert [n.target for n in graph.graph.nodes if n.op == "call_function"] == [torch.ops.aten.mm.default]


def test_several_threads_keep_torchs_library():
    assert matmul.passes(2) is None


@pytest.mark.parametrize("bias", [None, torch.ones(4)])
def test_the_operator_means_the_same_eagerly(bias):
    matmul._register()
    left, right = torch.randn(2, 3), torch.randn(3, 4)
    assert torch.equal(torch.ops.hotloop.addmm(bias, left, right), product(bias, left, right))
