"""Packed files of strangers: data of a bounded size, or one line."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.data import safe_readers
from dse.errors import DseError


def parquet(**columns: list) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer, compression="zstd")
    return buffer.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)
    return buffer.getvalue()


READERS = {
    "gzip": (safe_readers.unzipped, gzip.compress(b"a,b\n1,2\n")),
    "text": (safe_readers.text, gzip.compress(b"a,b\n1,2\n")),
    "zip": (lambda path: safe_readers.Members(path).read("a"), zipped("a", b"b" * 100)),
    "npz": (safe_readers.arrays, npz(a=np.arange(9), b=np.array(["x"]))),
    "Parquet": (safe_readers.parquet, parquet(a=[1, 2], b=["x", "y"])),
    "CSV": (lambda path: safe_readers.csv_table(path, safe_readers.text(path)), b"a,b\n1,2\n"),
}


@pytest.mark.parametrize("name", READERS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path: Path, name, data):
    reader, valid = READERS[name]
    first = data.draw(st.integers(0, len(valid)))
    last = data.draw(st.integers(first, min(len(valid), first + 9)))
    content = valid[:first] + data.draw(st.binary(max_size=9)) + valid[last:]
    path = tmp_path / "file"
    path.write_bytes(content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))])
    try:
        reader(path)
    except DseError as error:  # or it is valid still
        assert str(error).startswith(str(path))  # noqa: PT017


@pytest.mark.parametrize("name", READERS)
def test_a_valid_file_is_read(tmp_path: Path, name):
    reader, valid = READERS[name]
    (tmp_path / "file").write_bytes(valid)
    assert len(reader(tmp_path / "file"))


def test_what_unpacks_to_too_much(tmp_path: Path):
    path = tmp_path / "a"
    for content, read in (
        (gzip.compress(b"0" * 10**6), lambda: safe_readers.unzipped(path, 10**5)),
        (zipped("a", b"0" * 10**6), lambda: safe_readers.Members(path, 10**5)),
        (zipped("a.npy", b"0" * 10**6), lambda: safe_readers.arrays(path, 10**5)),
        (parquet(a=[1] * 10**6), lambda: safe_readers.parquet(path, most=10**5)),
    ):
        assert len(content) < 10**5
        path.write_bytes(content)
        with pytest.raises(DseError, match="a: found more than 100,000 bytes, expected a smaller"):
            read()


def test_columns_and_rows_are_counted_first(tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(parquet(**{f"c{n}": [1] for n in range(2001)}))
    with pytest.raises(DseError, match="a: columns: found 2,001, expected at most 2,000"):
        safe_readers.parquet(path)
    path.write_bytes(parquet(a=[1] * 9))
    with pytest.raises(DseError, match="a: rows: found 9, expected at most 8"):
        safe_readers.parquet(path, rows=8)
    with pytest.raises(DseError, match="a: columns: found 20,000, expected at most 2,000"):
        safe_readers.csv_table(path, ",".join(f"c{n}" for n in range(20_000)))
    (tmp_path / "a").write_bytes(npz(a=np.array([{"x": 1}], object)))
    with pytest.raises(DseError, match="a: cannot read: Object arrays cannot be loaded"):
        safe_readers.arrays(tmp_path / "a")
