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
from dse.reproduce import baghsorkhi, examples, hong_kim, lemeire
from dse.reproduce.compare import rows_of
from dse.types import CLASSES

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


EXAMPLES = [
    ("hong-kim", hong_kim.table_2, examples, "gpu"),
    ("hong-kim", hong_kim.section_3_2, examples, "gpu"),
    ("lemeire", lemeire.table_2, examples, "gpu"),
    ("lemeire", lemeire.figure_5, examples, "gpu"),
    ("lemeire", lemeire.figure_6, examples, "gpu"),
    ("lemeire", lemeire.equations_43_to_45, examples, "gpu"),
    ("baghsorkhi", baghsorkhi.figure_1, baghsorkhi, "Hardware"),
]
UNSEEN = {(hong_kim.table_2, "sm_count")}  # MWP-CWP reads how many SMs are active of the launch


def facts(values):
    """Names of the facts that an example gives, `key.pipe` where it gives some pipes."""
    for key, value in values.items():
        pipes = [pipe for pipe in CLASSES if getattr(value, pipe, 0)]
        yield from (f"{key}.{pipe}" for pipe in pipes) if pipes else (key,)


def with_wrong(values, fact, factor):
    """The same with one fact spoiled, if it is among them."""
    key, _, pipe = fact.partition(".")
    if key not in values:
        return values
    value = values[key]
    if pipe:
        return values | {key: eqx.tree_at(attrgetter(pipe), value, factor * getattr(value, pipe))}
    return values | {key: factor * value}


@pytest.mark.parametrize(
    ("paper", "table", "owner", "name"), EXAMPLES, ids=lambda part: getattr(part, "__name__", part)
)
def test_facts_that_a_paper_gives_with_its_example(monkeypatch, paper, table, owner, name):
    make, stated = getattr(owner, name), {}

    def record(**values):
        stated.update(dict.fromkeys(facts(values)))
        return make(**values)

    monkeypatch.setattr(owner, name, record)
    assert not shows(paper, table)
    hidden = set()
    for fact in stated:
        for factor in (3, 9):

            def spoiled(fact=fact, factor=factor, **values):
                return make(**with_wrong(values, fact, factor))

            monkeypatch.setattr(owner, name, spoiled)
            if not shows(paper, table):
                hidden.add((table, fact))
    assert hidden == {(unseen, fact) for unseen, fact in UNSEEN if unseen is table}
