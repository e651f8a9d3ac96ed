"""Spaces against the plain product of their lists."""

import itertools
import pickle
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.core.space.expression import parse
from dse.core.space.listed import AllowedRows
from dse.core.space.space import MOST_VALUES, Space, values_of
from dse.errors import DseError

CONSTRAINTS = {  # text → the same in Python
    "a * b <= limit": lambda p: p.a * p.b <= 12,
    "c == 0 or a % 4 != 0": lambda p: p.c == 0 or p.a % 4 != 0,
    "(a + 2 * c) * (b + limit) < 100": lambda p: (p.a + 2 * p.c) * (p.b + 12) < 100,
    "d > 0.2": lambda p: p.d > 0.2,
    "b - c": lambda p: p.b - p.c != 0,
    "limit == 12": lambda p: True,
    "a < limit if c else a > 2": lambda p: p.a < 12 if p.c else p.a > 2,
    "a in (1, 4, 16) and b not in (3,)": lambda p: p.a in (1, 4, 16) and p.b != 3,
}


def space_of(values, *constraints):
    return Space(values, tuple(parse(text, "here") for text in constraints))


def rows_of(columns):
    return [
        tuple(column[i].item() for column in columns.values())
        for i in range(len(next(iter(columns.values()))))
    ]


numbers = st.lists(st.integers(-3, 16), min_size=1, max_size=4, unique=True)
spaces = st.fixed_dictionaries(
    {"c": numbers, "a": numbers, "d": st.lists(st.sampled_from([0.125, 0.25, 3.0]), min_size=1, unique=True)}
    | {"b": numbers}
)


@settings(max_examples=50)
@given(
    values=spaces,
    constraints=st.lists(st.sampled_from(sorted(CONSTRAINTS)), max_size=4),
    chunk=st.sampled_from([5, 40, 2**20]),
)
def test_valid_configurations_are_those_of_the_filtered_product(values, constraints, chunk):
    space = space_of(values, *constraints)
    every = list(itertools.product(*values.values()))
    keep = [
        i
        for i, row in enumerate(every)
        if all(CONSTRAINTS[c](SimpleNamespace(**dict(zip(values, row, strict=True)))) for c in constraints)
    ]
    assert space.size == len(every)
    assert rows_of(space.decode(np.arange(len(every)), np)) == every
    np.testing.assert_array_equal(space.index(space.decode(np.arange(len(every)), np)), np.arange(len(every)))
    assert space.indices({"limit": 12}, chunk).tolist() == keep
    assert rows_of(space.configurations({"limit": 12}, chunk)) == [every[i] for i in keep]
    valid = space.valid(space.decode(np.arange(len(every)), np), {"limit": 12}, np)
    assert valid.dtype == bool
    assert np.flatnonzero(valid).tolist() == keep


SPACE = space_of({"a": [1, 2, 4], "b": [0.5, 2], "c": range(5)}, "a * b <= limit", "c != 3")


def test_decode_and_valid_can_be_jitted():
    def valid(space, index, limit):
        return space.valid(space.decode(index), {"limit": limit})

    index = np.arange(30)
    got = jax.jit(valid, static_argnums=0)(SPACE, index, 3)
    np.testing.assert_array_equal(np.flatnonzero(got), SPACE.indices({"limit": 3}))
    assert 0 < got.sum() < 30


def test_index_of_what_is_not_there():
    got = SPACE.index({"a": [4, 3, 1], "b": np.array([[2.0], [0.75]]), "c": 4, "time": 1})
    np.testing.assert_array_equal(got, [[29, -1, 9], [-1, -1, -1]])
    assert got.dtype == np.int64
    assert SPACE.index({"a": 9, "b": 0.5, "c": 0}) == -1
    assert space_of({"a": [8, 2, 4]}).index({"a": [2, 4, 8, 1, 9]}).tolist() == [1, 2, 0, -1, -1]
    with pytest.raises(DseError, match=r"^b: found no value, expected one of 0.5, 2.0$"):
        SPACE.index({"a": 1})


def test_a_large_space_is_pruned_as_it_grows():
    # 10^12 combinations, of which 10 are valid.
    values = {f"p{i}": range(10) for i in range(12)}
    space = space_of(values, *(f"p{i} == p{i + 1}" for i in range(11)))
    assert space.size == 10**12
    assert space.indices().tolist() == [int(str(digit) * 12) for digit in range(10)]
    assert space.indices(chunk=3).tolist() == [int(str(digit) * 12) for digit in range(10)]
    assert Space({f"p{i}": [0, 1] for i in range(62)}).size == 2**62
    with pytest.raises(DseError, match="expected fewer than"):
        Space({f"p{i}": [0, 1] for i in range(63)})
    with pytest.raises(DseError, match=r"^parameters: found 1.2e\+20 .*, expected fewer than 2\^63$"):
        Space({f"p{i}": range(100) for i in range(9)} | {"q": range(120)})
    with pytest.raises(DseError, match=r"^index: found int32, expected room for 10000000000 configurations$"):
        Space({f"p{i}": range(100) for i in range(5)}).decode(np.arange(3, dtype=np.int32))


