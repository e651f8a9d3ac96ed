"""`dse models`: what the models declare, also as a page."""

import json
import re
from pathlib import Path

from write_page import models

from dse.models import MODELS, module
from dse.models.about import ASPECTS


def rows(ran):
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_a_model_shows_what_it_declares(run_dse):
    text = run_dse("models", "show", "mwp-cwp-pipeline").out
    about = module("mwp-cwp-pipeline").ABOUT
    assert text.startswith("mwp-cwp-pipeline\n\nMWP-CWP")
    text = " ".join(text.split())
    for told in (*about.inputs, *about.ignores, *about.differs.values(), about.use_when, about.source):
        assert told in text
    assert all(f"{number}: {formula}" in text for number, formula in about.equations.items())
    [row] = rows(run_dse("models", "show", "mwp-cwp-pipeline", "--json"))
    assert " ".join(row["description"].split()) in text
    assert row["leaves_out"] == list(about.ignores)
    assert row["aspects"] == ["Λ_mem"]


def test_aspects_of_all_models(run_dse):
    found = rows(run_dse("models", "aspects", "--json"))
    assert [row["model"] for row in found] == list(MODELS)
    for row in found:
        assert {aspect for aspect in ASPECTS if row[aspect]} == module(row["model"]).ABOUT.aspects
    assert "scheduler" in run_dse("models", "aspects").out


def test_the_page_is_what_the_models_say():
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    _, section, _ = re.split("<!-- models: (?:begin|end) -->", page)
    assert section.strip() == models()
