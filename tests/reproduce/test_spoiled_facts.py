"""Wrong facts show: each one that a reproduced number reads, spoiled alone, leaves a row without a reason."""

from functools import cache
from itertools import cycle
from operator import attrgetter
from types import SimpleNamespace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from dse.hardware import gpus
from dse.reproduce import hong_kim, lemeire
from dse.reproduce.papers import rows_of

pytestmark = pytest.mark.slow  # each fact by itself

PIPES = ("fp32", "fp64", "imul32", "sfu", "shared", "dram", "barrier")
IN_TABLE_3 = {"sm_count", "clock", "dram_bandwidth", "cpi.fp32", "limits.warp_size"}
IN_TABLE_6 = {"latency.dram", "departure_delay_coal_cycles", "departure_delay_uncoal_cycles"}
IN_TABLES_4_TO_6 = {
    *(f"{group}.{pipe}" for group in ("cpi", "latency") for pipe in PIPES),
    *("sm_count", "clock", "dram_bandwidth", "issue_limit", "limits.warp_size"),
}
# A field that is read of some files only stands in no table that speaks of the others.
READ = dict.fromkeys(hong_kim.FILES.values(), IN_TABLE_3)
READ |= dict.fromkeys(lemeire.FILES.values(), IN_TABLES_4_TO_6)
READ |= {"gtx-280": IN_TABLE_3 | IN_TABLE_6}
READ |= {"quadro-fx5600": IN_TABLE_3 | IN_TABLE_6 | {"issue_cycles"}}
TABLES = {
    "hong-kim": (hong_kim.table_1, hong_kim.table_3, hong_kim.table_6),
    "lemeire": (lemeire.table_4, lemeire.table_5, lemeire.table_6),
}
load = cache(gpus.load)


def shows(paper, *tables):
    """Whether a row that is computed or looked up differs without a reason."""
    return any(row.problem for row in rows_of(paper, tables) if row.kind in ("model", "equation", "look-up"))


@pytest.mark.parametrize("name", READ)
def test_facts_of_gpu_files(monkeypatch, name):
    paper = "lemeire" if name in lemeire.FILES.values() else "hong-kim"
    factors, hidden = cycle(range(2, 10)), set()
    for field in sorted(READ[name]):
        less, more = next(factors), next(factors)
        for factor in (less, more, 1 / more, 1 / 2):

            def read(asked, dtype, field=field, factor=factor):
                gpu = load(asked, dtype).gpu
                if asked == name:
                    value = np.asarray(attrgetter(field)(gpu))
                    other = np.asarray(value * factor if value else factor, value.dtype)
                    gpu = eqx.tree_at(attrgetter(field), gpu, jnp.asarray(other))
                return SimpleNamespace(gpu=gpu)

            monkeypatch.setattr(gpus, "load", read)
            if not shows(paper, *TABLES[paper]):
                hidden.add((field, factor))
    gpu = load(name, np.float64).gpu
    ones = {field for field in READ[name] if attrgetter(field)(gpu) == 1}
    assert hidden <= {(field, 1 / 2) for field in ones}  # a printed 1 may be any number from one half
