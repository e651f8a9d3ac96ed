"""What holds of the package as a whole: it is light to import, and leaves JAX's settings alone."""

from importlib.metadata import version

import pytest

from dse.report.show import number

HEAVY = ("jax", "numpy", "optuna", "pyarrow", "pydantic", "scipy")


def test_version(run_dse):
    import dse

    assert dse.__version__ == version("gpu-dse")
    assert run_dse("--version").out == f"dse {dse.__version__}\n"


def test_types_are_checked_while_testing():
    with pytest.raises(TypeError, match="parameter 'x'"):
        number("a text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "code",
    [
        "import dse",
        "import dse.cli.main",
        "from dse.cli.main import run\ntry: run(['--help'])\nexcept SystemExit: pass",
    ],
)
def test_loads_nothing_heavy(run_python, code):
    ran = run_python(f"{code}\nimport sys\nprint('loaded', *set(sys.modules) & {set(HEAVY)})")
    assert ran.err == ""
    assert ran.out.splitlines()[-1].split() == ["loaded"]


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