@pytest.mark.parametrize("xp", [np, jnp])
def test_decode_is_exact_up_to_63_bits(xp):
    space = Space({f"p{i}": range(64) for i in range(10)} | {"q": range(7)})
    index = np.array([0, 1, 2**53 + 1, space.size - 1])
    decoded = space.decode(index, xp)
    sevens, rest = index % 7, index // 7
    np.testing.assert_array_equal(decoded["q"], sevens)
    for i in range(10):
        np.testing.assert_array_equal(decoded[f"p{i}"], rest >> (6 * (9 - i)) & 63)
    np.testing.assert_array_equal(space.index({name: np.asarray(x) for name, x in decoded.items()}), index)


def test_a_space_without_parameters_has_one_configuration():
    assert Space({}).size == 1
    assert Space({}).indices().tolist() == [0]
    assert space_of({}, "limit > 3").indices({"limit": 3}).tolist() == []
    assert space_of({"a": [1, 2]}, "limit > 3").indices({"limit": 3}).tolist() == []
    assert space_of({"a": [1, 2]}, "a > 3").configurations()["a"].dtype == np.int64
    for call in (lambda space: space.indices(), lambda space: space.valid({"a": np.arange(2)}, {}, np)):
        with pytest.raises(DseError, match=r"^b: found no value, expected one of a"):
            call(space_of({"a": [1, 2]}, "a < b"))


def test_with_values():
    changed = SPACE.with_values({"a": 3, "c": {"from": 0, "to": 6, "step": 3}})
    assert changed.values == {"a": (3,), "b": (0.5, 2.0), "c": (0, 3, 6)}
    assert changed.names == ("a", "b", "c")
    assert rows_of(changed.configurations({"limit": 2})) == [(3, 0.5, 0), (3, 0.5, 6)]
    assert SPACE.values["a"] == (1, 2, 4)
    with pytest.raises(DseError, match=r"^values: unknown parameter 'aa', expected .*; did you mean a\?"):
        SPACE.with_values({"aa": 1})
    with pytest.raises(DseError, match=r"^values: a: found 1 twice, expected each value once$"):
        SPACE.with_values({"a": [1, 1.0]})


def test_spaces_compare_by_content_and_order():
    same = space_of({"a": [1, 2.0, 4], "b": (0.5, 2), "c": {"from": 0, "to": 4}}, "a * b <= limit", "c != 3")
    assert same == SPACE
    assert hash(same) == hash(SPACE)
    assert pickle.loads(pickle.dumps(SPACE)) == SPACE
    assert Space({"a": [1], "b": [2]}) != Space({"b": [2], "a": [1]})
    assert Space({"a": [1, 2]}) != Space({"a": [2, 1]})
    assert Space({"a": [1, 2]}) != space_of({"a": [1, 2]}, "a > 1")
    # Equal spaces share a compilation, so their columns must have equal types.
    assert Space({"a": [True]}) == Space({"a": [1.0]})
    assert Space({"a": [True]}).decode(0, np)["a"].dtype == Space({"a": [1.0]}).decode(0, np)["a"].dtype
    with pytest.raises(AttributeError):
        SPACE.values = {}  # type: ignore[misc]


@pytest.mark.parametrize("name", ["block size", "if", "min", "1a", ""])
def test_a_parameter_needs_a_name_that_expressions_can_use(name):
    with pytest.raises(DseError, match=f"^parameters: found '{name}', expected a name that"):
        Space({name: [1]})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (5, (5,)),
        ([True, False], (1, 0)),
        ([np.int64(3), np.float64(4)], (3, 4)),
        ({"from": 1, "to": 4}, (1, 2, 3, 4)),
        ({"from": 16, "to": 50, "step": 16}, (16, 32, 48)),
        ({"from": 0, "to": 0.3, "step": 0.1}, (0, 0.1, 0.2, 0.1 * 3)),
        ({"from": 2**62, "to": 2**62 + 4, "step": 2}, (2**62, 2**62 + 2, 2**62 + 4)),
        ({"powers_of_two": [1, 32]}, (1, 2, 4, 8, 16, 32)),
    ],
)
def test_values_of(spec, expected):
    values = values_of(spec, "here")
    assert values == expected
    assert {type(value) for value in values} == {int if all(v == int(v) for v in expected) else float}


