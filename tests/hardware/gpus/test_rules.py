"""What follows from what in GPU files, and how edited files move predictions."""

import re
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dse.core.precision import in_64_bits
from dse.errors import DseError, InputWarning
from dse.hardware import gpus, occupancy
from dse.models import CLOSED_FORMS, get
from dse.types import CLASSES, Gpu, Kernel, PerClass, Resources

NAMES = gpus.names()
SOME = NAMES[::3]
KNOW_BANDWIDTH = ("roofline", "volkov", "mwp-cwp-corrected", "wfg-corrected", "gpuperf", "phase")
NOTHING = dict.fromkeys(CLASSES, 0.0)
STREAMS = {"fp32": 10.0, "l1": 100.0, "l2": 400.0, "dram": 400.0}  # a warp's 100 coalesced loads
COMPUTES = {"fp32": 10_000.0, "l1": 1.0, "l2": 4.0, "dram": 4.0}


def multiplied(name: str, field: str, factor: float, folder: Path) -> Path:
    """Copy a GPU file with one value multiplied, as a user would edit it."""
    head, table, rest = gpus.find(name).read_text().partition(f"\n[{field}]\n")
    rest = re.sub(r"(?m)^value = (.+)$", lambda old: f"value = {float(old[1]) * factor!r}", rest, count=1)
    path = folder / f"{field}_{name}.toml"
    path.write_text(head + table + rest)
    return path


def loaded(files: list[Any]) -> Gpu:
    return gpus.stack([gpus.load(file, np.float64).gpu for file in files])


@pytest.fixture(scope="module")
def edited(tmp_path_factory) -> dict[str, Gpu]:
    """Every third GPU of the catalogue, as it is and with one number doubled: [GPUs]."""
    folder = tmp_path_factory.mktemp("edited")
    fields = ("dram_bandwidth", "clock", "sm_count")
    found = {field: loaded([multiplied(name, field, 2, folder) for name in SOME]) for field in fields}
    return {"": loaded(list(SOME)), **found}


def seconds(gpu: Gpu, model: str, work: dict[str, float]) -> np.ndarray:
    """Predict a kernel of many blocks of 256 threads on each GPU."""
    count, loads = len(SOME), work["l1"]
    kernel = Kernel(
        work=PerClass(**(NOTHING | work)),
        load_insts=loads,
        sectors=4 * loads,
        bytes_per_access=128.0,
        ilp=4.0,
        mlp=4.0,
        **dict.fromkeys(("shared_insts", "store_insts", "uncoal_insts", "transactions_per_uncoal"), 0.0),
    )
    asked = {"threads": 256, "blocks": 2**20, "registers": 16, "shared_bytes": 0}
    with in_64_bits():
        resources = Resources(**{name: jnp.full(count, number) for name, number in asked.items()})
        launch, _ = occupancy.launch(gpu, resources)
        kernel = jax.tree.map(lambda x: jnp.full(count, x), kernel)
        return np.asarray(get(model).predict(gpu, kernel, launch).seconds)


@pytest.mark.parametrize("field", ["dram_bandwidth", "clock", "sm_count"])
def test_each_pipe_follows_what_is_edited(edited, field):
    """The seconds of the whole GPU for a fixed amount of work of a pipe."""
    pipes = ("fp32", "shared", "l1", "l2", "dram")

    def busy(gpu: Gpu) -> np.ndarray:
        return np.stack([getattr(gpu.cpi, pipe) / gpu.clock / gpu.sm_count for pipe in pipes])

    uncached = np.asarray(edited[""].l2_bytes == 0)  # no cache for loads
    of_dram = np.array([uncached * (pipe in ("l1", "l2")) | (pipe == "dram") for pipe in pipes])
    faster = np.where(of_dram == (field == "dram_bandwidth"), 2.0, 1.0)
    np.testing.assert_allclose(busy(edited[""]) / busy(edited[field]), faster, rtol=1e-6)


@pytest.mark.parametrize("model", [name for name in CLOSED_FORMS if name != "mwp-cwp-printed"])
def test_predictions_follow_what_is_edited(edited, model):
    before = {name: seconds(edited[""], model, work) for name, work in (("s", STREAMS), ("c", COMPUTES))}

    def faster(field: str) -> tuple[np.ndarray, np.ndarray]:
        after = seconds(edited[field], model, STREAMS), seconds(edited[field], model, COMPUTES)
        return before["s"] / after[0], before["c"] / after[1]

    streams, computes = faster("dram_bandwidth")
    np.testing.assert_allclose(computes, 1.0, rtol=1e-3)
    if model in KNOW_BANDWIDTH:  # then another pipe may bind: at least a quarter faster
        assert np.all((streams > 1.25) & (streams < 2.001))
        assert np.median(streams) > 1.85
    for field in ("clock", "sm_count"):
        streams, computes = faster(field)
        np.testing.assert_allclose(computes, 2.0, rtol=1e-3)
        if model in KNOW_BANDWIDTH:
            assert np.all((streams > 0.999) & (streams < 1.35))


