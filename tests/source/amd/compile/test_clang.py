"""Which clang is taken."""

import pytest

from dse.errors import DseError
from dse.source.amd.compile import clang as subject


@pytest.fixture(autouse=True)
def forgotten():
    subject.clang.cache_clear()
    yield
    subject.clang.cache_clear()


@pytest.mark.parametrize("named", ["'", "/nonexistent/clang", "echo clang", " ", "printf '\\377'"])
def test_what_is_no_clang_is_named(monkeypatch, named):
    monkeypatch.setenv(subject.NAMED, named)
    with pytest.raises(DseError, match=r"^DSE_CLANG: found .*, expected the path of a clang$"):
        subject.clang()


def test_a_clang_that_is_named(monkeypatch):
    monkeypatch.setenv(subject.NAMED, "echo 'clang version 19.1.2 of' someone")
    assert subject.clang().version == "clang 19.1.2"
