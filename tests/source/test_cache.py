import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.errors import DseError, InputWarning
from dse.source import cache
from dse.source.cache import Cache


@given(
    parts=st.lists(
        st.lists(st.text("ab\0:é", max_size=3), max_size=3), min_size=2, max_size=2, unique_by=tuple
    )
)
def test_keys_differ_where_parts_do(parts: list[list[str]]):
    assert cache.key(*parts[0]) != cache.key(*parts[1])


def test_entries_come_back(tmp_path: Path):
    path = tmp_path / "deep" / "kernels.sqlite"
    entries = {cache.key(str(i)): bytes([i % 256]) * (i % 50) for i in range(1200)}  # in several queries
    assert Cache(path).get(entries) == {}
    assert not path.exists()
    Cache(path).put(entries)
    Cache(path).put({})
    assert Cache(path).get([*entries, "unknown"]) == entries
    Cache(path).put({cache.key("3"): b"new"})
    assert Cache(path).get([cache.key("3"), cache.key("4")]) == {
        cache.key("3"): b"new",
        cache.key("4"): b"\4" * 4,
    }


def test_all_or_none_are_added(tmp_path: Path):
    actual = Cache(tmp_path / "c.sqlite")
    with pytest.raises(sqlite3.ProgrammingError):
        actual.put({"a": b"1", "b": object()})  # type: ignore[dict-item]
    assert actual.get(["a"]) == {}


def test_others_may_write_meanwhile(tmp_path: Path, run_python):
    path = tmp_path / "c.sqlite"
    Cache(path).put({"mine": b"1"})
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entries").fetchall()  # holds its view of the file
    ran = run_python(f"from dse.source.cache import *; Cache(Path({str(path)!r})).put({{'x': b'2'}})")
    assert (ran.code, ran.err) == (0, "")
    assert Cache(path).get(["mine", "x"]) == {"mine": b"1", "x": b"2"}
    reader.close()


def test_the_place_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "here"))
    assert Cache().path == tmp_path / "here" / "kernels.sqlite"
    monkeypatch.delenv("DSE_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Cache().path == tmp_path / "dse" / "kernels.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Cache().path == tmp_path / ".cache" / "dse" / "kernels.sqlite"


def test_what_cannot_be_used_is_named_and_does_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    damaged = tmp_path / "c.sqlite"
    damaged.write_bytes(b"no database" * 100)
    problem = r"c\.sqlite: cache: nothing is kept: file is not a database; delete the file$"
    with pytest.warns(InputWarning, match=problem):
        assert Cache(damaged).get(["a"]) == {}
    Cache(damaged).put({"a": b""})
    assert damaged.read_bytes() == b"no database" * 100
    with pytest.warns(InputWarning, match=r"cache: nothing is kept: .*; set DSE_CACHE to a folder of yours$"):
        assert Cache(damaged / "below.sqlite").get(["a"]) == {}
    Cache(damaged / "below.sqlite").put({"a": b""})
    monkeypatch.setattr(os, "access", lambda *asked: False)
    with pytest.warns(InputWarning, match=r"cache: nothing is kept: found no right to write there; set"):
        assert Cache(tmp_path / "new" / "c.sqlite").get(["a"]) == {}


def test_a_folder_that_all_may_write_to_is_refused(tmp_path: Path):
    Cache(tmp_path / "c.sqlite").put({"a": b""})
    tmp_path.chmod(0o777)
    with pytest.raises(DseError, match="found a folder that all may write to"):
        Cache(tmp_path / "c.sqlite").get(["a"])


def test_many_may_make_the_file_at_once(tmp_path: Path):
    for attempt in range(10):
        shared, together = Cache(tmp_path / f"{attempt}.sqlite"), Barrier(4)

        def put(name: str, shared: Cache = shared, together: Barrier = together) -> None:
            together.wait()
            shared.put({name: b"x"})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(put, "abcd"))
        assert set(shared.get("abcd")) == set("abcd")
