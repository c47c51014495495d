"""What is saved comes back, what is damaged or foreign is refused with its reason, and order is by number alone."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from hotloop import checkpoint
from hotloop.checkpoint import DATA, MANIFEST, digest, load, load_latest, save
from hotloop.core.errors import UserError

META = {"updates": 7, "epsilon": 0.1, "threads": [1, 2], "name": "ü"}


@pytest.fixture
def tmp_path(tmp_path):
    """In memory where there is some: thousands of fsyncs would wait for whoever else uses the disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hotloop-test-") as folder:
        yield Path(folder)


def arrays_at(env_steps: int) -> dict[str, np.ndarray]:
    """Different for every step, so that two checkpoints can never be taken for one another."""
    return {
        "weights": np.arange(300, dtype=np.float32) + env_steps,
        "replay.cursor": np.array(env_steps, np.int64),
        "replay.mask": np.arange(9).reshape(3, 3) % 2 == 0,
        "random": np.array([2**64 - 1 - env_steps], np.uint64),
    }


def save_at(folder: Path, env_steps: int, keep: int = 3) -> Path:
    return save(folder, env_steps, arrays_at(env_steps), {**META, "env_steps": env_steps}, keep)


def assert_sound(found: checkpoint.Checkpoint, env_steps: int) -> None:
    assert found.env_steps == found.meta["env_steps"] == env_steps
    assert digest(found.arrays) == digest(arrays_at(env_steps))


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- what goes in comes out ------------------------------------------------------------------------------------------

dtypes = st.sampled_from(["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", ">f4", ">i8"])
some_array = dtypes.flatmap(lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    arrays=st.dictionaries(st.text().filter(lambda n: n != "__metadata__"), some_array, max_size=5), meta=json_values
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])  # removed by each example
def test_round_trip(tmp_path, arrays, meta):
    folder = tmp_path / "checkpoints"
    found = load(save(folder, 5, arrays, {"any": meta}))
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        got = found.arrays[name]
        assert (got.shape, got.tobytes()) == (array.shape, array.astype(array.dtype.newbyteorder("<")).tobytes())
        assert got.dtype == array.dtype.newbyteorder("=") and got.flags.writeable
    assert repr(found.meta) == repr({"any": meta}) or sorted_json(found.meta) == sorted_json({"any": meta})
    assert digest(found.arrays) == digest(arrays)
    shutil.rmtree(folder)


def sorted_json(value):
    return json.dumps(value, sort_keys=True)


def test_infinities_and_nan_in_meta_come_back(tmp_path):
    meta = load(save(tmp_path, 0, {}, {"best": -math.inf, "loss": math.nan, "big": 2**70})).meta
    assert meta["best"] == -math.inf and math.isnan(meta["loss"]) and meta["big"] == 2**70


def test_views_are_saved_as_they_look(tmp_path):
    base = np.arange(24).reshape(4, 6)
    views = {"t": base.T, "strided": base[::2, ::-3], "fortran": np.asfortranarray(base)}
    found = load(save(tmp_path, 1, views, {})).arrays
    assert all(np.array_equal(found[name], view) for name, view in views.items())


def test_the_data_are_a_safetensors_file(tmp_path):
    path = save_at(tmp_path / "a", 6400) / DATA
    theirs = load_file(path)
    assert digest(theirs) == digest(arrays_at(6400))
    save_file(theirs, tmp_path / "theirs")
    assert (tmp_path / "theirs").stat().st_size == path.stat().st_size


def test_a_checkpoint_of_format_1_loads_for_ever(tmp_path):
    golden = tmp_path / "checkpoint-000000000012"
    golden.mkdir()
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
    (golden / DATA).write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0\x80\x3f\0\0\0\x40")
    (golden / MANIFEST).write_text(
        '{\n "data": {\n  "bytes": 72,\n'
        '  "sha256": "a06ccadd01057a4ceb1433dfacf4f1fdee9afa1ad6b953de1ef1337ef938fe8f"\n },\n'
        ' "env_steps": 12,\n "format": 1,\n "meta": {\n  "updates": 3\n },\n'
        ' "sha256": "3e51078f898353d55e8f5d5223a34ba23e24a457d96a49144291e8788dcbec43"\n}\n'
    )
    found = load(golden)
    assert found.arrays["w"].tolist() == [1.0, 2.0] and found.meta == {"updates": 3} and found.env_steps == 12


def test_digest_knows_names_types_shapes_and_values():
    base = {"a": np.zeros(4, np.float32), "b": np.zeros(2, np.float32)}
    others = [
        {"a": np.zeros(2, np.float32), "b": np.zeros(4, np.float32)},
        {"a": np.zeros((2, 2), np.float32), "b": np.zeros(2, np.float32)},
        {"a": np.zeros(4, np.int32), "b": np.zeros(2, np.float32)},
        {"a": np.zeros(4, np.float32), "c": np.zeros(2, np.float32)},
        {"a": np.zeros(4, np.float32), "b": np.array([0, 1e-45], np.float32)},
    ]
    assert len({digest(a) for a in [base, *others]}) == 6
    assert digest(dict(reversed(base.items()))) == digest(base)


