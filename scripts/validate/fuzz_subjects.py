"""Files that `fuzz.py` breaks, and the commands that read them: a row for every external input."""

import gzip
import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
GPU = "-g a100-pcie-40gb"
TIMES = "block_size,time_ms\n" + "".join(f"{4 * n},{0.5 + n / 10}\n" for n in range(1, 30))
CUDA = """template <int BY> __device__ float scaled(float x) { return x * BY; }
#if TILE > 1
const int twice = TILE * 2;
#endif
__global__ void scale(float* a, const int* b, int n) {
  __shared__ float tile[TILE];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % TILE] = i < 100 ? a[i] + b[i] : 0.0f;
  __syncthreads();
  for (int k = 0; k < 4; k++)
    if (i < 100) a[i] += scaled<3>(tile[(threadIdx.x + k) % TILE]);
}
"""
TRITON = """import triton
import triton.language as tl
SCALE = tl.constexpr(3)
@triton.autotune(configs=[triton.Config({"B": b}, num_warps=4) for b in (64, 128)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def k(x, n, B: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, SCALE + tl.load(x + i, mask=i < n), mask=i < n)
"""
ARGUMENTS = [
    {"Name": "a", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadWrite", "Size": 4096},
    {"Name": "b", "Type": "int32", "MemoryType": "Vector", "AccessType": "ReadOnly", "Size": 4096},
    {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 3},
]
T1 = {
    "General": {"BenchmarkName": "mat_naive", "OutputFormat": "JSON"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size", "Type": "int", "Values": "[32, 64] + list(range(96, 257, 32))"}
        ],
        "Conditions": [{"Expression": "block_size % 32 == 0", "Parameters": ["block_size"]}],
    },
    "KernelSpecification": {
        "Language": "CUDA", "KernelName": "scale", "KernelFile": "k.cu", "GridDivX": ["block_size"],
        "LocalSize": {"X": "block_size", "Y": "1", "Z": "1"}, "ProblemSize": [4096], "SharedMemory": 0,
        "CompilerOptions": ["-std=c++17", "-DTILE=64"], "Arguments": ARGUMENTS,
    },
}  # fmt: skip
T4 = {
    "schema_version": "1.0.0",
    "results": [
        {
            "timestamp": "", "configuration": {"block_size": 4 * n}, "invalidity": "correct",
            "correctness": 1,            "times": {"compilation_time": 100.0, "runtimes": [0.5, 0.6]},
            "measurements": [{"name": "time", "value": 0.5 + n, "unit": "ms"}],
        }
        for n in range(1, 6)
    ],
}  # fmt: skip
KERNEL_TUNER = {
    "device_name": "A100", "kernel_name": "k", "tune_params_keys": ["block_size"],
    "cache": {str(4 * n): {"block_size": 4 * n, "time": 0.5 + n, "times": [0.5, 0.6]} for n in range(1, 6)},
}  # fmt: skip
COMPILED = {"RegistersCount": 20, "LocalMemorySize": 0, "PrivateMemorySize": 0}
COUNTERS = {"CompilationData": COMPILED, "ProfilingData": {"Counters": [{"Name": "dram", "Value": 3.5}]}}
KTT = {
    "Metadata": {"TimeUnit": "Microseconds"},
    "Results": [
        {
            "KernelName": "k", "Status": "Ok", "TotalDuration": 20.5 * n, "ComputationResults": [COUNTERS],
            "Configuration": [{"Name": "block_size", "Value": 4 * n}],
        }
        for n in range(1, 6)
    ],
}  # fmt: skip
NSIGHT = '"ID","Kernel Name","Block Size","Grid Size","block_size","gpu__time_duration.sum"\n'
NSIGHT += '"","","","","","ns"\n'
NSIGHT += "".join(f'"{n}","k","({n * 4}, 1, 1)","(9, 1, 1)","{n * 4}","1,{n}00"\n' for n in range(1, 6))
PARAMETERS = "BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,GROUP_SIZE_M,num_warps,num_stages"
TRACE = (
    ".kernel k\n.block 2\nMOV R1, g[0x1];\n.repeat 3\nGLD.U32 R2, global14[R1];\nIMAD R3, R2, R1, R3;\n"
    "BAR.ARV.WAIT b0, 0xfff;\n.end\nGST.U32 global14[R1], R3;\n"
)
SASS = """\t.target\tsm_80
.section\t.text.k,"ax",@progbits
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   IMAD.WIDE R2, R0, 0x4, R4 ;
        /*0020*/              @!P0 LDG.E R3, [R2.64+0x10] ;
        /*0030*/                   EXIT ;
"""
LOG = "AUTOTUNE mm(8x16, 16x8)\nstrides: [16, 1], [8, 1]\ndtypes: torch.float16, torch.float16\n"


