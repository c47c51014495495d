"""Plug-ins are found by their file's name; a user's own by `module:name`; what is not found is said in one line."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from hotloop.core import discover
from hotloop.core.errors import UserError


@pytest.fixture
def package(tmp_path, monkeypatch, request):
    """A package of plug-ins and a module of a user, in the current directory."""
    name = f"plugins_{abs(hash(request.node.name))}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "fast.py").write_text("SPEED = 3\n")
    (folder / "slow.py").write_text("raise RuntimeError('listing must not import')\n")
    (folder / "_parts.py").touch()
    (folder / "notes.txt").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_names_are_those_of_files_and_listing_imports_nothing(package):
    assert discover.names(package) == ("fast", "slow")
    assert f"{package}.slow" not in sys.modules
    assert discover.load(package, "fast").SPEED == 3


def test_an_unknown_name_gets_the_nearest(package):
    with pytest.raises(UserError, match=r"unknown plugins.* 'fats'; did you mean 'fast'\?"):
        discover.load(package, "fats")
    with pytest.raises(UserError, match=r"unknown network 'x1'; known: .*mlp, nature_cnn"):
        discover.load("hotloop.networks", "x1")
    for hidden in ("_parts", "__init__", "notes", "", "fast.SPEED", "../fast"):
        with pytest.raises(UserError):
            discover.load(package, hidden)


def test_a_user_s_own_is_found_in_the_current_directory(tmp_path):
    (tmp_path / "mine_a.py").write_text("class Net:\n    pass\n")
    code = "from hotloop.core import discover; print(discover.by_path('mine_a:Net').__name__)"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "Net\n"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no_such_module:Net", "no module named 'no_such_module' in the current directory or installed"),
        ("no.such.module:Net", "no module named 'no' in"),
        ("json:dupms", "unknown name in json 'dupms'; did you mean 'dumps'?"),
        ("json:", "unknown name in json ''"),
        (":Net", "expected module:name"),
        ("a b:Net", "expected module:name"),
        (".json:Net", "expected module:name"),
        ("", "expected module:name"),
    ],
)
def test_a_path_that_leads_nowhere(path, said):
    with pytest.raises(UserError) as error:
        discover.by_path(path)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_an_import_that_a_user_s_module_fails_at_is_its_own_error(tmp_path, monkeypatch):
    (tmp_path / "mine_b.py").write_text("import not_installed_at_all\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_at_all"):
        discover.by_path("mine_b:Net")


def test_the_digest_is_that_of_the_source(tmp_path, monkeypatch):
    text = b"def make():\n    return 1\n"
    (tmp_path / "mine_c.py").write_bytes(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert discover.source_digest("mine_c:make") == hashlib.sha256(text).hexdigest()
