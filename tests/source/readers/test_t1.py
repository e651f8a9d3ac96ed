"""T1 files as the tuners write them, and with mistakes."""

import copy
import json
from collections.abc import Mapping
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.errors import DseError
from dse.source.readers.t1 import T1Problem, load

FILE = {
    "General": {"BenchmarkName": "convolution", "OutputFormat": "JSON"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "bx", "Type": "int", "Values": "[16, 32, 48]", "Default": 16},
            {"Name": "by", "Type": "int", "Values": "[2**i for i in range(3)]", "Default": [1]},
            {"Name": "tx", "Type": "int", "Values": "[1] + list(range(2, 4+1, 2))"},
            {"Name": "pad", "Type": "bool", "Values": "[False, True]"},
            {"Name": "fw", "Type": "int", "Values": [15]},
        ],
        "Conditions": [
            {"Expression": "pad==0 or bx % 32 != 0", "Parameters": ["pad", "bx"]},
            {"Expression": "32 <= bx*by <= 1024", "Parameters": ["bx", "by"]},
            {"Expression": "fw % ((bx * by) / tx) == fw", "Parameters": ["fw", "bx", "by", "tx"]},
        ],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "KernelName": "convolution_kernel",
        "LocalSize": {"X": "bx", "Y": "by", "Z": "1"},
        "GlobalSize": {"X": "(262144 // bx) // tx", "Y": "7", "Z": "1"},
        "GridDivX": ["bx", "tx"],
        "GridDivY": ["by"],
        "ProblemSize": [4096, 1000],
        "SharedMemory": 0,
        "Stream": None,
        "Arguments": [
            {"Name": "out", "Type": "float", "AccessType": "WriteOnly", "Size": "n*n"},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 3},
        ],
    },
}


PARAMETERS, CONDITIONS = "ConfigurationSpace.TuningParameters", "ConfigurationSpace.Conditions"
KERNEL = "KernelSpecification"


@pytest.fixture
def problem(tmp_path):
    """The file with some fields changed: a path of keys → a value, or ... to take it away."""

    def read(changes=None):
        file = copy.deepcopy(FILE)
        for path, value in (changes or {}).items():
            *keys, last = (int(key) if key.isdigit() else key for key in path.split("."))
            table: Any = file
            for key in keys:
                table = table[key]
            if value is ...:
                del table[last]
            else:
                table[last] = value
        path = tmp_path / "T1.json"
        path.write_text(json.dumps(file))
        return load(path)

    return read


