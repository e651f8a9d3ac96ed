"""The papers' numbers beside ours: counted by kind, and each that differs with a reason of its own."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from write_page import main, reproduction

from dse.errors import DseError
from dse.reproduce import papers
from dse.reproduce.compare import PAPERS, compare, problems
from dse.reproduce.papers import KINDS, Kind, Reason, Row, reasons, rounds_to, sums, table, text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def found():
    return compare()


def test_each_difference_has_a_reason_of_its_own(found):
    assert problems(found) == []
    assert set(found) == set(PAPERS)
    for name, rows in found.items():
        keys = {(row.table, row.what) for row in rows}
        assert len(keys) == len(rows) > 0
        assert set(reasons(name)) <= keys  # no reason for a row that there is not
        assert all(isinstance(row.ours, str) or math.isfinite(row.ours) for row in rows)


def test_kinds(found):
    kinds = {name: {(row.table, row.kind) for row in rows} for name, rows in found.items()}
    assert {kind for pairs in kinds.values() for _, kind in pairs} == set(KINDS)
    assert ("Table 7", "declared") in kinds["lemeire"]
    for number in (10, 11, 12):
        assert {kind for name, kind in kinds["lemeire"] if name == f"Table {number}"} == {"arithmetic"}
    ours = [row for rows in found.values() for row in rows if row.kind == "equation"]
    assert {row.table for row in ours} == {"Fig. 6", "Eqs. L43-L45"}
    assert len(ours) == 21
    assert all(row.what.startswith(("WFG", "L4")) for row in ours)


@pytest.mark.parametrize(
    ("paper", "what", "ours", "agrees"),
    [  # computed by hand, or known misprints
        ("hong-kim", "mwp", 2.28125, True),
        ("hong-kim", "mwp_peak_bw", 28.515625, False),
        ("hong-kim", "exec_cycles_app", 38428.1875, False),
        ("hong-kim", "synch_cost", 12300, False),
        ("hong-kim", "case 1: periods of computation (mwp-cwp)", 1, False),
        ("hong-kim", "arithmetic intensity of Blackscholes", 137 / 7, False),
        ("hong-kim", "peak_gflops of Quadro_FX5600", 345.6, False),
        ("kothapalli", "list ranking, N = 2^22, ms", 21.12, False),
        ("kothapalli", "matrix multiplication, N = 128, ms", 0.0798194871794, False),
        ("kothapalli", "two additions and two multiplications, cycles", 40, False),
        ("baghsorkhi", "warp_latency", 142, True),
        ("baghsorkhi", "exposed_latency", 130, True),
        ("lemeire", "Λ_app", 25, True),
        ("lemeire", "non-overlapped instructions, Eq. G11", 2, True),
        ("lemeire", "non-overlapped instructions, drawn", 6, True),
        ("lemeire", "warps at which WFG is above Volkov", "3 4", True),
        ("lemeire", "L45, β = 8", 8 / 9, False),
        ("lemeire", "WFG, 11 and 3 cycles, 1.5 warps (Eq. L40)", 12.75, True),
        ("lemeire", "throughput of Fermi, GB/s", 89.6, True),
        ("lemeire", "average of the averages of volkov_mape", 52.9, True),
        ("teg", "transactions in flight for a TPC", 18.79219714506, False),
    ],
)
def test_some_of_them(found, paper, what, ours, agrees):
    [row] = [row for row in found[paper] if row.what == what]
    assert row.ours == (ours if isinstance(ours, str) else pytest.approx(ours, rel=1e-9))
    assert row.agrees == agrees


def row(paper: str = "", ours: float | str = 0.0, reason: Reason | None = None, kind: Kind = "model") -> Row:
    return Row("Table 1", "mwp", paper, ours, kind, reason)


def test_agrees_as_the_paper_rounds():
    assert row("2.28", 2.28125).agrees
    assert not row("2.28", 2.2851).agrees
    assert row("24", 23.5).agrees
    assert not row("24", 24.6).agrees
    assert row("memory", "memory").agrees
    assert not row("Y", "N").agrees
    assert row("20", 25.0).percent == pytest.approx(25)
    assert row("0", 1.0).percent is None
    assert rounds_to(-5.733, "-5.73")


def test_a_reason_explains_one_value_only():
    reason = Reason("345.6", "128 cores")
    assert row("384", 345.6).problem == "found 345.6, expected 384"
    assert row("384", 345.6, reason).problem is None
    assert row("384", 691.2, reason).problem == "found 691.2, expected 384 or, for a reason, 345.6"
    assert row("384", 384.0, reason).problem == "found the paper's 384, but a reason for 345.6"
    assert row("384", 384.0).problem is None
    assert not row("384", 384.0, reason).explained
    shown = [papers.cells(row("384", ours, reason))["why"] for ours in (345.6, 691.2, 384.0)]
    assert shown == ["128 cores", "", ""]


def test_a_row_has_one_reason(monkeypatch):
    line = {"paper": "teg", "table": "Table 2", "what": "one", "ours": "1", "why": "because"}
    monkeypatch.setattr(papers, "table", lambda name: [line, line])
    with pytest.raises(
        DseError, match=r"^differences.csv: teg, Table 2, one: found two reasons, expected one"
    ):
        papers.reasons.__wrapped__("teg")


def test_sums_go_by_kind():
    reason = Reason("3", "because")
    rows = [row("1", 1.0, kind="arithmetic"), row("1", 1.0), row("1", 3.0, reason), row("1", 4.0, reason)]
    model, arithmetic = sums(rows)
    assert list(model.values()) == ["model", 3, 1, 1, 1, KINDS["model"]]
    assert list(arithmetic.values()) == ["arithmetic", 1, 1, 0, 0, KINDS["arithmetic"]]


def test_papers_are_read():
    assert table("baghsorkhi_figure_1")[0] == {
        "quantity": "latency_comp",
        "equation": "3",
        "paper": "1",
        "unit": "cycles",
    }
    assert text("kothapalli")["worked_sum"] == "72"
    with pytest.raises(DseError, match=r"^paper: found 'volkov', expected one of hong-kim, "):
        compare(["volkov"])


# The page


def test_the_page_is_what_is_computed(found):
    _, section, _ = re.split("<!-- reproduction: (?:begin|end) -->", PAGE.read_text())
    assert section.strip() == reproduction(found)


def test_the_readme_has_the_sums(found):
    readme = " ".join((ROOT / "README.md").read_text().split())
    for total in sums(row for rows in found.values() for row in rows):
        assert f"{total['agree']} of {total['numbers']}" in readme, total["kind"]


def test_a_section_is_filled_and_a_page_without_it_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- models: begin -->\nOUTDATED\n<!-- models: end -->\n")
    main("models", str(page))
    assert "OUTDATED" not in page.read_text()
    assert "## roofline" in page.read_text()
    with pytest.raises(DseError, match=r"page\.md: found no markers, expected <!-- reproduction: begin -->"):
        main("reproduction", str(page))
    with pytest.raises(DseError, match="section: found 'model', expected one of models, reproduction"):
        main("model")


def test_a_difference_without_a_reason_ends_with_1(run_dse, monkeypatch, found):
    first, *others = found["kothapalli"]
    wrong = {"kothapalli": [replace(first, ours=41.0), *others]}
    monkeypatch.setattr("dse.reproduce.compare.compare", lambda names=PAPERS: wrong)
    ran = run_dse("reproduce", "kothapalli", "--json")
    assert ran.code == 1
    message = (
        "kothapalli: Sec. 3.2.1: two additions and two multiplications, cycles: "
        "found 41.0, expected 72 or, for a reason, 40"
    )
    assert ran.err == f"dse: {message}\n"
    assert json.loads(ran.out)[0]["why"] == ""