FORMS = "numbers, { from, to, step } or { powers_of_two = [first, last] }"
POWERS = "the first power of two and the last"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([], ": found no value, expected at least one"),
        ([1, 2, 1], ": found 1 twice, expected each value once"),
        ([1, "two"], ": found 'two', expected numbers only"),
        ([float("nan")], ": found nan, expected a number of 64 bits"),
        ([2**63], f": found {2**63}, expected a number of 64 bits"),
        ("1, 2", f": found '1, 2', expected {FORMS}"),
        ({"from": 1}, f": found {{'from': 1}}, expected {FORMS}"),
        ({"from": 3, "to": 2}, ".from: found 3, expected at most 2, which is 'to'"),
        ({"from": 1, "to": 2, "step": 0}, ".step: found 0, expected a number above 0"),
        ({"from": 1, "to": float("inf")}, ".to: found inf, expected a number"),
        ({"from": 1, "to": 10**12}, f": found {10**12} values, expected at most {MOST_VALUES}"),
        ({"from": 4, "to": 512, "step": 1e-320}, f": found inf values, expected at most {MOST_VALUES}"),
        ({"powers_of_two": [3, 8]}, f".powers_of_two: found [3, 8], expected {POWERS}"),
        ({"powers_of_two": [8, 1]}, None),
    ],
)
def test_values_of_refuses(spec, message):
    with pytest.raises(DseError) as error:
        values_of(spec, "kernel.toml: parameters.a")
    text = str(error.value)
    assert text.startswith("kernel.toml: parameters.a")
    assert message is None or text == "kernel.toml: parameters.a" + message


HUGE = Space({name: tuple(range(1000)) for name in "abc"})  # 10^9 configurations


def test_a_huge_space_is_sampled_and_not_listed():
    space = Space(HUGE.values, (parse("a % 2 == 0", "x"),))
    index = space.sample(10, seed=3)
    assert len(index) == len(np.unique(index)) == 10
    assert np.all(np.diff(index) > 0)
    assert np.all(space.decode(index, np)["a"] % 2 == 0)
    np.testing.assert_array_equal(index, space.sample(10, seed=3))
    assert not np.array_equal(index, space.sample(10, seed=4))
    space = Space(HUGE.values, tuple(parse(text, "x") for text in ("a == 7", "b == 3", "c < 4")))
    assert len(space.sample(10, tries=2**16)) == 4
    with pytest.raises(DseError, match=r"^parameters: found over 10,000,000 valid .* of 1,000,000,000"):
        HUGE.indices()


def test_constraints_may_be_texts():
    space = Space({"bx": (8, 16, 32), "by": (1, 2, 4)}, ("bx * by >= 32", "by < limit"))
    selected = space.configurations({"limit": 4})
    assert list(zip(selected["bx"].tolist(), selected["by"].tolist(), strict=True)) == [
        (16, 2),
        (32, 1),
        (32, 2),
    ]
    with pytest.raises(DseError, match="constraints: cannot read 'bx >'"):
        Space({"bx": (1,)}, ("bx >",))
    with pytest.raises(DseError, match="constraints: found 'bx > 1', expected a list of them"):
        Space({"bx": (1,)}, "bx > 1")
    space = Space({"bx": (8,), "by": (1, 2)}, ("bx * by >= 32",))
    assert space.unsatisfiable() == "none satisfies 'bx * by >= 32' at bx=8"
    space = Space({"bx": (8, 16), "by": (2,)}, ("bx > 8", "bx * by < n"))
    assert space.unsatisfiable({"n": 20}) == "none satisfies 'bx * by < n' at by=2, n=20, with the others"


ROWS = ((64, 4), (128, 4), (128, 8))


def test_a_space_of_what_is_listed():
    space = Space(
        {"block": [64, 128], "stages": [2, 3], "warps": [4, 8]}, (AllowedRows(("block", "warps"), ROWS),)
    )
    actual = space.configurations()
    rows = set(zip(*(actual[name].tolist() for name in ("block", "warps", "stages")), strict=True))
    assert rows == {(*row, stages) for row in ROWS for stages in (2, 3)}
    assert np.array_equal(space.valid({"block": 64, "stages": 2, "warps": np.array([4, 8])}, {}, np), [1, 0])
    assert AllowedRows(("block", "warps"), ROWS).text == "one of 3 listed combinations of block, warps"
