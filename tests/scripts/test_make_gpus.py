"""The script that writes the GPU catalogue, on tables made up here."""

import csv
import importlib
import shutil
from pathlib import Path

import pytest

from dse.hardware import gpus

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "data"))
    return importlib.import_module("make_gpus")


@pytest.fixture
def read(script, tmp_path):
    """`read({"card": [rows]})`: all cards of such tables, of which A has `relatives`."""

    def run(cards, relatives=""):
        for name in ("sources.csv", "parameters.csv", "capabilities.csv"):
            shutil.copy(ROOT / "gpus" / "facts" / name, tmp_path)
        with (tmp_path / "catalogue.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["gpu", "file", "name", "aliases", "relatives"])
            writer.writerow(["A", "a", "Card A", "", relatives])
        with (tmp_path / "findings.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["gpu", "parameter", "value", "unit", "source", "note"])
            writer.writerows([card, *row] for card, rows in cards.items() for row in rows)
        return script.Facts(tmp_path).cards

    return run


def row(value, source="RRZE", note="", parameter="lat_l1", unit="cycles"):
    return (parameter, str(value), unit, source, note)


@pytest.mark.parametrize(
    ("rows", "value", "provenance"),
    [
        ([row(30)], 30, "measured"),
        ([row(99, note="REJECT: wrong"), row(30)], 30, "measured"),
        ([row(99, note="SUSPECT: odd"), row(30)], 30, "measured"),
        ([row(99, note="SUSPECT: odd")], 99, "measured"),
        ([row(99, note="SUSPECT: odd"), row(30, "PTXAS")], 30, "stated"),
        ([row(99, note="includes index arithmetic"), row(30)], 30, "measured"),
        ([row(30, "PTXAS"), row(31)], 31, "measured"),
        ([row(28, "HK"), row(29, "PPT"), row(30, "PTXAS")], 30, "stated"),
        ([row(28, "HK"), row(29, "PPT")], 29, "fitted"),
        ([row(28, "HK")], 28, "fitted"),
        ([row(30), row(32), row(50)], 32, "measured"),
        ([row(30), row(32)], 31, "measured"),
        ([row(30), row(30, "MT4G")], 30, "measured"),
        ([row(9, "MT4G", "driver-reported"), row(9, "WIKI")], 9, "stated"),
        ([row(5, "LLVMSCHED", parameter="sched_lat_fp64", unit="4-cycle slots")], 20, "stated"),
    ],
)
def test_which_row_counts(read, rows, value, provenance):
    found = read({"A": rows})["A"].own("lat_l1", "sched_lat_fp64")
    assert (found.value, found.provenance) == (value, provenance)
    assert bool(found.rule) == ("median" in found.rule)


def test_sources_are_spelled_out_and_no_row_is_no_value(read):
    rows = [row(32, "SJF", note="SUSPECT: odd; rest"), row(64, "WIKI;TPUCSV", "", "l2_size", "KiB")]
    card = read({"A": rows})["A"]
    assert card.own("lat_l1").source == "sjfeng1999/gpu-arch-microbenchmark (SUSPECT: odd)"
    assert card.own("l2_size").source == "Wikipedia GPU lists; TechPowerUp list"
    assert card.own("lat_l2") is None
    assert read({"A": [row(30, note="REJECT: wrong")]})["A"].own("lat_l1") is None


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([row(4, "WIKI", "", "l2_size", "MiB")], "A: l2_size: found unit 'MiB', expected KiB"),
        ([row(4, "WIKI", "", "sm_count", "")], "A: sm_count: found unit '', expected SMs or CUs"),
        ([row(4, "WIKI", "", "sm_cout", "")], "A: found parameter 'sm_cout', expected one of parameters.csv"),
        (
            [row(4, "WIKI", "", "sm_count", "SMs"), row(5, "TPUCSV", "", "sm_count", "SMs")],
            "A: sm_count: sources disagree: 4, 5",
        ),
        ([], "A: no row for sm_count or l2_size or lat_l1"),
    ],
)
def test_tables_that_cannot_be_used_stop_the_script(read, rows, line):
    with pytest.raises(SystemExit) as stop:
        read({"A": rows or [row(1, parameter="lat_l2")]})["A"].need("sm_count", "l2_size", "lat_l1")
    assert str(stop.value) == line


def test_nearest_relative(read):
    def card(capability, latency=None, sms=10, source="RRZE"):
        rows = [
            row(capability, "WIKI", "", "compute_capability", ""),
            row(sms, "WIKI", "", "sm_count", "SMs"),
        ]
        return rows + ([row(latency, source)] if latency else [])

    cards = {
        "A": card("8.0"),
        "Far in size": card("8.0", 2, sms=40),
        "Near in size": card("8.0", 3, sms=12),
        "Stated, same size": card("8.0", 9, source="PTXAS"),
        "Modelled, same size": card("8.0", 4, source="PPT"),
        "Family": card("8.6", 5),
        "Older": card("7.5", 6),
        "Newer": card("9.0", 7),
        "Named": card("7.5", 8, sms=99),
    }
    order = [
        "Named",
        "Near in size",
        "Far in size",
        "Stated, same size",
        "Modelled, same size",
        "Family",
        "Older",
        "Newer",
    ]
    for nearest in order:
        found = read(cards, "Named;absent")["A"].borrow("lat_l1")
        assert found.value == float(cards[nearest][2][1]), nearest
        assert found.provenance == "derived"
        assert found.rule.startswith(f"as on {nearest} (")
        del cards[nearest]
    assert read(cards, "Named;absent")["A"].borrow("lat_l1") is None

    cards["A"] = card("8.0", 1, source="PPT")  # its own modelled value: after measured near, before far ones
    cards["Near"] = card("8.0", 3)
    cards["Family"] = card("8.6", 5)
    assert read(cards, "Named;absent")["A"].borrow("lat_l1").value == 3
    del cards["Near"]
    assert read(cards, "Named;absent")["A"].borrow("lat_l1").value == 1
    cards["A"] = card("8.0")
    assert read(cards, "Named;absent")["A"].borrow("lat_l1", nearby=True) is None
    assert (
        read(cards, "Named;absent")["A"].borrow("lat_l1", alike=lambda other: other.key != "Family") is None
    )


@pytest.mark.slow
def test_the_catalogue_is_what_the_facts_make(script, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(ROOT / "gpus" / script.TABLE, out)
    assert script.main(["-o", str(out)]) == 0, capsys.readouterr().out
    written = {path.name: path.read_text() for path in out.iterdir()}
    assert written == {name: (ROOT / "gpus" / name).read_text() for name in written}
    made = {path.stem for path in (ROOT / "gpus").glob("*.toml") if script.COMMENT in path.read_text()}
    listed = {card.file for card in script.Facts(ROOT / "gpus" / "facts").listed}
    assert made == listed
    assert listed <= set(gpus.names())
    assert {path.removesuffix(".toml") for path in written} - {script.TABLE} == listed

    changed = out / "a100_pcie_40gb.toml"
    changed.write_text(changed.read_text().replace("value = 108\n", "value = 109\n"))
    assert script.main(["-o", str(out), "--check"]) == 1
    assert "found other files than the facts make: a100_pcie_40gb.toml" in capsys.readouterr().out
