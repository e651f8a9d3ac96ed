"""`dse models show` and `dse models aspects`: what the models declare."""

import json

from dse.models import MODELS, module
from dse.models.about import ASPECTS


def rows(ran):
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_a_model_shows_what_it_declares(run_dse):
    text = run_dse("models", "show", "mwp-cwp-pipeline").out
    about = module("mwp-cwp-pipeline").ABOUT
    assert text.startswith("mwp-cwp-pipeline\n\nMWP-CWP")
    for told in (*about.inputs, *about.ignores, *about.differs.values(), about.use_when, about.source):
        assert told in text
    assert all(f"{number}: {formula}" in text for number, formula in about.equations.items())
    [row] = rows(run_dse("models", "show", "mwp-cwp-pipeline", "--json"))
    assert row["description"] in text
    assert row["leaves_out"] == list(about.ignores)
    assert row["aspects"] == ["Λ_mem"]


def test_aspects_of_all_models(run_dse):
    found = rows(run_dse("models", "aspects", "--json"))
    assert [row["model"] for row in found] == list(MODELS)
    for row in found:
        assert {aspect for aspect in ASPECTS if row[aspect]} == module(row["model"]).ABOUT.aspects
    assert "scheduler" in run_dse("models", "aspects").out
