"""Applies one function to many items, in several processes."""

import gc
import multiprocessing
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import BaseContext
from typing import TypeVar

from dse.core.cluster import Spread, in_use, processors
from dse.core.jax_cache import DOES_WITHOUT
from dse.errors import DseError, InputWarning

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Result]:
    """Apply `function` to each item, results in order. `progress` takes the number done whenever it grows.

    `workers` is the number of processes (default: the processors that we may use); with one, or one item, all
    is done here. Else `function`, items and results must be picklable, and a script must do its work under
    `if __name__ == "__main__"`. Within `dse.core.cluster.used` the work goes where that says.

    **Raises:** what `function` raises first, and KeyboardInterrupt, with no process left; DseError if one of
    them ends by itself, or none can be started.
    """
    if (spread := in_use()) is not None:
        return _spread(spread, function, items, progress)
    workers = min(workers or processors(), len(items))
    if workers <= 1:
        results = []
        for item in items:
            results.append(function(item))
            progress(len(results))
        return results
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(workers, mp_context=_context(), initializer=_begin) as pool:
        futures = None
        try:
            with _uninterrupted():
                futures = [pool.submit(function, item) for item in items]
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                progress(done)
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            ours = set(multiprocessing.active_children()) - others
            for process in ours:
                process.terminate()  # a compilation may take long
            for process in ours:
                process.join()
            if futures is None and isinstance(error, OSError):
                reason = f"found none that starts, expected processes: {error.strerror or error}"
                raise DseError(f"workers: {reason}") from None
            if isinstance(error, BrokenProcessPool):
                raise DseError(
                    "workers: found a process that ended early, expected fewer of them if memory ran out, or"
                    " if __name__ == '__main__' around what your own script does"
                ) from None
            raise
        return [future.result() for future in futures]


def _spread(
    spread: Spread,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Callable[[int], None],
) -> list[Result]:
    results: list[Result] = []
    for _, some in spread(partial(_each_of, function), items):
        results += some
        progress(len(results))
    return results


def _each_of(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    return [function(item) for item in items]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off an interrupt: of a process that is half started nobody would know, so that nobody ended it."""
    received, before = list[int](), signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            signal.raise_signal(signal.SIGINT)


def _context() -> BaseContext:
    """Choose how to start a process: not as a fork of this one, where JAX has threads."""
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    forks = forks and len(os.fsencode(tempfile.gettempdir())) < _LONGEST
    return multiprocessing.get_context("forkserver" if forks else "spawn")


_LONGEST = 60  # bytes of a folder that a socket can lie in, whose name has 104 or 108


def _begin() -> None:
    warnings.simplefilter("ignore", InputWarning)  # of the cache: the process that started us reports it
    warnings.filterwarnings("ignore", DOES_WITHOUT)
    collect_seldom()
    _follow_the_parent()


def collect_seldom() -> None:
    """Look for garbage seldom: code that is read is many small objects, and hardly any of them garbage.

    Looking as often as Python does takes a third of the time.
    """
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)


def _follow_the_parent() -> None:
    """End a worker with its parent, and at Ctrl-C at once and in silence: it has nothing to tidy up."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
