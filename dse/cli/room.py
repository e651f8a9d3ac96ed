"""Check memory limits under which JAX would abort, before it starts."""

import sys

from dse.errors import DseError

LEAST_BYTES = {"RLIMIT_AS": (2.0e9, "ulimit -v"), "RLIMIT_DATA": (1.0e9, "ulimit -d")}


def check() -> None:
    """Check this process's limits. **Raises:** DseError for one that is too low."""
    if sys.platform != "linux":
        return
    import resource

    for name, (least, option) in LEAST_BYTES.items():
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY and soft < least:
            limit = f"found a limit of {soft / 1e9:.3g} GB ({option})"
            raise DseError(f"memory: {limit}, expected {least / 1e9:g} GB or more")
