"""Configurations compiled by other processes while earlier ones are used, and kept on disk.

Apart from the rest, so that these processes need not load it: they start again for every few configurations.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dse.core.cluster import processors
from dse.core.parallel import parallel_map
from dse.core.version import __version__
from dse.source.cache import Cache, key
from dse.source.contract import Failure, Settings, Source, lasting
from dse.source.kept import pack, unpack
from dse.source.nvidia.compile.contract import Compiled

_AHEAD = 8  # configurations for each process
_OTHERS = 2  # processors for the processes that use what is compiled


@dataclass(frozen=True)
class _Compilation:
    """A configuration that is to be compiled, or was before."""

    source: Any  # a Source; not asked whether it is one, since its compiler may be missing
    arch: int
    settings: Settings
    cache: Cache


def _made(wanted: _Compilation) -> Compiled | Failure:
    source = wanted.source
    same = source.digest, str(wanted.arch), source.compiler, __version__, repr(wanted.settings)
    digest = key("measured", *same)
    kept = wanted.cache.get([digest]).get(digest)
    made = None if kept is None else unpack(kept, Compiled, Failure)
    if made is None:
        with _bare():
            made = source.compile(wanted.arch, wanted.settings)
        if lasting(made):
            wanted.cache.put({digest: pack(made, smaller=True)})
    return made


@contextmanager
def _bare() -> Iterator[None]:
    """Let Triton write no lines of the source into the code, a third as large then, and keep nothing.

    Multiplications and additions are fused if nothing else is said: as until Triton 3.9, which warns of
    a change.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_CACHE_DIR": folder}
        settings["TRITON_DEFAULT_FP_FUSION"] = os.environ.get("TRITON_DEFAULT_FP_FUSION", "1")
        before = {name: os.environ.get(name) for name in settings}
        os.environ.update(settings)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


def compiled(
    source: Any, arch: int, wanted: Sequence[Settings], workers: int | None = None
) -> Iterator[Compiled | Failure]:
    """Compile each configuration, given by its settings, and yield what came of it in order."""
    workers, cache = workers or max(1, processors() - _OTHERS), Cache()
    codes = [_Compilation(source, arch, settings, cache) for settings in wanted]
    size = _AHEAD * workers
    parts = [codes[first : first + size] for first in range(0, len(codes), size)]
    background = ThreadPoolExecutor(1)
    try:
        coming = background.submit(parallel_map, _made, parts[0], workers) if parts else None
        for following in [*parts[1:], None]:
            results = coming.result() if coming else []
            coming = background.submit(parallel_map, _made, following, workers) if following else None
            yield from results
    finally:
        background.shutdown(wait=False, cancel_futures=True)  # what is under way is kept, and not waited for


def compile_all(
    source: Source,
    arch: int,
    wanted: Sequence[Settings],
    advance: Callable[[int], None] = lambda done: None,
    workers: int | None = None,
) -> list[Compiled | Failure]:
    """Compile all configurations, by all processors; `advance` gets how many were done just now.

    Those of the same settings are compiled once. What is done is kept: a run that was cut off continues.
    """
    cache, reported = Cache(), 0
    several: dict[str, list[int]] = {}
    for place, settings in enumerate(wanted):
        several.setdefault(repr(settings), []).append(place)
    places = list(several.values())

    def now(done: int) -> None:
        nonlocal reported
        advance(sum(map(len, places[reported:done])))
        reported = done

    codes = [_Compilation(source, arch, wanted[same[0]], cache) for same in places]
    results: dict[int, Compiled | Failure] = {}
    for same, made in zip(places, parallel_map(_made, codes, workers, now), strict=True):
        results |= dict.fromkeys(same, made)
    return [results[place] for place in range(len(wanted))]
