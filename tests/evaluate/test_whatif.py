"""Changes: each does what it says, and nothing else."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

from dse.errors import DseError
from dse.evaluate.whatif import Setup, of_graph, of_kernel
from dse.hardware import gpus
from dse.simulator import Case, Loop, Program
from dse.simulator.pipeline import Settings
from dse.types import CLASSES, TENSOR, Kernel, Launch, PerClass

UNITS = dict(zip(CLASSES[:10], (10, 2, 20, 3, 4, 24, 30, 90, 70, 5), strict=True))  # of work
COUNTS = dict.fromkeys(CLASSES, 0) | UNITS
TOY = Kernel(
    work=PerClass(**COUNTS),
    shared_insts=8,  # three passes each
    load_insts=6,
    store_insts=4,
    uncoal_insts=5,
    transactions_per_uncoal=16,
    sectors=100,  # of which 128 B an access asks for 40
    bytes_per_access=128,
    ilp=2,
    mlp=3,
)
LAUNCH = Launch(
    threads_per_block=64, warps_per_block=2, blocks=1000, resident_blocks=6, active_sms=108, waves=1.5
)
SETUP = Setup(gpus.load("a100").gpu, TOY, LAUNCH, Settings())
ATTRIBUTES = {"lambda": "cpi", "Lambda": "latency"}


def leaves(setup):
    tree = {name: getattr(setup, name) for name in ("gpu", "kernel", "launch")}
    tree["settings"] = vars(setup.settings)
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    names = ["".join(str(key) for key in path).replace("['", ".").replace("']", "") for path, _ in flat]
    return dict(zip([name.lstrip(".") for name in names], [leaf for _, leaf in flat], strict=True))


BEFORE = leaves(SETUP)


def changed(text, setup=SETUP):
    """The fields that a change changes, with their new values."""
    after = leaves(of_kernel(setup, text))
    before = leaves(setup)
    assert set(after) >= set(before) - {"settings.groups"}
    for name, old in before.items():
        if hasattr(old, "dtype"):
            assert (after[name].dtype, after[name].shape) == (old.dtype, old.shape), name
    differ = {name: after[name] for name in before if np.any(after[name] != before[name])}
    return {name: x if isinstance(x, str) else pytest.approx(float(x)) for name, x in differ.items()}


@pytest.fixture(autouse=True)
def _untouched():
    yield
    now = leaves(SETUP)
    assert now.keys() == BEFORE.keys()
    for name, old in BEFORE.items():
        np.testing.assert_array_equal(now[name], old)


@pytest.mark.parametrize("name", ["fp32", "barrier", "l2", "mma_fp16", "mma_fp8"])
@pytest.mark.parametrize("term", ATTRIBUTES)
def test_a_term_of_a_class(name, term):
    field = f"gpu.{ATTRIBUTES[term]}.{name}"
    old = float(BEFORE[field])
    assert changed(f"{name}.{term}=12345.5") == {field: 12345.5}
    assert changed(f" {name}.{term} = 3x ") == ({field: 3 * old} if old else {})
    assert changed(f"{name}.{term}=1x") == {}
    assert changed(f"{name}.{term}=0") == ({field: 0} if old else {})


def test_all_kinds_of_products_at_once():
    expected = {f"gpu.cpi.{kind}": pytest.approx(2 * float(BEFORE[f"gpu.cpi.{kind}"])) for kind in TENSOR}
    assert changed("tensor.lambda=2x") == expected
    nothing = jax.tree.map(lambda x: 0 * x, TOY.work)
    calm = replace(TOY, work=nothing, shared_insts=0, load_insts=0, store_insts=0, sectors=0, uncoal_insts=0)
    setup = replace(SETUP, kernel=calm)
    for name in ("conflicts", "barriers", "uncoalesced", "dram"):
        assert changed(f"{name}=off", setup) == {}
    coalesced = replace(SETUP, kernel=replace(TOY, sectors=40, uncoal_insts=0))
    assert changed("uncoalesced=off", coalesced) == {}
    assert changed("conflicts=off", replace(SETUP, kernel=replace(TOY, shared_insts=30))) == {}


UNCOALESCED = {"work.l1": 12, "work.l2": 36, "work.dram": 28, "sectors": 40, "uncoal_insts": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("issue_limit=0.5", {"gpu.issue_limit": 0.5}),
        ("issue_limit=2x", {"gpu.issue_limit": 2 * float(BEFORE["gpu.issue_limit"])}),
        ("conflicts=off", {"kernel.work.shared": 8}),
        ("barriers=off", {"kernel.work.barrier": 0}),
        ("dram=off", {"kernel.work.dram": 0}),
        ("uncoalesced=off", {f"kernel.{name}": count for name, count in UNCOALESCED.items()}),
        ("blocks=2", {"launch.resident_blocks": 2, "launch.waves": 4.5}),
        ("blocks=0.5x", {"launch.resident_blocks": 3, "launch.waves": 3}),
        ("blocks=12", {"launch.resident_blocks": 12, "launch.waves": 0.75}),
        ("scheduler=gto", {"settings.scheduler": "gto"}),
        ("order=dataflow", {"settings.order": "dataflow"}),
    ],
)
def test_of_a_kernel(text, expected):
    assert changed(text) == expected


NAMES = ("alu", "mem")


def program(length=3, loops=()):
    s = np.arange(length) % 2
    preds = tuple((i - 1,) if i else () for i in range(length))
    return Program(s, np.array([1.0, 0.1])[s], np.array([18.0, 400.0])[s], preds, loops=loops)


GRAPH = Case((program(3), program(2, (Loop(0, 2, 5),))), 2, 3, 4, assignment=(0, 1), caps=(np.inf, 4.0))


def fields(case):
    actual = {name: getattr(case, name) for name in ("warps", "slots", "groups", "issue_limit", "caps")}
    actual |= {name: getattr(case, name) for name in ("order", "scheduler", "assignment")}
    for n, item in enumerate(case.programs):
        actual |= {
            f"{n}.{name}": getattr(item, name).tolist()
            for name in ("throughput_cycles", "latency_cycles", "same_warp")
        }
        actual |= {f"{n}.rest": (item.preds, item.kind, item.loops, item.subsystem.tolist())}
    return actual


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alu.lambda=2.5", {"0.throughput_cycles": [2.5, 0.1, 2.5], "1.throughput_cycles": [2.5, 0.1]}),
        ("alu.Lambda=0.5x", {"0.latency_cycles": [9, 400, 9], "1.latency_cycles": [9, 400]}),
        ("mem.lambda=0.3", {"0.throughput_cycles": [1, 0.3, 1], "1.throughput_cycles": [1, 0.3]}),
        ("mem.Lambda=0", {"0.latency_cycles": [18, 0, 18], "1.latency_cycles": [18, 0]}),
        ("issue_limit=0.7", {"issue_limit": 0.7}),
        ("warps=6", {"warps": 6}),
        ("slots=2", {"slots": 2}),
        ("slots=2x", {"slots": 6, "groups": 6}),
        ("groups=16777217", {"groups": 16777217}),  # what has no place in a float of 32 bits
        ("scheduler=oldest", {"scheduler": "oldest"}),
        ("order=dataflow", {"order": "dataflow"}),
    ],
)
@pytest.mark.parametrize("x64", [False, True])  # a command leaves JAX at 32 bits
def test_of_a_graph(text, expected, x64):
    before = fields(GRAPH)
    with jax.enable_x64(x64):
        after = fields(of_graph(GRAPH, NAMES, text))
    assert {name: x for name, x in after.items() if x != before[name]} == expected
    assert fields(GRAPH) == before


A_KERNEL, A_GRAPH = partial(of_kernel, SETUP), partial(of_graph, GRAPH, NAMES)


@pytest.mark.parametrize(
    ("of", "text", "message"),
    [
        (A_KERNEL, "tensor.Lambda=3", "found 3, expected a factor of"),
        (A_KERNEL, "sfo.lambda=1", r"found 'sfo', expected one of .*; did you mean sfu\?"),
        (A_KERNEL, "sfu.lamda=1", r"found 'lamda', expected one of lambda, Lambda; did you mean lambda\?"),
        (A_KERNEL, "sfu.lambda=fast", "found 'fast', expected a number, or one with an x"),
        (A_KERNEL, "sfu.lambda=-1", "found -1, expected a finite number, 0 or more"),
        (A_KERNEL, "sfu.lambda=nan", "found nan, expected a finite number"),
        (A_KERNEL, "issue_limit=0", "found 0, expected a finite number, above 0"),
        (A_KERNEL, "conflicts=on", "found 'on', expected one of off"),
        (A_KERNEL, "scheduler=gro", r"found 'gro', expected one of rr, gto, oldest; did you mean gto\?"),
        (A_GRAPH, "mem.cap=1", "found 'cap', expected one of lambda, Lambda"),
        (A_GRAPH, "warp=1", r"found 'warp', .*; did you mean warps\?"),
        (A_GRAPH, "warps=1.5", "found 1.5, expected a whole number"),
        (A_GRAPH, "warps=2000", "case: found 3 groups of 2000 warps"),
        (A_GRAPH, "groups=2", "case: groups: found 2, expected 3 or more"),
        (A_GRAPH, "conflicts=off", "found 'conflicts', expected one of"),
    ],
)
def test_a_mistake_gets_one_line(of, text, message):
    with pytest.raises(DseError, match=f"^what_if: {text}: {message}"):
        of(text)
