"""Matrix products inside a compiled program: float32 ones go to the kernel in gemm.h instead of torch's library,
which takes twice as long at the sizes of Q-networks. A pass over the graph, and one lowering, for inductor."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx

HEADER = Path(__file__).with_name("gemm.h")
DEEPEST = 1024  # K beyond which a panel of B no longer fits the cache; torch's library has it


def passes(threads: int) -> Passes | None:
    """What to give inductor as its first pass after autograd; None where the kernel would not serve: it is for one
    thread, and for the vector units of x86."""
    wide = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    if threads != 1 or platform.machine() not in ("x86_64", "AMD64") or not wide:
        return None
    _register()
    return Passes()


class Passes:
    """Rewrites mm and addmm in a graph and in the graphs of the loops inside it."""

    def __call__(self, graph: Any) -> None:
        for module in graph.owning_module.modules():
            if isinstance(module, fx.GraphModule):
                for node in list(module.graph.nodes):
                    _rewrite(module.graph, node)

    def uuid(self) -> Any:
        return HEADER.read_bytes()


def _rewrite(graph: fx.Graph, node: Any) -> None:
    if node.op != "call_function" or node.kwargs:
        return
    if node.target is torch.ops.aten.mm.default:
        bias, (left, right) = None, node.args
    elif node.target is torch.ops.aten.addmm.default and node.args[0].meta["val"].dim() == 1:
        bias, left, right = node.args
    else:
        return
    a = left.meta["val"]
    if a.dtype != torch.float32 or a.device.type != "cpu" or not isinstance(a.shape[1], int) or a.shape[1] > DEEPEST:
        return
    with graph.inserting_before(node):
        new = graph.call_function(torch.ops.hotloop.addmm.default, (bias, left, right))
        new.meta.update(node.meta)
    node.replace_all_uses_with(new)
    graph.erase_node(node)


@cache
def _register() -> None:
    """Make the operator known to torch and to inductor, once per process."""
    from torch._inductor import ir
    from torch._inductor.lowering import register_lowering

    class Product(ir.ExternKernelOut):
        """A call whose function is defined in our header."""

        def codegen(self, wrapper: Any) -> None:
            wrapper.include_extra_header(str(HEADER))
            super().codegen(wrapper)

    @torch.library.custom_op("hotloop::addmm", mutates_args=())
    def addmm(bias: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
        return left @ right if bias is None else torch.addmm(bias, left, right)

    @addmm.register_fake
    def _(bias: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
        return left.new_empty(left.shape[0], right.shape[1])

    @register_lowering(torch.ops.hotloop.addmm.default, type_promotion_kind=None)
    def lower(bias: Any, left: Any, right: Any) -> Any:
        inputs = [ir.ExternKernel.realize_input(x) for x in (bias, left, right) if x is not None]
        if bias is not None:
            inputs[0] = ir.ExternKernel.require_contiguous(inputs[0])
        layout = ir.FixedLayout(left.get_device(), left.get_dtype(), [left.get_size()[0], right.get_size()[1]])
        name = "mm" if bias is None else "addmm"
        return ir.TensorBox.create(
            Product(
                layout,
                inputs,
                python_kernel_name=f"torch.ops.hotloop.{name}",
                cpp_kernel_name=f"aoti_torch_hotloop_{name}_out",
            )
        )
