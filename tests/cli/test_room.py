"""Limits of the process that JAX does not survive. `test_conditions.py` meets them in a shell, too."""

import resource
import threading

import pytest

from dse.cli import room
from dse.errors import DseError

FREE = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@pytest.fixture
def limit(monkeypatch):
    """`limit("RLIMIT_AS", 10**8)`: that one is all that is limited, as the process is told."""

    def limit(name, value):
        number = getattr(resource, name)
        monkeypatch.setattr(resource, "getrlimit", lambda asked: (value, value) if asked == number else FREE)

    return limit


@pytest.mark.parametrize(("name", "option"), [("RLIMIT_AS", "-v"), ("RLIMIT_DATA", "-d")])
def test_too_little_memory_is_told_but_help_is_given(limit, run_dse, name, option):
    limit(name, 4 * 10**8)
    ran = run_dse("gpus")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"dse: memory: found a limit of 0.4 GB (ulimit {option}), expected")
    assert run_dse("gpus", "--help").code == 0
    limit(name, 4 * 10**9)
    room.check()


def test_too_few_processes_are_told(limit, monkeypatch):
    limit("RLIMIT_NPROC", 12)
    room.check()  # where the limit is not met, as of root
    start, left = threading.Thread.start, iter(range(5))

    def scarce(thread):
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with pytest.raises(DseError, match=r"processes: found a limit of 12 \(ulimit -u\), expected room for"):
        room.check()