def _catalogue(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(ROOT.glob(pattern))]


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


# Valid files by name: text, values for JSON, bytes, or several versions of which one is broken.
WRITTEN: Mapping[str, object] = {
    "kernel.toml": _catalogue("kernels/m*/kernel.toml"),
    "gpu.toml": _catalogue("gpus/a*.toml") + _catalogue("gpus/mi2*.toml"),
    "graph.toml": _catalogue("kernels/*/graph.toml"),
    "t1.json": T1, "t4.json": T4, "tuner.json": KERNEL_TUNER, "ktt.json": KTT, "nsight.csv": NSIGHT,
    "times.csv": TIMES, "times.csv.gz": _packed(TIMES), "measured/mat_naive/A100.csv": TIMES,
    "journal.jsonl": "".join(
        json.dumps({"parameters": {"block_size": 4 * n}, "seconds": n / 1000}) + "\n" for n in (1, 2)
    ),
    "k.cu": CUDA, "k.hip": "#include <hip/hip_runtime.h>\n#define TILE 64\n" + CUDA, "kt.py": TRITON,
    "t.sass": TRACE, "listing.sass": SASS,
    "meta.json": {"name": "k", "target": {"arch": 80}, "num_warps": 4, "shared": 0},
    "shapes.csv": "M,N,K,op\n8,16,32,addmm\n", "log.txt": LOG, "cases.csv": "m,scale\n4096,0.5\n1,2\n",
    "moe.csv": f"M,{PARAMETERS},seconds\n16,16,128,128,1,4,3,7.5e-5\n64,64,128,128,1,4,3,1.5e-4\n",
    "expression": "a * (b + 1) // 2 if a in (1, 2) else max(a, b)", "includes": '#include "k.cu"\n',
    "page.md": "# Page\n\n<!-- measured spaces: begin -->\nold\n<!-- measured spaces: end -->\n\nMore.\n",
}  # fmt: skip

# Readers of the library: fast, so the tests use many of these.
READERS = """read dse.core.files:read_toml kernel.toml
read dse.core.files:read_json t1.json
read dse.kernels:load kernel.toml
read dse.hardware.gpus:load gpu.toml
read dse.simulator.case.graph_file:load graph.toml
read dse.simulator.case.trace_text:load t.sass
read dse.source.readers.t1:load t1.json
read dse.source.nvidia.compile.triton_metadata:read meta.json
read dse.data.measured.formats:read times.csv
read dse.data.measured.formats:read times.csv.gz
read dse.data.measured.formats:read t4.json
read dse.data.measured.formats:read tuner.json
read dse.data.measured.formats:read ktt.json
read dse.data.measured.formats:read nsight.csv
read dse.bridges.calls:read shapes.csv
read dse.bridges.calls:read log.txt
read dse.measure.cases:read cases.csv
read fuzz_subjects:code listing.sass
read fuzz_subjects:text k.cu
read fuzz_subjects:text includes
read fuzz_subjects:expression expression
"""

