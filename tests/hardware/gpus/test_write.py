"""GPU files written and read back."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.gpus import write as gpu_text


@pytest.mark.parametrize("name", ["a100-pcie-40gb", "mi50"])
def test_what_is_written_is_read(name, tmp_path):
    file = gpus.load(name, np.float64)
    path = tmp_path / "mine.toml"
    gpu_text.write(path, file.header, file.fields, ["one line", "and another"])
    assert path.read_text().startswith("# one line\n# and another\nname = ")
    again = gpus.load(path, np.float64)
    assert again.header == file.header
    assert again.fields == file.fields
    assert jax.tree.all(jax.tree.map(lambda a, b: a == b, again.gpu, file.gpu))


def test_texts_and_numbers_of_any_kind(tmp_path):
    file = gpus.load("a100-pcie-40gb", np.float64)
    header = file.header.model_copy(update={"name": 'a "fast" \\ one, λ', "aliases": []})
    values = {"cpi.l1": 1234567.891, "cpi.l2": 1.5e-9, "latency.dram": 3e15, "sm_count": 108}
    fields = [
        replace(record, value=values[record.field], source='tab\t"quoted" µ', spread=0.012345, follows=None)
        if record.field in values
        else record
        for record in file.fields
    ]
    path = tmp_path / "mine.toml"
    gpu_text.write(path, header, fields)
    again = gpus.load(path, np.float64)
    assert again.name == header.name
    found = {record.field: record for record in again.fields}
    for field, value in values.items():
        assert found[field].value == pytest.approx(value, rel=1e-5)
        assert found[field].source == 'tab\t"quoted" µ'
        assert found[field].spread == 0.0123
    assert found["sm_count"].value == 108
    assert isinstance(found["sm_count"].value, int)


def test_mistakes(tmp_path):
    file = gpus.load("a100-pcie-40gb", np.float64)
    with pytest.raises(DseError, match="found no folder"):
        gpu_text.write(tmp_path / "no" / "mine.toml", file.header, file.fields)
    wrong = [replace(record, value=-1) if record.field == "clock" else record for record in file.fields]
    with pytest.raises(DseError, match="clock: found -1"):
        gpu_text.write(tmp_path / "mine.toml", file.header, wrong)
    assert not list(Path(tmp_path).glob(".*"))
