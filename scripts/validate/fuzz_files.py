"""Valid files of each kind that `fuzz.py` breaks: as they are written here, or as commands write them."""

import hashlib
import io
import json
import os
import pickle
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache, wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
GPU = "a100-pcie-40gb"


@dataclass(frozen=True)
class Subject:
    """A kind of file, with valid ones of it, and the command that reads it."""

    name: str
    file: str  # its name, perhaps within folders
    command: Sequence[str]
    valid: Callable[[], Sequence[bytes]]
    kind: str = "text"  # or json, binary, gzip
    beside: Callable[[], Mapping[str, bytes]] = dict  # what else must lie there, by name
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """A command of which one option is broken."""

    name: str
    command: Sequence[str]
    broken: Sequence[int]  # which parts of the command


TIMES = "block_size,time_ms\n" + "".join(f"{4 * n},{0.5 + n / 10}\n" for n in range(1, 30))
T1 = {
    "General": {"BenchmarkName": "mat_naive", "OutputFormat": "JSON"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size", "Type": "int", "Values": "[32, 64] + list(range(96, 257, 32))"}
        ],
        "Conditions": [{"Expression": "block_size % 32 == 0", "Parameters": ["block_size"]}],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "KernelName": "scale",
        "KernelFile": "k.cu",
        "LocalSize": {"X": "block_size", "Y": "1", "Z": "1"},
        "GridDivX": ["block_size"],
        "ProblemSize": [4096],
        "SharedMemory": 0,
        "CompilerOptions": ["-std=c++17", "-DTILE=64"],
        "Arguments": [
            {"Name": "a", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadWrite", "Size": 4096},
            {"Name": "b", "Type": "int32", "MemoryType": "Vector", "AccessType": "ReadOnly", "Size": 4096},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 3},
        ],
    },
}
T4 = {
    "schema_version": "1.0.0",
    "results": [
        {
            "timestamp": "",
            "configuration": {"block_size": 4 * n},
            "times": {"compilation_time": 100.0, "runtimes": [0.5, 0.6]},
            "invalidity": "correct",
            "correctness": 1,
            "measurements": [{"name": "time", "value": 0.5 + n, "unit": "ms"}],
        }
        for n in range(1, 6)
    ],
}
KERNEL_TUNER = {
    "device_name": "A100",
    "kernel_name": "k",
    "tune_params_keys": ["block_size"],
    "cache": {str(4 * n): {"block_size": 4 * n, "time": 0.5 + n, "times": [0.5, 0.6]} for n in range(1, 6)},
}
KTT = {
    "Metadata": {"TimeUnit": "Microseconds"},
    "Results": [
        {
            "KernelName": "k",
            "Status": "Ok",
            "TotalDuration": 20.5 * n,
            "Configuration": [{"Name": "block_size", "Value": 4 * n}],
            "ComputationResults": [
                {
                    "CompilationData": {
                        "RegistersCount": 20,
                        "LocalMemorySize": 0,
                        "PrivateMemorySize": 0,
                    },
                    "ProfilingData": {"Counters": [{"Name": "dram", "Value": 3.5}]},
                }
            ],
        }
        for n in range(1, 6)
    ],
}
NSIGHT = (
    '"ID","Kernel Name","Block Size","Grid Size","block_size","gpu__time_duration.sum"\n"","","","","","ns"\n'
)
NSIGHT += "".join(f'"{n}","k","({n * 4}, 1, 1)","(9, 1, 1)","{n * 4}","1,{n}00"\n' for n in range(1, 6))
JOURNAL = "".join(
    json.dumps({"parameters": {"block_size": 4 * n}, "seconds": n / 1000}) + "\n" for n in (1, 2)
)
CUDA = """template <int BY> __device__ float scaled(float x) { return x * BY; }
__global__ void scale(float* a, const int* b, int n) {
  __shared__ float tile[TILE];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % TILE] = i < n ? a[b[i]] : 0.0f;
  __syncthreads();
  for (int k = 0; k < 4; k++)
    if (i < n) a[i] += scaled<3>(tile[(threadIdx.x + k) % TILE]);
}
"""
LAUNCH = ("--block", "64", "--grid", "4")
HIP = """#include <hip/hip_runtime.h>
__global__ void scale(float* a, const int* b, int n) {
  __shared__ float tile[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % 64] = i < n ? b[i] : 0;
  __syncthreads();
  for (int k = 0; k < 4; k++) if (i < n) a[i] += tile[(threadIdx.x + k) % 64];
}
"""
PARAMETERS = "BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,GROUP_SIZE_M,num_warps,num_stages"
NEAR_BEST = f"gpu,weight_type,M,E,topk,H,N,{PARAMETERS},avg_duration,sample_count\n" + "".join(
    f"A100,w{kind},16,8,2,1024,512,16,64,64,{group},4,3,7.{group},3\n"
    for kind in (13, 2)
    for group in (1, 16)
)
RECORDED = f"""vendor,device,kernel,part,dtype,block_shape,E,N,K,topk,M,{PARAMETERS},space,in_space
NVIDIA,NVIDIA_H200,moe,,fp8_w8a8,128x128,256,512,7168,8,64,16,128,128,1,4,3,NVIDIA-moe-block128x128,1
NVIDIA,NVIDIA_H200,w8a8,,fp8_w8a8,128x128,,512,7168,,64,16,128,128,1,4,3,NVIDIA-w8a8,1
"""
MOE = (
    f"M,{PARAMETERS},seconds\n16,16,64,64,1,4,3,7.5e-5\n16,32,64,64,1,4,3,9.5e-5\n64,64,64,64,1,4,3,1.5e-4\n"
)
CASES = "m,scale\n4096,0.5\n1,2\n"