@pytest.mark.parametrize("bad", [np.array(["text"]), np.array([None]), np.zeros(1, "c8"), np.zeros(1, "M8[s]")])
def test_arrays_that_are_not_numbers_are_refused(tmp_path, bad):
    with pytest.raises(TypeError, match="dtype"):
        save(tmp_path, 0, {"x": bad}, {})
    with pytest.raises(TypeError, match="dtype"):
        digest({"x": bad})
    assert names(tmp_path) == []


def test_meta_that_json_cannot_hold_leaves_nothing_behind(tmp_path):
    with pytest.raises(TypeError):
        save(tmp_path, 0, {}, {"x": object()})
    with pytest.raises(ValueError, match="put arrays into"):
        save(tmp_path, 0, {}, {"x": "a" * 2**20})
    assert names(tmp_path) == []


def test_a_large_array_is_never_held_twice(tmp_path):
    size = 32 << 20
    tracemalloc.start()
    arrays = {"replay": np.ones(size, np.uint8)}
    path = save(tmp_path, 0, arrays, {})
    assert tracemalloc.get_traced_memory()[1] < size + (4 << 20)
    del arrays
    tracemalloc.reset_peak()
    load(path)
    assert tracemalloc.get_traced_memory()[1] < size + (4 << 20)
    tracemalloc.stop()


# --- order and retention ---------------------------------------------------------------------------------------------


def test_the_newest_are_kept_by_number_whatever_the_clock_says(tmp_path):
    for steps in (999_999_999_999, 1_000_000_000_000, 9_000_000_000_000):  # a digit more: text order would be wrong
        for path in tmp_path.iterdir():
            os.utime(path, (4e9, 4e9))  # written in the future
        save_at(tmp_path, steps, keep=2)
    assert names(tmp_path) == ["checkpoint-1000000000000", "checkpoint-9000000000000"]
    assert_sound(load_latest(tmp_path), 9_000_000_000_000)


def test_a_step_saved_again_never_overwrites(tmp_path):
    first = again = save_at(tmp_path, 6400)
    for _ in range(10):
        again = save_at(tmp_path, 6400)
    assert (first.name, again.name) == ("checkpoint-000000006400", "checkpoint-000000006400.10")
    assert names(tmp_path) == [again.name]  # what it supersedes goes, once it is verified
    assert load_latest(tmp_path).path == again


def test_going_on_from_an_older_one_keeps_what_was_just_saved(tmp_path):
    for steps in (1, 2, 3):
        save_at(tmp_path, steps)
    for path in sorted(tmp_path.iterdir())[1:]:
        (path / DATA).write_bytes(b"")
    assert_sound(load_latest(tmp_path), 1)
    again = save_at(tmp_path, 2, keep=1)
    found = load_latest(tmp_path)
    assert found.path == again and [r.split(":")[0] for r in found.refused] == ["checkpoint-000000000003"]
    save_at(tmp_path, 4, keep=1)
    assert names(tmp_path) == ["checkpoint-000000000004"]


def test_remains_of_a_killed_save_never_load_and_are_swept(tmp_path):
    (tmp_path / ".writing-checkpoint-000000000009").mkdir()
    shutil.copytree(save_at(tmp_path / "other", 9), tmp_path / ".writing-checkpoint-000000000010")
    with pytest.raises(UserError, match="no checkpoint in"):
        load_latest(tmp_path)
    save_at(tmp_path, 9)
    assert names(tmp_path) == ["checkpoint-000000000009", "other"]


def test_no_folder_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no checkpoints in"):
        load_latest(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"refused: manifest.json: No such file"):
        load(tmp_path / "nowhere")


# --- damage ----------------------------------------------------------------------------------------------------------


def mutated(original: bytes, rng: np.random.Generator) -> bytes:
    data, kind = bytearray(original), rng.integers(8)
    at, to = sorted(int(i) for i in rng.integers(0, len(data), 2))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at] = int(rng.integers(256))
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        data += rng.bytes(int(rng.integers(1, 20)))
    elif kind == 4:
        del data[at : to + 1]
    elif kind == 5:
        data[at:at] = data[at:to]
    elif kind == 6:
        data[at:to] = bytes(to - at)
    else:
        digits = [i for i, byte in enumerate(data[:400]) if 48 <= byte < 58]
        data[int(rng.choice(digits))] = int(rng.integers(48, 58))
    return bytes(data)


def test_two_thousand_mutants_load_never(tmp_path):
    save_at(tmp_path, 1)
    newest = save_at(tmp_path, 2)
    rng, mutants = np.random.default_rng(20), 0
    for name in (DATA, MANIFEST):
        original = (newest / name).read_bytes()
        for i in range(1000):
            damaged = mutated(original, rng)
            if damaged == original:
                continue
            (newest / name).write_bytes(damaged)
            mutants += 1
            with pytest.raises(UserError, match="refused") as error:
                load(newest)
            assert "\n" not in str(error.value)
            if i % 50 == 0:
                found = load_latest(tmp_path)
                assert_sound(found, 1)
                assert len(found.refused) == 1 and newest.name in found.refused[0]
        (newest / name).write_bytes(original)
    assert_sound(load(newest), 2)
    assert mutants > 1900


