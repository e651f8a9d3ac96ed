"""The script that writes the GPU catalogue, on tables made up here."""

import csv
import shutil
from pathlib import Path

import make_gpus
import pytest

from dse.hardware import gpus

ROOT = Path(__file__).parents[2]


@pytest.fixture
def read(tmp_path):
    """`read({"card": [rows]})`: all cards of such tables, of which A has `relatives`."""

    def run(cards, relatives=""):
        for name in ("sources.csv", "parameters.csv", "capabilities.csv", "devices.csv"):
            shutil.copy(ROOT / "gpus" / "facts" / name, tmp_path)
        with (tmp_path / "catalogue.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["gpu", "file", "name", "aliases", "relatives"])
            writer.writerow(["A", "a", "Card A", "", relatives])
        with (tmp_path / "findings.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["gpu", "parameter", "value", "unit", "source", "note"])
            writer.writerows([card, *row] for card, rows in cards.items() for row in rows)
        return make_gpus.Facts(tmp_path).cards

    return run


def row(value, source="RRZE", note="", parameter="lat_l1", unit="cycles"):
    return (parameter, str(value), unit, source, note)


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


def test_the_best_kind_lends_then_the_nearest_in_size_and_older_cards_before_newer_ones(read):
    """What the cards of the catalogue cannot tell apart: theirs is the test below."""

    def card(capability, latency=None, sms=10, source="RRZE"):
        rows = [
            row(capability, "WIKI", "", "compute_capability", ""),
            row(sms, "WIKI", "", "sm_count", "SMs"),
        ]
        return rows + ([row(latency, source)] if latency else [])

    cards = {"A": card("8.0"), "Far in size": card("8.0", 2, sms=40), "Near": card("8.0", 3, sms=12)}
    cards |= {"Stated": card("8.0", 9, source="PTXAS"), "Older": card("7.5", 6), "Newer": card("9.0", 7)}
    for nearest in ("Near", "Far in size", "Stated", "Older", "Newer"):
        actual = read(cards)["A"].borrow("lat_l1")
        assert (actual.value, actual.provenance) == (float(cards[nearest][2][1]), "derived"), nearest
        assert actual.rule.startswith(f"as on {nearest} (")
        del cards[nearest]
    assert read(cards)["A"].borrow("lat_l1") is None


@pytest.mark.slow
def test_the_catalogue_is_what_the_facts_make(tmp_path, capsys, monkeypatch):
    real, out = ROOT / "gpus", tmp_path / "out"
    shutil.copytree(real, out)
    changed, missing = out / "a100_pcie_40gb.toml", out / "h200.toml"
    wrong = changed.read_text().replace("value = 108\n", "value = 109\n")
    changed.write_text(wrong)
    missing.unlink()
    assert make_gpus.main(["-o", str(out)]) == 0
    assert capsys.readouterr().out.endswith(", 2 of them new or changed\n")
    assert all((out / path.name).read_text() == path.read_text() for path in real.glob("*.*"))
    made = {path.stem for path in real.glob("*.toml") if make_gpus.COMMENT in path.read_text()}
    assert made == {card.file for card in make_gpus.Facts(real / "facts").listed} <= set(gpus.names())

    changed.write_text(wrong)
    monkeypatch.setattr(make_gpus, "read_boards", lambda path: ([], {}))  # most of the time is theirs
    assert make_gpus.main(["-o", str(out), "--check"]) == 1
    said = f"found other files than the facts make: {changed.name}, {make_gpus.TABLE}\n"
    assert capsys.readouterr().out.endswith(said)
    assert changed.read_text() == wrong
