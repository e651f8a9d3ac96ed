import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings")

from dse.source.contract import Failure, lasting
from dse.source.nvidia.compile import outside
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source, read_source

HANGS_SECONDS = 20  # what takes a second takes several on a loaded machine
KERNEL = "__global__ void copy(long* a) { a[0] = 3; }\n"
BOMB = """template <int A, int B> struct F {
  static constexpr long v = F<A - 1, 2 * B>::v + F<A - 1, 2 * B + 1>::v;
};
template <int B> struct F<0, B> { static constexpr long v = B; };
__global__ void copy(long* a) { a[0] = F<30, 0>::v; }
"""


def compiled(path: Path, text: str, arch: int = 80):
    path.write_text(text)
    return compile_source(read_source(path), arch, {})


@pytest.mark.slow
def test_what_never_ends_meets_the_limit_of_time(tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_COMPILE_SECONDS", "0.5")
    made = compiled(tmp_path / "bomb.cu", BOMB)
    assert made == Failure(
        "compiler stopped", "bomb.cu: the compiler ended after 0.5 s (DSE_COMPILE_SECONDS)"
    )
    assert not lasting(made)
    monkeypatch.delenv("DSE_COMPILE_SECONDS")
    assert isinstance(compiled(tmp_path / "copy.cu", KERNEL), Compiled)  # by another process


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot limit a process from outside")
def test_what_takes_all_memory_meets_its_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_COMPILE_GB", "0.6")
    made = compiled(tmp_path / "bomb.cu", BOMB)
    assert isinstance(made, Failure)
    assert made.reason == "compiler stopped"
    assert made.message.startswith("bomb.cu: the compiler ended")
    assert "(it may take 0.6 GB, DSE_COMPILE_GB)" in made.message


@pytest.mark.slow
def test_a_crash_is_a_failure_and_the_next_call_starts_another(tmp_path):
    assert isinstance(compiled(tmp_path / "copy.cu", KERNEL), Compiled)
    assert outside._kept is not None
    first = outside._kept[2]
    os.kill(first.pid, signal.SIGSEGV)
    first.wait()
    assert isinstance(compiled(tmp_path / "copy.cu", KERNEL), Compiled)  # one that ended while idle
    second = outside._kept[2]
    os.kill(second.pid, signal.SIGSTOP)
    crash = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -SEGV {second.pid}; kill -CONT {second.pid}"])
    made = compiled(tmp_path / "copy.cu", KERNEL)
    crash.wait()
    assert isinstance(made, Failure)
    assert made.message.startswith("copy.cu: the compiler ended by SIGSEGV")
    assert isinstance(compiled(tmp_path / "copy.cu", KERNEL), Compiled)


COMMAND = """
import sys
from dse.source.nvidia.compile.nvrtc import compile_source, read_source
from dse.source.nvidia.compile import outside
source = read_source(sys.argv[1])
compile_source(read_source(sys.argv[2]), 80, {})
print(outside._kept[2].pid, flush=True)
compile_source(source, 80, {})
"""


def test_the_compiler_ends_with_who_waits_for_it(tmp_path):
    (tmp_path / "bomb.cu").write_text(BOMB)
    (tmp_path / "copy.cu").write_text(KERNEL)
    command = [sys.executable, "-c", COMMAND, str(tmp_path / "bomb.cu"), str(tmp_path / "copy.cu")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        compiler = int(waiting.stdout.readline())
        time.sleep(0.5)
        waiting.kill()
        waiting.communicate(timeout=HANGS_SECONDS)
        assert waiting.returncode == -signal.SIGKILL
    deadline = time.monotonic() + HANGS_SECONDS
    while _runs(compiler):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    try:
        return state.read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
