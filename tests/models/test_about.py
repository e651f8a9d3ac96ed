"""What the models say of themselves, against Lemeire et al., Table 7, and on the page."""

import runpy
import sys
from pathlib import Path

import pytest

from dse.models import DEFAULT, MODELS, module
from dse.models.about import ASPECTS, About
from dse.reproduce.papers import table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", MODELS)
def test_is_complete(name):
    about = module(name).ABOUT
    assert about.source
    assert about.use_when.endswith(".")
    assert about.equations
    assert about.inputs
    assert about.ignores


def test_one_is_the_default():
    assert [name for name in MODELS if module(name).ABOUT.use_when.startswith("By default")] == [DEFAULT]


def test_agrees_with_the_papers_table_or_says_why():
    rows = dict(zip(ASPECTS, table("lemeire_table_7"), strict=True))
    listed = set()
    for name in MODELS:
        about = module(name).ABOUT
        if not about.column:
            assert not about.differs
            continue
        listed.add(about.column)
        paper = {aspect for aspect, row in rows.items() if row[about.column] == "Y"}
        assert about.aspects ^ paper == set(about.differs), name
        assert all(about.differs.values())
    assert listed == set(rows["ILP"]) - {"aspect"}


def test_the_rows_of_the_table_are_the_aspects():
    symbols = {"Lambda_comp": "Λ_comp", "Lambda_mem": "Λ_mem"}
    printed = [
        symbols.get(row["aspect"], row["aspect"].replace("_", " ")) for row in table("lemeire_table_7")
    ]
    assert tuple(printed) == ASPECTS


def test_knows_its_aspects():
    with pytest.raises(ValueError, match=r"^aspects: found \['speed'\], expected some of ILP, "):
        About("", {}, (), (), "", frozenset({"speed"}))


def test_the_page_is_what_the_models_say(monkeypatch, tmp_path):
    page = (ROOT / "docs" / "models.md").read_text()
    begin, end = "<!-- models: begin -->", "<!-- models: end -->"
    copy = tmp_path / "models.md"
    copy.write_text(f"{page.split(begin)[0]}{begin}\n{end}{page.split(end)[1]}")
    script = ROOT / "scripts" / "models_page.py"
    monkeypatch.setattr(sys, "argv", [str(script), "-o", str(copy)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    assert ended.value.code == 0
    assert copy.read_text() == page
