"""A jitted function is traced by the first process alone, and gives the same in all."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import dse
dse.cache()
import jax, jax.numpy as jnp, numpy as np
from dse.core.programs import kept

@kept
def scaled(tree, factor):
    print("traced")
    return {name: x * (factor if isinstance(factor, float) else factor(1.0)) for name, x in tree.items()}

@kept
def root(square):
    return [jnp.linalg.cholesky(square)]

with jax.enable_x64("wide" in sys.argv):
    tree = {"a": np.arange(3.0), "b": jnp.ones((), jnp.float32)}
    if sys.argv[1] == "others":
        print(scaled(tree, abs)["b"], jax.grad(lambda x: scaled({"a": x}, 3.0)["a"])(1.0))
        print(root(4.0 * np.eye(2))[0].tolist())  # by a library that only lowering loads
    else:
        made = [scaled(tree, float(sys.argv[1])) for _ in range(2)][1]
        print({name: (str(x.dtype), x.tolist()) for name, x in made.items()})
"""


@pytest.fixture
def run(tmp_path):
    environment = {**os.environ, "DSE_CACHE": str(tmp_path / "cache")}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)

    def run(*arguments: str) -> list[str]:
        command = [sys.executable, "-c", SCRIPT, *arguments]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout.splitlines()

    return run


def test_another_process_takes_the_program_from_disk(run, tmp_path):
    twice = "{'a': ('float32', [0.0, 2.0, 4.0]), 'b': ('float32', 2.0)}"
    assert run("2.0") == ["traced", twice]
    assert run("2.0") == [twice]
    assert run("3.0", "wide") == ["traced", "{'a': ('float64', [0.0, 3.0, 6.0]), 'b': ('float32', 3.0)}"]
    kept = [*tmp_path.glob("cache/jax-*/programs/*")]
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes()[:-100])
    assert run("2.0") == ["traced", twice]


def test_transformations_and_what_no_text_describes_are_not_kept(run, tmp_path):
    assert run("others") == ["traced", "traced", "1.0 3.0", "[[2.0, 0.0], [0.0, 2.0]]"]
    assert not [*tmp_path.glob("cache/jax-*/programs/*")]
