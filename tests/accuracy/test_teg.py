"""`dse accuracy teg`: errors on the TEG paper's tables, and how they depend on what was chosen."""

from pathlib import Path

import pytest
import teg_choices

from dse.accuracy import teg
from dse.models import MODELS

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
TABLE_5 = teg.TABLES[3:]


def cell(page: str, name: str) -> str:
    """The error on Table 5 in one row of a page's table."""
    [line] = [line for line in (DOCS / page).read_text().splitlines() if line.startswith(f"| {name} |")]
    return line.strip("|").split("|")[4].strip()


def test_errors_are_those_of_the_page():
    cells = teg.cells(tables=TABLE_5, models={name: MODELS[name] for name in ("volkov", "phase")})
    models = list(dict.fromkeys(row["model"] for row in cells))
    assert models == ["teg, as printed", "volkov", "phase", "teg"]
    means = {line["model"]: f"{line['all']:.1f}" for line in teg.means(cells)}
    assert means["teg"] == cell("teg.md", "as chosen")
    assert means["teg, as printed"] == cell("accuracy.md", "teg, as printed")
    assert teg.page(cells).splitlines()[-1] in (DOCS / "accuracy.md").read_text()


def test_choices():
    labels = ("as chosen", "8 tiles", "118.6 GB/s (84 %), not 141.7")
    choices = [choice for choice in teg_choices.CHOICES if choice.label in labels]
    rows = teg_choices.errors(choices, TABLE_5)
    for line in rows:
        error = line["Table 5"]
        assert ("" if error is None else f"{error:.1f}") == cell("teg.md", line["choice"])
