"""Cases of problem sizes as a file has them."""

from pathlib import Path

import pytest

from dse.errors import DseError
from dse.measure.cases import read


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m,n\n", "rows: found none"),
        ("m,n\n1,\n", "n, row 1: found an empty cell, expected a number"),
        ("m,n\n1\n", "cannot read: .* Expected 2 columns, got 1"),
        ("m\n1\nmany\n", "m, row 2: found 'many', expected a number"),
        ("m\n99999999999999999999\n", "m: found a number of over 64 bits"),
        ("m\nnan\n", "m, row 1: found .*, expected a number"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str):
    path = tmp_path / "cases.csv"
    path.write_text(text)
    with pytest.raises(DseError, match=f"cases.csv: {message}"):
        read(path)
    with pytest.raises(DseError, match="cannot read: No such file"):
        read(tmp_path / "none.csv")
