"""The expression language against Python itself: the same text, run by Python for each row."""

import ast
import itertools
import math
import pickle
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dse.core.space.expression import parse
from dse.errors import DseError

NAMES = {"i": int, "j": int, "k": int, "x": float, "y": float}
PYTHON = {"floor": math.floor, "ceil": math.ceil, "log2": math.log2, "sqrt": math.sqrt, "abs": abs}
PYTHON |= {
    "min": lambda *values: min(values),  # Python's own wants two
    "max": lambda *values: max(values),
    "__builtins__": {},
}


# {n} stands for a number, {t} for a truth; truths only where Python's `and` and `or` give no number.
EXACT = [
    *("({n} + {n})", "({n} - {n})", "({n} * {n})", "({n} // {n})", "({n} % {n})", "(-{n})", "(+{n})"),
    *("abs({n})", "floor({n})", "ceil({n})", "floor({n} / {n})", "ceil({n} / {n})", "({n} / 8)"),
    *("min({n})", "min({n}, {n})", "max({n}, {n}, {n})", "({n}) ** 0", "({n}) ** 3", "2 ** (abs({n}) % 9)"),
    *("(abs({n}) % 7) ** (abs({n}) % 9)", "({n} if {t} else {n})", "{t}"),
]
TRUTHS = [
    *("({n} < {n})", "({n} <= {n})", "({n} == {n})", "({n} != {n})", "({n} > {n})", "({n} >= {n})"),
    *("({n} < {n} <= {n})", "({n} == {n} != {n} > {n})", "({n} in ({n}, {n}))", "({n} not in [{n}, 3])"),
    *("({n} < {n} in ({n},))", "(not {n})", "(not {t})", "({t} and {t})", "({t} or {t} or {t})"),
]
# These may differ in the last bit, which a floor around them would make a whole number: outermost only.
ROUNDED = ["{}", "({}) / 49", "({}) / (j + 0.3)", "({}) ** -2", "sqrt(abs({}))", "log2(abs({}) + 1)"]
LEAVES = ["i", "j", "k", "x", "y", "0.375", "2.5", "7.0", "True", "False", *map(str, range(0, 41, 3))]


@st.composite
def texts(draw, templates=EXACT):
    """Expressions, up to three templates deep."""

    def filled(among, depth):
        parts = draw(st.sampled_from(among if depth else LEAVES)).replace("{t}", "{n}t").split("{n}")
        for i, part in enumerate(parts[1:], start=1):
            is_truth = part[:1] == "t"
            inner = filled(TRUTHS, max(1, depth - 1)) if is_truth else filled(templates, depth - 1)
            parts[i] = inner + part[is_truth:]
        return "".join(parts)

    return draw(st.sampled_from(ROUNDED)).format(filled(templates, 3))


@st.composite
def rows(draw, count=6):
    kinds = {int: st.integers(-30, 60), float: st.integers(-160, 160).map(lambda n: n / 8)}
    return {name: [draw(kinds[kind]) for _ in range(count)] for name, kind in NAMES.items()}


def by_python(text, table):
    """A value for each row; None where Python raises, or a part leaves what floats count exactly."""
    tree = ast.parse(text, mode="eval")
    parts = [part for part in ast.walk(tree.body) if isinstance(part, ast.expr)]
    scalars = [part for part in parts if not isinstance(part, ast.Tuple | ast.List)]
    callees = {id(part.func) for part in parts if isinstance(part, ast.Call)}
    codes = [compile(ast.Expression(part), "", "eval") for part in scalars if id(part) not in callees]
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in zip(*table.values(), strict=True):
            names = PYTHON | dict(zip(table, row, strict=True))
            try:
                value, large = eval(codes[0], names), False
                for code in codes[1:]:
                    try:
                        large |= abs(eval(code, names)) > 2**53
                    except ZeroDivisionError:  # in a branch that is not taken
                        continue
                values.append(None if large or abs(value) > 2**53 else value)
            except (ArithmeticError, ValueError):
                values.append(None)
    return values


def agree(got, expected):
    got = np.broadcast_to(np.asarray(got), len(expected))
    assert got.dtype in (np.dtype(bool), np.dtype(np.int64), np.dtype(float))
    for ours, theirs in zip(got, expected, strict=True):
        if theirs is None:
            continue
        if isinstance(theirs, float):
            assert got.dtype == float
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
        else:
            assert ours == theirs


