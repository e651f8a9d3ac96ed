"""Limits of the process that JAX does not survive."""

import resource

import pytest

from dse.cli import room
from dse.errors import DseError

FREE = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def limited(monkeypatch, **limits):
    by_number = {getattr(resource, name): (value, value) for name, value in limits.items()}
    monkeypatch.setattr(resource, "getrlimit", lambda number: by_number.get(number, FREE))


def test_no_limits(monkeypatch):
    limited(monkeypatch)
    room.check()


@pytest.mark.parametrize(("name", "option"), [("RLIMIT_AS", "-v"), ("RLIMIT_DATA", "-d")])
def test_too_little_memory_is_told(monkeypatch, name, option):
    limited(monkeypatch, **{name: 4 * 10**8})
    message = rf"memory: found a limit of 0.4 GB \(ulimit {option}\), expected \d GB or more"
    with pytest.raises(DseError, match=message):
        room.check()
    limited(monkeypatch, **{name: 4 * 10**9})
    room.check()


def test_commands_ask_for_it_but_not_their_help(monkeypatch, run_dse):
    limited(monkeypatch, RLIMIT_AS=10**8)
    ran = run_dse("gpus")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dse: memory: found a limit of 0.1 GB")
    assert run_dse("gpus", "--help").code == 0
