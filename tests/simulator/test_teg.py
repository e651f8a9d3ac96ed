"""TEG: terms against the paper's, and patterns of addresses against plain Python."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.core import catalogue
from dse.errors import DseError
from dse.simulator import teg
from dse.simulator.case import trace_text
from dse.simulator.case.trace import TraceAccess, TraceInstruction
from dse.simulator.teg import GT200, Effects

KERNELS = catalogue.folder("kernels")
MATMUL, AOS, SOA = (
    trace_text.load(KERNELS / name / trace_text.FILE) for name in ("matmul_abt", "hopping_aos", "hopping_soa")
)
OPERAND = TraceAccess("shared", stride=4)
CONFLICT = TraceAccess("shared", stride=64)  # 16 words: all of one bank
LANES = st.integers(1, 32)
accesses = st.builds(
    TraceAccess, space=st.just("global"), bytes=st.sampled_from([1, 2, 4, 8, 16]), stride=st.integers(0, 600)
)


# Terms


def of(kind, access=None, lanes=32, **effects):
    return teg.terms(TraceInstruction(kind, access=access, lanes=lanes), GT200, Effects(**effects))


def test_terms_are_those_of_the_paper():
    # Secs. 3.2.4 and 3.3.3: 38 for a move, 74 and 266 for an addition
    assert of("move", OPERAND)[1:] == (4, 38, 8)
    assert of("float_add", OPERAND)[1:] == (4, 74, 8)
    assert of("float_add", CONFLICT)[1:] == (64, 266, 266)
    assert of("float_add", CONFLICT, held=False)[1:] == (64, 266, 8)
    assert of("float_add", CONFLICT, conflicts=False) == of("float_add", OPERAND)
    assert of("float_add", replace(CONFLICT, stride=0)) == of("float_add", OPERAND)  # one word for all
    assert of("load", TraceAccess("global")) == ("memory", 4, 440, 60)  # Sec. 3.2.2
    assert [int(GT200.transactions_in_flight(size)) for size in (8, 4)] == [18, 37]  # Sec. 3.2.4
    assert GT200.in_flight == 12
    scattered = TraceAccess("global", stride=512)  # Sec. 3.3.4: 16 transactions of 32 bytes for a half-warp
    assert of("load", scattered, channels=False) == ("memory", 8 * 440 / 12, 440, 440)
    assert of("load", scattered, uncoalesced=False, channels=False) == of("load", TraceAccess("global"))
    assert of("load", scattered, in_flight=False, channels=False)[1] == 4
    # all lanes in one channel of 17.7 GB/s, which 30 SMs share
    single = TraceAccess("global", pitch=2048)
    assert of("load", single)[1] == pytest.approx(128 * 8 * 30 * 1.296e9 / 141.7e9)
    assert of("load", single, channels=False) == of("load", TraceAccess("global"))
    # Sec. 3.2.3: arithmetic as if not masked, memory less
    assert of("float_add", lanes=3) == of("float_add")
    scattered = TraceAccess("global", stride=512)
    whole, half = (of("load", scattered, lanes, channels=False)[1] for lanes in (32, 16))
    assert half == whole / 2
    assert of("float_add", lanes=8, divergence=False) == ("sp", 1, 24, 2)


# Patterns


@given(stride=st.integers(0, 300), lanes=LANES)
def test_ways_in_plain_python(stride, lanes):
    most = 1
    for half in range(0, lanes, 16):
        words = {lane * stride // 4 for lane in range(half, min(half + 16, lanes))}
        most = max(most, *Counter(word % 16 for word in words).values())
    assert teg.ways(TraceAccess("shared", stride=stride), lanes) == most


@given(access=accesses, lanes=LANES)
def test_transactions_in_plain_python(access, lanes):
    segment, expected = {1: 32, 2: 64}.get(access.bytes, 128), []
    for half in range(0, lanes, 16):
        touched = {
            lane * access.stride + byte
            for lane in range(half, min(half + 16, lanes))
            for byte in range(access.bytes)
        }
        for start in sorted({at // segment for at in touched}):
            low, high = start * segment, (start + 1) * segment
            mine = [at for at in touched if low <= at < high]
            while high - low > 32:
                middle = (low + high) // 2
                if all(at < middle for at in mine):
                    high = middle
                elif all(at >= middle for at in mine):
                    low = middle
                else:
                    break
            expected.append(high - low)
    assert teg.transactions(access, lanes) == expected


def test_transactions_that_are_said():
    assert teg.transactions(TraceAccess("global", count=5)) == [32] * 5


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (TraceAccess("global"), 1),
        (TraceAccess("global", stride=2048), 8),
        (TraceAccess("global", stride=512), 2),
        (TraceAccess("global", pitch=0), 8),
        (TraceAccess("global", count=32), 1),
        (TraceAccess("global", count=32, pitch=1024), 4),
    ],
)
def test_skew(access, expected):
    # Sec. 3.3.5: 8 channels, 256 bytes wide: with two of eight in use each has four times as much
    assert teg.skew(access) == pytest.approx(expected, rel=0.01)


# Cases


def test_cases():
    four, sixteen = (teg.case(MATMUL, warps) for warps in (4, 16))
    assert (four.warps, four.slots, four.groups) == (4, 1, 1)
    assert (sixteen.warps, sixteen.slots, sixteen.groups) == (8, 2, 2)
    assert (four.issue_limit, four.caps[teg.SUBSYSTEMS.index("memory")]) == (0.5, 12)
    with pytest.raises(DseError, match="warps: found 12, expected up to 8, or a multiple of it up to 32"):
        teg.case(MATMUL, 12)

    def without(name):
        return teg.case(MATMUL, 8, effects=Effects.without(name))

    assert without("issue").issue_limit == np.inf
    assert set(without("in_flight").caps) == {np.inf}
    assert not without("same_warp").programs[0].same_warp.any()
    assert not without("barriers").programs[0].barriers
    assert not without("dependence").programs[0].pred.size
