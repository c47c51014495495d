"""Matrix products inside a compiled program: float32 ones go to the kernel in gemm.h instead of torch's library,
which takes twice as long at the sizes of Q-networks. A pass over the graph, and one lowering, for inductor.

On request products and convolutions are of bfloat16, sums and all else of float32: in a compiled program by the same
pass, eagerly by `Rounding`, which is the reference for it."""

from __future__ import annotations

import operator
import platform
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode

HEADER = Path(__file__).with_name("gemm.h")
HALF_HEADER = Path(__file__).with_name("gemm_bf16.h")
HALF, SINGLE = torch.bfloat16, torch.float32
LEAST = 16  # a product with a side below this keeps its precision: it costs nothing, and values come out of it
aten = torch.ops.aten
DEEPEST = 1024  # K beyond which a panel of B no longer fits the cache; torch's library has it


def passes(threads: int, half: bool = False) -> Passes | None:
    """What to give inductor as its first pass after autograd; None where the kernel would not serve: it is for one
    thread, and for the vector units of x86. half: products of bfloat16, which are always ours."""
    if not half and (threads != 1 or not serves()):
        return None
    _register()
    return Passes(single=threads == 1, half=half)


def serves() -> bool:
    """Whether this CPU has the vector units that the kernels are written for."""
    return platform.machine() in ("x86_64", "AMD64") and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


class Passes:
    """Rewrites products in a graph and in the graphs of the loops inside it."""

    def __init__(self, single: bool = True, half: bool = False) -> None:
        self.single, self.half = single, half

    def __call__(self, graph: Any) -> None:
        for module in graph.owning_module.modules():
            if isinstance(module, fx.GraphModule):
                halved = _Halved(module.graph)
                for node in list(module.graph.nodes):
                    if node.op == "call_function" and not node.kwargs:
                        _rewrite(module.graph, node, self.single, halved if self.half else None)

    def uuid(self) -> Any:
        return HEADER.read_bytes() + HALF_HEADER.read_bytes() + repr((self.single, self.half)).encode()


