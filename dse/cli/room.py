"""Whether this process may take what JAX needs: where it may not, that aborts or waits for ever."""

import os
import sys
import threading

from dse.errors import DseError

LEAST_BYTES = {"RLIMIT_AS": (2.0e9, "ulimit -v"), "RLIMIT_DATA": (1.0e9, "ulimit -d")}
MANY_PROCESSES = 4096  # a limit beyond which is not met


def check() -> None:
    """Check the limits of this process. **Raises:** DseError, one line, if one is too small."""
    if sys.platform != "linux":
        return
    import resource

    for name, (least, option) in LEAST_BYTES.items():
        found = resource.getrlimit(getattr(resource, name))[0]
        if found != resource.RLIM_INFINITY and found < least:
            limit = f"found a limit of {found / 1e9:.3g} GB ({option})"
            raise DseError(f"memory: {limit}, expected {least / 1e9:g} GB or more")
    found = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if found != resource.RLIM_INFINITY and found < MANY_PROCESSES:
        _check_threads(16 + 8 * (os.cpu_count() or 1), found)


def _check_threads(count: int, limit: int) -> None:
    """Start so many threads at a time: how many there are besides ours, only the system knows."""
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
