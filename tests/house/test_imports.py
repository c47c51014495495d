"""What an import costs and drags in. `import hotloop` is free, a report opens without torch, core knows no stage."""

from __future__ import annotations

import importlib
import json
import statistics
import subprocess
import sys
import time

import pytest

import hotloop

HEAVY = ("torch", "numba", "gymnasium", "numpy", "rich", "scipy")


def loaded_by(statement: str) -> set[str]:
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted(m.partition('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_hotloop_loads_nothing_heavy():
    assert not loaded_by("import hotloop") & set(HEAVY)


@pytest.mark.parametrize("name", ["run", "report", "report.console", "checkpoint", "trace"])
def test_what_reads_a_run_imports_no_torch(name):
    assert not loaded_by(f"import hotloop.{name}") & {"torch", "gymnasium", "numba"}


@pytest.mark.parametrize("name", ["types", "schema", "options", "toml", "clock", "errors", "discover", "random", "jit"])
def test_core_imports_numpy_at_the_most(name):
    assert not loaded_by(f"import hotloop.core.{name}") & {"torch", "gymnasium", "rich"}


@pytest.mark.parametrize("words", ["['--help']", "['--version']", "['train', '--lanes']", "['resume', 'nowhere']"])
def test_the_command_answers_without_torch(words):
    statement = (
        "import contextlib, io, hotloop.cli as cli\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):\n"
        f"    cli.run({words})\n"
    )
    assert "torch" not in loaded_by(statement)


def test_import_hotloop_takes_no_time():
    def seconds(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    # In turn, so that what else the machine does hits both; the least of each is what the code itself takes.
    pairs = [(seconds("import hotloop"), seconds("pass")) for _ in range(5)]
    extra = min(
        min(with_ for with_, _ in pairs) - min(bare for _, bare in pairs), statistics.median(a - b for a, b in pairs)
    )
    assert extra < 0.2


def test_the_public_names_are_those_listed():
    names = {name: getattr(hotloop, name) for name in hotloop.__all__}
    assert (
        set(names) == {"Agent", "EnvSpec", "Field", "UserError", "load", "train", "train_seeds"} == set(hotloop._HOMES)
    )
    assert all(callable(value) for value in names.values())
    assert hotloop.__all__ == sorted(hotloop.__all__)
    for name, home in hotloop._HOMES.items():
        assert getattr(importlib.import_module(home), name) is names[name]
    with pytest.raises(AttributeError, match="has no attribute 'trian'"):
        hotloop.trian  # noqa: B018


def test_star_import_gives_exactly_those():
    space: dict[str, object] = {}
    exec("from hotloop import *", space)
    assert set(space) - {"__builtins__"} == set(hotloop.__all__)