def arrays(table, xp):
    return {name: xp.asarray(values, NAMES[name]) for name, values in table.items()}


def read(text):
    """The expression, or none where Python too stops at a constant, in every row."""
    try:
        return parse(text, "here", NAMES)
    except DseError as error:
        assume("constant" not in str(error))
        raise


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("template", [*EXACT, *TRUTHS])
def test_every_construct_equals_python(template, xp):
    operands = itertools.cycle(["i", "x", "j", "2.5", "y", "k"])
    text = re.sub("{n}", lambda _: next(operands), template).replace("{t}", "(i < y)")
    random = np.random.default_rng(0)
    table = {
        name: (random.integers(-9, 9, 200) / (1 if kind is int else 8)).astype(kind).tolist()
        for name, kind in NAMES.items()
    }
    agree(parse(text, "here", NAMES)(arrays(table, xp), xp), by_python(text, table))


@settings(max_examples=150)
@given(text=texts([*EXACT, "({n} / {n})", "sqrt(abs({n}))"]), table=rows())
def test_numpy_equals_python(text, table):
    agree(read(text)(arrays(table, np), np), by_python(text, table))


@pytest.mark.parametrize("divisor", [3, 49, 0.3])
@pytest.mark.parametrize("text", ["n / d", "n / {}", "floor(n / {} / 1)", "x % (d / 7)", "n // d", "n % {}"])
def test_division_by_a_scalar_is_exact_under_jit(text, divisor):
    # XLA would multiply by the reciprocal: 49 * (1 / 49) is below 1.
    n, x = np.arange(-3000, 3000), np.arange(-3000, 3000) / 8
    expression = parse(text.format(divisor), "here")
    got = jax.jit(lambda n, x, d: expression({"n": n, "x": x, "d": d}))(n, x, divisor)
    codes = compile(text.format(divisor), "", "eval")
    expected = [
        eval(codes, PYTHON | {"n": a, "x": b, "d": divisor})
        for a, b in zip(n.tolist(), x.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("xp", [np, jnp])
def test_integers_stay_exact(xp):
    n = 2**62 + np.arange(3)
    values = {"n": n, "d": np.asarray(7), "one": np.asarray(1, np.int8)}
    for text in ("ceil(n / d)", "floor(n / d)", "n // d * d + n % d", "min(n, n + one) - 1", "floor(n)"):
        by_hand = text.replace("ceil(n / d)", "-(-n // d)").replace("floor(n / d)", "n // d")
        expected = [eval(by_hand, PYTHON | {"n": item, "d": 7, "one": 1}) for item in n.tolist()]
        got = parse(text, "here")(values, xp)
        assert got.dtype == np.int64
        assert got.tolist() == expected


@pytest.mark.parametrize("xp", [np, jnp])
def test_log2_of_powers_of_two_is_exact(xp):
    def evaluate(text, values):
        expression = parse(text, "here")
        return expression(values, xp) if xp is np else jax.jit(lambda values: expression(values, xp))(values)

    powers = np.arange(-60, 63)
    np.testing.assert_array_equal(evaluate("log2(x)", {"x": 2.0**powers}), powers)
    np.testing.assert_array_equal(evaluate("floor(log2(2 ** i))", {"i": np.arange(62)}), np.arange(62))
    near = np.array([1 - 1e-9, 1 + 1e-9])  # no digits are lost beside 1 either
    np.testing.assert_allclose(evaluate("log2(x)", {"x": near}), np.log2(near), rtol=1e-14)


def test_gradients_are_those_of_the_formula():
    formula = parse("log2(x) + x / 3 + 6 / x + sqrt(x) + x ** 2", "here")
    gradient = jax.jit(jax.grad(lambda x: formula({"x": x})))(3.0)
    expected = 1 / (3 * math.log(2)) + 1 / 3 - 6 / 9 + 0.5 / math.sqrt(3) + 6
    np.testing.assert_allclose(gradient, expected, rtol=1e-14)
    assert parse(f"max({', '.join(map(str, range(500)))})", "here")({}, np) == 499


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i // z", [0, 0, 0]),
        ("i % z", [-2, 0, 3]),  # so that i = z * (i // z) + i % z
        ("x % z", [-1.5, 0.0, 2.5]),
        ("i / z", [-math.inf, math.nan, math.inf]),
        ("ceil(i / z)", [0, 0, 0]),
        ("floor(x / z)", [0, 0, 0]),
        ("sqrt(x)", [math.nan, 0.0, math.sqrt(2.5)]),
        ("log2(i)", [math.nan, -math.inf, math.log2(3)]),
        ("(-1) ** i", [1, 1, -1]),
        ("z != 0 and i % z == 0", [False, False, False]),
        ("i / z if z != 0 else 7", [7.0, 7.0, 7.0]),
        ("i and x", [True, False, True]),
        ("x in ()", [False, False, False]),
        ("2 ** -1", 0.5),
    ],
)
def test_what_python_refuses_has_a_value(text, expected, xp):
    values = {"i": np.array([-2, 0, 3]), "x": np.array([-1.5, 0.0, 2.5]), "z": np.zeros(3, int)}
    got = np.asarray(parse(text, "here")(values, xp))
    np.testing.assert_allclose(got, expected, rtol=1e-15)
    assert got.dtype == np.asarray(expected).dtype