def replaced(folder: Path, old: str, new: str) -> Path:
    text = gpus.find("a100-pcie-40gb").read_text()
    assert text.count(old) == 1, old
    path = folder / "mine.toml"
    path.write_text(text.replace(old, new))
    return path


def test_files_that_do_not_contradict_themselves_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in NAMES:
            gpus.load(name)


def test_a_value_beside_a_key_counts_and_is_told(tmp_path):
    path = replaced(tmp_path, "[cpi.fp64]\n", '[cpi.fp64]\nvalue = 3\nunit = "cycles"\n')
    line = (
        r"mine.toml: cpi.fp64: found 3, and 32 threads / 32 lanes, which is 1; the value of cpi.fp64 counts$"
    )
    with pytest.warns(InputWarning, match=line):
        assert gpus.load(path).gpu.cpi.fp64 == 3


def test_a_stated_dram_that_the_bandwidth_does_not_allow_is_told(tmp_path):
    old = re.search(r"\[cpi.dram\]\n(bandwidth_share = .+\n)", gpus.find("a100-pcie-40gb").read_text())
    assert old is not None
    path = replaced(tmp_path, old[1], 'value = 1.6\nunit = "cycles"\n')
    line = r"cpi.dram: found 1.6 cycles, 3046 GB/s, beside a dram_bandwidth of 1555 GB/s, expected 0.5 to 1"
    with pytest.warns(InputWarning, match=line):
        assert float(gpus.load(path).gpu.cpi.dram) == pytest.approx(1.6)


def test_a_command_tells_the_doubt_in_one_line(tmp_path, run_dse):
    path = replaced(tmp_path, "[cpi.fp64]\n", '[cpi.fp64]\nvalue = 3\nunit = "cycles"\n')
    ran = run_dse("gpus", "show", str(path), "--json")
    assert ran.code == 0
    assert ran.err.startswith(f"dse: warning: {path}: cpi.fp64: found 3, and")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "[cpi.fp64]\nlanes = 32",
            "[cpi.fp64]\nlanes = 0",
            "cpi.fp64.lanes: found 0, expected a number above 0",
        ),
        ("[cpi.fp64]\nlanes = 32", "[cpi.fp64]", "cpi.fp64.value: missing, expected a number"),
        (
            "[cpi.fp64]\nlanes = 32",
            "[cpi.fp64]\nper_cycle = 32",
            "cpi.fp64.per_cycle: found 32, expected value or lanes or like instead",
        ),
        (
            "[cpi.fp64]\nlanes = 32",
            '[cpi.fp64]\nlanes = 32\nlike = "cpi.fp32"',
            "cpi.fp64: found lanes and like, expected one of them",
        ),
        (
            '[cpi.imul32]\nlike = "cpi.int32"',
            '[cpi.imul32]\nlike = ""',
            "cpi.imul32.like: found '', expected the name of another field",
        ),
        (
            '[cpi.imul32]\nlike = "cpi.int32"',
            '[cpi.imul32]\nlike = "cpi.int23"',
            "cpi.imul32.like: found 'cpi.int23', expected one of",
        ),
        (
            '[cpi.imul32]\nlike = "cpi.int32"',
            '[cpi.imul32]\nlike = "sm_count"',
            "cpi.imul32.like: found 'sm_count', expected one of",
        ),
        (
            "[cpi.int32]\nlanes = 64",
            '[cpi.int32]\nlike = "cpi.imul32"',
            "cpi.int32.like: found cpi.int32 like cpi.imul32 like cpi.int32, expected no ring",
        ),
        (
            '[cpi.imul32]\nlike = "cpi.int32"',
            '[cpi.imul32]\nlike = "cpi.sfu"\ntimes = 9e29',
            "cpi.imul32: found cpi.sfu x 9e+29: IMAD runs at that rate, expected cycles in single precision",
        ),
    ],
)
def test_mistakes(tmp_path, old, new, expected):
    with pytest.raises(DseError) as error:
        gpus.load(replaced(tmp_path, old, new))
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
