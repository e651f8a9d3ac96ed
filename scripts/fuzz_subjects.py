"""What `fuzz.py` breaks: kinds of files with valid ones of each, and options, with their commands.

In a command FILE is the broken file, FOLDER where it lies, CUDA a source beside it. READ calls a function.
"""

import gzip
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

ROOT = Path(__file__).resolve().parents[1]
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
    from dse.amd.compile.source import Built, compile_source, read_source

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.hip")
        path.write_text(HIP)
        made = compile_source(read_source(path), 0x90A, [])
    assert isinstance(made, Built), made
    return [made.text.encode()]


def amd_code(path: Path) -> None:
    """Characterise a kernel of which the compiler makes this assembly: a source may contain what it likes."""
    from dse.amd.compile.clang import clang
    from dse.amd.compile.source import Built
    from dse.cli.main import run
    from dse.files import read_text

    made = Built(read_text(path), clang().version)
    source = path.with_name("k.hip")
    source.write_text(HIP)
    with patch("dse.amd.compile.source.compile_source", lambda *_: made):
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
    from dse.cuda.compile.contract import Compiled
    from dse.cuda.compile.nvrtc import compile_source, read_source

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
    from dse.cuda.sass.disassemble import _nvdisasm

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
    with tempfile.TemporaryDirectory() as folder, patch("dse.sweeping.run.EVERY", -1.0):
        with patch("dse.sweeping.run.clear"):
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
    from dse.measure.built import BuiltSpace, Code, write

    with tempfile.TemporaryDirectory() as folder:
        code = Code(compiled().cubin, None, None)
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
    from dse.measure.bench.records import BenchmarkRecord, Recording, save
    from dse.measure.statistics import Repeats

    with tempfile.TemporaryDirectory() as folder:
        record = BenchmarkRecord("clock", {"warps": 4}, "Hz", Repeats((1.0, 2.0), True))
        save(Recording({"name": "NVIDIA X"}, [record]), Path(folder, "a"))
        return [Path(folder, "a").read_bytes()]


