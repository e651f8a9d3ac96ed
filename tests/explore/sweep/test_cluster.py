"""A sweep on a real local cluster, of which a worker is killed: the same bytes as on this machine alone."""

import os
import signal

import pytest

from dse.core.cluster import client, in_threads, on_cluster
from dse.explore.sweep import run
from dse.explore.sweep.plan import Plan
from dse.explore.sweep.product import SweepProduct


def killing(connected, after):
    """Spread over a cluster, and kill one of its workers when so many units are done."""
    spread, pids, killed = on_cluster(connected), list(connected.run(os.getpid).values()), []

    def executor(function, units):
        for some, result in spread(function, units):
            if some.start <= after < some.stop:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)
            yield some, result
        assert killed

    return executor


@pytest.fixture(scope="module")
def larger(product):
    """As many sizes as make a few dozen units."""
    toy = product.kernels[0]
    sizes = {"n": tuple(range(1 << 16, 1 << 18, 1 << 12))}
    return SweepProduct.of([(toy, sizes)], product.gpus, product.models)


@pytest.mark.slow
def test_results_are_the_same_to_the_bit(larger, tmp_path):
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    with client(workers=2) as connected:
        plan = Plan(larger, None)
        assert plan.units > 40
        count = run.written(plan, here, in_threads(2))
        assert count == run.written(plan, there, killing(connected, 4)) > 0
    assert here.read_bytes() == there.read_bytes()
