"""Two GPUs fitted to a space of each, and their files."""

import re

import numpy as np
import pytest

from dse import kernels
from dse.errors import DseError
from dse.explore.fit.calibrate import MeasuredSpace, calibrate, check_target, write
from dse.explore.fit.parameters import NAMES as NAMES_OF_FITS
from dse.explore.fit.parameters import bounds
from dse.hardware import gpus

NAMES = ("a100-pcie-40gb", "a4000")
SLOWER = 1.2
FREE = ("clock", "cpi.dram", "cpi.fp64")


@pytest.fixture(scope="module")
def found(toy_kernel, tmp_path_factory):
    """Memory of both is slower by one factor, and one has a clock that is another."""
    folder, random = tmp_path_factory.mktemp("measured"), np.random.default_rng(0)
    spaces, files = [], [gpus.load(name, np.float64) for name in NAMES]
    for number, file in enumerate(files):
        sector = float(file.gpu.cpi.dram / file.gpu.sm_count / file.gpu.clock)
        lines = ["block,items,time_ms", "512,1,"]  # one failed
        for block in (32, 64, 128, 256):
            for items in (1, 2, 3, 4):
                time = SLOWER * 2 * 4 * 2**20 / 32 * sector * (1 + 0.01 * random.normal())
                lines.append(f"{block},{items},{1e3 * time}")
        path = folder / f"{NAMES[number]}.csv"
        path.write_text("\n".join(lines) + "\n")
        spaces.append(MeasuredSpace(kernels.load(toy_kernel), {}, path, number))
    return calibrate(spaces, files, "roofline", FREE, ("cpi.dram",), starts=1, sample=12)


@pytest.mark.slow
def test_the_shared_one_is_off_by_the_same_factor_and_errors_fall(found, tmp_path):
    rows = {(row["gpu"], row["field"]): row for row in found.fields()}
    assert len(rows) == 2 * len(FREE)
    factors = []
    for file in found.files:  # a bandwidth does not depend on the clock: of that these times say nothing
        clock, dram = (rows[file.name, name] for name in ("clock", "cpi.dram"))
        factors.append(dram["fitted"] / dram["catalogue"] / (clock["fitted"] / clock["catalogue"]))
    assert factors[0] == pytest.approx(factors[1], rel=1e-12)
    assert factors[0] == pytest.approx(SLOWER, rel=0.03)
    assert all("cpi.fp64" in undetermined for undetermined in found.undetermined().values())
    rows = found.errors()
    assert {row["data"] for row in rows} == {"fitted", "held out: a fifth of the configurations"}
    assert sum(row["configurations"] for row in rows) == 2 * 12  # each of the sample once
    for row in rows:
        assert row["mape_before_percent"] == pytest.approx(100 * (1 - 1 / SLOWER), abs=2)
        assert row["mape_percent"] < 3
    write(found, tmp_path / "fitted")
    for number, file in enumerate(found.files):
        fitted = gpus.load(tmp_path / "fitted" / f"{file.path.stem}.toml", np.float64)
        ratio = float(fitted.gpu.clock / file.gpu.clock)
        kept = "clock" in found.undetermined()[file.name]
        assert ratio == pytest.approx(1.0 if kept else np.exp(found.fit.logs(number)[0]), rel=1e-5)
        assert (fitted.name.endswith("fitted"), fitted.header.aliases) == (True, [])
        text = (tmp_path / "fitted" / f"{file.path.stem}.toml").read_text()
        assert re.search("since the data do not determine them: .*cpi.fp64", text)
        before, after = ({record.field: record for record in item.fields} for item in (file, fitted))
        record = after["cpi.dram"]
        assert (record.provenance, f"{NAMES[number]}.csv" in record.source) == ("fitted", True)
        assert f"{NAMES[1 - number]}.csv" not in record.source
        assert all(before[field] == after[field] for field in before.keys() - {"clock", "cpi.dram"})


def test_where_they_may_go(tmp_path):
    (tmp_path / "file").touch()
    check_target(tmp_path / "one.toml", 1)
    check_target(tmp_path / "folder", 2)
    for name, count, expected in (("a.toml", 2, "a folder"), ("file", 2, "a folder"), ("a.txt", 1, ".toml")):
        with pytest.raises(DseError, match=f"expected {expected}"):
            check_target(tmp_path / name, count)


@pytest.mark.parametrize("name", ["rtx-2080-ti", "a100-pcie-40gb", "mi250x", "h100-sxm"])
def test_bounds_are_the_chip_s(name):
    """Whatever a fit finds: lanes, schedulers and the stated bandwidth are not outrun."""
    file = gpus.load(name, np.float64)
    least, most = bounds(file)
    assert np.all((least <= 0) & (most >= 0) & (least < most))
    at = dict(zip(NAMES_OF_FITS, zip(least, most, strict=True), strict=True))
    gpu = file.gpu
    bandwidth = 32 * gpu.sm_count * gpu.clock / gpu.cpi.dram  # B/s
    assert bandwidth * np.exp(-at["cpi.dram"][0]) <= max(gpu.dram_bandwidth, bandwidth) * (1 + 1e-9)
    assert at["cpi.fp32"][0] > -0.11
    assert at["issue_limit"][1] < 0.11
    assert 1 < np.exp(at["clock"][1]) < 1.5
