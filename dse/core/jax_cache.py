"""JAX's persistent compilation cache, shared by processes."""

import hashlib
import os
import platform
import sys
from pathlib import Path

from dse.core.files import cache_folder, own_folder

# JAX's warning for a cache file that another process truncated, or that cannot be written: it is harmless.
DOES_WITHOUT = "Error (reading|writing) persistent compilation cache"
FOLDER, SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def cache(folder: str | Path | None = None) -> Path | None:
    """Enable JAX's compilation cache for this process and its children.

    The default `folder` is the commands', in `dse.core.files.cache_folder()`, one for each set of processor
    features. A folder that JAX already has takes precedence.

    **Returns:** the folder; None if it cannot be created, or JAX cannot encode its name: nothing is cached.
    **Raises:** DseError for a folder that others may write to.
    """
    jax = sys.modules.get("jax")
    configured = os.environ.get(FOLDER) or (jax and jax.config.jax_compilation_cache_dir)
    if configured:
        return Path(configured)
    directory = commands_folder() if folder is None else Path(folder).expanduser().absolute()
    try:
        str(directory).encode()
        own_folder(cache_folder() if folder is None else directory)
        own_folder(directory)  # its contents are executed
    except (OSError, UnicodeEncodeError):
        return None
    os.environ[FOLDER] = str(directory)
    os.environ.setdefault(SHORTEST, "0.1")
    if jax:  # it has read the environment already, and may have initialized without a cache
        from jax.experimental.compilation_cache import compilation_cache

        jax.config.update("jax_compilation_cache_dir", str(directory))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", float(os.environ[SHORTEST]))
        compilation_cache.reset_cache()
    return directory


def commands_folder() -> Path:
    """Return the folder of the commands, one for each set of processor features."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            # Only the first processor; there may be hundreds.
            features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = platform.processor()
    digest = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:16]
    return cache_folder() / f"jax-{digest}"
