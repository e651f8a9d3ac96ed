"""`dse reproduce`."""

import json


def test_a_paper_beside_ours(run_dse):
    ran = run_dse("reproduce", "kothapalli", "--json")
    assert (ran.code, ran.err) == (0, "")
    last = run_dse("reproduce", "kothapalli").out.splitlines()[-1]
    assert last.startswith("1 of 5 numbers agree as printed; each of the others has a reason; next: ")
    rows = json.loads(ran.out)
    assert {row["paper"] for row in rows} == {"kothapalli"}
    assert rows[0]["printed"] == "72"
    assert rows[0]["ours"] == 40
    assert rows[0]["why"]
    assert rows[0]["kind"] == "look-up"


def test_only_what_differs(run_dse):
    rows = json.loads(run_dse("reproduce", "baghsorkhi", "kothapalli", "--differing", "--json").out)
    assert {row["paper"] for row in rows} == {"kothapalli"}
    assert all(row["why"] for row in rows)
    assert "2·4 + 2·16 is 40" in run_dse("reproduce", "kothapalli").out


def test_sums_by_kind(run_dse):
    totals = json.loads(run_dse("reproduce", "kothapalli", "--sums", "--json").out)
    assert [(total["kind"], total["numbers"], total["agree"]) for total in totals] == [
        ("model", 4, 1),
        ("look-up", 1, 0),
    ]
    ran = run_dse("reproduce", "baghsorkhi")
    assert ran.out.rstrip().splitlines()[-3].split()[:5] == ["model", "7", "7", "0", "0"]
