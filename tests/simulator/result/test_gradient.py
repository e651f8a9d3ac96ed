"""The counts of the critical path are the derivatives of the makespan."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import random_case

from dse.simulator import Case, Program, Terms, makespans, simulate

STEP = 1e-6  # cycles: smooth points have no kink so near


def smooth_case(rng: np.random.Generator, order: str) -> Case:
    """Terms that are all different real numbers."""
    case = random_case(rng, "valve cap barriers sequence", grid=None)
    [program] = case.programs
    ranges = {"throughput_cycles": (0.5, 6.0), "latency_cycles": (4.0, 60.0), "same_warp": (0.0, 2.0)}
    terms = {name: rng.uniform(low, high, len(program)) for name, (low, high) in ranges.items()}
    return replace(case, programs=(replace(program, **terms),), order=order)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    rng = np.random.default_rng(0)
    return [smooth_case(rng, "dataflow" if n % 4 == 3 else "program") for n in range(48)]


def test_equals_central_differences(cases: list[Case]):
    function, terms = makespans(cases), Terms.of(cases)
    np.testing.assert_array_equal(function(terms), simulate(cases).makespan)
    rng = np.random.default_rng(1)
    direction = Terms(*(jnp.asarray(rng.normal(size=x.shape)) for x in terms))
    ahead, behind = (
        Terms(*(x + h * d for x, d in zip(terms, direction, strict=True))) for h in (STEP, -STEP)
    )
    differences = (np.asarray(function(ahead)) - np.asarray(function(behind))) / (2 * STEP)

    gradient = jax.jit(jax.grad(lambda terms: function(terms).sum()))(terms)
    case = np.repeat(np.arange(len(cases)), [len(case.programs[0]) for case in cases])
    slopes = np.zeros(len(cases))
    for name in ("throughput_cycles", "latency_cycles", "same_warp"):
        slopes += np.bincount(case, getattr(gradient, name) * getattr(direction, name))
    finite = np.array([case.issue_limit < math.inf for case in cases])
    slopes += np.where(finite, gradient.valve * direction.valve, 0.0)
    np.testing.assert_array_equal(np.asarray(gradient.valve)[~finite], 0.0)
    np.testing.assert_allclose(slopes, differences, rtol=1e-6, atol=1e-6)


def test_is_a_function_like_others():
    """Scaled, compiled, batched; in double precision only."""
    program = Program(np.zeros(2, int), np.array([1.3, 2.1]), np.array([4.7, 9.2]), ((), (0,)))
    case = Case((program,), 3, issue_limit=0.9)
    function, terms = makespans([case]), Terms.of([case])
    plain = simulate([case], critical=True)
    assert plain.critical is not None
    both = jax.jit(jax.vmap(jax.value_and_grad(lambda terms: 2 * function(terms)[0])))
    ends, gradient = both(Terms(*(jnp.stack([x, 2 * x, 3 * x]) for x in terms)))
    np.testing.assert_allclose(ends, 2 * plain.makespan[0] * np.arange(1.0, 4.0), rtol=1e-12)
    for place in range(3):
        for name in ("throughput_cycles", "latency_cycles"):
            expected = 2 * getattr(plain.critical[0], name)[0]
            np.testing.assert_array_equal(getattr(gradient, name)[place], expected)
        assert gradient.valve[place, 0] == 2 * plain.critical[0].valve
    with pytest.raises(TypeError, match="throughput_cycles: found float32, expected float64"):
        function(Terms(*(x.astype(np.float32) for x in terms)))
