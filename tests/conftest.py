"""JAX as strict as it goes, hypothesis repeatable on CI, and `dse` run as a user runs it."""

import ctypes
import dataclasses
import gc
import inspect
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jaxtyping
import pytest
from hypothesis import settings

# With --jaxtyping-packages, types are checked at the functions of a module. One inside another function would
# be wrapped anew at every call of that one, which took a third of the time of all tests. jaxtyping binds the
# arguments of every call, fifty times what the check itself takes, so only where there are shapes.
_checked = jaxtyping.jaxtyped


def _checked_at_the_top(*arguments: Any, **options: Any) -> Any:
    decorate = _checked(*arguments, **options)
    if arguments:
        return decorate

    def check(it: Any) -> Any:
        if "<locals>" in getattr(it, "__qualname__", ""):
            return it
        if inspect.isfunction(it) and not _has_shapes(it):
            return options["typechecker"](it)
        if dataclasses.is_dataclass(it) and type(it) is type and not _has_shapes(it.__init__):
            it.__init__ = options["typechecker"](it.__init__)
            return it
        return decorate(it)

    return check


def _has_shapes(function: Any) -> bool:
    """Whether a type of a function's arguments is of jaxtyping, or a name in quotes that it resolves."""
    types = map(repr, getattr(function, "__annotations__", {}).values())
    return any("jaxtyping" in item or "'" in re.sub("<class '.*?'>", "", item) for item in types)


jaxtyping.jaxtyped = _checked_at_the_top

# Many tests start processes, and where Python keeps no bytecode each of them compiles the package again: two
# thirds of the time of a short command.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# These tests compile more than they run. XLA takes half as long without its newer way to emit fused loops;
# and compiling parts of a function side by side is of no use to as many processes as there are cores.
QUICK = "--xla_cpu_parallel_codegen_split_count=1"
if jax.__version_info__ < (0, 11):  # later ones have no other way, and end at a flag that they do not know
    QUICK += " --xla_cpu_use_fusion_emitters=false"
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()

# Test files, and processes that run some of them, share what takes longer to compile than to keep.
WORTH_KEEPING = 0.05  # seconds of compilation
KEPT = Path(__file__).parents[1] / ".pytest_cache"
COMPILED = str(KEPT / "jax")
os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = str(WORTH_KEEPING)
jax.config.update("jax_compilation_cache_dir", COMPILED)
jax.config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)

# Under nohup, and in the background of a script, these come ignored, and so they would to what tests start.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

# Nor do they touch what their user has kept. What Numba compiles takes two thirds of the time with few
# optimisations, and with none it could not be kept; .ci/run asks for all of them once. What came of executing
# kernels is computed again.
os.environ.setdefault("NUMBA_OPT", "1")
CHECKED = "-checked" if os.environ.get("NUMBA_BOUNDSCHECK") else ""  # of which Numba keeps no account
os.environ["DSE_CACHE"] = str(KEPT / f"dse-{os.environ['NUMBA_OPT']}{CHECKED}")
if "PYTEST_XDIST_WORKER" not in os.environ:
    for path in Path(os.environ["DSE_CACHE"]).glob("*.sqlite*"):
        path.unlink()

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_traceback_in_locations_limit", 0)  # where each operation was called from
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Tests run side by side already, and a process takes longer to start than to count the few kernels of a test.
if hasattr(os, "sched_getaffinity"):
    os.sched_getaffinity = lambda process: {0}

# What is traced is many objects, and looking them all through takes time; what is imported stays anyway.
gc.set_threshold(300_000, 100, 50)