def of_files(pattern: str, most: int = 4000) -> Callable[[], Sequence[bytes]]:
    """Take the files of this checkout that are not long."""
    return lambda: [path.read_bytes() for path in sorted(ROOT.glob(pattern)) if path.stat().st_size < most]


def sources_of(paths: Sequence[str]) -> Callable[[], Mapping[str, bytes]]:
    """Take the sources that lie beside kernels, by name."""
    found = [source for path in paths for source in (ROOT / path).parent.glob("*.cu")]
    return lambda: {source.name: source.read_bytes() for source in found}


def written(content: Any) -> Callable[[], Sequence[bytes]]:
    """Write one valid file: text, or JSON."""
    return lambda: [(content if isinstance(content, str) else json.dumps(content, indent=1)).encode()]


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """Call a function once for all processes of a run."""

    @cache
    @wraps(make)
    def once(*given: Any) -> Any:
        path = Path(os.environ["DSE_FUZZ"], f"{make.__name__}{hash_of(given)}")
        if not path.exists():
            path.write_bytes(pickle.dumps(make(*given)))
        return pickle.loads(path.read_bytes())

    return once


GPU_FILES = ("gpus/a100_pcie_40gb.toml", "gpus/mi250x.toml")
KERNEL_FILES = tuple(
    f"kernels/{name}/kernel.toml" for name in ("mat_naive", "convolution", "gemm", "nbody", "sepia")
)


def files(names: Sequence[str]) -> Callable[[], Sequence[bytes]]:
    """Take these files of this checkout."""
    return lambda: [(ROOT / name).read_bytes() for name in names]


def amd_listing() -> Sequence[bytes]:
    """Return the assembly of a kernel for an AMD GPU."""
    from dse.source.amd.compile.source import Built, compile_source, read_source

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.hip")
        path.write_text(HIP)
        made = compile_source(read_source(path), 0x90A, [])
    assert isinstance(made, Built), made
    return [made.text.encode()]


def amd_code(path: Path) -> None:
    """Characterise a kernel of which the compiler makes this assembly: a source may contain what it likes."""
    from dse.cli.main import run
    from dse.core.files import read_text
    from dse.source.amd.compile.clang import clang
    from dse.source.amd.compile.source import Built

    made = Built(read_text(path), clang().version)
    source = path.with_name("k.hip")
    source.write_text(HIP)
    with patch("dse.source.amd.compile.source.compile_source", lambda *_: made):
        run(["--traceback", "-q", "characterise", str(source), "-g", "mi250x", *LAUNCH])


def completed(path: Path) -> None:
    """Complete the names of kernels, GPUs and models."""
    from dse.cli.inputs import completion

    for complete in (completion.complete_kernels, completion.complete_gpus, completion.complete_models):
        complete(str(path))


def hash_of(given: Any) -> str:
    """Return a short name of some words."""
    return hashlib.sha256(repr(given).encode()).hexdigest()[:16]


@kept
def compiled() -> Any:
    """Compile a kernel: what its cubin and PTX are."""
    from dse.source.nvidia.compile.contract import Compiled
    from dse.source.nvidia.compile.nvrtc import compile_source, read_source

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.cu")
        path.write_text(CUDA)
        made = compile_source(read_source(path), 80, {"TILE": 64}, ptx=True)
    assert isinstance(made, Compiled), made
    return made


def parquet() -> Sequence[bytes]:
    """Write the times as Parquet."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(pa.BufferReader(TIMES.encode())), buffer)
    return [buffer.getvalue()]


def listing() -> Sequence[bytes]:
    """Return the machine code of the kernel as text."""
    from dse.source.nvidia.sass.disassemble import _nvdisasm

    return [_nvdisasm(["-c"], compiled().cubin, "k").encode()]


def ran(*command: str, out: str) -> bytes:
    """Run a command that writes a file, and return that."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "TIMES").write_text(TIMES)
        _run(*(part.replace("FOLDER", folder) for part in command))
        return Path(folder, out).read_bytes()