# Commands run in the folder of valid files; their output is the input of later lines.
MOE = "table moe -g h100-sxm --set E=8 --set N=512 --set K=1024 --set topk=2 --for M=1,64"
MAKERS = f"""rank mat_naive {GPU} -m roofline -o r.parquet
rank mat_naive {GPU} -m roofline -o r.csv
rank mat_naive {GPU} -m roofline -o r.json
compare mat_naive {GPU} -m roofline -m volkov --measured times.csv -o scores.csv
search mat_naive {GPU} --trials 3 --seed 1 --storage sqlite:///s.db
search mat_naive {GPU} --trials 3 --seed 1 --storage journal:s.log
{MOE} --budget 1 --journal moe.jsonl --command "echo {{BLOCK_SIZE_M}}"
"""
LAUNCH = "--block 64 --grid 4"
CACHED = f"characterise k.cu {GPU} {LAUNCH} -D TILE=64"
COMMANDS = f"""rank kernel.toml {GPU} --top 2
rank mat_naive -g gpu.toml --top 2
rank mat_naive {GPU} --space t1.json
rank mat_naive {GPU} -m roofline --top 2 --measured times.csv --refit
rank mat_naive {GPU} --measured t.parquet
rank mat_naive {GPU} -m roofline --refit --measured times.csv --prior times.csv
rank mat_naive {GPU} --sample 3 --set block_size=64 --set n=2000 --model mwp-cwp
rank mat_naive {GPU} --cascade roofline:50%,phase:20
compare mat_naive {GPU} -m roofline --measured t4.json
prune mat_naive {GPU} --measured times.csv --risk 0.05 --within 0.05
prune mat_naive {GPU} -m roofline --top 3 -o p.json --format t1
fit mat_naive {GPU} -m roofline --starts 1 --sample 9 --seed 1 --free clock --measured times.csv
tune mat_naive {GPU} --budget 2 --journal journal.jsonl --command "echo {{block_size}}"
tune mat_naive {GPU} --budget 3 --batch 2 --pays 0.1 --unit ms --limit 5 --command "echo {{block_size:3}}"
tune mat_naive {GPU} --budget 3 --replay times.csv
tune mat_naive {GPU} --budget 2 --prior times.csv --command "echo {{block_size}}"
search mat_naive {GPU} --trials 3 --seed 1 --storage sqlite:///s.db
search mat_naive {GPU} --trials 3 --seed 1 --storage journal:s.log
search mat_naive {GPU} --trials 3 --storage none --enqueue r.csv
search mat_naive {GPU} --trials 3 --storage none --sampler random --objective time,registers
sweep mat_naive {GPU} -o rows.parquet
sweep mat_naive {GPU} --top 3 -o top.csv
sweep mat_naive {GPU} --top 3 --per gpu,size --where "time_s < 1e-3 and threads * 2 in (64, 128)"
sweep mat_naive {GPU} --pareto time_s,registers --per gpu
table mat_naive {GPU} --for n=1000,2000 --set block_size=64
{MOE} --measured moe.csv --dtype fp8_w8a8 --block 128x128
{MOE} --budget 1 --journal moe.jsonl --command "echo {{BLOCK_SIZE_M}}"
occupancy-curve mat_naive {GPU} --set block_size=64 --model phase
simulate graph.toml --warps 2 --profile p.json
simulate t.sass --warps 4 --what-if memory.lambda=3
simulate mat_naive {GPU} --set block_size=64 --warps 8 --groups 8 --what-if dram.Lambda=0.5x
simulate example --warps 2 --profile p.svg --window 0 100
characterise k.cu {GPU} {LAUNCH} -D TILE=64 --arg "a=400:float32:index % 7"
characterise k.cu {GPU} --block 64,1 --grid 4,N --tune N=1,2 -D TILE=64 --shared 16
characterise k.hip -g mi250x {LAUNCH}
characterise k.ptx {GPU} {LAUNCH}
characterise k.cubin {GPU} {LAUNCH}
characterise k.sass {GPU} {LAUNCH} --shared 256
characterise t1.json {GPU}
characterise kt.py {GPU} --signature "*fp32,i32" --grid 4 --arg n=100 --num-warps 2
characterise triton {GPU} --grid 4 --arg rows=100 --arg columns=100
report r.parquet -o r.html
report r.json -o r.html
report journal.jsonl -o r.html
report r.csv scores.csv r.json -o r.html
accuracy measured -m roofline
accuracy measured -m roofline --page page.md
read dse.measure.built:read b.zip
read dse.measure.journal:read m.parquet
read dse.measure.bench.records:load recording.parquet
read fuzz_subjects:amd k.s
read fuzz_subjects:cached kernels.sqlite
read fuzz_subjects:completed expression
"""


def rows(text: str) -> list[str]:
    """Split a table of commands."""
    return text.strip().splitlines()


def write(folder: Path) -> None:
    """Write the valid text files; of several versions the first."""
    for name in WRITTEN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(versions(name)[0])


def versions(name: str) -> Sequence[bytes]:
    """Return the versions of a valid file of this module."""
    content = WRITTEN[name]
    if isinstance(content, list):
        return content
    if not isinstance(content, str | bytes):
        content = json.dumps(content, indent=1)
    return [content.encode() if isinstance(content, str) else content]


