"""Map a function over items in several processes."""

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
from functools import cache, partial
from multiprocessing.context import BaseContext
from typing import TypeVar

from dse.core.cluster import active_executor, processors, without_script
from dse.core.jax_cache import DOES_WITHOUT
from dse.errors import DseError, InputWarning

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: int | None = None,
    advance: Callable[[int], None] = lambda steps: None,
    steps: Sequence[int] | None = None,
    imports: Sequence[str] = (),
) -> list[Result]:
    """Apply `function` to each item; results in order. `advance` takes the `steps` (1) of each one done.

    `workers` is the number of processes (default: the available processors). With one worker or one item,
    and in a daemonic process, which may start none, all is done in this process. Else `function`, items and
    results must be picklable, and not of the running script; the module of `function`, and `imports`, which
    it imports late, are imported once for all processes. Within `dse.core.cluster.executing_on` its executor
    does the work.

    **Raises:** the first error of `function`, and KeyboardInterrupt, with no process left; DseError if a
    process ends early, or none can be started.
    """
    steps = [1] * len(items) if steps is None else steps
    if items and (execute := active_executor()) is not None:
        results: list[Result] = []
        for _, batch in execute(partial(_map, function), items):
            advance(sum(steps[len(results) : len(results) + len(batch)]))
            results += batch
        return results
    workers = min(workers or processors(), len(items))
    if workers <= 1 or multiprocessing.current_process().daemon:
        results = []
        for item, count in zip(items, steps, strict=True):
            results.append(function(item))
            advance(count)
        return results
    others = set(multiprocessing.active_children())
    context = _context([getattr(function, "__module__", __name__), *imports])
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_begin) as pool:
        futures = None
        try:
            with _uninterrupted(), without_script():
                futures = [pool.submit(function, item) for item in items]
            steps_of = dict(zip(futures, steps, strict=True))
            for future in as_completed(futures):
                future.result()
                advance(steps_of[future])
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            ours = set(multiprocessing.active_children()) - others
            for process in ours:
                process.terminate()  # a compilation may take a long time
            for process in ours:
                process.join()
            if futures is None and isinstance(error, OSError):
                reason = f"found none that starts, expected processes: {error.strerror or error}"
                raise DseError(f"workers: {reason}") from None
            if isinstance(error, BrokenProcessPool):
                raise DseError(
                    "workers: found a process that ended early, expected fewer of them if memory ran out"
                ) from None
            raise
        return [future.result() for future in futures]


def _map(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply `function` on a worker of a cluster."""
    collect_seldom()
    return [function(item) for item in items]


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Postpone an interrupt: a process that is just being started is not known yet and would be left over."""
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


def _context(imports: list[str]) -> BaseContext:
    """Choose a start method; not fork, since JAX has threads in this process. Imports start none."""
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    forks = forks and len(os.fsencode(tempfile.gettempdir())) < _LONGEST
    if forks:
        multiprocessing.set_forkserver_preload(imports)
    return multiprocessing.get_context("forkserver" if forks else "spawn")


_LONGEST = 60  # bytes of a folder for sockets, whose whole path has at most 104 or 108


def _begin() -> None:
    warnings.simplefilter("ignore", InputWarning)  # the parent process reports it
    warnings.filterwarnings("ignore", DOES_WITHOUT)
    collect_seldom()
    _follow_the_parent()


@cache
def collect_seldom() -> None:
    """Run the garbage collector rarely: parsed code is many small objects, hardly any of them garbage.

    With Python's defaults, collection takes a third of the time.
    """
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)


def _follow_the_parent() -> None:
    """End a worker with its parent, and silently on Ctrl-C: it has nothing to clean up."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
