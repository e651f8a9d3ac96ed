"""Cases of problem sizes as a file has them."""

from pathlib import Path

import pytest

from dse.errors import DseError
from dse.measure.cases import read


def test_rows_in_order(tmp_path: Path):
    path = tmp_path / "cases.csv"
    path.write_text("m,scale\n4096,0.5\n1,2\n")
    assert read(path) == [{"m": 4096, "scale": 0.5}, {"m": 1, "scale": 2}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n\n", "rows: found none"),
        ("m,n\n1\n", "n, row 1: found '', expected a number"),
        ("m\n1\nmany\n", "m, row 2: found 'many', expected a number"),
        ("m\nnan\n", "m, row 1: found .nan., expected a number"),
        ("m\n1,2\n", r"None, row 1: found \['2'\], expected a number"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str):
    path = tmp_path / "cases.csv"
    path.write_text(text)
    with pytest.raises(DseError, match=f"cases.csv: {message}"):
        read(path)
    with pytest.raises(DseError, match="cannot read: No such file"):
        read(tmp_path / "none.csv")
