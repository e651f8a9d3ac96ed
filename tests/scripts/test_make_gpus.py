"""The script that writes the GPU catalogue, on tables made up here."""

import csv
import importlib
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

from dse.hardware import gpus

CAPABILITY = {
    "cc": "8.0",
    "arch": "Ampere",
    "warp_size": "32",
    "max_threads_per_block": "1024",
    "max_threads_per_sm": "2048",
    "max_warps_per_sm": "64",
    "max_blocks_per_sm": "32",
    "regs_per_sm": "65536",
    "max_regs_per_block": "65536",
    "max_regs_per_thread": "255",
    "reg_alloc_unit": "256",
    "reg_alloc_granularity": "warp",
    "warp_alloc_granularity": "4",
    "sub_partitions": "4",
    "smem_per_sm_B": "167936",
    "smem_per_block_B": "49152",
    "smem_per_block_optin_B": "166912",
    "smem_reserved_per_block_B": "1024",
    "smem_alloc_unit_B": "128",
    "l1_smem_unified_KiB": "192",
    "schedulers_per_sm": "4",
    "issue_per_scheduler": "1",
    "lanes_fp64": "32",
    "source": "OCC13",
    "lanes_source": "CUPG86",
}
KNOWN = [  # a card of which all is known
    ("compute_capability", "8.0", "", "WIKI", ""),
    ("sm_count", "100", "SMs", "WIKI", ""),
    ("clock_boost", "1000", "MHz", "WIKI", ""),
    ("mem_bandwidth", "1600", "GB/s", "WIKI", ""),
    ("mem_bus_width", "4096", "bit", "WIKI", ""),
    ("mem_type", "HBM2", "", "WIKI", ""),
    ("l2_size", "4096", "KiB", "WIKI", ""),
    ("lanes_fp32", "64", "results/cycle/SM", "CUPG86", ""),
    ("lanes_fp64", "32", "results/cycle/SM", "CUPG86", ""),
    ("lanes_int32", "64", "results/cycle/SM", "CUPG86", ""),
    ("lanes_sfu", "16", "results/cycle/SM", "CUPG86", ""),
    ("thr_syncthreads", "16", "thread-operations/cycle/SM", "CUPG86", ""),
    ("thr_l1", "64", "B/cycle/SM", "RRZE", ""),
    ("thr_l2", "3200", "GB/s", "RRZE", ""),
    ("bw_measured_read", "1280", "GB/s", "RRZE", ""),
    ("bw_measured_read", "1400", "GB/s", "MT4G", "a lower bound all the same"),
    ("lat_ffma", "4", "cycles", "PTXAS", ""),
    ("lat_shf", "4", "cycles", "PTXAS", ""),
    ("lat_imad", "4", "cycles", "PTXAS", ""),
    ("lat_dfma", "8", "cycles", "RRZE", ""),
    ("sim_lat_sfu", "20", "cycles", "ACCEL", ""),
    ("lat_lds", "23", "cycles", "RRZE", ""),
    ("lat_l1", "30", "cycles", "RRZE", ""),
    ("lat_l2", "200", "cycles", "RRZE", ""),
    ("lat_dram", "500", "cycles", "RRZE", ""),
    ("lat_bar_sync", "17", "cycles", "LEM", ""),
]
FROM_DATA_SHEET = ["compute_capability", "clock_boost", "mem_type", "l2_size", "thr_syncthreads"]
FROM_DATA_SHEET += ["lanes_fp32", "lanes_fp64", "lanes_int32", "lanes_sfu"]
ROW = {name: (name, *row) for name, *row in KNOWN}


ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "data"))
    return importlib.import_module("make_gpus")


