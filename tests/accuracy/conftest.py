"""A catalogue of one GPU and the toy kernel, and measured spaces that are made up from what a model says."""

from collections.abc import Callable
from pathlib import Path

import pytest
from own_measurements import predicted

from dse import kernels
from dse.evaluate.rank import configurations
from dse.explore.fit.launches import of_kernel
from dse.hardware import gpus

GPU = "a100_pcie_40gb"


@pytest.fixture
def folder(tmp_path: Path, toy_kernel: Path, own_catalogue: Callable[..., Path]) -> Path:
    """A folder with the space `toys` on an A100: times of `phase`, one configuration failed."""
    kernel = own_catalogue([GPU]) / "kernels" / "toy" / "kernel.toml"
    kernel.parent.mkdir()
    kernel.write_text(toy_kernel.read_text() + '[spaces.toys]\nrename = { BLOCK = "block" }\n')
    description = kernels.load("toy")
    parameters = configurations(description)
    times = predicted(of_kernel(description, gpus.load(GPU).gpu, parameters), "phase").tolist()
    rows = [
        f"{block},{items},{1e3 * time!r},ok"
        for block, items, time in zip(*parameters.values(), times, strict=True)
    ]
    rows[-1] = ",".join([*rows[-1].split(",")[:2], "", "compile"])
    space = tmp_path / "measured" / "toys"
    space.mkdir(parents=True)
    (space / "A100.csv").write_text("\n".join(["BLOCK,items,time_ms,status", *rows]))
    return space.parent
