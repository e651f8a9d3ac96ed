"""Run work in threads of this process, in local processes, or on the machines of a cluster with Dask.

Work is a sequence of units, a range or a list, processed in batches, `function(batch)`; results come back in
order. Dask repeats the units of a worker that died. Only this module uses Dask (extra `cluster`).

Anyone who reaches a scheduler can run code as the workers' user, and its replies are unpickled here. Ours
listens on this machine only and, since others may work on it, requires a certificate made for this cluster
and kept in the memory of its processes.
"""

import logging
import os
import pickle
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from ipaddress import ip_address
from types import ModuleType
from typing import Any, TypeVar, cast

from dse.core.optional import install, needs
from dse.errors import DseError, InputWarning

SECONDS = 2.0  # target duration of a worker's task, of one unit at least
PATIENCE = 5.0  # s without a result before a local cluster is checked
MOST_DEATHS = 100  # of workers on the same task
_ENVIRONMENT = "distributed.nanny.pre-spawn-environ"  # of workers
R = TypeVar("R")
U = TypeVar("U", bound=Sequence[Any])  # a sequence of units, sliced into batches
# Runs a function on units of work in batches: yields each batch and its result, in order.
Executor = Callable[[Callable[[Any], Any], Any], Iterator[tuple[Any, Any]]]

_ACTIVE: ContextVar[Executor | None] = ContextVar("executor", default=None)


def processors() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(workers: int | None = None) -> Executor:
    """Run work in threads: one a core, or `workers`. JAX's devices are used in turn."""
    count = workers or processors()

    def execute(function: Callable[[U], R], units: U) -> Iterator[tuple[U, R]]:
        import jax

        devices = jax.local_devices()

        def on_device(index: int, unit: U) -> R:
            with jax.default_device(devices[index % len(devices)] if len(devices) > 1 else None):
                return function(unit)

        with ThreadPoolExecutor(max(count, len(devices))) as pool:
            pending: deque[tuple[U, Any]] = deque()
            try:
                for index in range(len(units)):
                    unit = cast(U, units[index : index + 1])
                    pending.append((unit, pool.submit(on_device, index, unit)))
                    if len(pending) > 2 * max(count, len(devices)):
                        done, future = pending.popleft()
                        yield done, future.result()
                while pending:
                    done, future = pending.popleft()
                    yield done, future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return execute


@contextmanager
def executor(workers: int | None = None, address: str | None = None) -> Iterator[Executor]:
    """Provide an executor: the cluster at `address`, `workers` local processes, or threads by default.

    **Raises:** DseError if Dask is missing, or no scheduler answers at `address`.
    """
    if workers is None and address is None:
        yield in_threads()
        return
    with client(workers, address) as connected:
        yield on_cluster(connected)


@contextmanager
def executing_on(workers: int | None = None, address: str | None = None) -> Iterator[None]:
    """Count kernels from source on `executor(workers, address)` within the block.

    Local processes are started for the first work only: counts may all be on disk.

    **Raises:** DseError as `executor`.
    """
    if workers is None and address is None:
        yield
        return
    with ExitStack() as stack:
        begin = cache(lambda: stack.enter_context(executor(workers, address)))
        if address is not None:
            begin()
        before = _ACTIVE.set(lambda function, units: begin()(function, units))
        try:
            yield
        finally:
            _ACTIVE.reset(before)


def active_executor() -> Executor | None:
    """Return the executor of the enclosing `executing_on` block; None outside."""
    return _ACTIVE.get()


class _Nobody(ModuleType):
    """What processes that are started take for the running script."""

    def __init__(self, script: ModuleType) -> None:
        super().__init__("__main__")
        self.script, self.blocks = script, 0


@contextmanager
def without_script() -> Iterator[None]:
    """Hide the running script from processes that are started: each would run it again, to the same call.

    Blocks may overlap.
    """
    script = sys.modules["__main__"]
    nobody = script if isinstance(script, _Nobody) else _Nobody(script)
    sys.modules["__main__"] = nobody
    nobody.blocks += 1
    try:
        yield
    finally:
        nobody.blocks -= 1
        if not nobody.blocks:
            sys.modules["__main__"] = nobody.script