SEARCH = ("search", "mat_naive", "-g", GPU, "--trials", "3", "--seed", "1")
RANK = ("rank", "mat_naive", "-g", GPU, "--model", "roofline")
REPORT = ("report", "FILE", "-o", "FOLDER/r.html")
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
MEASURED = ("rank", "mat_naive", "-g", GPU, "--top", "2", "--measured", "FILE")
CODE = ("characterise", "FILE", "-g", GPU, *LAUNCH)
SUBJECTS: Sequence[Subject | Options] = (
    Subject(
        "kernel", "kernel.toml", ("rank", "FILE", "-g", GPU, "--top", "2"), of_files("kernels/m*/kernel.toml")
    ),
    Subject(
        "gpu",
        "gpu.toml",
        ("rank", "mat_naive", "-g", "FILE", "--top", "2"),
        of_files("gpus/a*.toml", 100_000),
    ),
    Subject("space", "T1.json", ("rank", "mat_naive", "-g", GPU, "--space", "FILE"), written(T1), "json"),
    Subject("csv", "t.csv", MEASURED, written(TIMES)),
    Subject("csv.gz", "t.csv.gz", MEASURED, lambda: [gzip.compress(TIMES.encode(), mtime=0)], "gzip"),
    Subject("t4", "t4.json", MEASURED, written(T4), "json"),
    Subject("kernel tuner", "c.json", MEASURED, written(KERNEL_TUNER), "json"),
    Subject("ktt", "k.json", MEASURED, written(KTT), "json"),
    Subject("nsight", "n.csv", MEASURED, written(NSIGHT)),
    Subject("parquet", "t.parquet", MEASURED, parquet, "binary"),
    Subject(
        "journal",
        "j.jsonl",
        (
            "tune",
            "mat_naive",
            "-g",
            GPU,
            "--budget",
            "2",
            "--journal",
            "FILE",
            "--command",
            "echo {block_size}",
        ),
        written(JOURNAL),
    ),
    Subject("graph", "graph.toml", ("simulate", "FILE"), of_files("kernels/*/graph.toml")),
    Subject(
        "trace",
        "t.sass",
        ("simulate", "FILE"),
        lambda: [
            b".kernel k\n.block 2\nMOV R1, g[0x1];\n.repeat 3\nGLD.U32 R2, global14[R1];\n"
            b"IMAD R3, R2, R1, R3;\n"
            b"BAR.ARV.WAIT b0, 0xfff;\n.end\nGST.U32 global14[R1], R3;\n"
        ],
    ),
    Subject("cuda", "k.cu", (*CODE, "-D", "TILE=64"), written(CUDA)),
    Subject("ptx", "k.ptx", CODE, lambda: [compiled().ptx.encode()]),
    Subject("cubin", "k.cubin", CODE, lambda: [compiled().cubin], "binary"),
    Subject("listing", "k.sass", CODE, listing),
    Subject(
        "study",
        "s.db",
        ("search", "mat_naive", "-g", GPU, "--trials", "3", "--storage", "sqlite:///FILE"),
        lambda: [b""],
        "binary",
    ),
    Options("sizes", ("rank", "mat_naive", "-g", GPU, "--set", "n=2000", "--top", "3"), (5, 7)),
    Options("names", ("rank", "mat_naive", "-g", "a4000", "--model", "mwp-cwp"), (1, 3, 5)),
    Options("what if", ("simulate", "example", "--warps", "4", "--what-if", "memory.lambda=3"), (3, 5)),
    Options(
        "launch",
        (
            "characterise",
            "CUDA",
            "-g",
            GPU,
            "--block",
            "64,1",
            "--grid",
            "4,N",
            "--tune",
            "N=1,2",
            "-D",
            "TILE=64",
            "--arg",
            "n=100",
            "--arg",
            "a=400:float32:index % 7",
            "--shared",
            "16",
        ),
        (5, 7, 9, 11, 13, 15, 17),
    ),
    Options(
        "space options", ("rank", "mat_naive", "-g", GPU, "--sample", "3", "--set", "block_size=64"), (5, 7)
    ),
    Options(
        "command",
        ("tune", "mat_naive", "-g", GPU, "--budget", "2", "--seed", "1", "--command", "echo {block_size}"),
        (7, 9),
    ),
    Options(
        "search",
        ("search", "mat_naive", "-g", GPU, "--trials", "3", "--seed", "1", "--storage", "none"),
        (7, 9),
    ),
    Subject("result", "r.parquet", REPORT, result("r.parquet", *RANK), "binary"),
    Subject("result.csv", "r.csv", REPORT, result("r.csv", *RANK)),
    Subject("result.json", "r.json", REPORT, result("r.json", *RANK), "json"),
    Subject("result.jsonl", "r.jsonl", REPORT, written(JOURNAL)),
    Subject(
        "scores",
        "r.csv",
        REPORT,
        result("r.csv", "compare", "mat_naive", "-g", GPU, "--measured", "FOLDER/TIMES"),
    ),
    Subject("enqueue", "e.csv", (*SEARCH, "--storage", "none", "--enqueue", "FILE"), result("r.csv", *RANK)),
    Subject(
        "prior",
        "p.csv",
        (
            "tune",
            "mat_naive",
            "-g",
            GPU,
            "--budget",
            "2",
            "--prior",
            "FILE",
            "--command",
            "echo {block_size}",
        ),
        written(TIMES),
    ),
    Subject("prune", "p.csv", ("prune", "mat_naive", "-g", GPU, "--measured", "FILE"), written(TIMES)),
    Subject(
        "sweep's note",
        "out.parquet.parts/job.json",
        ("sweep", "mat_naive", "-g", GPU, "-o", "FOLDER/out.parquet"),
        left("job.json", *ROWS),
        "json",
        lambda: sweep_left(*ROWS),
    ),
    Subject(
        "sweep's part",
        "out.parquet.parts/000000000.parquet",
        ("sweep", "mat_naive", "-g", GPU, "-o", "FOLDER/out.parquet"),
        left("000000000.parquet", *ROWS),
        "binary",
        lambda: sweep_left(*ROWS),
    ),
    Subject(
        "sweep's state",
        "out.csv.parts/state.npz",
        ("sweep", "mat_naive", "-g", GPU, "--top", "3", "-o", "FOLDER/out.csv"),
        left("state.npz", *TOP),
        "binary",
        lambda: sweep_left(*TOP),
    ),
    Subject(
        "Triton's metadata",
        "t/k.json",
        ("characterise", "FOLDER/t", "-g", GPU, "--grid", "4"),
        lambda: [triton_folder()["t/k.json"]],
        "json",
        triton_folder,
    ),
    Subject(
        "Triton's assembly",
        "t/k.ttir",
        ("characterise", "FOLDER/t", "-g", GPU, "--grid", "4"),
        lambda: [triton_folder()["t/k.ttir"]],
        "text",
        triton_folder,
    ),
    Subject(
        "Triton's cubin",
        "t/k.cubin",
        ("characterise", "FOLDER/t", "-g", GPU, "--grid", "4"),
        lambda: [triton_folder()["t/k.cubin"]],
        "binary",
        triton_folder,
    ),
    Subject(
        "cache",
        "cache/kernels.sqlite",
        ("characterise", "CUDA", "-g", GPU, *LAUNCH, "-D", "TILE=64"),
        lambda: [cache_file()],
        "binary",
        environment={"DSE_CACHE": "FOLDER/cache"},
    ),
    Subject("compiler options", "T1.json", ("characterise", "FILE", "-g", GPU), written(T1), "json"),
    Subject("hip", "k.hip", ("characterise", "FILE", "-g", "mi250x", *LAUNCH), written(HIP)),
    Subject("moe", "m.csv", (*MOE_TABLE, "--measured", "FILE"), written(MOE)),
    Subject(
        "study in use",
        "s.db",
        (*SEARCH, "--storage", "sqlite:///FILE"),
        study("sqlite:///"),
        "binary",
    ),
    Subject("study's journal", "s.log", (*SEARCH, "--storage", "journal:FILE"), study("journal:")),
    Subject(
        "near best",
        "near_best.csv.gz",
        ("READ", "dse.matrix.records:near_best", "FOLDER"),
        lambda: [gzip.compress(NEAR_BEST.encode(), mtime=0)],
        "gzip",
    ),
    Subject(
        "recorded best",
        "recorded_best.csv.gz",
        ("READ", "dse.matrix.records:recorded", "FOLDER"),
        lambda: [gzip.compress(RECORDED.encode(), mtime=0)],
        "gzip",
    ),
    Subject("cases", "c.csv", ("READ", "dse.measure.cases:read", "FILE"), written(CASES)),
    Subject("built", "b.zip", ("READ", "dse.measure.built:read", "FILE"), built, "binary"),
    Subject(
        "measured rows", "m.parquet", ("READ", "dse.measure.journal:read", "FILE"), journal_table, "binary"
    ),
    Subject(
        "recording", "r.parquet", ("READ", "dse.measure.bench.records:load", "FILE"), recording, "binary"
    ),
    Options(
        "where",
        (
            "sweep",
            "mat_naive",
            "-g",
            GPU,
            "--top",
            "3",
            "--per",
            "gpu,size",
            "--set",
            "n=1000,2000",
            "--where",
            "time_s < 1e-3 and possible and threads * 2 in (64, 128, 256) or block_size // 3 > 1",
        ),
        (5, 7, 9, 11),
    ),
    Options(
        "columns", ("sweep", "mat_naive", "-g", GPU, "--pareto", "time_s,registers", "--per", "gpu"), (5, 7)
    ),
    Options(
        "table", ("table", "mat_naive", "-g", GPU, "--for", "n=1000,2000", "--set", "block_size=64"), (5, 7)
    ),
    Options(
        "moe's sizes", (*MOE_TABLE, "--dtype", "fp8_w8a8", "--block", "128x128"), (5, 7, 9, 11, 13, 15, 17)
    ),
    Options(
        "risk",
        ("prune", "mat_naive", "-g", GPU, "--risk", "0.05", "--within", "0.05", "--top", "3"),
        (5, 7, 9),
    ),
    Options(
        "tune",
        (
            "tune",
            "mat_naive",
            "-g",
            GPU,
            "--budget",
            "3",
            "--batch",
            "2",
            "--pays",
            "0.1",
            "--unit",
            "ms",
            "--limit",
            "5",
            "--command",
            "sh -c 'echo {block_size:3} {block_size!s}'",
        ),
        (5, 7, 9, 11, 13, 15),
    ),
    Options(
        "curve",
        ("occupancy-curve", "mat_naive", "-g", GPU, "--set", "block_size=64", "--model", "phase"),
        (5, 7),
    ),
    Options(
        "simulated",
        (
            "simulate",
            "mat_naive",
            "-g",
            GPU,
            "--set",
            "block_size=64",
            "--warps",
            "8",
            "--groups",
            "8",
            "--what-if",
            "dram.Lambda=0.5x",
        ),
        (5, 7, 9, 11),
    ),
    Options(
        "objective",
        (*SEARCH, "--storage", "none", "--sampler", "random", "--objective", "time,registers"),
        (11, 13),
    ),
    Subject(
        "gpu's fields",
        "gpu.toml",
        ("rank", "mat_naive", "-g", "FILE", "--top", "2"),
        files(GPU_FILES),
        "fields",
    ),
    Subject(
        "kernel's fields",
        "kernel.toml",
        ("rank", "FILE", "-g", GPU, "--top", "2"),
        files(KERNEL_FILES),
        "fields",
        sources_of(KERNEL_FILES),
    ),
    Subject("graph's fields", "graph.toml", ("simulate", "FILE"), of_files("kernels/*/graph.toml"), "fields"),
    Subject(
        "amd listing",
        "k.s",
        ("READ", "fuzz_subjects:amd_code", "FILE"),
        amd_listing,
        environment={"DSE_CACHE": "FOLDER/cache"},
    ),
    Subject(
        "replay",
        "t.csv",
        ("tune", "mat_naive", "-g", GPU, "--budget", "3", "--replay", "FILE"),
        written(TIMES),
    ),
    Subject(
        "fit",
        "t.csv",
        ("fit", "mat_naive", "-g", GPU, "--starts", "1", "--free", "clock", "--measured", "FILE"),
        written(TIMES),
    ),
    Subject(
        "compare",
        "t4.json",
        ("compare", "mat_naive", "-g", GPU, "-m", "roofline", "--measured", "FILE"),
        written(T4),
        "json",
    ),
    Subject(
        "profile",
        "graph.toml",
        ("simulate", "FILE", "--warps", "2", "--profile", "FOLDER/p.json"),
        of_files("kernels/*/graph.toml"),
    ),
    Options("completion", ("READ", "fuzz_subjects:completed", "a100"), (2,)),
    Options(
        "fit's options",
        (
            "fit",
            "mat_naive",
            "-g",
            GPU,
            "--measured",
            "FOLDER/TIMES",
            "--starts",
            "1",
            "--sample",
            "9",
            "--seed",
            "1",
            "--free",
            "clock",
        ),
        (7, 9, 11, 13),
    ),
)
