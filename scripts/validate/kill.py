"""Kills `dse` at random moments, runs it again, and counts what was lost, torn or left running.

    python scripts/validate/kill.py --seed 1 --kills 100

Each work is a command that keeps what it has done: sweeps with and without Dask, searches, a tuning run, a
ranking from source. It is killed (SIGKILL) again and again until its share of the kills is used up, then runs
to its end. After each kill none of its processes may be left, and what was kept may not be less than before;
the end must be that of a run that nothing disturbed, and it may print nothing. One beginning in five finds
nothing compiled, the others what JAX and Numba compiled before. Ends with 1 if anything was wrong.
`--only NAME` gives all kills to one work. `--signal SIGINT` (or SIGTERM, SIGHUP) asks each to end instead: it
must then end with 128 and the signal's number and at most one line, and how long the slowest took is told.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPU = "a100-pcie-40gb"
SECONDS = 3.0  # until all processes must have ended
KERNEL = """__global__ void scale(float* a, int n) {
  __shared__ float tile[N];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x % N] = i < n ? a[i] : 0.0f;
  __syncthreads();
  if (i < n) a[i] += tile[(threadIdx.x + 1) % N];
}
"""


@dataclass(frozen=True)
class Work:
    """A command that keeps what it has done, and how to look at that."""

    name: str
    command: Sequence[str]
    kept: Callable[[Path], int]  # how much; raises where it is torn
    same: Callable[[Path, Path], bool]  # whether two folders have the same result


def parts(folder: Path) -> int:
    """Count the finished parts of a sweep."""
    import pyarrow.parquet as pq

    if (folder / "out.parquet").exists():
        return sys.maxsize if pq.read_table(folder / "out.parquet").num_rows else 0
    found = [path for path in folder.glob("out.parquet.parts/0*.parquet") if path.stat().st_size]
    return sum(pq.read_table(path).num_rows > 0 for path in found)


def same_table(one: Path, other: Path) -> bool:
    """Whether two sweeps wrote the same rows."""
    import pyarrow.parquet as pq

    return pq.read_table(one / "out.parquet").equals(pq.read_table(other / "out.parquet"))


def fastest(folder: Path) -> int:
    """Tell how far a sweep has come that keeps the fastest; its note is whole or absent."""
    import numpy as np

    if (state := folder / "out.csv.parts/state.npz").exists():
        with np.load(state, allow_pickle=False) as arrays:
            return int(arrays["done"])
    return sys.maxsize if (folder / "out.csv").exists() else 0


def same_csv(one: Path, other: Path) -> bool:
    """Whether two sweeps found the same."""
    return (one / "out.csv").read_text() == (other / "out.csv").read_text()


def trials(folder: Path) -> int:
    """Count the finished trials of a study."""
    if not (folder / "s.db").exists():
        return 0
    with closing(sqlite3.connect(folder / "s.db", timeout=30)) as database:
        (whole,) = database.execute("PRAGMA integrity_check").fetchone()
        if whole != "ok":
            raise ValueError(whole)
        with suppress(sqlite3.OperationalError):  # no tables yet
            (count,) = database.execute("SELECT count(*) FROM trials WHERE state = 'COMPLETE'").fetchone()
            return count
    return 0


def logged(folder: Path) -> int:
    """Count the trials that a study's journal tells to have ended (`op_code` 4, state 1)."""
    entries = [json.loads(line) for line in _whole(folder / "s.log")]
    return sum(entry["op_code"] == 4 and entry["state"] == 1 for entry in entries)


