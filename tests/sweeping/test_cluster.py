"""A sweep on a real local cluster, of which a worker is killed: the same bytes as on this machine alone."""

import os
import signal

import pytest

from dse.cluster import client, in_threads, on_cluster
from dse.sweeping import run
from dse.sweeping.plan import Plan
from dse.sweeping.product import Product
from dse.sweeping.reductions import Pareto, Top

PER = frozenset({"kernel", "gpu", "size", "model"})


@pytest.fixture(scope="module")
def two_workers():
    with client(workers=2) as connected:
        yield connected


def killing(connected, after):
    """Spread over the cluster, and kill one of its workers when so many units are done."""
    connected.wait_for_workers(2)
    spread, pids, killed = on_cluster(connected), list(connected.run(os.getpid).values()), []

    def spreading(function, units):
        for some, result in spread(function, units):
            if some.start <= after < some.stop:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)
            yield some, result
        assert killed

    return spreading


@pytest.fixture(scope="module")
def larger(product):
    """As many sizes as make a few dozen units."""
    toy = product.kernels[0]
    sizes = {"n": tuple(range(1 << 16, 1 << 18, 1 << 12))}
    return Product.of([(toy, sizes)], product.gpus, product.models)


@pytest.mark.parametrize(
    "reduction", [Top(3, PER), Pareto(("time_s", "registers"), frozenset({"gpu", "model"}))]
)
def test_reductions_are_the_same_to_the_bit(larger, reduction, two_workers):
    plan = Plan(larger, reduction)
    assert plan.units > 40
    here = run.reduced(plan, in_threads(2))
    there = run.reduced(plan, killing(two_workers, 4))
    assert here.keys() == there.keys()
    assert all(here[name].tobytes() == there[name].tobytes() for name in here)


def test_rows_are_the_same_to_the_bit(larger, two_workers, tmp_path):
    plan = Plan(larger, None)
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    count = run.written(plan, here, in_threads(2))
    assert count == run.written(plan, there, killing(two_workers, 4)) > 0
    assert here.read_bytes() == there.read_bytes()
