"""Kills `dse` at random moments, runs it again, and counts what was lost, torn or left running.

    python scripts/validate/kill.py --seed 1 --kills 100

Each work is a command that keeps what it has done. It is killed (SIGKILL, or another `--signal`) again and
again until its share of the kills is used up, then runs to its end. After each kill none of its processes may
be left, and what was kept may not be less than before; the end must be that of a run that nothing disturbed.
Asked to end by another signal it must end with 128 and its number, and one line. Ends with 1 if anything was
wrong.
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
from contextlib import closing, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 5.0  # until all processes must have ended
KERNEL = (
    "__global__ void k(float* a) { __shared__ float t[N]; t[threadIdx.x] = *a; a[threadIdx.x] = t[N - 1]; }\n"
)
SWEEP = "sweep convolution -g a100 --set image_width=1024,2048,4096"
WORKS = {
    "sweep": f"{SWEEP} -m phase -m wfg -o out.parquet",
    "sweep by Dask": f"{SWEEP} -m phase --workers 2 -o out.parquet",
    "the fastest of a sweep": f"{SWEEP} --top 5 -o out.csv",
    "search": "search gemm -g a100 --trials 200 --seed 1 --storage sqlite:///s.db",
    "search with a journal": "search gemm -g a100 --trials 200 --seed 1 --storage journal:s.log",
    "tune": "tune mat_naive -g a100 --budget 12 --journal j.jsonl --command",
    "table": "table mm -g h100-sxm --set N=512 --set K=512 --for M=16 --budget 8 --journal j.jsonl --command",
    "rank from source": "rank k.cu -g a100 --block N --grid 64 --tune N=32,64,96,128,160,192,224 -o out.csv",
}


def started(command: str, folder: Path, quick: bool) -> "subprocess.Popen[bytes]":
    """Start a command; what it measures by takes a while unless it is to be `quick`."""
    words = command.split()
    if words[-1] == "--command":
        named = "block_size" if words[0] == "tune" else "BLOCK_SIZE_M"
        words.append(f"sh -c '{'' if quick else 'sleep 0.1; '}echo {{{named}}}'")
    environment = {**os.environ, "DSE_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "dse.cli.entry", "-q", *words]
    return subprocess.Popen(
        arguments, cwd=folder, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def kept(folder: Path) -> int:
    """Count what a command has kept: rows, trials, measurements, records. **Raises:** where one is torn."""
    import numpy as np
    import pyarrow.parquet as pq

    from dse.source.contract import Failure
    from dse.source.kept import unpack
    from dse.source.nvidia.compile.contract import Compiled
    from dse.source.profiles import KernelProfile

    if any((folder / name).exists() for name in ("out.parquet", "out.csv")):
        return sys.maxsize
    count = sum(
        pq.read_table(path).num_rows > 0 for path in folder.glob("*.parts/0*.parquet") if path.stat().st_size
    )
    for path in folder.glob("*.parts/state.npz"):
        with np.load(path, allow_pickle=False) as arrays:
            count += int(arrays["done"])
    for path in (*folder.glob("*.jsonl"), *folder.glob("*.log")):
        entries = [
            json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")
        ]
        count += sum(entry.get("op_code", 4) == 4 and entry.get("state", 1) == 1 for entry in entries)
    for path in (*folder.glob("s.db"), *folder.glob("cache/kernels.sqlite")):
        with closing(sqlite3.connect(path, timeout=30)) as database, suppress(sqlite3.OperationalError):
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            if path.name == "s.db":
                count += database.execute("SELECT count(*) FROM trials WHERE state = 'COMPLETE'").fetchone()[
                    0
                ]
            else:
                values = [value for (value,) in database.execute("SELECT value FROM entries")]
                assert all(unpack(value, KernelProfile, Compiled, Failure) is not None for value in values)
                count += len(values)
    return count


def result(folder: Path) -> object:
    """Return what a command has found; or how many trials or measurements there are."""
    for path in (folder / "out.parquet", folder / "out.csv"):
        if path.exists():
            return path.read_bytes()
    return min(kept(folder), 200)


def left(folder: Path) -> list[str]:
    """Wait until no process has this folder's cache; list the ones that stay, by what they run."""
    end, mark = time.monotonic() + SECONDS, f"DSE_CACHE={folder}/".encode()
    while True:
        found = []
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if process.name.isdigit() and mark in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


def undisturbed(command: str, folder: Path) -> float:
    """Run a command to its end; return how long that took."""
    begun = time.monotonic()
    with started(command, folder, quick=True) as process:
        _, errors = process.communicate()
    if process.returncode or errors:
        raise RuntimeError(f"exit code {process.returncode}: {errors.decode()[-300:]!r}")
    return time.monotonic() - begun


def killed(command: str, scratch: Path, kills: int, rng: random.Random, number: signal.Signals) -> list[str]:
    """Kill a command this many times; list what was wrong."""
    reference, here, wrong = scratch / "reference", scratch / "killed", []

    def anew(folder: Path) -> None:
        """Empty a folder but for the source, and what JAX and Numba compiled."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "cache").mkdir(parents=True, mode=0o700)
        (folder / "k.cu").write_text(KERNEL)
        for path in (reference / "cache").iterdir():
            if path.is_dir() and folder != reference:
                shutil.copytree(path, folder / "cache" / path.name)

    anew(reference)
    undisturbed(command, reference)
    anew(here)
    seconds, before = undisturbed(command, here), 0
    anew(here)
    while kills:
        with started(command, here, quick=False) as process:
            try:
                _, errors = process.communicate(timeout=rng.uniform(0.1, 1.0) * seconds)
                number_ = None
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                _, errors = process.communicate()
                number_, kills = number, kills - 1
        fine = {0, -number, 128 + number} if number_ else {0}
        if process.returncode not in fine or len(errors.splitlines()) > bool(number_):
            wrong.append(f"exit code {process.returncode}: {errors.decode()[-300:]!r}")
        wrong += [f"left running: {each}" for each in left(here)]
        try:
            now = kept(here)
            wrong += [f"{before} before, {now} after"] if now < before else []
            before = now
        except Exception as error:
            wrong.append(f"torn: {type(error).__name__}: {error}")
        if process.returncode == 0:
            wrong += ["another result"] if result(here) != result(reference) else []
            anew(here)
            before = 0
    undisturbed(command, here)
    return wrong + (["another result in the end"] if result(here) != result(reference) else [])


def main() -> None:
    """Kill each work its share of times, and list what was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", choices=list(WORKS))
    signals = ("SIGKILL", "SIGINT", "SIGTERM", "SIGHUP")
    parser.add_argument("--signal", choices=signals, default="SIGKILL")
    asked = parser.parse_args()
    works = [name for name in WORKS if asked.only in (None, name)]
    sys.path.insert(0, str(ROOT))
    failed, number = 0, signal.Signals[asked.signal]
    with tempfile.TemporaryDirectory(prefix="dse-kill-") as scratch:
        for place, name in enumerate(works):
            kills, begun = len(range(place, asked.kills, len(works))), time.monotonic()
            rng = random.Random(f"{asked.seed}:{name}")
            wrong = killed(WORKS[name], Path(scratch, name), kills, rng, number)
            failed += len(wrong)
            stated = f"{name}: {kills} kills in {time.monotonic() - begun:.0f} s, {len(wrong)} wrong"
            print(stated, *wrong, sep="\n  ", flush=True)
    print(f"{asked.kills} kills by {number.name} with seed {asked.seed}: {failed} went wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