def _whole(path: Path) -> list[str]:
    """Return the lines of a journal; the last may be cut off."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [line for line in lines if line.endswith("\n")]


def lines(folder: Path) -> int:
    """Count the measurements of a journal."""
    return len([json.loads(line) for line in _whole(folder / "j.jsonl")])


def records(folder: Path) -> int:
    """Count the records of the cache, each of which must be whole."""
    from dse.source.kept import unpack
    from dse.source.nvidia.compile.contract import Compiled, Failure
    from dse.source.nvidia.source import KernelProfile

    path = folder / "cache/kernels.sqlite"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path, timeout=30)) as database:
        values = []
        with suppress(sqlite3.OperationalError):
            values = [value for (value,) in database.execute("SELECT value FROM entries")]
    if any(unpack(value, KernelProfile, Compiled, Failure) is None for value in values):
        raise ValueError("a record that cannot be read")
    return len(values)


def as_many(count: Callable[[Path], int]) -> Callable[[Path, Path], bool]:
    """Compare two folders by a count."""
    return lambda one, other: count(one) == count(other)


def printed(one: Path, other: Path) -> bool:
    """Whether two commands wrote the same."""
    return (one / "r.csv").read_text() == (other / "r.csv").read_text()


SWEEP = ("sweep", "convolution", "-g", GPU, "--set", "image_width=1024,2048,4096")
TUNED = "32,64,96,128,160,192,224,256"
WORKS = (
    Work("sweep", (*SWEEP, "-m", "phase", "-m", "wfg", "-o", "out.parquet"), parts, same_table),
    Work("sweep by Dask", (*SWEEP, "-m", "phase", "--workers", "2", "-o", "out.parquet"), parts, same_table),
    Work("the fastest of a sweep", (*SWEEP, "--top", "5", "-o", "out.csv"), fastest, same_csv),
    Work(
        "search",
        ("search", "gemm", "-g", GPU, "--trials", "300", "--seed", "1", "--storage", "sqlite:///s.db"),
        trials,
        lambda one, other: trials(one) >= 300 <= trials(other),
    ),
    Work(
        "search with a journal",
        ("search", "gemm", "-g", GPU, "--trials", "300", "--seed", "1", "--storage", "journal:s.log"),
        logged,
        lambda one, other: logged(one) >= 300 <= logged(other),
    ),
    Work(
        "tune",
        ("tune", "mat_naive", "-g", GPU, "--budget", "12", "--journal", "j.jsonl", "--command", "TIMED"),
        lines,
        as_many(lines),
    ),
    Work(
        "rank from source",
        ("rank", "k.cu", "-g", GPU, "--block", "N", "--grid", "64", "--tune", f"N={TUNED}",
         "-o", "r.csv"),
        records,
        printed,
    ),
)  # fmt: skip


def started(work: Work, folder: Path, quick: bool) -> "subprocess.Popen[bytes]":
    """Start the command; a tuning run's measurements take a while unless it is to be `quick`."""
    wait = "" if quick else "sleep 0.1; "
    command = [f"sh -c '{wait}echo {{block_size}}'" if part == "TIMED" else part for part in work.command]
    environment = {**os.environ, "DSE_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "dse.cli.entry", "-q", *command]
    nowhere, told = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(
        arguments, cwd=folder, env=environment, start_new_session=True, stdout=nowhere, stderr=told
    )


def ours(folder: Path) -> list[str]:
    """List the processes that have this folder's cache, by what they run."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if (
                process.name.isdigit()
                and f"DSE_CACHE={folder}/".encode() in (process / "environ").read_bytes()
            ):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
    return found


def left(folder: Path) -> list[str]:
    """Wait until no process is left; list those that stay."""
    end = time.monotonic() + SECONDS
    while (found := ours(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def undisturbed(work: Work, folder: Path) -> float:
    """Run a command to its end; return how long that took."""
    (folder / "k.cu").write_text(KERNEL)
    begun = time.monotonic()
    with started(work, folder, quick=True) as process:
        _, errors = process.communicate()
    if process.returncode or errors:
        raise RuntimeError(f"exit code {process.returncode}: {errors.decode()[-300:]!r}")
    return time.monotonic() - begun


def anew(folder: Path, compiled: Path | None) -> None:
    """Empty a folder but for the source, and what was compiled by JAX and Numba."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "cache").mkdir(parents=True, mode=0o700)
    (folder / "k.cu").write_text(KERNEL)
    for path in compiled.iterdir() if compiled else ():
        if path.is_dir():
            shutil.copytree(path, folder / "cache" / path.name)


def ended_by(process: "subprocess.Popen[bytes]", number: signal.Signals) -> tuple[float, list[str]]:
    """End a process by a signal; return how long that took, and what was wrong with how it ended."""
    begun = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate()
    took, told = time.monotonic() - begun, errors.decode().splitlines()
    if number == signal.SIGKILL or (process.returncode in (0, 128 + number) and len(told) <= 1):
        return took, []
    return took, [f"exit code {process.returncode} by {number.name}: {' | '.join(told)[-300:]}"]


def tried(
    work: Work, scratch: Path, kills: int, rng: random.Random, number: signal.Signals
) -> tuple[float, list[str]]:
    """Kill a command so many times; return how long the slowest took to end, and list what was wrong."""
    reference, here = scratch / "reference", scratch / "killed"
    reference.mkdir(parents=True)
    cold = undisturbed(work, reference)
    anew(here, reference / "cache")
    warm = undisturbed(work, here)
    seconds, wrong, kept, done, new, longest = warm, list[str](), 0, 0, True, 0.0
    while done < kills:
        if new:
            empty = rng.random() < 0.2
            anew(here, None if empty else reference / "cache")
            seconds, kept, new = cold if empty else warm, 0, False
        ended, errors = False, b""
        with started(work, here, quick=False) as process:
            try:
                _, errors = process.communicate(timeout=rng.uniform(0.1, 1.0) * seconds)
                ended = True
            except subprocess.TimeoutExpired:
                took, badly = ended_by(process, number)
                longest = max(longest, took)
                wrong += badly
        if ended and (process.returncode or errors):
            wrong.append(f"exit code {process.returncode} when it was run again: {errors.decode()[-300:]!r}")
        if ended or process.returncode == 0:
            if not (process.returncode or work.same(here, reference)):
                wrong.append("another result")
            new = True
            continue
        done += 1
        if stayed := left(here):
            wrong.append(f"left running: {'; '.join(stayed)}")
        try:
            now = work.kept(here)
        except Exception as error:
            wrong.append(f"torn: {type(error).__name__}: {error}")
            continue
        if now < kept:
            wrong.append(f"{kept} before the kill, {now} after it")
        kept = now
    try:
        undisturbed(work, here)
        if not work.same(here, reference):
            wrong.append("another result in the end")
    except RuntimeError as error:
        wrong.append(f"in the end: {error}")
    return longest, wrong


def main() -> None:
    """Kill each work its share of times, and list what was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument(
        "--only", choices=[work.name for work in WORKS], metavar="NAME", help=", ".join(w.name for w in WORKS)
    )
    signals = ("SIGKILL", "SIGINT", "SIGTERM", "SIGHUP")
    parser.add_argument("--signal", choices=signals, default="SIGKILL")
    given = parser.parse_args()
    number = signal.Signals[given.signal]
    works = [work for work in WORKS if given.only in (None, work.name)]
    sys.path.insert(0, str(ROOT))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dse-kill-") as scratch:
        for place, work in enumerate(works):
            kills, begun = len(range(place, given.kills, len(works))), time.monotonic()
            rng = random.Random(f"{given.seed}:{work.name}")
            longest, wrong = tried(work, Path(scratch, work.name), kills, rng, number)
            failed += len(wrong)
            told = f"{work.name}: {kills} kills in {time.monotonic() - begun:.0f} s"
            told += f", the slowest ended after {longest:.1f} s, {len(wrong)} wrong"
            print(told, *wrong, sep="\n  ", flush=True)
    print(f"{given.kills} kills by {number.name} with seed {given.seed}: {failed} went wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
