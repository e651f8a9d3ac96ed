"""Limits of the process that JAX does not survive. `test_conditions.py` meets them in a shell, too."""

import resource

import pytest

from dse.cli.commands import check_limits

FREE = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


@pytest.fixture
def limit(monkeypatch):
    """`limit("RLIMIT_AS", 10**8)`: that one is all that is limited, as the process is told."""

    def limit(name, value):
        number = getattr(resource, name)
        monkeypatch.setattr(resource, "getrlimit", lambda asked: (value, value) if asked == number else FREE)

    return limit


@pytest.mark.parametrize(("name", "option"), [("RLIMIT_AS", "-v"), ("RLIMIT_DATA", "-d")])
def test_too_little_memory_is_reported_but_help_is_given(limit, run_dse, name, option):
    limit(name, 4 * 10**8)
    ran = run_dse("gpus")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"dse: memory: found a limit of 0.4 GB (ulimit {option}), expected")
    assert run_dse("gpus", "--help").code == 0
    limit(name, 4 * 10**9)
    check_limits()
