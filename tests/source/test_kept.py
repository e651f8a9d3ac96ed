"""Records of the cache: they come back as they were, and nothing else does."""

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.errors import InputWarning
from dse.source.contract import Failure
from dse.source.kept import pack, unpack


@dataclass(frozen=True)
class Inner:
    name: str
    values: np.ndarray


@dataclass(frozen=True)
class Record:
    count: int
    share: float | None
    code: bytes
    parts: tuple[Inner, ...]
    by_name: dict[str, int]
    number: Any


RECORD = Record(
    3, None, b"\0\xff", (Inner("a", np.arange(6.0).reshape(2, 3)),), {"x": 1}, np.array([1.5], np.float32)
)


@pytest.mark.parametrize("smaller", [False, True])
def test_a_record_comes_back(smaller):
    actual: Any = unpack(pack(RECORD, smaller=smaller), Record, Failure)
    assert repr(actual) == repr(RECORD)
    assert actual.parts[0].values.flags.writeable
    assert unpack(pack(Failure("not executed", "why")), Record, Failure) == Failure("not executed", "why")


@given(st.floats(), st.lists(st.integers(-(2**60), 2**60)))
def test_numbers_are_exact(share, values):
    record = Record(0, share, b"", (Inner("", np.array(values, np.int64)),), {}, np.float64(share))
    assert repr(unpack(pack(record), Record)) == repr(Record(0, share, b"", record.parts, {}, share))


def planted(*arguments):
    raise AssertionError("code in a record ran")


class Planted:
    def __reduce__(self):
        return planted, ()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", None, "text", pickle.dumps(Planted()), pack(Inner("a", np.zeros(1)))),
        *(pack(RECORD)[:-1], pack(RECORD, smaller=True)[:40], pack(RECORD)[:8] + b"?" + pack(RECORD)[9:]),
    ],
)
def test_anything_else_is_reported_and_left(data):
    with pytest.warns(InputWarning, match=r"^cache: a record cannot be read and is made again: "):
        assert unpack(data, Record) is None


@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_bytes_end_it(noise, place):
    good = pack(RECORD)
    with pytest.warns(InputWarning):
        assert unpack(good[:place] + noise + b"x" + good[place:], Record) is None


def test_objects_are_no_data():
    with pytest.raises(TypeError, match="found Planted, expected data"):
        pack(Inner("a", Planted()))  # type: ignore[arg-type]
