"""The papers' numbers beside ours: all told, and where they differ with a reason."""

import json
import math
import re
import runpy
import sys
from pathlib import Path

import pytest

from dse.errors import DseError
from dse.reproduce import teg
from dse.reproduce.compare import PAPERS, compare
from dse.reproduce.papers import Row, table, text

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "reproduce.py"


@pytest.fixture(scope="module")
def found():
    """All but what takes the simulator long: TEG's predictions, which tests/simulate/test_teg.py looks at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teg, "TABLES", [each for each in teg.TABLES if each is not teg.predictions])
        return compare()


@pytest.fixture
def script(monkeypatch, capsys, found):
    """The script in this process, without working everything out again: exit code, stdout, stderr."""
    monkeypatch.setattr("dse.reproduce.compare.compare", lambda: found)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        return end.value.code, *capsys.readouterr()

    return run


def test_what_differs_has_a_reason(found):
    assert set(found) == set(PAPERS)
    for rows in found.values():
        assert rows
        assert len({(row.table, row.what) for row in rows}) == len(rows)
        for row in rows:
            assert isinstance(row.ours, str) or math.isfinite(row.ours), row
            assert row.agrees or row.why, row


@pytest.mark.parametrize(
    ("paper", "what", "ours", "agrees"),
    [  # worked out by hand, or known misprints
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


def test_agrees_as_the_paper_rounds():
    assert Row("", "", "2.28", 2.28125).agrees
    assert not Row("", "", "2.28", 2.2851).agrees
    assert Row("", "", "24", 23.5).agrees
    assert not Row("", "", "24", 24.6).agrees
    assert Row("", "", "memory", "memory").agrees
    assert not Row("", "", "Y", "N").agrees
    assert Row("", "", "20", 25.0).percent == pytest.approx(25)
    assert Row("", "", "0", 1.0).percent is None


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


def comparable(page):
    """A page without TEG's predictions and without the number of rows."""
    page = re.sub(rf"### {teg.PREDICTIONS}\n.*?\n(?=## )", "", page, flags=re.DOTALL)
    return re.sub(r"\d+ of \d+ numbers", "", page)


def test_the_page_is_what_the_script_writes(script, tmp_path):
    page = (ROOT / "docs" / "reproduction.md").read_text()
    copy = tmp_path / "page.md"
    begin, end = "<!-- reproduction: begin -->", "<!-- reproduction: end -->"
    copy.write_text(f"{page.split(begin)[0]}{begin}\n{end}\n")
    assert script("-o", copy) == (0, "", "")
    assert comparable(copy.read_text()) == comparable(page)
    code, out, _ = script("--json")
    papers = json.loads(out)["papers"]
    assert code == 0
    assert papers["hong-kim"]["rows"][0]["printed"] == "32"


def test_the_script_names_a_page_without_markers(script, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    code, _, err = script("-o", page)
    assert code == 2
    assert err.startswith(f"reproduce.py: {page}: found no markers, expected <!-- reproduction: begin -->")
    assert script("-o", tmp_path / "none.md")[0] == 2
