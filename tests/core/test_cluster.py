"""Work spread over threads and over a real local cluster, of which a worker is killed in the middle."""

import os
import signal
import sys
import time
import warnings
from contextlib import nullcontext

import cloudpickle
import pytest

import dse
from dse.core.cluster import client, executor, in_threads, on_cluster, wait_for
from dse.errors import DseError


def squares(units):
    time.sleep(0.02 * len(units))
    return [unit * unit for unit in units]


def collected(spread, count, meanwhile=lambda done: None):
    actual, last = [], 0
    for units, result in spread(squares, range(count)):
        assert units.start == last  # in order, none twice
        last = units.stop
        actual += result
        meanwhile(last)
    return actual


def test_threads_keep_the_order():
    assert collected(in_threads(3), 20) == [i * i for i in range(20)]
    assert list(in_threads(2)(len, ["one", "two"])) == [(["one"], 1), (["two"], 1)]
    with pytest.raises(DseError, match="together with cluster"), executor(2, "tcp://127.0.0.1:1"):
        pass


DEVICES = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import dse, jax.numpy as jnp
from dse.core.cluster import in_threads
from dse.explore.sweep import plan
print(len({str(used) for _, used in in_threads(2)(lambda units: jnp.zeros(1).devices(), range(8))}))
plan.CONFIGURATIONS = 128
print(dse.sweep("matmul_tiled", ["a100", "h200"], "phase").top(5, ["gpu"]))
"""


@pytest.mark.slow
def test_all_devices_do_some_of_the_work_with_the_same_result(run_python):
    ran = run_python(DEVICES)
    assert ran.code == 0, ran.err
    devices, _, best = ran.out.partition("\n")
    assert devices == "4"
    assert best == f"{dse.sweep('matmul_tiled', ['a100', 'h200'], 'phase').top(5, ['gpu'])}\n"


def fails(units):
    raise DseError("found nothing")


def test_an_error_of_a_unit_comes_out(two_workers):
    for spread in (in_threads(2), on_cluster(two_workers)):
        with pytest.raises(DseError, match="found nothing"):
            list(spread(fails, range(10)))
    sizes = [len(units) for units, _ in on_cluster(two_workers)(squares, range(60))]
    assert sizes[0] == 1
    assert max(sizes) > 3


@pytest.fixture(scope="module")
def two_workers():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
    with client(workers=2) as connected:
        connected.wait_for_workers(2)
        yield connected


def test_a_worker_that_dies_is_made_up_for(two_workers):
    pids = list(two_workers.run(os.getpid).values())
    killed = []

    def kill(done):
        if done >= 5 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    assert len(pids) == 2
    assert collected(on_cluster(two_workers), 100, kill) == [i * i for i in range(100)]
    assert killed
    assert pids[0] not in two_workers.run(os.getpid).values()


ATTACK = """
import os, warnings
warnings.simplefilter("ignore")
from distributed import Client
from distributed.security import Security

def attack(address, security):
    try:
        with Client(address, timeout=3, security=security) as connected:
            print(connected.submit(lambda: "obeyed").result(timeout=3))
    except Exception as error:
        print("refused", os.getuid())

for security in (None, Security.temporary()):
    attack(ADDRESS, security)
    attack(ADDRESS.replace("tls", "tcp"), security)
if not os.getuid():  # as another user too, by whom the same is imported by now
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    attack(ADDRESS, None)
    attack(ADDRESS, Security.temporary())
"""


def test_workers_answer_to_their_owner_alone(two_workers, run_python):
    two_workers.wait_for_workers(2)  # one of them was killed
    workers = two_workers.scheduler_info()["workers"]
    assert len(workers) == 2
    for address in (two_workers.scheduler.address, *workers):
        assert address.startswith("tls://127.0.0.1:")
    ran = run_python(ATTACK.replace("ADDRESS", repr(two_workers.scheduler.address)))
    users = [os.getuid()] * 4 + [65534] * (0 if os.getuid() else 2)
    assert ran.out.splitlines() == [f"refused {user}" for user in users], ran.err


@pytest.mark.parametrize(
    ("address", "doubted"),
    [
        ("tcp://[::1]:8786", False),
        ("localhost:8786", False),
        ("tls://node1:8786", False),
        ("tcp://node1:8786", True),
        ("10.0.0.1:8786", True),
    ],
)
def test_a_scheduler_that_asks_nobody_is_doubted(monkeypatch, address, doubted):
    monkeypatch.setattr("distributed.Client", lambda *_, **options: nullcontext())
    with warnings.catch_warnings(record=True, action="always") as warned, client(address=address):
        pass
    messages = [str(warning.message) for warning in warned]
    assert messages == [f"cluster: found {address}, which anyone on its network may use and answer for, "
                        "expected tls://HOST:PORT"] * doubted  # fmt: skip


@pytest.mark.parametrize("address", ["nowhere", "tls://127.0.0.1:1", "http://127.0.0.1:1"])
def test_no_scheduler(address):
    with (
        pytest.raises(DseError, match=f"cluster: found no scheduler at {address}"),
        executor(address=address),
    ):
        pass


class Late:
    """A task that ends while its caller finds that it has waited for too long."""

    def __init__(self, result):
        self.own = result

    def result(self, timeout=None):
        if timeout is not None:
            raise TimeoutError("timed out after 5 s.")
        if isinstance(self.own, Exception):
            raise self.own
        return self.own

    def done(self):
        return True


def test_a_task_that_ends_at_the_last_moment_counts():
    assert wait_for(None, Late((0.1, "result"))) == (0.1, "result")
    with pytest.raises(TimeoutError, match="of its own"):
        wait_for(None, Late(TimeoutError("of its own")))
