"""Wrong facts show: each one that a reproduced number reads, spoiled alone, leaves a row without a reason."""

from dataclasses import fields, replace
from functools import cache
from itertools import cycle
from operator import attrgetter
from types import SimpleNamespace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from dse.hardware import gpus
from dse.reproduce import baghsorkhi, examples, hong_kim, kothapalli, lemeire, papers, teg
from dse.reproduce.compare import compare
from dse.simulator.teg import GT200
from dse.types import CLASSES, TENSOR, Gpu, Limits

pytestmark = pytest.mark.slow  # each fact by itself

WORKED_OUT = ("model", "equation", "look-up")


def rows(monkeypatch, paper, module, tables):
    """Rows of some tables alone."""
    with monkeypatch.context() as patch:
        patch.setattr(module, "TABLES", tables)
        return compare([paper])[paper]


def shows(monkeypatch, paper, module, tables):
    """Whether a row that is computed or looked up differs without a reason."""
    found = rows(monkeypatch, paper, module, tables)
    return any(row.problem for row in found if row.kind in WORKED_OUT)


# Facts of the GPU files

GROUPS = {"cpi": CLASSES, "latency": CLASSES, "limits": tuple(Limits.__dataclass_fields__)}
FIELDS = {
    f"{field.name}.{part}" if part else field.name
    for field in fields(Gpu)
    for part in GROUPS.get(field.name, ("",))
}
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
UNREAD = {  # by any row, and why
    "the papers' kernels multiply no matrices": {
        field for field in FIELDS if field.rpartition(".")[2] in TENSOR
    },
    "no paper prints a size of a cache": {"l1_bytes", "l2_bytes", "l1_with_shared"},
    "the papers' loads come from DRAM": {
        f"{group}.{level}" for group in ("cpi", "latency") for level in ("l1", "l2")
    },
    "Table 5 of Lemeire et al. has no integer addition": {"cpi.int32", "latency.int32"},
    "no paper prints the rate of load/store units": {"lsu_cycles"},
    "no paper prints a compute capability, or AMD's name of an architecture": {"compute_capability", "gfx"},
    "no paper prints a cache beyond the L2": {"memory_cache_bytes", "memory_cache_bandwidth", "dies"},
    "no paper prints a clock under matrix load": {"matrix_clock"},
    "no paper prints what a launch costs": {"launch_overhead"},
    "no paper says what a compiler for AMD does": {
        "compiler_registers",
        "guard_branches",
        "shared_unaligned",
    },
    "the example of Sec. 3.4 of Hong & Kim sets blocks_per_sm, which alone binds it": {
        f"limits.{name}" for name in Limits.__dataclass_fields__ if name != "warp_size"
    },
}
PAPERS = {
    "hong-kim": (hong_kim, (hong_kim.table_1, hong_kim.table_3, hong_kim.table_6)),
    "lemeire": (lemeire, (lemeire.table_4, lemeire.table_5, lemeire.table_6)),
}
OF_PAPER = {name: "lemeire" if name in lemeire.FILES.values() else "hong-kim" for name in READ}
load = cache(gpus.load)


@pytest.fixture
def spoil(monkeypatch):
    """`spoil({file: {field: factor}})`: files of GPUs are then read so."""

    def spoiled(wrong):
        def read(name, dtype):
            gpu = load(name, dtype).gpu
            for field, factor in wrong.get(name, {}).items():
                value = np.asarray(attrgetter(field)(gpu))
                other = np.asarray(value * factor if value else factor, value.dtype)
                gpu = eqx.tree_at(attrgetter(field), gpu, jnp.asarray(other))
            return SimpleNamespace(gpu=gpu)

        monkeypatch.setattr(gpus, "load", read)

    return spoiled


def test_every_field_is_read_or_not_for_a_reason():
    read, unread = (set().union(*some) for some in (READ.values(), UNREAD.values()))
    assert read | unread == FIELDS
    assert not read & unread


@pytest.mark.parametrize("name", READ)
def test_facts_of_gpu_files(monkeypatch, spoil, name):
    paper, factors, hidden = OF_PAPER[name], cycle(range(2, 10)), set()
    for field in sorted(READ[name]):
        less, more = next(factors), next(factors)
        for factor in (less, more, 1 / more, 1 / 2):
            spoil({name: {field: factor}})
            if not shows(monkeypatch, paper, *PAPERS[paper]):
                hidden.add((field, factor))
    gpu = load(name, np.float64).gpu
    ones = {field for field in READ[name] if attrgetter(field)(gpu) == 1}
    assert hidden <= {(field, 1 / 2) for field in ones}  # a printed 1 may be any number from one half


