"""Gives `dse` broken files and options, thousands of them, and counts where it does not answer with one line.

    python scripts/fuzz.py --seed 1 --inputs 10000

Each input is a valid file, or a line of options, whose bytes, numbers, names, lines, nesting or keys were
changed. It is given to a command in a process that is watched. What counts as wrong: a traceback, "a mistake
of dse", over 10 s, over 1 GB more memory than before, the end of the process, an exit code besides 0 and 2,
messages of several lines, of over 2,100 characters, or with control characters. Ends with 1 if there is any.

One input again: `--only 4711 --seed 1`; with `--keep DIR` the inputs that went wrong are kept.
"""

import argparse
import contextlib
import copy
import gzip
import io
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MOST_SECONDS, MOST_BYTES, MOST_CHARACTERS = 10, 10**9, 2100
GPU = "a100-pcie-40gb"


@dataclass(frozen=True)
class Subject:
    """A kind of file, with valid ones of it, and the command that reads it: FILE and FOLDER are filled in."""

    name: str
    file: str  # its name; of several levels if the command is given a folder
    command: Sequence[str]
    valid: Callable[[], Sequence[bytes]]
    kind: str = "text"  # or json, binary, gzip


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
        "KernelName": "k",
        "KernelFile": "k.cu",
        "LocalSize": {"X": "block_size", "Y": "1", "Z": "1"},
        "GridDivX": ["block_size"],
        "ProblemSize": [4096],
        "SharedMemory": 0,
        "CompilerOptions": ["-std=c++17"],
        "Arguments": [
            {"Name": "a", "Type": "float", "MemoryType": "Vector", "AccessType": "ReadWrite", "Size": 4096},
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


def of_files(pattern: str, most: int = 4000) -> Callable[[], Sequence[bytes]]:
    """Take the files of this checkout that are not long."""
    return lambda: [path.read_bytes() for path in sorted(ROOT.glob(pattern)) if path.stat().st_size < most]


def written(content: Any) -> Callable[[], Sequence[bytes]]:
    """Write one valid file: text, or JSON."""
    return lambda: [(content if isinstance(content, str) else json.dumps(content, indent=1)).encode()]


@cache
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
)

NUMBERS = (
    "-1", "0", "1", "2", "3.5", "1e400", "1e308", "-1e308", "nan", "inf", "-inf", "9" * 20, "1" + "0" * 30,
    "9" * 4301, "9" * 5000, "2147483647", "2147483648", "4294967296", "9223372036854775807",
    "9223372036854775808", "1000000000000", "0x10", "1_000", "00", "-0", "1e-320", "0.1", "1000000000",
    "65536",
)  # fmt: skip
WORDS = (
    "", " ", "\x1b[31mred", "\x07", "a" * 300, "a" * 100_000, "/etc/passwd", "../../../etc/passwd",
    "/dev/zero",
    "~nosuchuser", "µ·−", "\u202e", "true", "null", "None", "[]", "{}", "{", "(" * 50, "(" * 1000, "1/0",
    "n/0",
    "x ** 64", "block_size", "block_size / 0", "warp_size", "%s%n", "{x:q}", "{0}", "{block_size:9999999999}",
    "a\nb", "a\tb", "\\", "'", '"', ";", ",", "=", "N=", "=1", "n=", "1,2,3,4,5", "1," * 5000 + "1", "@", "#",
    "range(10**12)", "[1] * 10**10", "9**9**9", "abs", "\u0000", "-", "--help",
)  # fmt: skip


def mutated(data: bytes, kind: str, rng: random.Random) -> bytes:
    """Change a valid file in one to three ways."""
    if kind == "gzip":
        if rng.random() < 0.3:
            return of_bytes(data, rng)
        return gzip.compress(mutated(gzip.decompress(data), "text", rng), mtime=0)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if kind == "binary" or rng.random() < 0.2:
            data = of_bytes(data, rng)
        elif kind == "json" and rng.random() < 0.7:
            data = of_json(data, rng)
        else:
            data = of_text(data.decode("utf-8", "surrogateescape"), rng).encode("utf-8", "surrogateescape")
    return data


