"""Compiling, keeping and losing packages. The function is tiny; each build still takes seconds, so there are few."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch import Tensor

from hotloop import aot, matmul

EXAMPLES = [torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(2, 4)]
DYNAMIC = {0: "rows", 2: "rows"}

# Another process that makes the same program as this one, and says what became of it.
OTHER = """
import json, sys
sys.path[:0] = {path!r}
from tests.test_aot import make, inputs
program = make()
print(json.dumps([program.origin, program.note, [o.tolist() for o in program.call(inputs(5))]]))
"""


def function(a: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    y = torch.tanh(a @ w.T) + b
    return [y, y.sum(1)]


def make(fingerprint: str = "") -> aot.Program:
    return aot.compiled("tiny", function, EXAMPLES, DYNAMIC, fingerprint=fingerprint, threads=1)


def inputs(rows: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(rows)
    return [torch.randn(s, generator=random) for s in ((rows, 3), (4, 3), (rows, 4))]


def close(found, expected) -> bool:
    return all(torch.allclose(torch.as_tensor(f), e, atol=1e-6) for f, e in zip(found, expected, strict=True))


def other_process(cache: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OTHER.format(path=[str(Path(__file__).parents[1])])],
        env={**os.environ, "HOTLOOP_CACHE": str(cache), **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def answer(process: subprocess.Popen[str]):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """Built once, where the cache folder cannot be: under a file. The package is kept for this process then."""
    file = tmp_path_factory.mktemp("cache") / "file"
    file.write_text("a folder cannot be made in here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOTLOOP_CACHE", str(file / "cache"))
        made = make()
        assert made.origin == "compiled", made.note
        assert close(made.call(inputs(3)), function(*inputs(3)))
        again = make()
        assert again.origin == "cache" and again.seconds < made.seconds / 4
        (path,) = aot.cache_folder().glob("tiny-*.pt2")
        return path


@pytest.fixture
def cache(package: Path, tmp_path: Path, monkeypatch) -> Path:
    """A cache folder of one's own that holds the package."""
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path))
    return Path(shutil.copy(package, tmp_path))


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
def test_the_leading_dimension_is_free(cache, rows):
    program = make()
    assert program.origin == "cache" and program.note == ""
    assert close(program.call(inputs(rows)), function(*inputs(rows)))


def test_inputs_stay_and_outputs_are_the_callers(cache):
    program, given = make(), inputs(4)
    kept = [t.clone() for t in given]
    first = program.call(list(given))
    copies = [o.clone() for o in first]
    program.call(inputs(4)[::1])
    program.call([t + 1 for t in given])
    assert all(torch.equal(a, b) for a, b in zip(first, copies, strict=True)), "a later call wrote to an earlier result"
    assert all(torch.equal(a, b) for a, b in zip(given, kept, strict=True))


