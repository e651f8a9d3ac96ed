"""What JAX compiles, kept on disk from one process to the next."""

import hashlib
import os
import platform
import sys
from pathlib import Path

from dse.core.files import cache_folder, own_folder

# How JAX warns of each file that another process cut off, or that cannot be written: it does without.
DOES_WITHOUT = "Error (reading|writing) persistent compilation cache"
FOLDER, SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def cache(folder: str | Path | None = None) -> Path | None:
    """Keep what JAX compiles, from here on in this process and in its children.

    Without a `folder` it is the one that commands use, in `dse.core.files.cache_folder()`, for processors
    that can do the same. Where JAX has such a folder already, that one stays.

    **Returns:** the folder; None where none can be made, or JAX cannot name it: then nothing is kept.
    **Raises:** DseError for a folder that others may write to.
    """
    jax = sys.modules.get("jax")
    known = os.environ.get(FOLDER) or (jax and jax.config.jax_compilation_cache_dir)
    if known:
        return Path(known)
    directory = _shared() if folder is None else Path(folder).expanduser().absolute()
    try:
        str(directory).encode()
        own_folder(cache_folder() if folder is None else directory)
        own_folder(directory)  # its contents are executed
    except (OSError, UnicodeEncodeError):
        return None
    os.environ[FOLDER] = str(directory)
    os.environ.setdefault(SHORTEST, "0.1")
    if jax:  # it has read its environment, and may have found that there is no folder
        from jax.experimental.compilation_cache import compilation_cache

        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", float(os.environ[SHORTEST]))
        compilation_cache.reset_cache()
    return directory


def _shared() -> Path:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            # Of the first processor; there may be hundreds.
            features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = platform.processor()
    digest = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:16]
    return cache_folder() / f"jax-{digest}"
