"""Tables as files."""

import csv
import json
import os

import jax.numpy as jnp
import numpy as np
import pyarrow.parquet
import pytest

from dse.data.tables import write_table
from dse.errors import DseError

COLUMNS = {"block": np.array([16, 32]), "time_s": np.array([1.5, np.inf]), "name": ["a,b", 'say "c"']}


def test_csv(tmp_path):
    write_table(tmp_path / "a.csv", COLUMNS)
    text = (tmp_path / "a.csv").read_text()
    assert text.startswith("block,time_s,name\n16,1.5,")
    rows = list(csv.DictReader(text.splitlines()))
    assert rows[1] == {"block": "32", "time_s": "inf", "name": 'say "c"'}
    assert rows[0]["name"] == "a,b"
    mask = os.umask(0o022)
    try:
        write_table(tmp_path / "a.csv", COLUMNS)
    finally:
        os.umask(mask)
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o644


def test_json_holds_only_what_json_can(tmp_path):
    write_table(tmp_path / "a.json", COLUMNS)
    rows = json.loads((tmp_path / "a.json").read_text(), parse_constant=lambda text: pytest.fail(text))
    assert rows == [
        {"block": 16, "time_s": 1.5, "name": "a,b"},
        {"block": 32, "time_s": None, "name": 'say "c"'},
    ]
    write_table(tmp_path / "a.json", {"x": []})
    assert json.loads((tmp_path / "a.json").read_text()) == []


def test_parquet_keeps_types(tmp_path, monkeypatch):
    columns = {"i": jnp.arange(3, dtype=jnp.int32), "f": jnp.ones(3, jnp.float32), "b": np.arange(3) != 1}
    write_table(tmp_path / "A.PARQUET", columns)
    table = pyarrow.parquet.read_table(tmp_path / "A.PARQUET")
    assert [str(field.type) for field in table.schema] == ["int32", "float", "bool"]
    assert table.column("i").to_pylist() == [0, 1, 2]
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root, who may do all
    with pytest.raises(DseError, match="is not writable"):
        write_table(tmp_path / "a.csv", COLUMNS)


def test_mistakes(tmp_path):
    with pytest.raises(DseError, match=r"a\.txt: suffix: found '\.txt', expected \.parquet, \.csv, \.json"):
        write_table(tmp_path / "a.txt", COLUMNS)
    with pytest.raises(DseError, match="found no suffix"):
        write_table(tmp_path / "a", COLUMNS)
    with pytest.raises(DseError, match=r"no/a\.csv: found no folder"):
        write_table(tmp_path / "no" / "a.csv", COLUMNS)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DseError, match="found a folder"):
        write_table(tmp_path / "folder.csv", COLUMNS)
    with pytest.raises(ValueError, match="length"):
        write_table(tmp_path / "b.csv", {"x": [1], "y": [1, 2]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv"]