# Rooms whose files trace or compile the same functions, and files whose tests share nothing but take long.
ONE_PROCESS = ("tests/evaluate/", "tests/models/", "tests/simulator/")
ALONE = ("tests/test_pages.py", "tests/test_examples.py", "tests/cli/test_hard_ends.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread tests over processes by file, room or alone: what compiles most shares a process."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrRoom(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(ALONE):
                return nodeid
            rooms = (room for room in ONE_PROCESS if nodeid.startswith(room))
            return next(rooms, super()._split_scope(nodeid))

    return ByFileOrRoom(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the cases whose ids have no part that `@pytest.mark.quick("phase", "a100")` names."""
    for item in items:
        quick, case = item.get_closest_marker("quick"), item.nodeid.partition("[")[2]
        if quick and not any(part in case for part in quick.args):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


# Examples are most of the time of a property: forty, where a test does not ask for more.
settings.register_profile("here", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


# Bytes of memory that a process may keep from one file of tests to the next: two processes of the default
# tests keep less, since what is forgotten is traced again.
MOST_HELD = 3.5 * 2**30


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    """What JAX compiled is forgotten after a file of tests if it is a lot: a few MB a function add up."""
    yield
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    if pages * os.sysconf("SC_PAGE_SIZE") > MOST_HELD:
        jax.clear_caches()
        gc.collect()
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # else the C library keeps what is free
            trim(0)


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_dse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """`run_dse("gpus", "--json")`: the command line in this process."""
    monkeypatch.setenv("COLUMNS", "200")  # help and usage errors do not break lines

    def run(*arguments: Any) -> Ran:
        from dse.cli.main import run

        with (
            redirect_stdout(io.StringIO()) as out,
            redirect_stderr(io.StringIO()) as err,
            pytest.raises(SystemExit) as end,
        ):
            run([str(argument) for argument in arguments])
        code = end.value.code or 0
        return Ran(int(code), out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def answer(run_dse: Callable[..., Ran]) -> Callable[..., Any]:
    """`answer("gpus")`: what the command prints as JSON; it must not fail, nor say anything beside."""

    def answer(*arguments: Any) -> Any:
        ran = run_dse(*arguments, "--json")
        assert (ran.code, ran.err) == (0, "")
        return json.loads(ran.out)

    return answer


@pytest.fixture(scope="session")
def new_cache() -> Callable[[Path], str]:
    """`new_cache(folder)`: one where nothing is kept but compiled loops, which would take seconds again."""
    loops = Path(os.environ["DSE_CACHE"], "loops")

    def new_cache(folder: Path) -> str:
        loops.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / "loops").symlink_to(loops)
        return str(folder)

    return new_cache


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_cache: Callable[[Path], str]) -> Path:
    """A new cache folder for one test alone."""
    monkeypatch.setenv("DSE_CACHE", new_cache(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[[str], Ran]:
    """`run_python("import dse")`: code in a fresh interpreter outside the checkout, warnings as errors."""

    def run(code: str) -> Ran:
        command = [sys.executable, "-W", "error", "-c", code]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    return run


TOY = """
name = "toy"
summary = "adds one to every number"
constraints = ["block * items <= 2048", "block % 32 == 0 or items == 1", "block != 96"]

[problem]
n = 1048576

[parameters]
block = [32, 48, 64, 96, 128, 256, 512, 1024]
items = { from = 1, to = 4 }

[launch]
threads = "block"
blocks = "ceil(n / (block * items))"
registers = "16 + 2 * items"

[warp]
fp32 = "items"
int32 = "8 + items"
ilp = "items"
mlp = "items"

[[access]]
name = "x"
space = "global"
op = "load"
count = "items"

[[access]]
name = "y"
space = "global"
op = "store"
count = "items"
"""


@pytest.fixture(scope="session")
def toy_kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small kernel.toml, apart from the catalogue: one for all tests, so that it is compiled once."""
    path = tmp_path_factory.mktemp("toy") / "kernel.toml"
    path.write_text(TOY)
    return path


@pytest.fixture
def own_toy_kernel(tmp_path: Path) -> Path:
    """The same, for a test that changes it."""
    path = tmp_path / "kernel.toml"
    path.write_text(TOY)
    return path


@pytest.fixture
def own_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`own_catalogue(gpus=["a100"], kernels=["reduction"])`: these are all there is, nothing measured."""

    def own_catalogue(gpus: Iterable[str] = (), kernels: Iterable[str] = ()) -> Path:
        from dse.core import catalogue
        from dse.hardware.gpus import find as find_gpu
        from dse.kernels import find as find_kernel

        folder = tmp_path / "catalogue"
        for name in ("gpus", "kernels"):
            (folder / name).mkdir(parents=True)
        for name in gpus:
            shutil.copy(find_gpu(name), folder / "gpus")
        for name in kernels:
            unmeasured = shutil.ignore_patterns("measured")
            shutil.copytree(find_kernel(name).parent, folder / "kernels" / name, ignore=unmeasured)
        monkeypatch.setattr(catalogue, "folder", lambda name: folder / name)
        return folder

    return own_catalogue
