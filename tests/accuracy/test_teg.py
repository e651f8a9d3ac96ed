"""`dse accuracy teg`: errors on the TEG paper's tables, and how they depend on what was chosen."""

import json
from pathlib import Path

import pytest
import teg_choices

from dse.accuracy import teg

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def one_table_and_two_models(monkeypatch):
    monkeypatch.setattr(teg, "TABLES", teg.TABLES[3:])
    monkeypatch.setattr(teg_choices, "TABLES", teg.TABLES)
    monkeypatch.setattr(teg, "MODELS", {name: teg.MODELS[name] for name in ("volkov", "phase")})


def row(page: str, name: str) -> list[str]:
    """The cells of one row of a page's table."""
    [line] = [line for line in (ROOT / page).read_text().splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.slow
def test_errors_are_those_of_the_page(run_dse):
    ran = run_dse("accuracy", "teg", "--json")
    assert (ran.code, ran.err) == (0, "")
    cells = json.loads(ran.out)["rows"]
    assert [cell["model"] for cell in cells[::3]] == ["teg, as printed", "volkov", "phase", "teg"]
    means = {line["model"]: line for line in teg.means(cells)}
    title = "Table 5: lattice QCD, coalesced"
    assert f"{means['teg'][title]:.1f}" == row("docs/teg.md", "as chosen")[3]
    assert f"{means['teg, as printed'][title]:.1f}" == row("docs/accuracy.md", "teg, as printed")[3]
    page = teg.page(cells)
    assert page.splitlines()[-1] in (ROOT / "docs" / "accuracy.md").read_text()
    assert "cell by cell" in run_dse("accuracy", "teg", "--page", "-").out


@pytest.mark.slow
def test_choices(run_dse, monkeypatch):
    chosen = {choice.label: choice for choice in teg_choices.CHOICES}
    labels = ("as chosen", "8 tiles", "118.6 GB/s (84 %), not 141.7")
    monkeypatch.setattr(teg_choices, "CHOICES", tuple(chosen[label] for label in labels))
    rows = teg_choices.errors(teg_choices.CHOICES)
    for line, label in zip(rows, labels, strict=True):
        error = line["Table 5"]
        assert ("" if error is None else f"{error:.1f}") == row("docs/teg.md", label)[3]
    assert "| 8 tiles |  |" in teg_choices.page(rows)
