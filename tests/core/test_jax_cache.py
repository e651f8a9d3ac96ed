"""What JAX compiles is kept, for commands and for programs."""

import os
import sys

import pytest

from dse.core.jax_cache import FOLDER, SHORTEST, cache
from dse.errors import DseError


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    monkeypatch.delenv(FOLDER)
    monkeypatch.delenv(SHORTEST)
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "jax", raising=False)  # which has a folder: that of all tests


@pytest.mark.slow
def test_a_program_that_has_compiled_before_keeps_the_rest(run_python, monkeypatch, tmp_path):
    monkeypatch.setenv(SHORTEST, "0")
    ran = run_python(
        """
import jax
jax.jit(lambda x: x + 1)(1.0)
import dse
print(dse.cache("kept"))
print(dse.cache("another"))
def doubled(x): return x * 2
jax.jit(doubled)(1.0)
"""
    )
    assert ran.err == ""
    assert ran.out.split() == [str(tmp_path / "kept")] * 2  # the first one stays
    assert any(path.name.startswith("jit_doubled") for path in (tmp_path / "kept").iterdir())
    assert not (tmp_path / "another").exists()


def test_programs_and_commands_share_a_folder(run_python, tmp_path):
    ran = run_python(
        """
import os, sys
import dse
folder = dse.cache()
del os.environ["JAX_COMPILATION_CACHE_DIR"]
from dse.cli.main import run
try: run(["--version"])
except SystemExit: pass
print(folder == dse.cache(), "jax" in sys.modules, folder)
"""
    )
    assert ran.err == ""
    same, loaded, folder = ran.out.split()[-3:]
    assert (same, loaded) == ("True", "False")
    assert folder.startswith(str(tmp_path / "cache" / "jax-"))


def test_a_folder_that_all_may_write_to_is_refused(monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(DseError, match="found a folder that all may write to"):
        cache()
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("place", ["file/inside", b"a\xff"])
def test_where_no_folder_can_be_nothing_is_kept(monkeypatch, tmp_path, place):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / os.fsdecode(place)))
    assert cache() is None
    assert FOLDER not in os.environ
