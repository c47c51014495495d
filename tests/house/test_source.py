"""House rules that can be read off the source: sizes, names, no inheritance, no hidden stop in a hot file."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

import pytest

import hotloop

ROOT = Path(hotloop.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
LONGEST_FILE, LONGEST_FUNCTION, LONGEST_DOCSTRING = 500, 60, 5
PLUGINS = ("envs", "networks", "learn/variants", "replay/samplers", "presets", "doctor/diagnoses")
FOREIGN = (
    "gymnasium.py",
    "_gymnasium_make.py",
    "_gymnasium_checks.py",
    "_gymnasium_goals.py",
    "_adapters.py",
    "_spaces.py",
)
HOT = [
    path
    for folder in ("collect", "replay", "learn", "envs")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name not in FOREIGN
]
STOPS = re.compile(r"\.item\(|\.cpu\(|\.tolist\(|\bprint\(|\.synchronize\(")


def short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_is_something_to_look_at():
    assert len(FILES) > 50 and len(HOT) > 20


@pytest.mark.parametrize("path", FILES, ids=short)
def test_files_functions_and_docstrings_are_short(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=short)
def test_modules_say_what_they_are(path):
    text = ast.get_docstring(TREES[path], clean=True)
    if path.name == "__init__.py" and not path.read_text().strip():
        return
    assert text, "no docstring"
    if any(path.parent == ROOT / folder for folder in PLUGINS) and not path.name.startswith("_"):
        assert len(text.splitlines()) <= LONGEST_DOCSTRING


@pytest.mark.parametrize("path", FILES, ids=short)
def test_no_file_is_named_for_what_it_is_not(path):
    assert not re.search(r"utils?|helpers?|common|misc|manager|base_", path.stem)


def code_lines(path: Path) -> dict[int, str]:
    """Line -> its code and comment, without what stands in strings."""
    lines: dict[int, str] = {}
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)):
                continue
            if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
                lines[token.start[0]] = lines.get(token.start[0], "") + token.string
    return lines


@pytest.mark.parametrize("path", HOT, ids=short)
def test_a_hot_file_waits_for_nothing_without_saying_why(path):
    found = [f"{n}: {x}" for n, x in code_lines(path).items() if STOPS.search(x) and not re.search(r"# ?sync: ?\w", x)]
    assert found == []


def test_what_would_stop_a_hot_file_is_seen(tmp_path):
    (tmp_path / "x.py").write_text(
        'def f(x):\n    """x.item()"""\n    y = x.item()\n    return y  # sync: why\n    print (x)\n'
    )
    found = [n for n, x in code_lines(tmp_path / "x.py").items() if STOPS.search(x)]
    assert found == [3, 5]


def test_no_class_of_ours_inherits_from_a_class_of_ours():
    """Protocols may be inherited from, and errors, since they are caught by their kind."""
    kinds: dict[str, list[str]] = {}
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                kinds[node.name] = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    free = {name for name, bases in kinds.items() if "Protocol" in bases}
    free |= {name for name, bases in kinds.items() if {"Exception", "ValueError"} & set(bases)}
    assert len(kinds) > 30
    inheriting = {name: bases for name, bases in kinds.items() if set(bases) & (set(kinds) - free)}
    assert inheriting == {}


def calls(path: Path, function: str) -> bool:
    return any(isinstance(n, ast.Call) and ast.unparse(n.func) == function for n in ast.walk(TREES[path]))


def test_compiling_happens_in_two_places():
    assert [short(p) for p in FILES if calls(p, "aot.compiled")] == ["collect/forward.py", "learn/step.py"]
    others = [short(p) for p in FILES if calls(p, "torch.compile") or calls(p, "torch.jit.script")]
    assert others == []


def test_nothing_is_pickled():
    for path in FILES:
        for node in ast.walk(TREES[path]):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "cloudpickle", "dill", "joblib"} & set(names), short(path)
        assert not calls(path, "torch.save") and not calls(path, "torch.load"), short(path)


def test_no_wall_clock_decides_anything():
    """Only TensorBoard's axis and nothing else reads the time of day; what is measured is measured by a clock that
    does not jump, and no random number comes from a generator that is shared."""
    said = {
        short(p)
        for p in FILES
        if calls(p, "time.time") or calls(p, "datetime.now") or calls(p, "datetime.datetime.now")
    }
    assert said <= {"run.py"}
    shared = [
        short(p) for p in FILES if re.search(r"np\.random\.(rand|seed|uniform|normal|choice|shuffle)\b", p.read_text())
    ]
    assert shared == []


def test_every_file_is_annotated_lazily():
    for path in FILES:
        if path.name not in ("__main__.py",) and re.search(r"^(def|class) ", path.read_text(), re.M):
            assert "from __future__ import annotations" in path.read_text(), short(path)


def test_the_repository_holds_no_path_of_a_machine():
    for path in FILES:
        assert not re.search(r"/(home|Users|work|root)/\w", path.read_text()), short(path)