def of_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, insert, double, drop or cut bytes."""
    place = rng.randrange(len(data) + 1)
    end = min(len(data), place + rng.choice((1, 4, 8, 100)))
    some = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 4, 8))))
    match rng.randrange(7):
        case 0:
            return data[:place] + some + data[place:]
        case 1:
            return data[:place] + some + data[place + len(some) :]
        case 2:
            return data[:place]
        case 3:
            return data[:place] + data[end:]
        case 4:
            return data[:place] + data[place:end] * rng.choice((2, 50, 1000)) + data[end:]
        case 5:
            return (
                data[:place] + rng.choice((b"\xff" * 8, b"\0" * 8, b"\x7f\xff\xff\xff", b"\x80")) + data[end:]
            )
        case _:
            return data[:place] + data[end:] + data[place:end]


def of_text(text: str, rng: random.Random) -> str:
    """Change a number, a word, a line, or how deep something is nested."""
    choice = rng.randrange(10)
    if choice < 4 and (numbers := list(re.finditer(r"\d+(?:\.\d+)?", text))):
        return replaced(text, rng.choice(numbers), rng.choice(NUMBERS))
    if choice < 6 and (words := list(re.finditer(r'"[^"\n]*"|[A-Za-z_.]\w*', text))):
        word = rng.choice(words)
        new = rng.choice((*NUMBERS, *WORDS, rng.choice(words)[0]))
        if word[0].startswith('"') and rng.random() < 0.7:
            new = json.dumps(new)
        return replaced(text, word, new)
    lines = text.splitlines(keepends=True) or [""]
    place = rng.randrange(len(lines))
    match choice:
        case 6:
            del lines[place]
        case 7:
            lines.insert(rng.randrange(len(lines)), lines[place] * rng.choice((1, 1, 100)))
        case 8:
            lines.insert(place, rng.choice((*WORDS, *NUMBERS)) + "\n")
        case _ if signs := list(re.finditer(r"[\[{(<=/*.,;:}\])>+-]", text)):
            sign = rng.choice(signs)
            return replaced(
                text, sign, rng.choice(("", sign[0] * 2, sign[0] * 3000, sign[0] * 100_000, " = [" * 5000))
            )
    return "".join(lines)


def replaced(text: str, found: re.Match[str], new: str) -> str:
    """Put something else in the place of what was found."""
    return text[: found.start()] + new + text[found.end() :]


def of_json(data: bytes, rng: random.Random) -> bytes:
    """Drop a key or an item, or put something else in its place."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return of_bytes(data, rng)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in items:
            places.append((node, key))
            walk(value)

    walk(tree)
    if not places:
        return of_bytes(data, rng)
    holder, key = rng.choice(places)
    others = [
        None,
        True,
        -1,
        0,
        1.5,
        1e308,
        2**63,
        10**30,
        "",
        "x",
        [],
        {},
        [[]],
        [1] * 1000,
        {"a": 1},
        "\x1b[1m",
    ]
    others += [rng.choice(WORDS), rng.choice(NUMBERS), float("nan"), float("inf"), "DIGITS", "DEEP"]
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice((*WORDS, "Name", "Values"))] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 3, 2000))))
        case _:
            holder[key] = rng.choice(others)
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    deep = "[" * 100_000 + "]" * 100_000
    return text.replace('"DIGITS"', "9" * 5000).replace('"DEEP"', deep).encode("utf-8", "surrogatepass")


def prepared(index: int, seed: int, folder: Path) -> tuple[str, list[str]]:
    """Write the input of a number, and return its subject and its command."""
    rng = random.Random(f"{seed}:{index}")
    subject = SUBJECTS[index % len(SUBJECTS)]
    command = list(subject.command)
    if isinstance(subject, Options):
        part = rng.choice(subject.broken)
        old, new = command[part], rng.choice((*NUMBERS, *WORDS))
        pieces = re.split(r"(\W)", old)
        if rng.random() < 0.6 and len(pieces) > 1:
            pieces[rng.randrange(len(pieces))] = new
            new = "".join(pieces)
        command[part] = new.replace("\0", "")
        (folder / "k.cu").write_text(CUDA)
    else:
        data = rng.choice(valid(subject.name))
        (folder / subject.file).write_bytes(mutated(data, subject.kind, rng))
        command = [part.replace("FILE", str(folder / subject.file)) for part in command]
    return subject.name, [part.replace("CUDA", str(folder / "k.cu")) for part in command]


@cache
def valid(name: str) -> Sequence[bytes]:
    """Return the valid files of a subject."""
    [subject] = [each for each in SUBJECTS if each.name == name and isinstance(each, Subject)]
    return subject.valid()


def judged(command: Sequence[str], valid: bool = False) -> str:
    """Run a command in this process, and say what was wrong; nothing if all was well.

    What is `valid` must not be refused.
    """
    from dse.cli.main import run

    output, errors, code = io.StringIO(), io.StringIO(), None
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            run(["--traceback", "-q", *command])
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/dse/" in frame.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__} at {place}: {str(error)[:100]}"
    lines = [
        line
        for line in errors.getvalue().splitlines()
        if not line.startswith(("dse: warning: ", "assumed: "))
    ]
    if code not in ((None, 0) if valid else (None, 0, 2)):
        return f"exit code {code}: {errors.getvalue()[:200]!r}"
    if len(lines) != (1 if code == 2 else 0):
        return f"{len(lines)} lines with exit code {code}: {' | '.join(lines)[:150]!r}"
    if long := max(map(len, errors.getvalue().splitlines()), default=0) > MOST_CHARACTERS:
        return f"a message of over {MOST_CHARACTERS} characters: {errors.getvalue()[:80]!r}" if long else ""
    for text, where in ((errors.getvalue(), "message"), (output.getvalue(), "output")):
        if found := re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text):
            return f"the character {found[0]!r} in the {where}"
    return ""