@pytest.fixture
def read(script, tmp_path):
    """`read({"card": [rows]})`: all cards of such tables; A has `relatives`, if none is `listed`."""

    def run(cards, relatives="", listed=()):
        for name in ("sources.csv", "parameters.csv"):
            shutil.copy(ROOT / "gpus" / "facts" / name, tmp_path)
        with (tmp_path / "catalogue.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["gpu", "file", "name", "aliases", "relatives"])
            writer.writerows(listed or [("A", "a", "Card A", "", relatives)])
        with (tmp_path / "findings.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["gpu", "parameter", "value", "unit", "source", "note"])
            writer.writerows([card, *row] for card, rows in cards.items() for row in rows)
        with (tmp_path / "capabilities.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(CAPABILITY))
            writer.writeheader()
            writer.writerows(
                CAPABILITY | {"cc": cc, "arch": arch}
                for cc, arch in (("8.0", "Ampere"), ("8.6", "Ampere"), ("7.5", "Turing"), ("9.0", "Hopper"))
            )
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


def test_no_row_is_no_value(read):
    card = read({"A": [row(30, note="REJECT: wrong")]})["A"]
    assert card.own("lat_l1") is None
    assert card.own("lat_l2") is None


def test_sources_are_spelled_out(read):
    card = read({"A": [row(30, "RRZE"), row(32, "SJF", note="SUSPECT: odd; rest")]})["A"]
    assert card.own("lat_l1").source == "RRZE-HPC/gpu-benches"
    card = read(
        {"A": [row(32, "SJF", note="SUSPECT: odd; rest"), row(64, "WIKI;TPUCSV", "", "l2_size", "KiB")]}
    )["A"]
    assert card.own("lat_l1").source == "sjfeng1999/gpu-arch-microbenchmark (SUSPECT: odd)"
    assert card.own("l2_size").source == "Wikipedia GPU lists; TechPowerUp list"


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


def test_files(read, script, tmp_path, capsys):
    """Two cards, one of them known by its data sheet only: both load, with the values worked out here."""
    bare = [ROW[name] for name in FROM_DATA_SHEET]
    bare += [row(800, "WIKI", "", "mem_bandwidth", "GB/s"), row(2048, "WIKI", "", "mem_bus_width", "bit")]
    listed = [("Known", "known", "Card K", "k;kk", ""), ("Bare", "bare", "Card B", "", "")]
    read({"Known": KNOWN, "Bare": [*bare, row(40, "WIKI", "", "sm_count", "SMs")]}, listed=listed)
    out = tmp_path / "out"
    asked = ["--facts", str(tmp_path), "-o", str(out)]
    assert script.main([*asked, "--check"]) == 1
    assert script.main(asked) == 0
    assert script.main([*asked, "--check"]) == 0
    changed = out / "bare.toml"
    written = changed.read_text()
    changed.write_text(written.replace("value = 40\n", "value = 41\n"))
    assert changed.read_text() != written
    assert script.main([*asked, "--check"]) == 1
    changed.write_text(written)
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"2 cards in {out}, 3 of them new or changed",
        f"2 cards in {out}, 0 of them new or changed",
        f"{out}: found other files than the facts make: bare.toml",
    ]

    known, bare = (gpus.load(out / f"{name}.toml") for name in ("known", "bare"))
    assert (known.name, known.header.aliases) == ("Card K", ["k", "kk"])
    for file in (known, bare):
        assert file.header.compute_capability == "8.0"
        assert file.gpu.limits.shared_bytes_per_block == 166912
        assert file.gpu.limits.warp_unit == 4
        assert file.gpu.l1_bytes == 192 * 1024
        assert file.gpu.issue_limit == 4
        assert (file.gpu.cpi.fp32, file.gpu.cpi.fp64, file.gpu.cpi.sfu) == (0.5, 1, 2)
        assert (file.gpu.cpi.shared, file.gpu.cpi.l1, file.gpu.cpi.barrier) == (1, 2, 2)
        assert (file.gpu.latency.sfu, file.gpu.latency.l1, file.gpu.latency.dram) == (20, 30, 500)
    assert known.gpu.cpi.l2 == 32 / 32  # 3200 GB/s / (1 GHz x 100 SMs)
    assert bare.gpu.cpi.l2 == np.float32(32 / 40)  # half the bus for 40 SMs
    assert known.gpu.cpi.dram == 32 / 12.8  # 1280 GB/s
    assert bare.gpu.cpi.dram == 32 / 16  # 80 % of 800 GB/s, over 40 SMs
    assert known.gpu.departure_delay_coal_cycles == 4
    records = {record.field: record for record in bare.fields}
    assert records["latency.dram"].rule == "as on Known (same compute capability)"
    rule = records["cpi.dram"].rule
    assert rule is not None
    assert rule.endswith("(80 % of 800 GB/s): median of HBM2 on Known")
    assert {r.field: r for r in known.fields}["latency.dram"].provenance == "measured"
    text = (out / "bare.toml").read_text()
    assert tomllib.loads(text)["cpi"]["l2"]["source"] == "RRZE-HPC/gpu-benches"


@pytest.mark.slow
def test_the_catalogue_is_what_the_facts_make(script, capsys):
    assert script.main(["--check"]) == 0, capsys.readouterr().out
    made = {path.stem for path in (ROOT / "gpus").glob("*.toml") if script.COMMENT in path.read_text()}
    listed = {each.file for each in script.Facts(ROOT / "gpus" / "facts").listed}
    assert made == listed
    assert listed <= set(gpus.names())