def blocks(t1: T1Problem, values: Mapping[str, Any]) -> Any:
    """The blocks of the grid."""
    along = [axis(values, np) for axis in t1.blocks]
    for size, divisors in zip(t1.problem_size, t1.grid_div, strict=False):
        size = size if isinstance(size, int) else size(values, np)
        along.append(np.ceil(size / reduce(mul, (divisor(values, np) for divisor in divisors), 1)))
    return reduce(mul, along)


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        ({"GridDivY": ...}, -(-4096 // 64) * 250),  # then LocalSize divides
        ({"GridDivY": []}, -(-4096 // 64) * 1000),
        ({"GridDivY": ["by", "tx + 1", 3]}, 64 * -(-1000 // 36)),
        ({"ProblemSize": "10 * 10"}, 2),
        ({"ProblemSize": [100, 9, 5], "GridDivZ": [2]}, 2 * 3 * 3),
    ],
)
def test_the_grid(problem, changes, grid):
    changed = {f"{KERNEL}.{name}": value for name, value in changes.items()}
    assert blocks(problem(changed), {"bx": 32, "by": 4, "tx": 2}) == grid


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        ({}, 8 * 1 * 3),  # Language CUDA: blocks
        ({"GlobalSizeType": "OpenCL"}, 1 * 1 * 3),  # threads: 8 of 32, 1 of 4
        ({"Language": "OpenCL", "GlobalSize": {"X": "100 * bx + 1", "Y": 9}}, 101 * 3),
    ],
)
def test_the_grid_as_ktt_writes_it(problem, changes, grid):
    """No problem size: the global size says it; nor a name of the benchmark."""
    sizes = dict.fromkeys(("ProblemSize", "GridDivX", "GridDivY"), ...)
    sizes |= {"GlobalSize": {"X": "256 // bx", "Y": "(by + 3) // 4", "Z": 3}, **changes}
    changed = {f"{KERNEL}.{name}": value for name, value in sizes.items()}
    t1 = problem(changed | {"General": ...})
    assert blocks(t1, {"bx": 32, "by": 4, "tx": 2}) == grid
    assert (t1.name, t1.problem_size) == ("convolution_kernel", ())


NUMBERS = st.integers(0, 40)
SUMS = st.tuples(st.sampled_from(("{0}", "{0} + {1}", "2 * {0} - {1}", "{0} / 2", "2**({0} % 5)")), NUMBERS)
RANGES = st.tuples(NUMBERS, st.integers(1, 20), st.sampled_from((1, 2, 7))).map(
    lambda it: f"range({it[0]}, {it[0] + it[1]}, {it[2]})"
)
LISTS = st.one_of(
    st.lists(NUMBERS, min_size=1, max_size=5).map(str),
    RANGES.map("list({})".format),
    st.tuples(SUMS, RANGES).map(lambda it: f"[{it[0][0].format('i', it[0][1])} for i in {it[1]}]"),
    st.tuples(RANGES, st.integers(2, 4)).map(lambda it: f"[i for i in {it[0]} if i % {it[1]} or i > 3]"),
    RANGES.map("[2 * i for i in [j + 1 for j in {}]]".format),
)


@given(texts=st.lists(LISTS, min_size=1, max_size=3))
def test_values_are_what_python_makes_of_them(tmp_path_factory, texts):
    expected = eval(" + ".join(texts))
    path = tmp_path_factory.mktemp("t1") / "T1.json"
    file = copy.deepcopy(FILE)
    file["ConfigurationSpace"]["TuningParameters"][4]["Values"] = " + ".join(texts)
    path.write_text(json.dumps(file))
    if len(set(expected)) == len(expected) > 0:
        assert load(path).space.values["fw"] == tuple(expected)
    else:
        with pytest.raises(DseError, match=r"found no value|twice, expected each value once"):
            load(path)


@pytest.mark.parametrize(("text", "values"), [("(1, 2)", (1, 2)), ("range(1, 4)", (1, 2, 3)), (5.5, (5.5,))])
def test_other_forms_of_values(problem, text, values):
    assert problem({f"{PARAMETERS}.4.Values": text}).space.values["fw"] == values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("['float', 'double']", "cannot read ''float'': found 'float', expected numbers only"),
        (["float"], "found 'float', expected numbers only"),
        ("[1, 2", "cannot read '[1, 2': '[' was never closed"),
        ("5", "cannot read '5': only lists, range(...), comprehensions over one name, and sums of these"),
        ("open('x')", "cannot read \"open('x')\": only lists"),
        ("[i for i in range(3) for j in range(3)]", "cannot read '[i for i in range(3) for j in range(3)]'"),
        ("[j for i in range(3)]", "unknown name 'j' in 'j', expected one of i"),
        ("[a.b for a in [1]]", "cannot read 'a.b': Attribute is not part of"),
        ("range()", "cannot read 'range()': only lists"),
        ("range(1, 5, 0)", "cannot read 'range(1, 5, 0)': range() arg 3 must not be zero"),
        ("range(1.5)", "found 1.5 in a range, expected an integer"),
        ("range(10**15)", "found 1000001 values, expected at most 1000000"),
        ("[2**i for i in range(10**15)]", "found 1000001 values, expected at most 1000000"),
        ("list(range(10**6)) + [-1]", "found 1000001 values, expected at most 1000000"),
        ("[10**40]", "cannot read '10 ** 40': a constant is too large"),
        ("+".join(["[1]"] * 3000), "found a list nested too deeply, expected a plain one"),
        ({"a": 1}, "found {'a': 1}, expected numbers"),
    ],
)
def test_values_that_are_refused(problem, tmp_path, values, message):
    with pytest.raises(DseError) as error:
        problem({f"{PARAMETERS}.4.Values": values})
    where = "ConfigurationSpace.TuningParameters[4].Values"
    assert str(error.value).startswith(f"{tmp_path / 'T1.json'}: {where}: {message}")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (f"{PARAMETERS}.1.Name", ..., "[1].Name: found nothing, expected a value"),
        (f"{PARAMETERS}.1.Name", "bx", "[1].Name: found 'bx' twice, expected each name once"),
        (f"{PARAMETERS}.1.Name", "a b", ": parameters: found 'a b', expected a name that an expr"),
        (PARAMETERS, "x" * 99, f": found '{'x' * 59}..., expected a valid "),
        (f"{CONDITIONS}.1.Expression", "bx * fww > 1", "[1].Expression: unknown name 'fww' in 'bx * fww"),
        (f"{CONDITIONS}.1.Expression", "bx >", "[1].Expression: cannot read 'bx >': invalid syntax"),
        (f"{KERNEL}.LocalSize.X", "block_x", ".LocalSize.X: unknown name 'block_x' in 'block_x', expected"),
        (f"{KERNEL}.LocalSize.X", ["bx"], ".LocalSize.X: found ['bx'], expected a number or an expression"),
        (f"{KERNEL}.GridDivX", ["bx", "tz"], ".GridDivX[1]: unknown name 'tz' in 'tz', expected"),
        (f"{KERNEL}.ProblemSize", [0, 1], ".ProblemSize: found [0, 1], expected one to three"),
        (f"{KERNEL}.ProblemSize", ["n"], ".ProblemSize: unknown name 'n'"),
        (f"{KERNEL}.SharedMemory", "4 * n", ".SharedMemory: unknown name 'n' in '4 * n', expected"),
    ],
)
def test_mistakes_are_named_by_their_field(problem, path, value, message):
    with pytest.raises(DseError) as error:
        problem({path: value})
    assert message in str(error.value)
    assert str(error.value).split("T1.json: ")[1].startswith(path.split(".")[0])


def test_a_grid_needs_a_size(problem):
    with pytest.raises(DseError, match="found neither ProblemSize nor GlobalSize, expected one of them"):
        problem({f"{KERNEL}.ProblemSize": ..., f"{KERNEL}.GlobalSize": ...})