def work(pipe: Connection, seed: int, folder: Path) -> None:
    """Run the inputs whose numbers come in, one after another."""
    sys.path.insert(0, str(ROOT))
    os.environ |= {"COLUMNS": "120", "DSE_COMPILE_SECONDS": "4", "DSE_COMPILE_GB": "1"}
    for subject in SUBJECTS:  # all is compiled, and all inputs are valid before they are changed
        command = list(subject.command)
        (folder / "k.cu").write_text(CUDA)
        if isinstance(subject, Subject):
            (folder / subject.file).write_bytes(valid(subject.name)[0])
        command = [
            part.replace("FILE", str(folder / getattr(subject, "file", ""))).replace(
                "CUDA", str(folder / "k.cu")
            )
            for part in command
        ]
        if wrong := judged(command, valid=True):
            pipe.send(("invalid", f"{subject.name}: {wrong}"))
            return
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (virtual + 4 * MOST_BYTES, virtual + 4 * MOST_BYTES))
    pipe.send(("ready", ""))
    while True:
        index = pipe.recv()
        shutil.rmtree(folder)
        folder.mkdir()
        name, command = prepared(index, seed, folder)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wrong = judged(command)
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if more > MOST_BYTES:
            wrong = f"{more / 1e9:.1f} GB more; {wrong}"
        pipe.send((name, wrong))


class Worker:
    """A process that runs inputs, begun anew when it ends or hangs."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it has run all that is valid."""
        self.folder.mkdir(exist_ok=True, parents=True)
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, self.seed, self.folder), daemon=False)
        self.process.start()
        theirs.close()
        state, wrong = self.pipe.recv()
        if state == "invalid":
            sys.exit(f"a valid input went wrong: {wrong}")

    def run(self, index: int) -> tuple[str, str]:
        """Run one input; say its subject and what was wrong."""
        name = SUBJECTS[index % len(SUBJECTS)].name
        self._before, started = self._seconds(), time.monotonic()
        self.pipe.send(index)
        try:
            while not self.pipe.poll(1):
                if (
                    time.monotonic() - started > 3 * MOST_SECONDS
                    or self._seconds() - self._before > MOST_SECONDS
                ):
                    self.stop()
                    return name, f"over {MOST_SECONDS} s"
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            self.start()
            return name, f"the process ended with {code}"

    def _seconds(self) -> float:
        """Return the processor time that the process and those that it started have taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process and begin anew."""
        self.process.kill()
        self.process.join()
        self.start()


def main() -> None:
    """Run the inputs, and list what went wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--only", type=int, help="run the input of this number only")
    parser.add_argument(
        "--subject", help="those of this subject only: " + ", ".join(s.name for s in SUBJECTS)
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the inputs that went wrong")
    given = parser.parse_args()
    wanted = range(given.inputs) if given.only is None else [given.only]
    wanted = [n for n in wanted if given.subject in (None, SUBJECTS[n % len(SUBJECTS)].name)]
    found: Counter[str] = Counter()
    first: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="dse-fuzz-") as scratch:
        worker = Worker(given.seed, Path(scratch, "inputs"))
        started = time.monotonic()
        for done, index in enumerate(wanted, 1):
            name, wrong = worker.run(index)
            if wrong:
                said = f"{name}: {wrong}"
                kind = re.sub(r"0x[0-9a-f]+|\d{3,}|/\S*", "_", said)[:110]
                found[kind] += 1
                if kind not in first:
                    first[kind] = index
                    print(f"{index}: {said[:300]}", flush=True)
                    if given.keep:
                        given.keep.mkdir(exist_ok=True, parents=True)
                        with contextlib.suppress(OSError):
                            folder = given.keep / str(index)
                            folder.mkdir(exist_ok=True)
                            (folder / "command").write_text(repr(prepared(index, given.seed, folder)[1]))
            if done % 500 == 0:
                print(
                    f"{done:,} inputs, {found.total()} wrong, {time.monotonic() - started:.0f} s", flush=True
                )
        worker.process.kill()
    print(f"{len(wanted):,} inputs with seed {given.seed}: {found.total()} went wrong, in {len(found)} ways")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
