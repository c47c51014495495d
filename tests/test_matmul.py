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
    (26, 40, 64),
]
HALF = torch.bfloat16


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
    """All products from one compiled program: with bias, then without, then both again of bfloat16."""
    matmul._register()
    flat = [t for case in cases for t in case]

    def every(*tensors):
        triples = [tensors[i : i + 3] for i in range(0, len(tensors), 3)]
        single = [torch.addmm(b, x, y) for x, y, b in triples] + [x @ y for x, y, _ in triples]
        halves = [(x.to(HALF), y.to(HALF), b) for x, y, b in triples]
        ours = torch.ops.hotloop.addmm
        return [*single, *(ours(b, x, y) for x, y, b in halves), *(ours(None, x, y) for x, y, _ in halves)]

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


def test_products_of_bfloat16_equal_float64s_of_the_rounded_numbers(cases, results):
    for i, (left, right, bias) in enumerate(cases):
        left, right = left.to(HALF).double(), right.to(HALF).double()
        exact, scale = left @ right, left.abs() @ right.abs() + 1
        for got, want in ((results[2 * len(cases) + i], exact + bias), (results[3 * len(cases) + i], exact)):
            assert got.dtype == torch.float32 and got.shape == want.shape
            assert ((got - want).abs() / scale).max() < 1e-6, (left.shape, right.shape, left.stride(), right.stride())


def test_a_program_of_bfloat16_is_what_rounding_is_eagerly():
    """Convolutions, their gradients and products, each tensor used twice, small ones among them."""
    generator = torch.Generator().manual_seed(3)
    image, weight, bias, left, right = (
        torch.randn(shape, generator=generator) for shape in ((6, 16, 8, 8), (20, 16, 3, 3), (20,), (24, 32), (40, 32))
    )

    def both(image, weight, bias, left, right):
        settings = ((2, 2), (1, 1), (1, 1), False, (0, 0), 1)
        out = torch.ops.aten.convolution(image, weight, bias, *settings)
        back = torch.ops.aten.convolution_backward(torch.relu(out), image, weight, [20], *settings, [True, True, True])
        kept = torch.ops.aten.convolution(image, weight[:4], bias[:4], *settings)
        product = left @ right.t()
        return [
            out,
            *back,
            kept,
            product,
            product @ right,
            torch.addmm(bias, left, right[:20].t()),
            left @ right[0:8].t(),
        ]

    given = [image, weight, bias, left, right]
    program = aot.compiled("half", both, given, {}, fingerprint="", threads=1, half=True)
    assert program.origin != "eager", program.note
    with matmul.Rounding():
        eager = both(*given)
    for number, (got, want, plain) in enumerate(zip(program.call(list(given)), eager, both(*given), strict=True)):
        assert got.dtype == torch.float32
        scale = want.abs().max()
        # what a convolution gives is rounded; where the sum before it differs in its last bit, to a neighbour
        assert (got - want).abs().max() < (2**-7 if number < 4 else 1e-6) * scale, number
        assert ((got - want).abs() > 1e-6 * scale).float().mean() < 0.02, number
        assert ((plain - want).abs().max() > 1e-4 * scale) == (number not in (4, 8)), number


def test_each_tensor_is_rounded_once():
    """A weight is read as it is and transposed; it is rounded as it lies in memory, before the first of both."""
    matmul._register()
    aten = torch.ops.aten
    x, w = torch.randn(24, 32), torch.randn(40, 32)

    def uses(x, w):
        return aten.mm.default(x, aten.permute.default(w, [1, 0])), aten.mm.default(aten.permute.default(x, [1, 0]), x)

    graph = torch.fx.symbolic_trace(uses)
    values = (x, w, w.t(), x @ w.t(), x.t(), x.t() @ x)
    for node, value in zip(graph.graph.nodes, values, strict=False):
        node.meta["val"] = value
    matmul.Passes(half=True)(graph.graph)
    graph.graph.eliminate_dead_code()
    graph.graph.lint()
    targets = [n.target for n in graph.graph.nodes if n.op == "call_function"]
    assert targets.count(torch.ops.prims.convert_element_type.default) == 2
    assert targets.count(torch.ops.hotloop.addmm.default) == 2 and aten.mm.default not in targets
    assert all(n.meta["val"].dtype == HALF for n in graph.graph.nodes if n.target == aten.permute.default)


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


def test_several_threads_keep_torchs_library_but_for_bfloat16():
    assert matmul.passes(2) is None
    half = matmul.passes(2, half=True)
    assert half is not None and half.half and not half.single and half.uuid() != matmul.Passes().uuid()


@pytest.mark.parametrize("bias", [None, torch.ones(4)])
def test_the_operator_means_the_same_eagerly(bias):
    matmul._register()
    left, right = torch.randn(2, 3), torch.randn(3, 4)
    assert torch.equal(torch.ops.hotloop.addmm(bias, left, right), product(bias, left, right))
