"""Limits of the process that JAX does not survive."""

import resource
import threading

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


def test_too_few_processes_are_told(monkeypatch):
    limited(monkeypatch, RLIMIT_NPROC=12)
    room.check()  # where the limit is not met, as of root
    start = threading.Thread.start
    left = iter(range(5))

    def scarce(thread):
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    with pytest.raises(DseError, match=r"processes: found a limit of 12 \(ulimit -u\), expected room for"):
        room.check()


def test_commands_ask_for_it_but_not_their_help(monkeypatch, run_dse):
    limited(monkeypatch, RLIMIT_AS=10**8)
    ran = run_dse("gpus")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dse: memory: found a limit of 0.1 GB")
    assert run_dse("gpus", "--help").code == 0


@pytest.mark.parametrize("flag", ["--a", "--xla_force_host_platform_device_count=2"])
def test_flags_of_xla_are_tried_in_a_fork(run_python, flag):
    """In a process of its own: XLA reads them once."""
    ran = run_python(
        f"import os, sys\nos.environ['XLA_FLAGS'] = {flag!r}\n"
        "from dse.cli import room\nfrom dse.errors import DseError\n"
        "try:\n    room.check()\nexcept DseError as error:\n    print(error)\n"
    )
    told = "XLA_FLAGS: found '--a', expected flags that XLA knows: Unknown flag in XLA_FLAGS: --a\n"
    assert (ran.out, ran.err) == (told if flag == "--a" else "", "")