def _rewrite(graph: fx.Graph, node: Any, single: bool, halved: _Halved | None) -> None:
    if node.target in (aten.convolution.default, aten.convolution_backward.default):
        if halved and counts(node.target, [a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args]):
            halved.convolve(node)
        return
    if node.target is aten.mm.default:
        bias, (left, right) = None, node.args
    elif node.target is aten.addmm.default and node.args[0].meta["val"].dim() == 1:
        bias, left, right = node.args
    else:
        return
    a, b = left.meta["val"], right.meta["val"]
    if halved and counts(node.target, [a, b] if bias is None else [bias.meta["val"], a, b]):
        left, right = halved.of(left), halved.of(right)
    elif not (single and a.dtype == SINGLE and a.device.type == "cpu" and _at_most(a.shape[1], DEEPEST)):
        return
    with graph.inserting_before(node):
        new = graph.call_function(torch.ops.hotloop.addmm.default, (bias, left, right))
        new.meta.update(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def _at_most(size: Any, limit: int) -> bool:
    return isinstance(size, int) and size <= limit


# --- bfloat16 --------------------------------------------------------------------------------------------------------


def counts(target: Any, args: Sequence[Any]) -> bool:
    """Whether an operation is one of bfloat16 where that was asked for. A size that is not known before the call is
    that of many rows."""
    if target in (aten.mm.default, aten.addmm.default):
        left, right = args[-2:]
        sides, of = (*left.shape, right.shape[1]), (left, right)
    elif target in (aten.convolution.default, aten.convolution_backward.default):
        weight = args[1 if target is aten.convolution.default else 2]
        sides, of = (weight.shape[0], weight[0].numel()), (weight,)
    else:
        return False
    cpu = all(x.dtype == SINGLE and x.device.type == "cpu" for x in of)
    return cpu and all(not isinstance(s, int) or s >= LEAST for s in sides)


class Rounding(TorchDispatchMode):
    """`with Rounding():` eagerly, the arithmetic of a program that was compiled for bfloat16."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not counts(func, args):
            return func(*args, **(kwargs or {}))
        if func in (aten.mm.default, aten.addmm.default):
            *bias, left, right = args
            return func(*bias, left.to(HALF).to(SINGLE), right.to(HALF).to(SINGLE), **(kwargs or {}))
        out = func(*(a.to(HALF) if isinstance(a, Tensor) else a for a in args), **(kwargs or {}))
        return out.to(SINGLE) if isinstance(out, Tensor) else tuple(o if o is None else o.to(SINGLE) for o in out)


class _Halved:
    """Tensors of a graph rounded to bfloat16, each once."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph, self._made = graph, {}

    def of(self, node: Any) -> Any:
        """A transposed tensor is rounded as it lies in memory, and then transposed."""
        if node not in self._made:
            view = node.op == "call_function" and node.target in (aten.permute.default, aten.t.default)
            source = self.of(node.args[0]) if view else node
            with self._graph.inserting_before(self._after(node)):
                if view:
                    new = self._graph.call_function(node.target, (source, *node.args[1:]))
                else:
                    new = self._graph.call_function(torch.ops.prims.convert_element_type.default, (source, HALF))
                new.meta["val"] = node.meta["val"].to(HALF)
            self._made[node] = new
        return self._made[node]

    def _after(self, node: Any) -> Any:
        following = node.next
        while following.op == "placeholder":  # these come first
            following = following.next
        return following

    def convolve(self, node: Any) -> None:
        """The convolution, or its gradients, of rounded tensors; what comes out is rounded too, and widened again."""
        args = tuple(self.of(a) if isinstance(a, fx.Node) else a for a in node.args)
        found = node.meta["val"]
        with self._graph.inserting_before(node):
            new = self._graph.call_function(node.target, args)
        if isinstance(found, Tensor):
            new.meta["val"] = found.to(HALF)
            self._widen(node, new)
            return
        new.meta["val"] = tuple(v if v is None else v.to(HALF) for v in found)
        for user in list(node.users):
            number = user.args[1]
            if found[number] is not None:
                with self._graph.inserting_before(user):
                    part = self._graph.call_function(operator.getitem, (new, number))
                part.meta["val"] = new.meta["val"][number]
                self._widen(user, part)
        if not node.users:
            self._graph.erase_node(node)

    def _widen(self, old: Any, new: Any) -> None:
        with self._graph.inserting_before(old):
            wide = self._graph.call_function(torch.ops.prims.convert_element_type.default, (new, SINGLE))
            wide.meta.update(old.meta)
        old.replace_all_uses_with(wide)
        self._graph.erase_node(old)


@cache
def _register() -> None:
    """Make the operator known to torch and to inductor, once per process."""
    from torch._inductor import ir
    from torch._inductor.lowering import register_lowering

    class Product(ir.ExternKernelOut):
        """A call whose function is defined in our header."""

        def codegen(self, wrapper: Any) -> None:
            wrapper.include_extra_header(str(HEADER))
            wrapper.include_extra_header(str(HALF_HEADER))
            super().codegen(wrapper)

    @torch.library.custom_op("hotloop::addmm", mutates_args=())
    def addmm(bias: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
        left, right = left.to(SINGLE), right.to(SINGLE)
        return left @ right if bias is None else torch.addmm(bias, left, right)

    @addmm.register_fake
    def _(bias: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
        return left.new_empty(left.shape[0], right.shape[1], dtype=SINGLE)

    @register_lowering(torch.ops.hotloop.addmm.default, type_promotion_kind=None)
    def lower(bias: Any, left: Any, right: Any) -> Any:
        inputs = [ir.ExternKernel.realize_input(x) for x in (bias, left, right) if x is not None]
        if bias is not None:
            inputs[0] = ir.ExternKernel.require_contiguous(inputs[0])
        layout = ir.FixedLayout(left.get_device(), SINGLE, [left.get_size()[0], right.get_size()[1]])
        name = ("mm" if bias is None else "addmm") + ("_half" if left.get_dtype() == HALF else "")
        return ir.TensorBox.create(
            Product(
                layout,
                inputs,
                python_kernel_name=f"torch.ops.hotloop.{name}",
                cpp_kernel_name=f"aoti_torch_hotloop_{name}_out",
            )
        )