def make(folder: Path, run: Callable[[str], object]) -> None:
    """Write the valid files made by commands and compilers; `run` runs a line."""
    import pyarrow.csv
    import pyarrow.parquet

    from dse.measure import built, journal
    from dse.measure.bench import records
    from dse.measure.statistics import Repeats
    from dse.source.nvidia.compile.contract import Compiled
    from dse.source.nvidia.compile.nvrtc import compile_source, read_source
    from dse.source.nvidia.sass.disassemble import _nvdisasm

    write(folder)
    for line in rows(MAKERS):
        run(line)
    with patch("dse.explore.sweep.run.EVERY", -1.0), patch("dse.explore.sweep.run.clear"):
        run(f"sweep mat_naive {GPU} -o rows.parquet")  # its parts stay, as after a kill
        run(f"sweep mat_naive {GPU} --top 3 -o top.csv")
    for name in ("rows.parquet", "top.csv"):
        (folder / name).unlink()
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(folder / "times.csv"), folder / "t.parquet")
    made = compile_source(read_source(folder / "k.cu"), 80, {"TILE": 64}, ptx=True)
    assert isinstance(made, Compiled), made
    (folder / "k.ptx").write_text(str(made.ptx))
    (folder / "k.cubin").write_bytes(made.cubin)
    (folder / "k.sass").write_text(_nvdisasm(("-c",), made.cubin, "k"))
    code = built.BuiltCode(made.cubin, None, None)
    space = built.BuiltSpace("k", "d", "NVRTC", {"n": 4}, ("block",), ((32,), (64,)), (code, code))
    built.write(folder / "b.zip", 80, [space])
    about = {"gpu": "NVIDIA X", "sweep": False, "kernels": {"k": {"digest": "d"}}}
    journal.write(folder / "m.parquet", about, [{"kernel": "k", "block": 32, "status": "ok", "time_ms": 0.5}])
    record = records.BenchmarkRecord("clock", {"warps": 4}, "Hz", Repeats((1.0, 2.0), True))
    records.save(records.BenchRecording({"name": "NVIDIA X"}, [record]), folder / "recording.parquet")
    with tempfile.TemporaryDirectory() as cache:
        with patch.dict("os.environ", DSE_CACHE=cache):
            run(CACHED)
        with closing(sqlite3.connect(Path(cache, "kernels.sqlite"))) as database:
            database.execute("PRAGMA journal_mode = DELETE")
        shutil.copy(Path(cache, "kernels.sqlite"), folder)
    (folder / "k.s").write_text(_amd(folder / "k.hip").text)
    with tempfile.TemporaryDirectory() as cache:
        with patch.dict("os.environ", TRITON_CACHE_DIR=cache, DSE_CACHE=f"{cache}/dse"):
            run(f"characterise triton_softmax {GPU}")
        (folder / "triton").mkdir()
        for path in Path(cache).glob("*/*"):
            if path.suffix in (".cubin", ".json", ".ttir") and not path.name.startswith("__grp__"):
                (folder / "triton" / f"k{path.suffix}").write_bytes(path.read_bytes())


# Readers with more arguments than a path.


def code(path: Path) -> None:
    """Read a listing, its resources, and its programs."""
    from dse.core.files import read_text
    from dse.source.nvidia.sass import listing
    from dse.source.nvidia.sass.program import program

    text = read_text(path)
    for item in listing.parse(text, str(path)):
        listing.resources(text, item)
        program(item)


def text(path: Path) -> None:
    """Read a source's includes, declarations and constants."""
    from dse.core.files import read_text
    from dse.source.nvidia.compile.constants import constants
    from dse.source.nvidia.compile.includes import included
    from dse.source.nvidia.compile.kernel_names import declared_in

    list(included(read_text(path), str(path), [str(path.parent)]))
    declared_in(read_text(path))
    constants(read_text(path), {"TILE": 3}, 2)


def expression(path: Path) -> None:
    """Read an expression of a space."""
    from dse.core.files import read_text
    from dse.core.space.expression import parse

    parse(read_text(path), "x")


def _amd(path: Path):
    from dse.source.amd.compile.source import Built, compile_source, read_source

    made = compile_source(read_source(path), 0x90A, [])
    assert isinstance(made, Built), made
    return made


def amd(path: Path) -> None:
    """Characterise a kernel with this assembly, since a source may contain any."""
    from dse.cli.main import run
    from dse.core.files import read_text
    from dse.source.amd.compile.clang import clang
    from dse.source.amd.compile.source import Built

    made = Built(read_text(path), clang().version)
    with patch("dse.source.amd.compile.source.compile_source", lambda *_: made):
        run(
            [
                "--traceback",
                "-q",
                "characterise",
                str(path.with_name("k.hip")),
                "-g",
                "mi250x",
                *LAUNCH.split(),
            ]
        )