def rewrite(path: Path, header: bytes, data: bytes, prefix: bytes | None = None) -> None:
    """A forged data file under a manifest whose digests are right."""
    text = (prefix or len(header).to_bytes(8, "little")) + header + data
    (path / DATA).write_bytes(text)
    manifest = json.loads((path / MANIFEST).read_bytes())
    del manifest["sha256"]
    manifest["data"] = {"bytes": len(text), "sha256": checkpoint.hashlib.sha256(text).hexdigest()}
    (path / MANIFEST).write_bytes(checkpoint._sealed(manifest))


def entry(dtype="F32", shape=(2,), offsets=(0, 8)) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


FORGED = {
    "huge": {"w": entry(shape=[2**40], offsets=[0, 2**42])},
    "product overflows": {"w": entry(shape=[2**33, 2**33], offsets=[0, 0])},
    "negative": {"w": entry(shape=[-1, -2])},
    "overlap": {"a": entry(), "b": entry()},
    "hole": {"a": entry(), "b": entry(offsets=[16, 24])},
    "too little": {"w": entry(shape=[1], offsets=[0, 4])},
    "unknown type": {"w": entry(dtype="PICKLE")},
    "no numbers": {"w": entry(shape=["2"])},
    "metadata": {"__metadata__": {"a": "b"}, "w": entry()},
    "a list": [1, 2],
    "no entry": {"w": 3},
}


@pytest.mark.parametrize("header", FORGED.values(), ids=FORGED.keys())
def test_forged_headers_are_refused_before_memory_is_taken(tmp_path, header):
    path = save_at(tmp_path, 1)
    rewrite(path, json.dumps(header).encode(), bytes(8))
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"refused: .*arrays.safetensors"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20  # the manifest's limit, and room
    finally:
        tracemalloc.stop()


def test_headers_that_are_no_headers(tmp_path):
    path = save_at(tmp_path, 1)
    for header in (b"[" * 100_000, b"\xff\xfe", b"", b"gASVNgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"):
        rewrite(path, header, b"")
        with pytest.raises(UserError, match="header"):
            load(path)
    rewrite(path, b"{}", b"", prefix=(2**63).to_bytes(8, "little"))
    with pytest.raises(UserError, match="longer than"):
        load(path)


def test_the_header_is_under_the_digest_too(tmp_path):
    path = save_at(tmp_path, 1)
    text = (path / DATA).read_bytes()
    assert text.count(b'"weights"') == 1
    (path / DATA).write_bytes(text.replace(b'"weights"', b'"weighty"'))
    with pytest.raises(UserError, match="does not match its digest"):
        load(path)


def test_a_newer_format_names_the_way_out(tmp_path):
    save_at(tmp_path, 1)
    path = save_at(tmp_path, 2)
    manifest = json.loads((path / MANIFEST).read_bytes())
    (path / MANIFEST).write_text(json.dumps({**manifest, "format": 2, "something": "new"}))
    with pytest.raises(UserError, match=r"format 2 is newer than 1.*upgrade hotloop"):
        load(path)
    found = load_latest(tmp_path)
    assert_sound(found, 1)
    assert "upgrade" in found.refused[0]


def test_foreign_things_with_the_right_name_are_refused_with_a_reason(tmp_path):
    save_at(tmp_path, 1)
    shutil.copytree(tmp_path / "checkpoint-000000000001", tmp_path / "checkpoint-000000000007")  # renamed by hand
    (tmp_path / "checkpoint-000000000008").write_text("a file")
    pipe = save_at(tmp_path / "p", 9).rename(tmp_path / "checkpoint-000000000009")
    (pipe / DATA).unlink()
    os.mkfifo(pipe / DATA)  # opening it would wait for ever
    link = save_at(tmp_path / "l", 10).rename(tmp_path / "checkpoint-000000000010")
    (link / DATA).rename(tmp_path / "elsewhere")
    (link / DATA).symlink_to(tmp_path / "elsewhere")
    found = load_latest(tmp_path)
    assert_sound(found, 1)
    assert [r.split(": ", 1)[1] for r in found.refused] == [
        "arrays.safetensors is not a file",
        "arrays.safetensors is not a file",
        "manifest.json: Not a directory",
        "it is of env step 1, its name says 7",
    ]


def test_none_sound_is_one_line_with_every_reason(tmp_path):
    for steps in (1, 2):
        (save_at(tmp_path, steps) / MANIFEST).unlink()
    with pytest.raises(UserError, match=r"no sound checkpoint.*000002: manifest.json: No such.*000001: ") as error:
        load_latest(tmp_path)
    assert "\n" not in str(error.value)
