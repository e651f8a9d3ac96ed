"""Commands that are killed, find no room to write, or are given what never ends: nothing is lost or left."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dse.source.contract import Failure
from dse.source.kept import unpack
from dse.source.nvidia.compile.contract import Compiled
from dse.source.profiles import KernelProfile

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]

HANGS_SECONDS = 20  # a loaded machine takes several
KERNEL = "__global__ void k(float* a) { a[blockIdx.x * T + threadIdx.x] *= T; }\n"
BOMB = """template <int A, int B> struct F {
  static constexpr long v = F<A - 1, 2 * B>::v + F<A - 1, 2 * B + 1>::v;
};
template <int B> struct F<0, B> { static constexpr long v = B; };
__global__ void k(long* a) { a[0] = T * F<30, 0>::v; }
"""
UNROLLED = """__global__ void k(float* a) {
#pragma unroll 256
  for (int i = 0; i < 1048576; i++) a[i * 7] = a[i] * a[i + 1];
}
"""
RANK = ("-g", "a100-pcie-40gb", "--block", "T", "--grid", "100", "--tune", "T=32,64,96")


def started(tmp_path: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    values = {**os.environ, "COLUMNS": "100", **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "dse.cli.entry", *arguments]
    return subprocess.Popen(command, cwd=tmp_path, env=values, start_new_session=True, **pipes)


def ours(folder: Path) -> list[int]:
    """Processes that were started with this folder as their cache."""
    seen = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and str(folder).encode() in (process / "environ").read_bytes():
                seen.append(int(process.name))
    return seen


def wait_until_none_is_left(tmp_path: Path, seconds: float = HANGS_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while left := ours(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def wait_until_it_compiles(tmp_path: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(b"compiler_process" in Path(f"/proc/{p}/cmdline").read_bytes() for p in ours(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_killed_while_it_ranks_from_source(tmp_path):
    (tmp_path / "k.cu").write_text(KERNEL)
    with started(tmp_path, "-q", "rank", "k.cu", *RANK) as process:
        wait_until_it_compiles(tmp_path)
        process.kill()
    wait_until_none_is_left(tmp_path)
    with started(tmp_path, "-q", "rank", "k.cu", *RANK, "--csv") as process:
        output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert len(output.splitlines()) == 4
    with closing(sqlite3.connect(tmp_path / "cache" / "kernels.sqlite")) as database:
        for (value,) in database.execute("SELECT value FROM entries"):
            assert unpack(value, KernelProfile, Compiled, Failure) is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_never_compiles_ends_with_the_command(tmp_path, number):
    (tmp_path / "k.cu").write_text(BOMB)
    with started(tmp_path, "-q", "rank", "k.cu", *RANK) as process:
        wait_until_it_compiles(tmp_path)
        process.send_signal(number)
        _, errors = process.communicate(timeout=HANGS_SECONDS)
    if number == signal.SIGINT:
        assert (process.returncode, errors) == (130, "dse: interrupted\n")
    wait_until_none_is_left(tmp_path)


def test_an_interrupt_while_models_compile(tmp_path):
    sizes = [word for size in "mnk" for word in ("--set", f"{size}=1024,1536,2048,2560,3072,3584,4096,4608")]
    gpus = ("-g", "a100-pcie-40gb", "-g", "rtx-3090", "-g", "mi250x")
    words = ("-q", "sweep", "gemm", *gpus, *sizes, "--top", "3")
    with started(tmp_path, *words, JAX_ENABLE_COMPILATION_CACHE="0") as process:
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=HANGS_SECONDS)
    assert (process.returncode, output, errors) == (130, "", "dse: interrupted\n")
    wait_until_none_is_left(tmp_path)


def test_that_some_meet_their_limit_is_said(tmp_path):
    (tmp_path / "k.cu").write_text(BOMB.replace("F<30, 0>", "F<T == 96 ? 30 : 2, 0>"))
    with started(tmp_path, "-q", "rank", "k.cu", *RANK, DSE_COMPILE_SECONDS="5") as process:
        _, errors = process.communicate()
    assert process.returncode == 0
    assert "1 of 3 configurations stopped (k.cu: the compiler ended after 5 s" in errors


def test_a_million_unrolled_steps_take_little_memory(tmp_path):
    (tmp_path / "k.cu").write_text(UNROLLED)
    words = ("-q", "characterise", "k.cu", *RANK[:2], "--block", "64", "--grid", "4", "--arg", "a=8000000")
    with started(tmp_path, *words, DSE_COMPILE_GB="1") as process:
        most = 0
        while process.poll() is None:
            for our in ours(tmp_path):
                with suppress(OSError, IndexError):
                    status = Path(f"/proc/{our}/status").read_text()
                    most = max(most, int(status.split("VmHWM:")[1].split()[0]) * 1024)
            time.sleep(0.2)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert most < 1e9


APART = ("unshare", "--user", "--map-root-user", "--mount")
NO_DISKS = not shutil.which(APART[0]) or subprocess.run([*APART, "true"], capture_output=True).returncode != 0
FULL = {  # a command that writes, and what may stay beside its file where there is no room
    "rank mat_naive -g a4000 -m roofline --top 0 -o old.csv": "",
    "sweep mat_naive -g a4000 -m roofline -o old.parquet": r"old\.parquet\.parts.*",
    "search mat_naive -g a4000 -m roofline --trials 9 --storage sqlite:///new.db": r"new\.db.*",
    "tune mat_naive -g a4000 -m roofline --budget 4 --journal new --command 'echo {block_size}'": r"new.*",
    "table mat_naive -g a4000 --for n=1000,2000 --format json -o new": "new",
}
ON_SMALL_DISKS = """
import io, json, os, shlex, subprocess, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from dse.cli.main import run

for command, old in json.load(sys.stdin).items():
    for kilobytes in (4, 68, 260, 1028, 4100):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", "disk"], check=True)
        os.chdir("disk")
        Path(old).write_text("old")
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
            try:
                run(["-q", *shlex.split(command)])
            except SystemExit as end:
                code = end.code or 0
        left = Path(old).read_bytes()[:3].decode(errors="replace"), os.listdir()
        print(json.dumps((command, old, code, errors.getvalue(), *left)))
        os.chdir("..")
        if not code:
            break
"""


@pytest.mark.skipif(NO_DISKS, reason="needs a namespace of its own, for disks of a few kilobytes")
def test_a_full_disk_is_one_line(tmp_path):
    """With ever more room: until all fits, the old file is there and no temporary one."""
    old = {command: (re.findall(r"old\.\w+", command) or ["filler"])[0] for command in FULL}
    (tmp_path / "disk").mkdir()
    ended = subprocess.run(
        [*APART, sys.executable, "-c", ON_SMALL_DISKS],
        input=json.dumps(old),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    full, fits = [], []
    for command, file, code, errors, content, names in map(json.loads, ended.stdout.splitlines()):
        if not code:
            fits.append(command)
            continue
        full.append(command)
        errors = [line for line in errors.splitlines() if not line.startswith("dse: warning: ")]
        assert (code, len(errors), content) == (2, 1, "old"), (command, errors)
        assert not [name for name in names if not re.fullmatch(f"{file}|{FULL[command]}", name)]
    assert fits == list(FULL) == list(dict.fromkeys(full))
