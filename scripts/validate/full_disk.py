"""Runs `dse` on disks that are too small, and counts where it does not end with one line and the old file.

    python scripts/validate/full_disk.py

Each command writes into a disk of a few kilobytes (a tmpfs in a namespace of its own, Linux), with ever more
room, until all of it fits. Until then it must end in five minutes with 2 and one line, leave the file that
was there, and no temporary one. Ends with 1 if anything was wrong, with 2 where no such disk can be made.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from kill import KERNEL, ROOT

GPU = "a100-pcie-40gb"

SECONDS = 300
OLD, FILLER = b"old\n", "filler"
ROOMS = [4, *(4 + (4 << step) for step in range(15))]  # kB: nothing to 64 MB, besides the old file
ENOUGH = 1000  # kB for a cache
TIMES = "block_size,time_ms\n" + "".join(f"{4 * n},{0.5 + n / 10}\n" for n in range(1, 30))
TUNE = ("tune", "mat_naive", "-g", GPU, "--budget", "4", "--command", "echo {block_size}")


@dataclass(frozen=True)
class Command:
    """A command that writes a file, and what stays beside it for the next run when there is no room."""

    name: str
    arguments: Sequence[str]
    file: str
    old: bool = True  # whether the file is there before, and may not change
    stays: Sequence[str] = ()  # patterns of what may be there when there is no room
    makes: Sequence[str] = ()  # and when all is done
    does_without: bool = False  # whether it works all the same
    environment: Mapping[str, str] = field(default_factory=dict)


COMMANDS = (
    Command("rank", ("rank", "mat_naive", "-g", GPU, "--top", "0", "-o", "o.csv"), "o.csv"),
    Command("rank as Parquet", ("rank", "mat_naive", "-g", GPU, "-o", "o.parquet"), "o.parquet"),
    Command(
        "rank, its cache",
        ("rank", "../k.cu", "-g", GPU, "--block", "N", "--grid", "64", "--tune", "N=32,64"),
        "cache/kernels.sqlite",
        old=False,
        makes=("cache*",),
        does_without=True,
        environment={"DSE_CACHE": "cache"},
    ),
    Command(
        "sweep",
        ("sweep", "mat_naive", "-g", GPU, "-o", "o.parquet"),
        "o.parquet",
        stays=("o.parquet.parts*",),
    ),
    Command(
        "sweep --top",
        ("sweep", "mat_naive", "-g", GPU, "--top", "99", "-o", "o.csv"),
        "o.csv",
        stays=("o.csv.parts*",),
    ),
    Command(
        "sweep --pareto",
        ("sweep", "mat_naive", "-g", GPU, "--pareto", "time_s,registers", "-o", "o.json"),
        "o.json",
        stays=("o.json.parts*",),
    ),
    Command(
        "search in SQLite",
        ("search", "mat_naive", "-g", GPU, "--trials", "20", "--storage", "sqlite:///o.db"),
        "o.db",
        old=False,
        stays=("o.db*",),
        makes=("o.db*",),
    ),
    Command(
        "search in a journal",
        ("search", "mat_naive", "-g", GPU, "--trials", "20", "--storage", "journal:o.log"),
        "o.log",
        old=False,
        stays=("o.log*",),
        makes=("o.log*",),
    ),
    Command("tune", (*TUNE, "--journal", "o.jsonl"), "o.jsonl", old=False, stays=("o.jsonl*",)),
    Command("report", ("report", "../r.parquet", "-o", "o.html"), "o.html"),
    Command(
        "table",
        ("table", "mat_naive", "-g", GPU, "--for", "n=1000,2000", "--format", "json", "-o", "tables"),
        "tables/mat_naive on NVIDIA A100-PCIE-40GB.json",
        stays=("tables",),
        makes=("tables",),
    ),
    Command(
        "fit",
        ("fit", "mat_naive", "-g", GPU, "--starts", "1", "--free", "clock", "--measured", "../TIMES",
         "-o", "o.toml"),
        "o.toml",
    ),
    Command("prune", ("prune", "mat_naive", "-g", GPU, "--top", "9", "-o", "o.csv"), "o.csv"),
    Command("compare", ("compare", "mat_naive", "-g", GPU, "--measured", "../TIMES", "-o", "o.csv"), "o.csv"),
)  # fmt: skip


def tried(command: Command, folder: Path) -> list[str]:
    """Run a command on ever larger disks, and list what was wrong."""
    wrong, full, code = [], 0, None
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    for kilobytes in ROOMS:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(disk)], check=True)
        try:
            code, mistakes = once(command, disk)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
        wrong += [f"{kilobytes} kB: {mistake}" for mistake in mistakes]
        if code == 0 and (not command.does_without or kilobytes > ENOUGH):
            break
        full += code == 2
    if bool(full) == command.does_without:
        wrong.append(f"{full} disks were full")
    if code != 0:
        wrong.append("no disk was large enough")
    return wrong


def once(command: Command, disk: Path) -> tuple[int | None, list[str]]:
    """Run a command on a disk; return its exit code, and what was wrong."""
    old = disk / (command.file if command.old else FILLER)
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(OLD)  # takes a page
    environment = os.environ | {"DSE_CACHE": str(disk.parent / "cache"), "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-m", "dse.cli.entry", "-q", *command.arguments]
    try:
        ended = subprocess.run(
            arguments,
            cwd=disk,
            env={**environment, **command.environment},
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, [f"has not ended after {SECONDS} s"]
    told = [line for line in ended.stderr.decode().splitlines() if not line.startswith("dse: warning: ")]
    wrong = []
    if ended.returncode not in (0, 2):
        wrong.append(f"exit code {ended.returncode}")
    if len(told) != (ended.returncode == 2):
        wrong.append(f"{len(told)} lines: {' | '.join(told)[:300]}")
    if ended.returncode == 2 and command.old and (disk / command.file).read_bytes() != OLD:
        wrong.append("the old file has changed")
    found = {str(path.relative_to(disk)) for path in disk.rglob("*")} - {command.file, FILLER}
    stays = command.stays if ended.returncode == 2 else command.makes
    wrong += [f"{name} is left" for name in sorted(found) if not any(fnmatch(name, each) for each in stays)]
    return ended.returncode, wrong


def main() -> None:
    """Run each command on ever larger disks, and list what was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[each.name for each in COMMANDS], metavar="NAME")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside:
        apart = ["unshare", "--user", "--map-root-user", "--mount"]
        if not shutil.which("unshare") or subprocess.run([*apart, "true"], check=False).returncode:
            print("no namespace of its own can be made here", file=sys.stderr)
            sys.exit(2)
        sys.exit(subprocess.run([*apart, sys.executable, *sys.argv, "--inside"], check=False).returncode)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="dse-disk-") as scratch:
        folder = Path(scratch)
        (folder / "k.cu").write_text(KERNEL)
        (folder / "TIMES").write_text(TIMES)
        made = Command("", ("rank", "mat_naive", "-g", GPU, "-o", "r.parquet"), "r.parquet")
        if once(made, folder)[0]:
            sys.exit("no result file can be made")
        for command in COMMANDS:
            if given.only in (None, command.name):
                wrong = tried(command, folder)
                failed += len(wrong)
                print(f"{command.name}: {len(wrong)} wrong", *wrong, sep="\n  ", flush=True)
    print(f"{failed} went wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
