"""Statements and functions that are compiled with a question in front of them."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

import pytest

from hotloop.doctor import cuts
from hotloop.doctor.inside import leaving_out
from hotloop.doctor.inside.remedies import REMEDIES

SOURCE = b"""
def counted(x):
    counted.calls += 1
    return x * 2

counted.calls = 0
out = []
def loop(n):
    for i in range(n):
        y = counted(i)
        out.append(y)
"""


def prepared(**settings: Any) -> tuple[leaving_out.Gate, dict[str, Any]]:
    doctor = SimpleNamespace(watch=SimpleNamespace(transforms={}))
    gates = leaving_out.prepare(doctor, [{"remedy": "cut", "settings": {"file": "x.py", **settings}}])
    space: dict[str, Any] = {}
    exec(doctor.watch.transforms["x.py"](SOURCE, "x.py"), space)
    return gates[0], space


def test_a_function_left_out_gives_what_it_last_gave() -> None:
    gate, space = prepared(kind="function", line=2, name="counted")
    space["loop"](2)
    gate.on()
    space["loop"](3)
    gate.off()
    space["loop"](1)
    assert space["out"] == [0, 2, 2, 2, 2, 0]
    assert space["counted"].calls == 3


def test_a_statement_left_out_keeps_its_names() -> None:
    gate, space = prepared(kind="statement", line=10, column=8, end=10)
    space["loop"](3)
    gate.on()
    with pytest.raises(UnboundLocalError):  # a name that never had a value: trials begin later
        space["loop"](1)


def test_one_in_so_many_is_kept() -> None:
    gate, space = prepared(kind="statement", line=11, column=8, end=11, keep_one_in=4)
    gate.on()
    space["loop"](8)
    assert len(space["out"]) == 2 and space["counted"].calls == 8


@pytest.mark.parametrize(
    ("text", "can"),
    [
        ("x = f()", True),
        ("for i in x:\n    if i: break\n", True),
        ("if x:\n    break", False),
        ("while True:\n    continue", True),
        ("return x", False),
        ("def f(): pass", False),
        ("if x:\n    y = (yield)", False),
    ],
)
def test_what_steers_or_leaves_is_not_left_out(text: str, can: bool) -> None:
    inside = "def g():\n  for _ in x:\n" + "\n".join("    " + line for line in text.splitlines())
    statement = ast.parse(inside).body[0].body[0].body[0]  # type: ignore[attr-defined]
    assert cuts.can_be_skipped(statement) is can


def doctor() -> Any:
    return SimpleNamespace(
        rec=SimpleNamespace(instead={}), optimizers=[],
        step_instead=lambda real, args, kwargs: real(*args, **kwargs),
        reset_instead=lambda real, args, kwargs: real(*args, **kwargs),
        forward_instead=lambda real, module, args, kwargs: real(module, *args, **kwargs),
        optimize_instead=lambda real, opt, args, kwargs: real(opt, *args, **kwargs),
    )  # fmt: skip


def test_a_canned_environment_answers_with_what_it_gave() -> None:
    patient = doctor()
    on, off = REMEDIES["canned_env"](patient, {})
    given = iter(range(100))
    first = [patient.step_instead(lambda: next(given), (), {}) for _ in range(3)]
    on()
    again = [patient.step_instead(lambda: next(given), (), {}) for _ in range(6)]
    off()
    assert again == first * 2
    assert patient.step_instead(lambda: next(given), (), {}) == 3


def test_a_repeated_forward_is_kept_until_input_or_weights_change() -> None:
    torch = pytest.importorskip("torch")  # the remedy is about torch
    patient, net, made = doctor(), torch.nn.Linear(3, 2), []
    on, off = REMEDIES["kept_forwards"](patient, {})

    def real(module: Any, x: Any) -> Any:
        made.append(1)
        return torch.nn.functional.linear(x, module.weight, module.bias)

    def forward(x: Any) -> Any:
        return patient.forward_instead(real, net, (x,), {})

    x = torch.ones(4, 3)
    on()
    with torch.no_grad():
        a, b = forward(x), forward(x)
        assert a is b and len(made) == 1
        net.weight.add_(1.0)
        assert forward(x) is not a and len(made) == 2
        x.add_(1.0)
        forward(x)
        assert len(made) == 3
        with torch.inference_mode():  # nothing says there whether a tensor was written to
            forward(x)
            forward(x)
        assert len(made) == 5
    forward(x)
    forward(x)
    assert len(made) == 7  # with gradients each has a graph of its own
    off()
    with torch.no_grad():
        forward(x)
    assert len(made) == 8


def test_an_optimizer_is_fused_and_set_back() -> None:
    torch = pytest.importorskip("torch")  # the remedy is about torch
    patient, net = doctor(), torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters(), foreach=True)
    patient.optimizers.append(optimizer)
    on, off = REMEDIES["fused_optimizer"](patient, {})
    for switch, fused, foreach in ((on, True, None), (off, None, True), (on, True, None)):
        switch()
        group = optimizer.param_groups[0]
        assert (group["fused"], group["foreach"]) == (fused, foreach)
        net(torch.ones(3)).sum().backward()
        optimizer.step()