def test_shapes_broadcast_and_scalars_stay_scalars():
    values = {"a": np.arange(3)[:, None], "b": np.arange(4.0)[None], "c": 2}
    for xp in (np, jnp):
        assert parse("a * b if a in (1, c) else c", "here")(values, xp).shape == (3, 4)
        assert parse("c + 1", "here")(values, xp).shape == ()
    huge = parse("7 ** n", "here")
    assert huge({"n": np.array([3, 2**62])}, np)[0] == 343
    assert huge({"n": np.array([3, 2**62])}, jnp)[0] == 343


@pytest.mark.parametrize("number", [3, -3, 2.5, True, "3"])
def test_a_number_is_an_expression(number):
    expression = parse(number, "here", ())
    assert expression({}, np) == float(number)
    assert expression.names == frozenset()


def test_equal_texts_are_equal_expressions():
    single, two = parse("a + \n  b", "here"), parse("a + b", "there")
    assert single == two
    assert hash(single) == hash(two)
    assert single != parse("b + a", "here")
    assert single.names == {"a", "b"}
    assert pickle.loads(pickle.dumps(single))({"a": 1, "b": 2}, np) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid syntax"),
        ("a.b", "Attribute is not part"),
        ("lambda: 1", "Lambda is not part"),
        ("__import__('os')", "the only calls are"),
        ("max(a, key=b)", "the only calls are"),
        ("min()", "min of 0 values"),
        ("a & b", "BitAnd is not part"),
        ("a in b", "'in' needs a list"),
        ("a in (1, 2) == b", "'in' needs a list"),
        ("a == 'text'", "found 'text', expected numbers only"),
        ("1j", "found 1j, expected numbers only"),
        ("(-8) ** 0.5", "expected numbers only"),
        ("10 ** 40", "a constant is too large"),
        ("a ** 10 ** 10", "the power 10000000000 is above 64"),
        ("1.5 ** 1e9", "is above 64"),
        ("10.0 ** 64 ** 64", "a constant is too large"),
        ("1 // (2 - 2)", "a constant is divided by zero"),
        ("-" * 3000 + "a", "nested too deeply"),
        ("(" * 500 + "a" + ")" * 500, "too many nested parentheses"),
        ("a\0", "null bytes"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(DseError) as error:
        parse(text, "kernel.toml: launch.threads")
    message = str(error.value)
    assert message.startswith("kernel.toml: launch.threads: cannot read '")
    assert why in message


def test_other_messages():
    for text, allowed, message in [
        (
            "a + blok",
            ["block", "a"],
            "unknown name 'blok' in 'a + blok', expected one of a, block; did you mean block?",
        ),
        ("a", (), "unknown name 'a' in 'a', expected one of none"),
        ("a" * 5000, None, "found 5000 characters, expected at most 4000"),
        ([1], None, "found [1], expected a number or an expression"),
        (math.nan, (), "unknown name 'nan' in 'nan', expected one of none"),
    ]:
        with pytest.raises(DseError) as error:
            parse(text, "here", allowed)
        assert str(error.value) == f"here: {message}"
    with pytest.raises(DseError, match=r"^a: found no value, expected one of b"):
        parse("a", "here")({"b": 1})
