"""What holds of the package as a whole: it is light to import, and leaves JAX's settings alone."""

import ast
import os
from importlib.metadata import version
from pathlib import Path

import pytest

import dse
from dse.report.numbers import number

HEAVY = "jax numpy optuna pyarrow pydantic scipy"


def test_version(run_dse):
    assert dse.__version__ == version("gpu-dse")
    assert run_dse("--version").out == f"dse {dse.__version__}\n"


@pytest.mark.types
def test_types_are_checked_while_testing():
    with pytest.raises(TypeError, match="parameter x="):
        number("a text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import dse", HEAVY),
        ("from dse.cli.main import run\ntry: run(['--help'])\nexcept SystemExit: pass", HEAVY),
        ("from dse.hardware import gpus; gpus.find('a100')", "jax"),
        ("from dse.kernels import find, names; find(names()[0])", "jax"),
        ("import dse.models; len(dse.models.MODELS)", "jax"),
        ("import dse.explore.prune", "jax numpy triton"),
        ("import dse.report.timeline, dse.report.chart, dse.report.save", "altair vl_convert"),
    ],
)
def test_loads_nothing_heavy(run_python, code, heavy):
    ran = run_python(f"{code}\nimport sys\nprint('loaded', *set(sys.modules) & {set(heavy.split())})")
    assert (ran.err, ran.out.splitlines()[-1]) == ("", "loaded")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_jax_works_in_a_fork_of_what_workers_import(run_python):
    """It hangs where one of these modules had started its threads."""
    code = """
import os, signal
import dse.measure.compiling, dse.source.amd.source, dse.source.nvidia.source
import dse.source.caches.first_touches, dse.source.profile.issue
if not os.fork():
    signal.alarm(60)
    import jax.numpy as jnp
    os._exit(float(jnp.ones(3).sum()) != 3.0)
print(os.wait()[1])
"""
    assert run_python(code).out.strip() == "0"


@pytest.mark.slow
def test_importing_every_module_changes_no_setting_of_jax(run_python):
    ran = run_python(
        """
import jax
before = dict(jax.config.values)
import dse, importlib, pkgutil
modules = [each.name for each in pkgutil.walk_packages(dse.__path__, "dse.")]
for name in modules:
    importlib.import_module(name)
changed = {name for name, value in jax.config.values.items() if before.get(name, value) != value}
print(len(modules), *changed)
"""
    )
    assert ran.err == ""
    count, *changed = ran.out.split()
    assert int(count) > 10
    assert changed == []


@pytest.mark.slow
def test_only_the_command_line_speaks_of_options():
    """No message that the library raises has an option in it."""
    root = Path(dse.__file__).parent
    spoken = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "DseError":
                texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                spoken += [(path, text) for text in texts if isinstance(text, str) and "--" in text]
    assert {path.relative_to(root).parts[0] for path, _ in spoken} == {"cli"}
