"""Optional packages, most of them in extras of `gpu-dse`."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.requirements import Requirement

from dse.errors import DseError


def install(extra: str) -> str:
    """Describe how to install an extra."""
    return f'the extra "{extra}": pip install "gpu-dse[{extra}]", or ".[{extra}]" in a checkout'


@contextmanager
def needs(package: str, expected: str) -> Iterator[None]:
    """Guard the import of an optional package; `expected` describes its installation.

    **Raises:** DseError with that description if it is missing or cannot be imported.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise DseError(f"{package}: found none, expected {expected}") from None
    except Exception as error:  # a library of it is missing, or built for another system
        problem = f"found one that cannot be imported ({type(error).__name__}: {error})"
        raise DseError(f"{package}: {problem}, expected {expected}") from None


def import_tested(requirement: str, module: str, extra: str) -> Any:
    """Import a module whose internals a bridge uses, if its version is a tested one: "torch>=2.13,<2.16".

    **Raises:** DseError for another version, or as `needs`.
    """
    tested = Requirement(requirement)
    try:
        installed = version(tested.name)
    except PackageNotFoundError:
        installed = ""
    if installed and not tested.specifier.contains(installed, prereleases=True):
        raise DseError(f"{tested.name}: found {installed}, expected the tested {tested.specifier}")
    with needs(tested.name, install(extra)):
        return import_module(module)
