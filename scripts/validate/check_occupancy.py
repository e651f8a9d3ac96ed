"""Compare `dse.hardware.occupancy` with the calculator in the CUDA toolkit's cuda_occupancy.h.

    python scripts/validate/check_occupancy.py [--header PATH] [--per-capability 20000] [--json]

A C++ compiler compiles the header with occupancy_reference.cpp, beside this file; no GPU is needed. Each
launch must agree in resident blocks and in the limiting resource; exits 1 otherwise. `--store` writes
tests/hardware/occupancy_vectors.csv, for tests without a toolkit.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dse.hardware.occupancy import IMPOSSIBLE, LIMITERS, resident_blocks
from dse.types import Limits, Resources

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "tests" / "hardware"
STORED = 2000
SHARED_BEFORE_OPT_IN = 49152  # bytes of a block, on every capability of the header
HEADER_BITS = {"warps": 1, "registers": 2, "shared memory": 4, "blocks": 8}
ERROR_STATUS, UNKNOWN_DEVICE = 1, 2
LIMITER_BITS = HEADER_BITS | {
    "no threads": 0,  # an error to the header
    "too many threads in a block": HEADER_BITS["warps"],
    "too many registers a thread": HEADER_BITS["registers"],
    "too many registers in a block": HEADER_BITS["registers"],
    "too much shared memory": HEADER_BITS["shared memory"],
}


def capabilities() -> dict[str, dict[str, int]]:
    """Limits of each compute capability that the header knows."""
    with (DATA / "capability_limits.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["header_registers_per_thread"]]
    numbers = {row.pop("capability"): row for row in rows}
    return {name: {key: int(row[key]) for key in row if key != "source"} for name, row in numbers.items()}


def header_limits(row: dict[str, int]) -> Limits:
    """Limits as in the header, which allows a thread more registers than the hardware of 3.0 and
    of 7.0 and later can address."""
    fields: dict[str, Any] = {name: row[name] for name in Limits.__dataclass_fields__}
    fields["registers_per_thread"] = row["header_registers_per_thread"]
    return Limits(**fields)


def draw(row: dict[str, int], launches: int, rng: np.random.Generator) -> np.ndarray:
    """Threads, registers and shared bytes [launches, 3], over what is legal and slightly beyond, and often
    about where one block more or less fits."""
    most = row["threads_per_block"]
    threads = np.where(
        rng.random(launches) < 0.5,
        rng.integers(0, most + 65, launches),
        row["warp_size"] * rng.integers(1, most // row["warp_size"] + 2, launches),
    )
    most = row["header_registers_per_thread"] + 8
    edge = row["registers_per_block"] // np.maximum(threads, 1) + rng.integers(-16, 9, launches)
    choices = [rng.integers(0, 65, launches), rng.integers(0, most + 1, launches), np.clip(edge, 0, most)]
    registers = np.choose(rng.integers(0, len(choices), launches), choices)
    most = row["shared_bytes_per_block"] + 2048
    edge = row["shared_bytes_per_sm"] // rng.integers(1, row["blocks_per_sm"] + 1, launches)
    edge = np.clip(edge - row["shared_bytes_reserved"] + rng.integers(-300, 301, launches), 0, most)
    choices = [np.zeros(launches, int), rng.integers(0, most + 1, launches), edge]
    shared_bytes = np.choose(rng.integers(0, len(choices), launches), choices)
    return np.stack([threads, registers, shared_bytes], axis=1)


def compare(row: dict[str, int], launches: np.ndarray, header: np.ndarray) -> dict[str, int]:
    """Count differing launches; `header` holds blocks and limiting factors [launches, 2]."""
    asked: dict[str, Any] = dict(zip(("threads", "registers", "shared_bytes"), launches.T, strict=True))
    asked["blocks"] = 1
    ours, code = resident_blocks(header_limits(row), Resources(**asked))
    names = np.asarray(LIMITERS)[np.asarray(code)]
    bits = np.asarray([LIMITER_BITS[name] for name in names])
    blocks, factors = header.T
    return {
        "launches": len(launches),
        "impossible": int(np.isin(names, IMPOSSIBLE).sum()),
        "differing blocks": int((np.asarray(ours) != blocks).sum()),
        "differing limiters": int(((bits & factors) != bits).sum()),
    }


def find_header() -> Path | None:
    """Find cuda_occupancy.h by $CUDA_HOME, $CUDA_PATH, the nvcc on the path, or in the usual folder."""
    roots = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    if nvcc := shutil.which("nvcc"):
        roots.append(Path(nvcc).resolve().parent.parent)
    roots.append(Path("/usr/local/cuda"))
    for root in roots:
        for header in (root / "include", *sorted(root.glob("targets/*/include"))):
            if (header / "cuda_occupancy.h").is_file():
                return header / "cuda_occupancy.h"
    return None


def toolkit(header: Path) -> str:
    """Version of the header's CUDA toolkit."""
    try:
        version = re.search(r"#define CUDA_VERSION (\d+)", (header.parent / "cuda.h").read_text())
    except OSError:
        version = None
    return (
        f"CUDA {int(version[1]) // 1000}.{int(version[1]) % 1000 // 10}"
        if version
        else "unknown CUDA version"
    )


