"""Configurations compiled by other processes while earlier ones are used, and kept on disk.

Apart from the rest, so that these processes need not load it: they start anew for every few configurations.
"""

import pickle
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dse.cuda.cache import Cache, key
from dse.cuda.compile.nvrtc import Compiled, Failure, Source, compile_source, compiler
from dse.cuda.parallel import each, processors
from dse.version import __version__

Defines = tuple[tuple[str, Any], ...]

_AHEAD = 8  # configurations for each process
_OTHERS = 2  # processors for the processes that use what is compiled


@dataclass(frozen=True)
class _Compilation:
    """A configuration that is to be compiled, or was before."""

    source: Source
    arch: int
    defines: Defines
    cache: Cache


def _made(wanted: _Compilation) -> Compiled | Failure:
    same = wanted.source.digest, str(wanted.arch), compiler(), __version__, repr(wanted.defines)
    digest = key("measured", *same)
    kept = wanted.cache.get([digest]).get(digest)
    if kept is None:
        made = compile_source(wanted.source, wanted.arch, dict(wanted.defines))
        wanted.cache.put({digest: zlib.compress(pickle.dumps(made), 1)})
        return made
    return pickle.loads(zlib.decompress(kept))


def compiled(
    source: Source, arch: int, wanted: Sequence[Defines], workers: int | None = None
) -> Iterator[Compiled | Failure]:
    """Compile each configuration, given by its macros, and yield what came of it in order."""
    workers, cache = workers or max(1, processors() - _OTHERS), Cache()
    codes = [_Compilation(source, arch, defines, cache) for defines in wanted]
    size = _AHEAD * workers
    parts = [codes[first : first + size] for first in range(0, len(codes), size)]
    background = ThreadPoolExecutor(1)
    try:
        coming = background.submit(each, _made, parts[0], workers) if parts else None
        for following in [*parts[1:], None]:
            results = coming.result() if coming else []
            coming = background.submit(each, _made, following, workers) if following else None
            yield from results
    finally:
        background.shutdown(wait=False, cancel_futures=True)  # what is under way is kept, and not waited for
