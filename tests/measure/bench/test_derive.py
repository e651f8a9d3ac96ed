"""From records to λ and Λ: what the made-up GPU of `fake_gpu` was given must come out again."""

from dataclasses import replace

import pytest
from fake_gpu import BANDWIDTH, BARRIER, CHASE, INTERVAL, ISSUE, LAMBDA, LATENCY, MHZ, PIPES, SMS, recorded

from dse.errors import DseError
from dse.measure.bench import derive
from dse.measure.bench.records import load, save
from dse.measure.statistics import Repeats


@pytest.mark.slow
def test_pipes():
    actual = derive.values(recorded())
    for name in ("fp32", "fp64", "int32", "imul32", "sfu"):
        assert actual[f"cpi.{name}"].value == pytest.approx(LAMBDA[name], rel=5e-3), name
        assert actual[f"latency.{name}"].value == pytest.approx(LATENCY[name], rel=5e-3), name
    assert actual["latency.shared"].value == pytest.approx(LATENCY["shared"], rel=5e-3)
    assert actual["cpi.shared"].value == pytest.approx(LAMBDA["shared"], rel=5e-3)
    assert actual["lsu_cycles"].value == pytest.approx(LAMBDA["shared"], rel=5e-3)
    assert actual["cpi.l1"].value == pytest.approx(LAMBDA["l1"] / 2, rel=5e-3)
    assert actual["cpi.barrier"].value == pytest.approx(BARRIER[0], rel=1e-2)
    assert actual["latency.barrier"].value == pytest.approx(BARRIER[1], rel=1e-2)
    assert actual["issue_limit"].value == ISSUE  # rounded
    assert actual["issue_cycles"].value == pytest.approx(1 / ISSUE, rel=5e-3)


def test_memory():
    actual = derive.values(recorded())
    for level, latency in zip(("l1", "l2", "dram"), CHASE.values(), strict=True):
        assert actual[f"latency.{level}"].value == pytest.approx(latency, rel=5e-3)
    assert actual["clock"].value == pytest.approx(MHZ, rel=1e-4)
    for level, bandwidth in BANDWIDTH.items():
        cycles = 32 * SMS * MHZ * 1e6 / bandwidth
        assert actual[f"cpi.{level}"].value == pytest.approx(cycles, rel=1e-2)
    extras = {row["name"]: row["value"] for row in derive.extras(recorded())}
    assert extras["DRAM read_4, 32 apart"] == pytest.approx(2000, rel=5e-3)  # sectors moved
    assert extras["DRAM copy_16"] == pytest.approx(2000, rel=5e-3)  # both ways
    assert extras["local stores over the L2's time for their sectors"] == pytest.approx(1, rel=1e-2)
    assert extras["launch, one after another"] == pytest.approx(2, rel=1e-2)
    assert extras["same warp, independent fp32"] == pytest.approx(INTERVAL, rel=5e-3)


def test_which_classes_share_a_pipe():
    pairs = derive.shared_pipes(recorded())
    assert len(pairs) == 36
    for pair in pairs:
        same = PIPES.get(pair.first, pair.first) == PIPES.get(pair.second, pair.second)
        assert pair.one == same, pair
        assert min(pair.error_one, pair.error_two) < 0.01 < max(pair.error_one, pair.error_two)
    cut = replace(recorded(), records=[r for r in recorded().records if r.benchmark != "chase"])
    with pytest.raises(DseError, match=r"records: found none of chase, cache ca"):
        derive.values(cut)


def test_doubts_are_reported():
    actual = derive.values(recorded())
    shaky = replace(actual["latency.l2"], spread=0.4)
    lines = derive.warnings(recorded(), {**actual, "latency.l2": shaky})
    assert any(line.startswith("latency.l2: 250") and "40 %" in line for line in lines)

    slow = [
        replace(record, parameters={**record.parameters, "mhz": 1200.0 if place % 2 else 1500.0})
        for place, record in enumerate(recorded().records)
    ]
    lines = derive.warnings(replace(recorded(), records=slow), actual)
    assert any(line.startswith("clock: changed between 1200 and 1500 MHz") for line in lines)

    first = replace(recorded().records[5], repeats=Repeats((1.0, 2.0, 3.0), False))
    lines = derive.warnings(replace(recorded(), records=[first]), actual)
    assert lines[-1].startswith("1 of 1 did not settle; the first: pipes, class fp32")


def test_records_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "records.parquet"
    save(recorded(), path)
    again = load(path)
    assert again == recorded()
    assert path.stat().st_size < 200_000
    (tmp_path / "other.parquet").write_text("no")
    with pytest.raises(DseError, match="cannot read"):
        load(tmp_path / "other.parquet")
