"""Configurations compiled by other processes while earlier ones are used, with a cache on disk.

A module of its own, so that these processes import little: they restart after every few configurations.
"""

import os
import tempfile
from collections import Counter
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
_OTHERS = 2  # processors left for the processes that use the code


@dataclass(frozen=True)
class _Compilation:
    """A configuration to compile."""

    source: Any  # a Source; not checked by type, since its compiler may be missing
    arch: int
    settings: Settings
    cache: Cache


def _compiled(job: _Compilation) -> Compiled | Failure:
    source = job.source
    parts = source.digest, str(job.arch), source.compiler, __version__, repr(job.settings)
    digest = key("measured", *parts)
    record = job.cache.get([digest]).get(digest)
    outcome = None if record is None else unpack(record, Compiled, Failure)
    if outcome is None:
        with _bare():
            outcome = source.compile(job.arch, job.settings)
        if lasting(outcome):
            job.cache.put({digest: pack(outcome, smaller=True)})
    return outcome


@contextmanager
def _bare() -> Iterator[None]:
    """Make Triton omit source lines from the code, which reduces it to a third, and cache nothing.

    Multiplications and additions are fused by default, as until Triton 3.9, which warns of a change.
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
    source: Any, arch: int, settings: Sequence[Settings], workers: int | None = None
) -> Iterator[Compiled | Failure]:
    """Compile configurations, given by their settings, and yield the outcomes in order."""
    workers, cache = workers or max(1, processors() - _OTHERS), Cache()
    jobs = [_Compilation(source, arch, each_settings, cache) for each_settings in settings]
    size = _AHEAD * workers
    parts = [jobs[first : first + size] for first in range(0, len(jobs), size)]
    background = ThreadPoolExecutor(1)
    try:
        running = background.submit(parallel_map, _compiled, parts[0], workers) if parts else None
        for part in [*parts[1:], None]:
            results = running.result() if running else []
            running = background.submit(parallel_map, _compiled, part, workers) if part else None
            yield from results
    finally:
        background.shutdown(wait=False, cancel_futures=True)  # running compilations end later, and are cached


def compile_all(
    source: Source,
    arch: int,
    settings: Sequence[Settings],
    advance: Callable[[int], None] = lambda done: None,
    workers: int | None = None,
) -> list[Compiled | Failure]:
    """Compile all configurations on all processors; `advance` gets the number just done.

    Equal settings are compiled once. Outcomes are cached, so an interrupted run continues.
    """
    cache, texts = Cache(), list(map(repr, settings))
    distinct, numbers = dict(zip(texts, settings, strict=True)), Counter(texts)
    jobs = [_Compilation(source, arch, of_configuration, cache) for of_configuration in distinct.values()]
    outcomes = parallel_map(_compiled, jobs, workers, advance, [numbers[text] for text in distinct])
    by_text = dict(zip(distinct, outcomes, strict=True))
    return [by_text[text] for text in texts]