def cached(path: Path) -> None:
    """Characterise a kernel with this file as the cache."""
    from dse.cli.main import run

    with tempfile.TemporaryDirectory() as cache, patch.dict("os.environ", DSE_CACHE=cache):
        shutil.copy(path, Path(cache, "kernels.sqlite"))
        run(["--traceback", "-q", *CACHED.replace("k.cu", str(path.with_name("k.cu"))).split()])


def completed(path: Path) -> None:
    """Complete the names of kernels, GPUs and models."""
    from dse.cli.inputs import completion
    from dse.core.files import read_text

    for complete in (completion.complete_kernels, completion.complete_gpus, completion.complete_models):
        complete(read_text(path))


def values(rng: random.Random) -> Mapping[str, Sequence[str]]:
    """Return documented values of options by the parameters' names; others get small numbers."""
    from dse import kernels
    from dse.hardware import gpus
    from dse.models import MODELS

    name = rng.choice(kernels.names())
    kernel = kernels.load(name)
    parameter, choices = rng.choice(list(kernel.space.values.items()))
    sizes = [f"{size}={value}" for size, value in kernel.sizes().items()]
    return {
        "SKIPPED": ("cluster", "workers", "source", "compiled", "page", "command", "every"),
        "kernel": (name,),
        "gpu": gpus.names(),
        "changed": (f"{parameter}={rng.choice(list(choices))}", *sizes),
        "model": tuple(MODELS),
        "scheduler": ("rr", "gto", "oldest"),
        "order": ("program", "dataflow"),
        "groups": ("1", "2", "7", "64"),
        "what_if": (
            *("conflicts=off", "barriers=off", "uncoalesced=off", "dram=off", "blocks=1", "scheduler=gto"),
            *("order=dataflow", "issue_limit=4", "sfu.lambda=1", "dram.Lambda=0.5x", "tensor.lambda=2x"),
        ),
        "warps": ("1", "8", "32"),
        "window": ("0 100",),
        "profile": ("p.json", "p.svg", "p.html"),
        "cascade": ("phase:5%,roofline:3", "volkov:10,pipeline:2"),
        "pareto": ("time_s,registers", "time_s,threads"),
        "per": ("gpu", "size,gpu", "model"),
        "where": ("'time_s < 1e-3'", "'occupancy > 0.5 and possible'"),
        "columns": ("time_s", "gpu,time_s,occupancy"),
        "out": ("o.csv", "o.json", "o.parquet", "o.toml", "o.html", "o"),
        "form": ("t1", "kernel-tuner", "csv", "json", "triton"),
        "sampler": ("tpe", "random", "qmc", "nsga2", "nsga3", "cmaes", "gp", "grid"),
        "objective": ("time", "time,registers", "time,registers,shared"),
        "storage": ("none",),
        "enqueue": ("r.csv",),
        "risk": ("0.01", "0.5"),
        "within": ("0.01", "0.2"),
        "measured": ("times.csv", "t4.json", "t.parquet"),
        "prior": ("times.csv",),
        "replay": ("times.csv",),
        "journal": ("own.jsonl",),
        "space": ("t1.json",),
        "unit": ("s", "ms", "us"),
        "method": ("least-squares", "bfgs"),
        "free": ("clock", "dram.lambda", "clock,dram.Lambda"),
        "shared": ("clock", "1024"),
        "block": ("64", "32,4", "128x128"),
        "grid": ("4", "16,2"),
        "function": ("scale",),
        "arguments": ("n=100", "'a=400:float32:index % 7'"),
        "define": ("TILE=64", "N"),
        "tune": ("N=1,2",),
        "signature": ("'*fp32,i32'",),
        "constexpr": ("B=64",),
        "explain": ("lines", "caches", "banks"),
        "graph": ("idg", "wfg", "g.dot", "g.json"),
        "sizes": (*(size.replace("=", "=1,") for size in sizes), "M=1,64"),
        "tokens": ("uniform", "even"),
        "dtype": ("bf16", "fp8_w8a8"),
        "style": ("vllm", "sglang", "json"),
        "shapes": ("shapes.csv",),
        "device": ("NVIDIA_H100",),
        "result": ("r.csv", "r.json scores.csv", "journal.jsonl"),
        "paper": ("hong-kim", "volkov", "lemeire"),
        "name": (name, rng.choice(gpus.names()), rng.choice(list(MODELS))),
        "names": (name,),
    }