def build(header: Path, folder: str) -> Path | str:
    """Return the compiled driver, or the reason why there is none, in a line."""
    compilers = (os.environ.get("CXX"), "c++", "g++", "clang++")
    compiler = next((path for name in compilers if name and (path := shutil.which(name))), None)
    if compiler is None:
        return "no C++ compiler found ($CXX, c++, g++, clang++)"
    driver = Path(folder) / "occupancy_reference"
    source = HERE / "occupancy_reference.cpp"
    command = [compiler, "-O1", f"-I{header.parent}", str(source), "-o", str(driver)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return driver
    errors = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
    return f"{header} does not compile: {errors[0].strip()}"


def ask(driver: Path, name: str, row: dict[str, int], launches: np.ndarray) -> np.ndarray | None:
    """Blocks and limiting factors [launches, 2] by the header; None if it does not know the capability."""
    device = [
        *name.split("."),
        *(row[key] for key in ("threads_per_block", "threads_per_sm", "registers_per_block")),
        *(row[key] for key in ("registers_per_sm", "warp_size")),
        min(row["shared_bytes_per_block"], SHARED_BEFORE_OPT_IN),
        *(row[key] for key in ("shared_bytes_per_sm", "shared_bytes_per_block", "shared_bytes_reserved")),
    ]
    lines = "\n".join(" ".join(map(str, launch)) for launch in launches)
    command = [str(driver), *map(str, device)]
    answer = subprocess.run(command, input=lines, capture_output=True, text=True, check=True).stdout
    status, blocks, factors = np.array(answer.split(), int).reshape(len(launches), 3).T
    if (status == UNKNOWN_DEVICE).any():
        return None
    if (launches[status == ERROR_STATUS, 0] > 0).any():
        raise SystemExit(f"check_occupancy: {name}: the header calls a launch invalid that has threads")
    return np.stack([blocks, factors], axis=1)


def from_header(driver: Path, per_capability: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield capability, drawn launches, and the header's results."""
    for number, (name, row) in enumerate(capabilities().items()):
        launches = draw(row, per_capability, np.random.default_rng([20240607, number]))
        answers = ask(driver, name, row, launches)
        if answers is None:
            print(f"{name}: unknown to this header", file=sys.stderr)
        else:
            yield name, launches, answers


def store(path: Path, driver: Path, version: str) -> None:
    """Write launches for the tests, spread over the capabilities."""
    share = -(-STORED // len(capabilities()))
    lines = [
        f"{name},{','.join(map(str, numbers))}"
        for name, launches, answers in from_header(driver, share)
        for numbers in np.hstack([launches, answers])
    ]
    del lines[STORED:]
    made = f"# cuda_occupancy.h of {version}, by check_occupancy.py --store; factors are its bits"
    names = "capability,threads,registers,shared_bytes,blocks,factors"
    path.write_text("\n".join([made, names, *lines]) + "\n")


def show(source: str, results: dict[str, dict[str, int]], as_json: bool) -> None:
    """Print a line for each capability, and the totals."""
    total = {key: sum(row[key] for row in results.values()) for key in next(iter(results.values()))}
    if as_json:
        print(json.dumps({"reference": source, "capabilities": results, "total": total}, indent=2))
        return
    print(f"Reference: {source}")
    print(f"{'capability':>10}", *(f"{key:>18}" for key in total))
    for name, row in (results | {"all": total}).items():
        print(f"{name:>10}", *(f"{value:18,}" for value in row.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--header", type=Path, help="path of cuda_occupancy.h (default: look for a toolkit)")
    parser.add_argument("--per-capability", type=int, default=20000, help="launches (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--store", type=Path, help=f"write {STORED} launches with the header's answers there")
    options = parser.parse_args()
    if options.per_capability < 1:
        parser.error(f"--per-capability: found {options.per_capability}, expected 1 or more")
    if options.header and not options.header.is_file():
        parser.error(f"--header: found no file {options.header}, expected the path of cuda_occupancy.h")

    header = options.header or find_header()
    if header is None:
        parser.error("no CUDA toolkit found ($CUDA_HOME, nvcc, /usr/local/cuda)")
    with tempfile.TemporaryDirectory() as folder:
        driver = build(header, folder)
        if isinstance(driver, str):
            parser.error(driver)
        if options.store:
            store(options.store, driver, toolkit(header))
            return 0
        source, rows = f"{header} ({toolkit(header)})", capabilities()
        results = {
            name: compare(rows[name], launches, answers)
            for name, launches, answers in from_header(driver, options.per_capability)
        }
    if not results:
        parser.error(f"{source} knows none of the capabilities {', '.join(rows)}")
    show(source, results, options.json)
    return int(any(row["differing blocks"] or row["differing limiters"] for row in results.values()))


if __name__ == "__main__":
    sys.exit(main())
