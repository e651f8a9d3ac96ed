"""The papers' numbers beside ours: counted by kind, and each that differs with a reason of its own."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from write_page import reproduction

from dse.reproduce.papers import KINDS, PAPERS, Kind, Reason, Row, compare, problems, reasons, rounds_to, sums

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ours():
    return compare()


@pytest.mark.slow
def test_each_difference_has_a_reason_of_its_own_and_pages_say_what_is_computed(ours):
    assert problems(ours) == []
    assert set(ours) == set(PAPERS)
    for name, rows in ours.items():
        keys = {(row.table, row.what) for row in rows}
        assert len(keys) == len(rows) > 0
        assert set(reasons(name)) <= keys  # no reason for a row that there is not
        assert all(isinstance(row.ours, str) or math.isfinite(row.ours) for row in rows)
    assert {row.kind for rows in ours.values() for row in rows} == set(KINDS)
    page = (ROOT / "docs" / "reproduction.md").read_text()
    _, section, _ = re.split("<!-- reproduction: (?:begin|end) -->", page)
    assert section.strip() == reproduction(ours)
    readme = " ".join((ROOT / "README.md").read_text().split())
    for total in sums(row for rows in ours.values() for row in rows):
        assert f"{total['agree']} of {total['numbers']}" in readme, total["kind"]


def row(paper: str = "", ours: float | str = 0.0, reason: Reason | None = None, kind: Kind = "model") -> Row:
    return Row("Table 1", "mwp", paper, ours, kind, reason)


@pytest.mark.parametrize(
    ("paper", "value", "agrees"),
    [
        ("2.28", 2.28125, True),
        ("2.28", 2.2851, False),
        ("24", 23.5, True),
        ("24", 24.6, False),
        ("memory", "memory", True),
        ("Y", "N", False),
    ],
)
def test_agrees_as_the_paper_rounds(paper, value, agrees):
    assert row(paper, value).agrees is agrees
    assert rounds_to(-5.733, "-5.73")
    assert (row("20", 25.0).percent, row("0", 1.0).percent) == (pytest.approx(25), None)


@pytest.mark.parametrize(
    ("value", "why", "problem"),
    [
        (345.6, "", "found 345.6, expected 384"),
        (345.6, "128 cores", None),
        (691.2, "128 cores", "found 691.2, expected 384 or, for a reason, 345.6"),
        (384.0, "128 cores", "found the paper's 384, but a reason for 345.6"),
        (384.0, "", None),
    ],
)
def test_a_reason_explains_one_value_only(value, why, problem):
    assert row("384", value, Reason("345.6", why) if why else None).problem == problem


def test_sums_go_by_kind():
    reason = Reason("3", "because")
    rows = [row("1", 1.0, kind="arithmetic"), row("1", 1.0), row("1", 3.0, reason), row("1", 4.0, reason)]
    model, arithmetic = sums(rows)
    assert list(model.values()) == ["model", 3, 1, 1, 1, KINDS["model"]]
    assert list(arithmetic.values()) == ["arithmetic", 1, 1, 0, 0, KINDS["arithmetic"]]


# The command


def test_a_paper_is_shown(run_dse, answer):
    rows = answer("reproduce", "kothapalli")
    assert {row["paper"] for row in rows} == {"kothapalli"}
    assert (rows[0]["printed"], rows[0]["ours"], rows[0]["kind"]) == ("72", 40, "look-up")
    differing = answer("reproduce", "baghsorkhi", "kothapalli", "--differing")
    assert all(row["paper"] == "kothapalli" and row["why"] for row in differing)
    totals = answer("reproduce", "kothapalli", "--sums")
    assert [(total["kind"], total["numbers"], total["agree"]) for total in totals] == [
        ("model", 4, 1),
        ("look-up", 1, 0),
    ]
    last = run_dse("reproduce", "kothapalli").out.splitlines()[-1]
    assert last.startswith("1 of 5 numbers agree as printed; each of the others has a reason; next: ")


@pytest.mark.slow
def test_a_difference_without_a_reason_ends_with_1(run_dse, monkeypatch, ours):
    first, *others = ours["kothapalli"]
    wrong = {"kothapalli": [replace(first, ours=41.0), *others]}
    monkeypatch.setattr("dse.reproduce.papers.compare", lambda names=PAPERS: wrong)
    ran = run_dse("reproduce", "kothapalli", "--json")
    assert ran.code == 1
    message = "found 41.0, expected 72 or, for a reason, 40"
    assert (
        ran.err == f"dse: kothapalli: Sec. 3.2.1: two additions and two multiplications, cycles: {message}\n"
    )
    assert json.loads(ran.out)[0]["why"] == ""