def _run(*command: str) -> None:
    from dse.cli.main import run

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
        try:
            run(["-q", *command])
        except SystemExit as end:
            if end.code:
                raise RuntimeError(errors.getvalue()) from None


def result(name: str, *command: str) -> Callable[[], Sequence[bytes]]:
    """Write a result file."""
    return lambda: [ran(*command, "-o", f"FOLDER/{name}", out=name)]


@kept
def sweep_left(out: str, *options: str) -> Mapping[str, bytes]:
    """Run a sweep, and return the folder of its unfinished work as it was before its end."""
    with tempfile.TemporaryDirectory() as folder, patch("dse.explore.sweep.run.EVERY", -1.0):
        with patch("dse.explore.sweep.run.clear"):
            _run("sweep", "mat_naive", "-g", GPU, *options, "-o", f"{folder}/{out}")
        parts = Path(folder, f"{out}.parts")
        return {f"{parts.name}/{path.name}": path.read_bytes() for path in parts.iterdir()}


def left(name: str, out: str, *options: str) -> Callable[[], Sequence[bytes]]:
    """Return one of these files."""
    return lambda: [sweep_left(out, *options)[f"{out}.parts/{name}"]]


ROWS, TOP = ("out.parquet",), ("out.csv", "--top", "3")


@kept
def triton_folder() -> Mapping[str, bytes]:
    """Compile a Triton kernel, and return what its cache holds."""
    with tempfile.TemporaryDirectory() as folder:
        with patch.dict("os.environ", TRITON_CACHE_DIR=folder, DSE_CACHE=f"{folder}/dse"):
            _run("characterise", "triton_softmax", "-g", GPU)
        return {
            f"t/k{path.suffix}": path.read_bytes()
            for suffix in ("cubin", "json", "ttir")
            for path in Path(folder).glob(f"*/*.{suffix}")
            if not path.name.startswith("__grp__")
        }


@kept
def cache_file() -> bytes:
    """Return a database with the records of a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "k.cu").write_text(CUDA)
        with patch.dict("os.environ", DSE_CACHE=f"{folder}/cache"):
            _run("characterise", f"{folder}/k.cu", "-g", GPU, *LAUNCH, "-D", "TILE=64")
        with closing(sqlite3.connect(f"{folder}/cache/kernels.sqlite")) as database:
            database.execute("PRAGMA journal_mode = DELETE")
        return Path(folder, "cache/kernels.sqlite").read_bytes()


def study(url: str) -> Callable[[], Sequence[bytes]]:
    """Return a study that a search has filled."""
    return lambda: [ran(*SEARCH, "--storage", f"{url}FOLDER/s", out="s")]


def built() -> Sequence[bytes]:
    """Write kernels that are compiled for a measurement."""
    from dse.measure.built import BuiltCode, BuiltSpace, write

    with tempfile.TemporaryDirectory() as folder:
        code = BuiltCode(compiled().cubin, None, None)
        space = BuiltSpace("k", "d", "NVRTC", {"n": 4}, ("block",), ((32,), (64,)), (code, code))
        write(Path(folder, "b.zip"), 80, [space])
        return [Path(folder, "b.zip").read_bytes()]


def journal_table() -> Sequence[bytes]:
    """Write a table of measured rows."""
    from dse.measure.journal import write

    with tempfile.TemporaryDirectory() as folder:
        about = {"gpu": "NVIDIA X", "sweep": False, "kernels": {"k": {"digest": "d"}}}
        write(Path(folder, "a"), about, [{"kernel": "k", "block": 32, "status": "ok", "time_ms": 0.5}])
        return [Path(folder, "a").read_bytes()]


def recording() -> Sequence[bytes]:
    """Write a recording of the microbenchmarks."""
    from dse.measure.bench.records import BenchmarkRecord, BenchRecording, save
    from dse.measure.statistics import Repeats

    with tempfile.TemporaryDirectory() as folder:
        record = BenchmarkRecord("clock", {"warps": 4}, "Hz", Repeats((1.0, 2.0), True))
        save(BenchRecording({"name": "NVIDIA X"}, [record]), Path(folder, "a"))
        return [Path(folder, "a").read_bytes()]


SEARCH = ("search", "mat_naive", "-g", GPU, "--trials", "3", "--seed", "1")
MOE_TABLE = (
    "table",
    "moe",
    "-g",
    "h100-sxm",
    "--set",
    "E=8",
    "--set",
    "N=512",
    "--set",
    "K=1024",
    "--set",
    "topk=2",
    "--for",
    "M=1,64",
)
TABLE_RUN = ("--budget", "1", "--command", "echo {BLOCK_SIZE_M}", "--journal")


def moe_journal() -> Sequence[bytes]:
    """Measure configurations for a table, and return the journal."""
    return [ran(*MOE_TABLE, *TABLE_RUN, "FOLDER/j", out="j")]


PAGE = "# Page\n\n<!-- measured spaces: begin -->\nold\n<!-- measured spaces: end -->\n\nMore.\n"