DAMAGE = {
    "empty": lambda data: b"",
    "garbage": lambda data: b"not a package" * 999,
    "cut short": lambda data: data[: len(data) // 2],
    "without its end": lambda data: data[:-30],
    "a bit flipped": lambda data: data[:700_000] + bytes([data[700_000] ^ 1]) + data[700_001:],
    "zeros within": lambda data: data[:20_000] + bytes(2000) + data[22_000:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_package_does_not_load(cache, damage):
    data = cache.read_bytes()
    assert len(data) > 10**6 and DAMAGE[damage](data) != data
    cache.write_bytes(DAMAGE[damage](data))
    with pytest.raises((OSError, zipfile.BadZipFile)):
        aot._load(cache)


def test_a_damaged_package_is_made_again(cache):
    whole = cache.stat().st_size
    cache.write_bytes(cache.read_bytes()[:1000])
    program = make()
    assert program.origin == "compiled" and program.note == ""
    assert close(program.call(inputs(2)), function(*inputs(2)))
    assert cache.stat().st_size == pytest.approx(whole, rel=0.01) and make().origin == "cache"
    assert [p.name for p in cache.parent.iterdir()] == [cache.name], "what was being built was left behind"


def test_two_processes_that_build_at_once_both_succeed(tmp_path):
    expected = function(*inputs(5))
    both = [other_process(tmp_path), other_process(tmp_path)]
    for origin, note, found in map(answer, both):
        assert origin in ("compiled", "cache") and note == "" and close(found, expected)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("tiny-") and stat.S_ISREG(path.stat().st_mode)


def test_without_a_compiler_it_runs_eagerly_and_says_so_in_one_line(tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    origin, note, found = answer(other_process(tmp_path / "cache", CXX=str(bare / "no-compiler"), PATH=str(bare)))
    assert origin == "eager" and close(found, function(*inputs(5)))
    assert note.startswith("tiny runs eagerly, it could not be compiled: ") and "compiler" in note and "\n" not in note
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_function_that_cannot_be_compiled_runs_eagerly(tmp_path, monkeypatch):
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path))

    def depends_on_values(a: Tensor) -> list[Tensor]:
        return [a + 1 if a.sum().item() > 0 else a - 1]

    program = aot.compiled("tiny", depends_on_values, [torch.ones(2, 3)], {}, fingerprint="", threads=1)
    assert program.origin == "eager" and "\n" not in program.note and len(program.note) < 300
    assert torch.equal(program.call([torch.ones(2, 3)])[0], torch.full((2, 3), 2.0))
    assert list(tmp_path.iterdir()) == []


def test_what_the_key_depends_on(monkeypatch, tmp_path):
    """Nothing is compiled here: building is replaced by taking note of the path."""
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path))
    paths = []

    def note(function, examples, dynamic, path, threads, half):
        paths.append(path.name)
        raise RuntimeError("not built")

    monkeypatch.setattr(aot, "_build", note)
    base = ("tiny", EXAMPLES, DYNAMIC, "", 1)
    others = [
        ("tinier", EXAMPLES, DYNAMIC, "", 1),
        ("tiny", [EXAMPLES[0].double(), *EXAMPLES[1:]], DYNAMIC, "", 1),
        ("tiny", [torch.zeros(2, 5), torch.zeros(4, 5), EXAMPLES[2]], DYNAMIC, "", 1),
        ("tiny", EXAMPLES, {0: "rows"}, "", 1),
        ("tiny", EXAMPLES, DYNAMIC, "relu", 1),
        ("tiny", EXAMPLES, DYNAMIC, "", 2),
    ]
    for name, examples, dynamic, fingerprint, threads in [base, base, *others]:
        aot.compiled(name, function, examples, dynamic, fingerprint=fingerprint, threads=threads)
    assert paths[0] == paths[1] and len(set(paths)) == 1 + len(others)


def test_the_key_covers_every_file_that_computes_with_tensors(monkeypatch, tmp_path):
    """A copy of the package, one file of it changed at a time."""
    root = Path(aot.__file__).parent
    shutil.copytree(root, tmp_path / "hotloop", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(aot, "__file__", str(tmp_path / "hotloop" / "aot.py"))
    monkeypatch.setattr(matmul, "HEADER", tmp_path / "hotloop" / "gemm.h")
    monkeypatch.setattr(matmul, "HALF_HEADER", tmp_path / "hotloop" / "gemm_bf16.h")

    def key() -> str:
        return aot._environment.__wrapped__()

    unchanged = key()
    assert key() == unchanged
    changed = set()
    watched = ["learn/step.py", "learn/targets.py", "learn/optimizers.py", "learn/variants/dqn.py", "networks/mlp.py",
               "networks/_flat.py", "collect/forward.py", "aot.py", "matmul.py", "gemm.h",
               "gemm_bf16.h"]  # fmt: skip
    for name in watched:
        file = tmp_path / "hotloop" / name
        before = file.read_text()
        file.write_text(before + "\n# changed\n")
        changed.add(key())
        file.write_text(before)
    assert len(changed | {unchanged}) == 1 + len(watched) and key() == unchanged
    monkeypatch.setattr(aot, "_instructions", lambda: "flags: fpu sse")
    assert key() != unchanged, "a package of another machine would be an illegal instruction here"


def test_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOTLOOP_CACHE", str(tmp_path / "a" / "b"))
    assert aot.cache_folder() == tmp_path / "a" / "b" and aot.cache_folder().is_dir()
    assert stat.S_IMODE(aot.cache_folder().stat().st_mode) == 0o700, "packages are code that is run"
    monkeypatch.delenv("HOTLOOP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert aot.cache_folder() == tmp_path / "x" / "hotloop"
    monkeypatch.setenv("HOTLOOP_CACHE", "/dev/null/cache")
    folder = aot.cache_folder()
    assert folder.is_dir() and folder == aot.cache_folder() and "hotloop-" in folder.name


def test_digest_of_a_constant():
    a = torch.arange(6.0).reshape(2, 3)
    assert aot.digest_of(a) == aot.digest_of(a.T.contiguous().T) == aot.digest_of(a.clone().requires_grad_())
    assert aot.digest_of(a) != aot.digest_of(a + 1)