@pytest.mark.parametrize("paper", PAPERS)
def test_other_facts_change_nothing(monkeypatch, spoil, paper):
    module, tables = PAPERS[paper]
    before = rows(monkeypatch, paper, module, tables)
    spoil({name: dict.fromkeys(FIELDS - READ[name], 9) for name in READ if OF_PAPER[name] == paper})
    assert rows(monkeypatch, paper, module, tables) == before


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_looked_up_is_a_fact_and_what_is_arithmetic_is_not(monkeypatch, spoil, paper):
    module, tables = PAPERS[paper]
    before = rows(monkeypatch, paper, module, tables)
    # all at once, by factors of which no product cancels
    spoil({name: {field: 3 + i for i, field in enumerate(sorted(READ[name]))} for name in READ})
    for old, new in zip(before, rows(monkeypatch, paper, module, tables), strict=True):
        if old.kind != "model":
            assert (old.ours != new.ours) == (old.kind == "look-up"), new


# Facts of TEG's GT200

UNSEEN_BY_TEG = {
    "warps": "no table has more than fit",
    "channels": "no access of the traces crowds a channel",
    "channel_bytes": "no access of the traces crowds a channel",
    "special.execution": "the traces have no special function",
    "special.multi_warp": "the traces have no special function",
    "special.same_warp": "the traces have no special function",
    "move.execution": "a move from shared memory has the latency of that, and nothing waits for another",
    "store.multi_warp": "a store takes the memory pipe as long as a load",
}
NINE = {"barrier.same_warp", "store.same_warp"}  # hidden by other waits unless they are long


def gt200(machine, name, factor):
    """A machine with one fact spoiled; `kind.field` is a timing."""
    kind, _, field = name.partition(".")
    if field:
        timing = machine.timings[kind]
        spoiled = replace(timing, **{field: getattr(timing, field) * factor})
        return replace(machine, timings={**machine.timings, kind: spoiled})
    value = getattr(machine, kind)
    return replace(machine, **{kind: type(value)(value * factor)})


def test_facts_of_gt200(monkeypatch):
    def few(name):  # launches of one and of four warps, which are simulated fast
        return [row for row in papers.table(name) if int(row.get("warps", 1)) in (1, 4)]

    monkeypatch.setattr(teg, "table", few)
    monkeypatch.setattr(teg, "KERNELS", {number: teg.KERNELS[number] for number in (2, 4)})
    looked_up, simulated = (teg.table_1, teg.section_3), (teg.predictions,)
    machine = [field.name for field in fields(GT200) if field.name != "timings"]
    timings = [f"{kind}.{field.name}" for kind, timing in GT200.timings.items() for field in fields(timing)]
    factors = cycle((2, 3, 4))
    for name in [*machine, *timings]:
        if name not in UNSEEN_BY_TEG:
            monkeypatch.setattr(teg, "GT200", gt200(GT200, name, 9 if name in NINE else next(factors)))
            assert any(shows(monkeypatch, "teg", teg, tables) for tables in (looked_up, simulated)), name
    others = GT200
    for name in UNSEEN_BY_TEG:
        others = gt200(others, name, 2)
    monkeypatch.setattr(teg, "GT200", others)
    assert not any(shows(monkeypatch, "teg", teg, tables) for tables in (looked_up, simulated))


# Facts that a paper gives with its example

EXAMPLES = [
    ("hong-kim", hong_kim, hong_kim.table_2, examples, "gpu"),
    ("hong-kim", hong_kim, hong_kim.section_3_2, examples, "gpu"),
    ("lemeire", lemeire, lemeire.table_2, examples, "gpu"),
    ("lemeire", lemeire, lemeire.figure_5, examples, "gpu"),
    ("lemeire", lemeire, lemeire.figure_6, examples, "gpu"),
    ("lemeire", lemeire, lemeire.equations_43_to_45, examples, "gpu"),
    ("baghsorkhi", baghsorkhi, baghsorkhi.figure_1, baghsorkhi, "Hardware"),
]
UNSEEN_IN_EXAMPLES = {
    (hong_kim.table_2, "sm_count"): "MWP-CWP reads how many SMs are active of the launch",
}


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
    ("paper", "module", "table", "owner", "name"), EXAMPLES, ids=lambda x: getattr(x, "__name__", x)
)
def test_facts_of_examples(monkeypatch, paper, module, table, owner, name):
    make, given = getattr(owner, name), {}

    def record(**values):
        given.update(dict.fromkeys(facts(values)))
        return make(**values)

    monkeypatch.setattr(owner, name, record)
    assert not shows(monkeypatch, paper, module, (table,))
    hidden = set()
    for fact in given:
        for factor in (3, 9):

            def spoiled(fact=fact, factor=factor, **values):
                return make(**with_wrong(values, fact, factor))

            monkeypatch.setattr(owner, name, spoiled)
            if not shows(monkeypatch, paper, module, (table,)):
                hidden.add((table, fact))
    assert hidden == {key for key in UNSEEN_IN_EXAMPLES if key[0] is table}


@pytest.mark.parametrize("constant", ["INT_ADD", "INT_MULTIPLY", "GLOBAL_ACCESS"])
def test_constants_of_kothapalli(monkeypatch, constant):
    value = getattr(kothapalli, constant)
    for factor in (2, 5, 9, 1 / 2):
        monkeypatch.setattr(kothapalli, constant, factor * value)
        assert shows(monkeypatch, "kothapalli", kothapalli, kothapalli.TABLES)
