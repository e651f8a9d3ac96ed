"""Kernels known by their source: T1 files, and files whose launch is said beside."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.kernels.description import ArrayArgument, evaluated_names
from dse.source.readers import Given, load

FILE = {
    "General": {"BenchmarkName": "sum"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "bx", "Type": "int", "Values": "[32, 64]"},
            {"Name": "tile", "Type": "int", "Values": "[1, 2, 4]"},
        ],
        "Conditions": [{"Expression": "bx * tile <= 128"}],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "CompilerOptions": ["-O3", "-std=c++17", "-Iinclude", "-arch=sm_70"],
        "KernelName": "sum",
        "KernelFile": "sum.cu",
        "LocalSize": {"X": "bx", "Y": 2},
        "GridDivX": ["bx", "tile"],
        "ProblemSize": [1000, 7],
        "SharedMemory": "4 * bx",
        "Arguments": [
            {"Name": "out", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly",
             "FillType": "Constant", "FillValue": 0.0, "Size": "ProblemSize[0]"},
            {"Name": "x", "Type": "float4", "MemoryType": "Vector", "AccessType": "ReadOnly",
             "FillType": "Random", "FillValue": 8, "Size": "ProblemSize[0] * max(tile) + n"},
            {"Name": "at", "Type": "int32", "MemoryType": "Vector", "AccessType": "ReadOnly",
             "FillType": "Random", "FillValue": 8, "Size": 100},
            {"Name": "ones", "Type": "double", "MemoryType": "Vector", "FillType": "Constant",
             "FillValue": 1, "Size": 10},
            {"Name": "file", "Type": "float", "MemoryType": "Vector", "FillType": "BinaryRaw", "Size": 5},
            {"Name": "filter", "Type": "float", "MemoryType": "Vector", "MemType": "Constant",
             "FillType": "Random", "Size": 9},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillType": "Constant", "FillValue": 50},
            {"Name": "a", "Type": "float", "MemoryType": "Scalar", "FillType": "Constant", "FillValue": 2},
            {"Name": "seed", "Type": "int32", "MemoryType": "Scalar", "FillType": "Random"},
        ],
    },
}  # fmt: skip
GPU = gpus.load("a100-pcie-40gb").gpu
KERNEL = "KernelSpecification"


@pytest.fixture
def write(tmp_path: Path):
    (tmp_path / "sum.cu").write_text("__global__ void sum() {}")
    (tmp_path / "link.cu").symlink_to("/etc/passwd")

    def write(**changes) -> Path:
        file = copy.deepcopy(FILE)
        file[KERNEL] |= changes
        path = tmp_path / "T1.json"
        path.write_text(json.dumps(file))
        return path

    return write


def test_a_tuning_problem(write):
    path = write()
    kernel = load(path)
    assert kernel.build is not None
    assert (kernel.name, kernel.described, kernel.source) == ("sum", False, path.with_name("sum.cu"))
    assert kernel.sizes() == {"problem_size_x": 1000, "problem_size_y": 7}
    macros = dict(kernel.build.defines)
    assert [(name, macros.pop(name).text) for name in ("bx", "tile")] == [("bx", "bx"), ("tile", "tile")]
    assert kernel.build.options == ("-std=c++17", f"-I{path.parent / 'include'}")
    known = evaluated_names(kernel, {"bx": np.array([32, 64]), "tile": np.array([4, 1])}, {}, GPU)
    launch = (*kernel.build.block, *kernel.build.grid)
    values = [np.broadcast_to(item(known, np), 2).tolist() for item in launch]
    assert values == [[32, 64], [2, 2], [1, 1], [8, 16], [4, 4]]
    own = [f"{kind}_size_{axis}" for kind, axes in (("block", "xyz"), ("grid", "xy")) for axis in axes]
    assert list(macros) == ["kernel_tuner", *own]  # as Kernel Tuner defines them
    assert [macros[name].text for name in own] == [item.text for item in launch]
    assert kernel.build.shared_bytes is not None
    assert kernel.build.shared_bytes(known, np).tolist() == [128, 256]


def test_a_size_that_parameters_decide_is_no_size_but_a_grid(write):
    kernel = load(write(ProblemSize=["100 * tile", "2 * 500"]))
    assert kernel.build is not None
    assert kernel.sizes() == {"problem_size_y": 1000}
    known = evaluated_names(kernel, {"bx": np.array([32]), "tile": np.array([4])}, {}, GPU)
    plain = load(write(ProblemSize=[400, 1000])).build
    assert plain is not None
    known |= {"problem_size_x": 400}
    grids = [[np.ravel(item(known, np)).tolist() for item in build.grid] for build in (kernel.build, plain)]
    assert grids[0] == grids[1] == [[4], [500]]


def test_arguments_are_those_that_the_kernel_takes(write, tmp_path):
    """What is said to be constant is passed if the kernel has it as a parameter; what is missing is named."""
    source, names = tmp_path / "sum.cu", [item["Name"] for item in FILE[KERNEL]["Arguments"]]
    assert "filter" in names
    source.write_text(f"__global__ void sum({', '.join(f'float *{name}' for name in names)}) {{}}")
    build = load(write()).build
    assert build is not None
    assert len(build.arguments) == len(names)
    source.write_text("__constant__ float filter[9]; __global__ void sum(float *out, float *x, int rows) {}")
    with pytest.raises(DseError) as error:
        load(write(Arguments=FILE[KERNEL]["Arguments"][:2]))
    assert str(error.value).endswith(
        "Arguments: found 2, expected one for each parameter of sum, in this order: out, x, rows; add rows"
    )


def test_a_size_that_cannot_be_read_is_a_stated_assumption(write):
    """It is not needed where nothing is known of what the array holds, but the user is told."""
    written = {"Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly"}
    path = write(Arguments=[{**written, "Name": "x", "Size": "2 * rows"}, {**written, "Name": "y"}])
    kernel = load(path)
    assert kernel.build is not None
    arrays = [argument for argument in kernel.build.arguments if isinstance(argument, ArrayArgument)]
    assert [array.size({}, np) for array in arrays] == [0, 0]
    where, taken = f"{path}: {KERNEL}.Arguments", "; so nothing is known of the array"
    assert kernel.assumptions == (
        f"{where}[0].Size: unknown name 'rows' in '2 * rows', expected one of bx, index, problem_size_x, "
        f"problem_size_y, random, tile{taken}",
        f"{where}[1].Size: found nothing, expected a number of elements{taken}",
    )
    assert load(write()).assumptions == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Language": "OpenCL"}, "KernelSpecification.Language: found OpenCL, expected CUDA"),
        ({"KernelFile": None}, "KernelSpecification.KernelFile: found nothing, expected the name of"),
        ({"KernelFile": "../sum.cu"}, "KernelSpecification.KernelFile: found '../sum.cu', expected a file"),
        ({"KernelFile": "link.cu"}, "KernelSpecification.KernelFile: found 'link.cu', expected a"),
        ({"KernelFile": "x" * 5000}, "KernelSpecification.KernelFile: found no file"),
        ({"CompilerOptions": ["--create-pch=x"]}, "KernelSpecification.CompilerOptions: found '--create"),
        (
            {"CompilerOptions": ["--include-path=inner/../.."]},
            "KernelSpecification.CompilerOptions: found the folder 'inner/../..', expected one in",
        ),
        (
            {"Arguments": [{"Name": "x", "Type": "float", "FillType": "Random", "Size": "m + 1"}]},
            "KernelSpecification.Arguments[0].Size: unknown name 'm' in 'm + 1', expected one of",
        ),
        (
            {"Arguments": [{"Name": "x", "Type": "float", "FillType": "Random", "Size": "1 +"}]},
            "KernelSpecification.Arguments[0].Size: found '1 +', expected a number or an expression",
        ),
    ],
)
def test_mistakes_in_a_tuning_problem(write, changes: dict, message: str):
    path = write(**changes)
    with pytest.raises(DseError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_macros_and_shared_memory_beside_a_tuning_problem(write):
    build = load(write(), Given(defines=(("T", "float"),), shared_bytes=512, function="sum<4>")).build
    assert build is not None
    assert build.shared_bytes is not None
    assert build.options[-1] == "--define-macro=T=float"
    assert (build.kernel, build.shared_bytes({}, np)) == ("sum<4>", 512)
    with pytest.raises(DseError, match=r"^given.defines: found bx, expected none that a parameter defines"):
        load(write(), Given(defines=(("bx", "3"),)))
    with pytest.raises(DseError, match=r"^given.grid: found it with .*T1\.json, expected none"):
        load(write(), Given(grid=(3,)))