@contextmanager
def client(workers: int | None = None, address: str | None = None) -> Iterator[Any]:
    """Connect to the scheduler at `address`, or to a cluster of `workers` processes that ends with the block.

    A `tls://` address uses the certificates in Dask's own settings (`distributed.comm.tls`).

    **Raises:** DseError if Dask is missing, both are given, or no scheduler answers.
    """
    if workers is not None and address is not None:
        raise DseError(f"workers: found {workers} together with cluster, expected one of them")
    with needs("dask", install("cluster")):
        from dask import config
        from distributed import Client, LocalCluster, Nanny
        from distributed.security import Security
    if address is not None:
        try:
            connected = Client(address, timeout="10s", set_as_default=False)
        except Exception as error:  # errors depend on the kind of address
            reason = " ".join(str(error).split())[:200]
            raise DseError(f"cluster: found no scheduler at {address}: {reason}") from None
        with connected:
            if _is_open(address):
                problem = f"cluster: found {address}, which anyone on its network may use and answer for"
                warnings.warn(f"{problem}, expected tls://HOST:PORT", InputWarning, stacklevel=2)
            yield connected
        return
    with needs("cryptography", install("cluster")):
        certificate = Security.temporary()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # `silence_logs` acts too late
    settings = {
        "distributed.scheduler.allowed-failures": MOST_DEATHS,
        "distributed.admin.log-format": "%(message)s",
        "distributed.scheduler.http.routes": [],  # pages without a certificate
        "distributed.worker.http.routes": [],
        # By default each freed array goes back to the system, and the next one faults in every page.
        f"{_ENVIRONMENT}.MALLOC_TRIM_THRESHOLD_": 2**28,
        f"{_ENVIRONMENT}.MALLOC_MMAP_THRESHOLD_": 2**25,
    }

    class ScriptlessNanny(Nanny):
        async def instantiate(self) -> Any:
            with without_script():
                return await super().instantiate()

    with (
        config.set(settings),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            worker_class=ScriptlessNanny,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            security=certificate,
        ) as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


def _is_open(address: str) -> bool:
    """Whether a scheduler is reachable from other machines without a certificate."""
    from distributed.comm.addressing import parse_address, parse_host_port

    kind, location = parse_address(address)
    host, _ = parse_host_port(location, 0)
    try:
        return kind != "tls" and not ip_address(host).is_loopback
    except ValueError:  # a host name
        return kind != "tls" and host != "localhost"


def on_cluster(connected: Any) -> Executor:
    """Run work on the workers of a Dask client, in tasks of about `SECONDS`."""

    def execute(function: Callable[[U], R], units: U) -> Iterator[tuple[U, R]]:
        import cloudpickle  # comes with Dask; pickles user-defined functions too

        payload = cloudpickle.dumps(function)
        pending: deque[tuple[U, Any]] = deque()
        start, batch_size = 0, 1
        try:
            while start < len(units) or pending:
                ahead = 2 * max(1, sum(connected.nthreads().values()))
                while start < len(units) and len(pending) < ahead:
                    batch = cast(U, units[start : start + batch_size])
                    pending.append((batch, connected.submit(_timed, payload, batch, pure=False)))
                    start += len(batch)
                batch, future = pending.popleft()
                seconds, result = wait_for(connected, future)
                batch_size = max(1, min(2 * batch_size, int(SECONDS * len(batch) / max(seconds, 1e-6))))
                yield batch, result
        finally:
            connected.cancel([future for _, future in pending], force=True)

    return execute


def wait_for(connected: Any, future: Any) -> Any:
    """Wait for a task, and restart workers that a local cluster has lost."""
    while True:
        try:
            return future.result(timeout=PATIENCE)
        except TimeoutError:
            if future.done():  # finished just now, or the task itself raised a TimeoutError
                return future.result()
            if (local := connected.cluster) is not None:
                local.scale(len(local.worker_spec))


def _timed(payload: bytes, units: Sequence[Any]) -> tuple[float, Any]:
    """Run a batch on a worker; return the seconds it took, and the result."""
    start = time.monotonic()
    result = _function(payload)(units)
    return time.monotonic() - start, result


@lru_cache(maxsize=4)
def _function(payload: bytes) -> Callable[[Sequence[Any]], Any]:
    """Unpickle a function once for all its tasks, so that its caches and compiled code are reused."""
    return pickle.loads(payload)
