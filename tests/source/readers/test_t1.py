"""T1 files as the tuners write them, and with mistakes."""

import copy
import json

import numpy as np
import pytest

from dse.errors import DseError
from dse.source.readers.t1 import load

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
            {
                "Name": "out",
                "Type": "float",
                "MemoryType": "Vector",
                "AccessType": "WriteOnly",
                "Size": "n*n",
            },
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 3},
        ],
    },
}


@pytest.fixture
def problem(tmp_path):
    """The file with some fields changed: a path of keys → a value, or ... to take it away."""

    def read(changes=None):
        file = copy.deepcopy(FILE)
        for (*keys, last), value in (changes or {}).items():
            table = file
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


PARAMETERS = ("ConfigurationSpace", "TuningParameters")
CONDITIONS = ("ConfigurationSpace", "Conditions")
KERNEL = ("KernelSpecification",)


def test_the_whole_file(problem):
    t1 = problem()
    assert t1.name == "convolution"
    assert t1.kernel_name == "convolution_kernel"
    assert t1.language == "CUDA"
    assert t1.space.values == {
        "bx": (16, 32, 48),
        "by": (1, 2, 4),
        "tx": (1, 2, 4),
        "pad": (0, 1),
        "fw": (15,),
    }
    assert t1.problem_size == (4096, 1000)
    assert [[divisor.text for divisor in axis] for axis in t1.grid_div] == [["bx", "tx"], ["by"]]
    assert [(each.name, each.access, each.size) for each in t1.arguments] == [
        ("out", "WriteOnly", "n*n"),
        ("n", None, None),
    ]
    expected = [
        (bx, by, tx, pad, 15)
        for bx in (16, 32, 48)
        for by in (1, 2, 4)
        for tx in (1, 2, 4)
        for pad in (0, 1)
        if (pad == 0 or bx % 32 != 0) and 32 <= bx * by <= 1024 and 15 % ((bx * by) / tx) == 15
    ]
    columns = t1.space.configurations()
    assert list(zip(*columns.values(), strict=True)) == expected
    assert 0 < len(expected) < t1.space.size
    np.testing.assert_array_equal(t1.threads(columns, np), [row[0] * row[1] for row in expected])
    grid = [-(-4096 // (row[0] * row[2])) * -(-1000 // row[1]) for row in expected]
    np.testing.assert_array_equal(t1.grid(columns, np), grid)
    assert t1.shared_memory(columns, np) == 0


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        ({(*KERNEL, "GridDivY"): ...}, -(-4096 // 64) * 250),  # then LocalSize divides
        ({(*KERNEL, "GridDivY"): []}, -(-4096 // 64) * 1000),
        ({(*KERNEL, "GridDivY"): ["by", "tx + 1", 3]}, 64 * -(-1000 // 36)),
        ({(*KERNEL, "ProblemSize"): 100}, 2),
        ({(*KERNEL, "ProblemSize"): "10 * 10"}, 2),
        ({(*KERNEL, "ProblemSize"): [100, 9, 5]}, 2 * 3 * 5),
        ({(*KERNEL, "ProblemSize"): [100, 9, 5], (*KERNEL, "GridDivZ"): [2]}, 2 * 3 * 3),
    ],
)
def test_the_grid(problem, changes, grid):
    assert problem(changes).grid({"bx": 32, "by": 4, "tx": 2}, np) == grid


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        ({}, 8 * 1 * 3),  # Language CUDA: blocks
        ({"GlobalSizeType": "OpenCL"}, 1 * 1 * 3),  # threads: 8 of 32, 1 of 4
        ({"GlobalSizeType": "CUDA", "Language": "OpenCL"}, 8 * 1 * 3),
        ({"Language": "OpenCL", "GlobalSize": {"X": "100 * bx + 1", "Y": 9}}, 101 * 3),
    ],
)
def test_the_grid_as_ktt_writes_it(problem, changes, grid):
    """No problem size: the global size says it; nor a name of the benchmark."""
    bare = {(*KERNEL, "ProblemSize"): ..., (*KERNEL, "GridDivX"): ..., (*KERNEL, "GridDivY"): ...}
    sizes = {(*KERNEL, "GlobalSize"): {"X": "256 // bx", "Y": "(by + 3) // 4", "Z": 3}}
    changed = {(*KERNEL, name): value for name, value in changes.items()}
    t1 = problem(bare | sizes | {("General", "BenchmarkName"): ...} | changed)
    assert t1.grid({"bx": 32, "by": 4, "tx": 2}, np) == grid
    assert (t1.name, t1.problem_size) == ("convolution_kernel", ())
    assert problem(bare | sizes | {("General",): ...}).name == "convolution_kernel"


def test_without_any_size(problem):
    with pytest.raises(DseError, match="found neither ProblemSize nor GlobalSize, expected one of them"):
        problem({(*KERNEL, "ProblemSize"): ..., (*KERNEL, "GlobalSize"): ...})


def test_what_is_constant(problem):
    arguments = [
        {"Type": "float", "MemoryType": "Symbol", "Size": 3},
        {"Name": "f", "Type": "float", "MemType": "Constant"},
        {"Name": "x", "Type": "float", "MemoryType": "Vector"},
    ]
    found = problem({(*KERNEL, "Arguments"): arguments}).arguments
    assert [(each.name, each.constant) for each in found] == [
        ("argument 1", True),
        ("f", True),
        ("x", False),
    ]


def test_shared_memory_may_be_an_expression(problem):
    assert problem({(*KERNEL, "SharedMemory"): "4 * bx"}).shared_memory({"bx": 32}, np) == 128
    assert problem({(*KERNEL, "SharedMemory"): None}).shared_memory({}, np) == 0


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[1, 2, 4]", (1, 2, 4)),
        ("(1, 2)", (1, 2)),
        ("[-1, 0.5, 2*3, 2**3]", (-1.0, 0.5, 6.0, 8.0)),
        ("range(1, 9)", tuple(range(1, 9))),
        ("range(3)", (0, 1, 2)),
        ("list(range(8, 0, -3))", (8, 5, 2)),
        ("[i for i in range(1, 10+1)]", tuple(range(1, 11))),
        ("[32 * i for i in range(1, 4)]", (32, 64, 96)),
        ("[x * x for x in [3, 1]]", (9, 1)),
        ("[i / 2 for i in range(3)]", (0.0, 0.5, 1.0)),
        ("[i for i in range(20) if i % 3 == 0 if i > 5]", (6, 9, 12, 15, 18)),
        ("[2*i for i in [j + 1 for j in range(3)]]", (2, 4, 6)),
        ("[7 for i in range(1)]", (7,)),
        (" [1] + [2] + list((3, 4))", (1, 2, 3, 4)),
    ],
)
def test_values(problem, text, values):
    assert problem({(*PARAMETERS, 4, "Values"): text}).space.values["fw"] == values


VALUES = "ConfigurationSpace.TuningParameters[4].Values: "


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("[]", "found no value, expected at least one"),
        ("[1, 1]", "found 1 twice, expected each value once"),
        ("['float', 'double']", "cannot read ''float'': found 'float', expected numbers only"),
        (["float"], "found 'float', expected numbers only"),
        ("[1, 2", "cannot read '[1, 2': '[' was never closed"),
        ("5", "cannot read '5': only lists, range(...), comprehensions over one name, and sums of these"),
        ("open('x')", "cannot read \"open('x')\": only lists"),
        (
            "[i for i in range(3) for j in range(3)]",
            "cannot read '[i for i in range(3) for j in range(3)]': only",
        ),
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
        (5.5, None),
        ({"a": 1}, "found {'a': 1}, expected numbers"),
    ],
)
def test_values_that_are_refused(problem, tmp_path, values, message):
    if message is None:  # one number is a list of one
        assert problem({(*PARAMETERS, 4, "Values"): values}).space.values["fw"] == (values,)
        return
    with pytest.raises(DseError) as error:
        problem({(*PARAMETERS, 4, "Values"): values})
    assert str(error.value).startswith(f"{tmp_path / 'T1.json'}: {VALUES}{message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {(*PARAMETERS, 1, "Name"): ...},
            "ConfigurationSpace.TuningParameters[1].Name: found nothing, expected a value",
        ),
        (
            {(*PARAMETERS, 1, "Name"): 3},
            "ConfigurationSpace.TuningParameters[1].Name: found 3, expected a valid string",
        ),
        (
            {(*PARAMETERS, 1, "Name"): "bx"},
            "ConfigurationSpace.TuningParameters[1].Name: found 'bx' twice, expected each name once",
        ),
        (
            {(*PARAMETERS, 1, "Name"): "a b"},
            "ConfigurationSpace.TuningParameters: parameters: found 'a b', expected a name that an expr",
        ),
        (
            {(*PARAMETERS,): "x" * 99},
            f"ConfigurationSpace.TuningParameters: found '{'x' * 59}..., expected a valid ",
        ),
        (
            {(*CONDITIONS, 1, "Expression"): "bx * fww > 1"},
            "ConfigurationSpace.Conditions[1].Expression: unknown name 'fww' in 'bx * fww > 1', "
            "expected one of bx, by, fw, pad, tx; did you mean fw?",
        ),
        (
            {(*CONDITIONS, 1, "Expression"): "bx >"},
            "ConfigurationSpace.Conditions[1].Expression: cannot read 'bx >': invalid syntax",
        ),
        (
            {(*CONDITIONS, 1): {}},
            "ConfigurationSpace.Conditions[1].Expression: found nothing, expected a value",
        ),
        (
            {(*KERNEL, "LocalSize", "X"): "block_x"},
            "KernelSpecification.LocalSize.X: unknown name 'block_x' in 'block_x', expected",
        ),
        (
            {(*KERNEL, "LocalSize", "X"): ["bx"]},
            "KernelSpecification.LocalSize.X: found ['bx'], expected a number or an expression",
        ),
        ({(*KERNEL, "LocalSize"): ...}, "KernelSpecification.LocalSize: found nothing, expected a value"),
        (
            {(*KERNEL, "GridDivX"): ["bx", "tz"]},
            "KernelSpecification.GridDivX[1]: unknown name 'tz' in 'tz', expected",
        ),
        ({(*KERNEL, "GridDivX"): "bx"}, "KernelSpecification.GridDivX: found 'bx', expected a valid "),
        (
            {(*KERNEL, "ProblemSize"): []},
            "KernelSpecification.ProblemSize: found [], expected one to three integers above 0",
        ),
        (
            {(*KERNEL, "ProblemSize"): [0, 1]},
            "KernelSpecification.ProblemSize: found [0, 1], expected one to three",
        ),
        (
            {(*KERNEL, "ProblemSize"): ["n"]},
            "KernelSpecification.ProblemSize: unknown name 'n'",
        ),
        (
            {(*KERNEL, "SharedMemory"): "4 * n"},
            "KernelSpecification.SharedMemory: unknown name 'n' in '4 * n', expected",
        ),
        (
            {(*KERNEL, "Arguments", 0, "Type"): ...},
            "KernelSpecification.Arguments[0].Type: found nothing, expected a value",
        ),
    ],
)
def test_mistakes(problem, tmp_path, changes, message):
    with pytest.raises(DseError) as error:
        problem(changes)
    assert str(error.value).startswith(f"{tmp_path / 'T1.json'}: {message}")
    assert "\n" not in str(error.value)


def test_files_that_are_no_t1_file(tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(DseError, match=r"x\.json: cannot read: No such file or directory$"):
        load(path)
    with pytest.raises(DseError, match=r"^[^\n]*: Is a directory$"):
        load(tmp_path)
    for text, message in [
        (b'{"General": ', r"x\.json: is not JSON: Expecting value: line 1 column 13"),
        (b"\xff", r"x\.json: text: found byte 0 that is no UTF-8"),
        (b"[" * 10000, r"x\.json: is not JSON: nested too deep"),
        (b"[1]", r"x\.json: top level: found \[1\], expected an object"),
        (b"{}", r"x\.json: ConfigurationSpace: found nothing, expected a value"),
    ]:
        path.write_bytes(text)
        with pytest.raises(DseError, match=message) as error:
            load(path)
        assert "\n" not in str(error.value)
