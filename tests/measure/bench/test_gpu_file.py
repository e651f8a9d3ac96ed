"""A GPU file of a recording: `--gpu` takes it, and it tells where each number is from."""

from dataclasses import replace
from pathlib import Path

import pytest
from fake_gpu import LAMBDA, MHZ, SMS, recorded

from dse.errors import DseError
from dse.hardware import gpus
from dse.measure.bench.gpu_file import like, slug_of, write
from dse.measure.bench.records import save


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> gpus.GpuFile:
    path = tmp_path_factory.mktemp("gpu") / "mine.toml"
    write(recorded(), path)
    return gpus.load(path)


def test_numbers_and_their_sources(file: gpus.GpuFile):
    gpu = file.gpu
    assert float(gpu.sm_count) == SMS
    assert float(gpu.clock) == pytest.approx(MHZ * 1e6, rel=1e-4)
    assert float(gpu.cpi.sfu) == pytest.approx(LAMBDA["sfu"], rel=5e-3)
    assert float(gpu.latency.dram) == pytest.approx(700, rel=5e-3)
    assert float(gpu.dram_bandwidth) == pytest.approx(2 * 1e9 * 8192 / 8)  # 1 GHz, two transfers a cycle
    assert float(gpu.l2_bytes) == 2**24
    assert int(gpu.limits.warps_per_sm) == 64
    assert int(gpu.limits.shared_bytes_per_block) == 166912
    fields = {field.field: field for field in file.fields}
    measured = {name for name, field in fields.items() if field.provenance == "measured here"}
    groups = {name for name in fields if name.startswith(("cpi.", "latency.")) and ".mma_" not in name}
    delays = {f"departure_delay_{kind}_cycles" for kind in ("coal", "uncoal")}
    assert measured == groups | delays | {"clock", "issue_limit", "issue_cycles", "lsu_cycles"}
    for name in measured:
        item = fields[name]
        assert ("driver for CUDA 99.0" in item.source, bool(item.rule)) == (True, True)
        assert item.spread is not None
        assert item.spread < 0.05
    assert fields["limits.register_unit"].provenance == "stated"
    assert "compute capability 8.0" in fields["limits.register_unit"].source
    assert fields["sm_count"].source == "CUDA driver 99.0 on this GPU"
    assert "measured by dse" in file.path.read_text().lower()


def test_which_gpu_of_the_catalogue_is_like_it(tmp_path: Path):
    assert like("NVIDIA H100 PCIe", "9.0").name == "NVIDIA H100 PCIe"
    assert like("NVIDIA GH200", "9.0").header.compute_capability == "9.0"
    assert like("NVIDIA GB10", "12.1").header.compute_capability == "12.1"
    assert like("NVIDIA T1000", "7.5").header.compute_capability == "7.5"
    assert slug_of("NVIDIA H100 80GB HBM3") == "h100_sxm"
    assert slug_of("NVIDIA RTX 5880 Ada Generation") == "rtx_5880_ada_generation"
    with pytest.raises(DseError, match="found none of clock"):
        write(replace(recorded(), records=[]), tmp_path / "mine.toml")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_all_follows_from_the_records(run_dse, file: gpus.GpuFile, tmp_path: Path):
    """`dse measure gpu RECORDS`: the same file, a report, and what the file has no place for."""
    records, again, report = (tmp_path / name for name in ("r.parquet", "again.toml", "report.html"))
    save(recorded(), records)
    ran = run_dse("measure", "gpu", str(records), "-o", str(again), "--report", str(report), "--csv")
    assert ran.code == 0
    assert again.read_text() == file.path.read_text()
    assert "occupancy roofline" in report.read_text()
    rows = dict(line.split(",")[:2] for line in ran.out.splitlines() if line[0] != '"')
    assert float(rows["cpi.sfu"]) == pytest.approx(2, rel=5e-3)
    assert rows["sfu and convert"] == "one pipe"
    assert rows["fp32 and sfu"] == "two pipes"
    assert all(line.startswith("warning: ") for line in ran.err.splitlines())
