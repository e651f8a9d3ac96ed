"""Work spread over threads of this process, over processes, or over the machines of a cluster by Dask.

Work is a sequence of units, a range or a list, done some at a time, `function(some units)`; results come back
in order. Dask does the units again that a worker had when it died. This is the one module that knows Dask
(extra `cluster`).

Whoever reaches a scheduler runs code as its workers' user, and its answers are unpickled here. Ours listens
on this machine alone, where others may work too: it answers only to a certificate that is made for this
cluster and kept in the memory of its processes.
"""

import logging
import os
import pickle
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from dse.core.optional import install, needs
from dse.errors import DseError, InputWarning

SECONDS = 2.0  # that one task of a worker takes, or as long as a unit does
PATIENCE = 5.0  # s without a result before a local cluster is looked after
MOST_DEATHS = 100  # of workers, while they had the same task
R = TypeVar("R")
U = TypeVar("U", bound=Sequence[Any])  # some units: what a slice of all of them is


@runtime_checkable
class Spread(Protocol):
    """A way to do units of work: yields the units done and their result, in order."""

    def __call__(self, function: Callable[[U], R], units: U) -> Iterator[tuple[U, R]]:
        """Do all `units`, some at a time."""
        ...


_IN_USE: ContextVar[Spread | None] = ContextVar("spread", default=None)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(workers: int | None = None) -> Spread:
    """Spread work over threads of this process: one for each core, or `count`. JAX's devices take turns."""
    count = workers or processors()

    def spread(function: Callable[[U], R], units: U) -> Iterator[tuple[U, R]]:
        import jax

        devices = jax.local_devices()

        def on_device(place: int, unit: U) -> R:
            with jax.default_device(devices[place % len(devices)] if len(devices) > 1 else None):
                return function(unit)

        with ThreadPoolExecutor(max(count, len(devices))) as pool:
            pending: deque[tuple[U, Any]] = deque()
            try:
                for place in range(len(units)):
                    unit = cast(U, units[place : place + 1])
                    pending.append((unit, pool.submit(on_device, place, unit)))
                    if len(pending) > 2 * max(count, len(devices)):
                        done, future = pending.popleft()
                        yield done, future.result()
                while pending:
                    done, future = pending.popleft()
                    yield done, future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return spread


@contextmanager
def spreading(workers: int | None = None, address: str | None = None) -> Iterator[Spread]:
    """Give a way to do work: on the cluster at `address`, on `workers` processes here, else in threads.

    **Raises:** DseError where Dask is missing, or no scheduler answers at `address`.
    """
    if workers is None and address is None:
        yield in_threads()
        return
    with client(workers, address) as connected:
        yield on_cluster(connected)


@contextmanager
def used(workers: int | None = None, address: str | None = None) -> Iterator[None]:
    """Let the reading of kernels from source within the block be spread as `spreading` says.

    **Raises:** DseError as `spreading`.
    """
    if workers is None and address is None:
        yield
        return
    with spreading(workers, address) as spread:
        before = _IN_USE.set(spread)
        try:
            yield
        finally:
            _IN_USE.reset(before)


def in_use() -> Spread | None:
    """Return how the block that we are in, see `used`, spreads work; None outside."""
    return _IN_USE.get()


@contextmanager
def client(workers: int | None = None, address: str | None = None) -> Iterator[Any]:
    """Connect to the scheduler at `address`, or to a cluster of `workers` processes that ends with the block.

    To a `tls://` address with the certificates that Dask's own settings name (`distributed.comm.tls`).

    **Raises:** DseError where Dask is missing, both are given, or no scheduler answers.
    """
    if workers is not None and address is not None:
        raise DseError(f"workers: found {workers} together with cluster, expected one of them")
    with needs("dask", install("cluster")):
        from dask import config
        from distributed import Client, LocalCluster
        from distributed.security import Security
    if address is not None:
        try:
            connected = Client(address, timeout="10s", set_as_default=False)
        except Exception as error:  # each kind of address has errors of its own
            reason = " ".join(str(error).split())[:200]
            raise DseError(f"cluster: found no scheduler at {address}: {reason}") from None
        with connected:
            if _is_open(address):
                found = f"cluster: found {address}, which anyone on its network may use and answer for"
                warnings.warn(f"{found}, expected tls://HOST:PORT", InputWarning, stacklevel=2)
            yield connected
        return
    with needs("cryptography", install("cluster")):
        own = Security.temporary()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # which `silence_logs` comes too late for
    settings = {
        "distributed.scheduler.allowed-failures": MOST_DEATHS,
        "distributed.admin.log-format": "%(message)s",
        "distributed.scheduler.http.routes": [],  # pages that no certificate guards
        "distributed.worker.http.routes": [],
    }
    with (
        config.set(settings),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            security=own,
        ) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


def _is_open(address: str) -> bool:
    """Whether a scheduler listens beyond this machine, and asks nobody for a certificate."""
    from distributed.comm.addressing import parse_address, parse_host_port

    kind, place = parse_address(address)
    host, _ = parse_host_port(place, 0)
    try:
        return kind != "tls" and not ip_address(host).is_loopback
    except ValueError:  # a name
        return kind != "tls" and host != "localhost"


def on_cluster(connected: Any) -> Spread:
    """Spread work over the workers of a Dask client, in tasks of about `SECONDS`."""

    def spread(function: Callable[[U], R], units: U) -> Iterator[tuple[U, R]]:
        import cloudpickle  # comes with Dask: pickles functions of a user's own too

        payload = cloudpickle.dumps(function)
        pending: deque[tuple[U, Any]] = deque()
        start, many = 0, 1
        try:
            while start < len(units) or pending:
                ahead = 2 * max(1, sum(connected.nthreads().values()))
                while start < len(units) and len(pending) < ahead:
                    some = cast(U, units[start : start + many])
                    pending.append((some, connected.submit(_done, payload, some, pure=False)))
                    start += len(some)
                some, future = pending.popleft()
                seconds, result = awaited(connected, future)
                many = max(1, min(2 * many, int(SECONDS * len(some) / max(seconds, 1e-6))))
                yield some, result
        finally:
            connected.cancel([future for _, future in pending], force=True)

    return spread


def awaited(connected: Any, future: Any) -> Any:
    """Wait for a task; meanwhile start the workers of a local cluster again that it has given up."""
    while True:
        try:
            return future.result(timeout=PATIENCE)
        except TimeoutError:
            if future.done():  # just now; or it was the task's own, which this raises
                return future.result()
            if (local := connected.cluster) is not None:
                local.scale(len(local.worker_spec))


def _done(payload: bytes, units: Sequence[Any]) -> tuple[float, Any]:
    """Do some units on a worker: the seconds that it took, and the result."""
    start = time.monotonic()
    result = _function(payload)(units)
    return time.monotonic() - start, result


@lru_cache(maxsize=4)
def _function(payload: bytes) -> Callable[[Sequence[Any]], Any]:
    """Unpickle a function once for all of its tasks: it keeps its caches and compiled code."""
    return pickle.loads(payload)
