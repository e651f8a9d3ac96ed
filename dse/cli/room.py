"""Whether this process has what JAX needs: where it lacks that, JAX aborts or waits for ever."""

import os
import sys
import tempfile
import threading
from contextlib import suppress

from dse.errors import DseError

LEAST_BYTES = {"RLIMIT_AS": (2.0e9, "ulimit -v"), "RLIMIT_DATA": (1.0e9, "ulimit -d")}
MANY_PROCESSES = 4096  # a limit beyond which is not met


def check() -> None:
    """Check the limits and settings of this process. **Raises:** DseError, one line, for one that ends it."""
    if sys.platform == "linux":
        _check_limits()
    check_flags()


def check_flags() -> None:
    """Check $XLA_FLAGS: XLA ends the process by one that it does not know, so ask it in a fork.

    **Raises:** DseError with what XLA says of them.
    """
    flags = os.environ.get("XLA_FLAGS")
    if not flags or "jax" in sys.modules or not hasattr(os, "fork"):
        return
    import jax

    from dse.core.processes import ProcessLimits, Stopped, in_fork

    with tempfile.TemporaryFile() as output:

        def ask() -> bytes:
            os.dup2(output.fileno(), 2)
            with suppress(RuntimeError, AssertionError):  # of JAX_PLATFORMS
                jax.devices("cpu")
            return b""

        try:
            in_fork(ask, ProcessLimits(seconds=60, memory_bytes=4 * 10**9, output_bytes=10**6))
        except Stopped:
            output.seek(0)
            said = output.readline().decode(errors="replace").partition("] ")[2].strip()
            reason = f": {said}" if said else ""
            raise DseError(f"XLA_FLAGS: found {flags!r}, expected flags that XLA knows{reason}") from None


def _check_limits() -> None:
    import resource

    for name, (least, option) in LEAST_BYTES.items():
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY and soft < least:
            limit = f"found a limit of {soft / 1e9:.3g} GB ({option})"
            raise DseError(f"memory: {limit}, expected {least / 1e9:g} GB or more")
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and soft < MANY_PROCESSES:
        _check_threads(16 + 8 * (os.cpu_count() or 1), soft)


def _check_threads(count: int, limit: int) -> None:
    """Start this many threads at a time: how many there are besides ours, only the system knows."""
    done = threading.Event()
    started = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=done.wait)
            thread.start()
            started.append(thread)
    except RuntimeError:
        more = f"expected room for {count} threads"
        raise DseError(f"processes: found a limit of {limit} (ulimit -u), {more}") from None
    finally:
        done.set()
        for thread in started:
            thread.join()
