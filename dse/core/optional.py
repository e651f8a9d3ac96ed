"""Packages that only some work needs: most of them come with an extra of `gpu-dse`."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.requirements import Requirement

from dse.errors import DseError


def install(extra: str) -> str:
    """Say how an extra is installed."""
    return f'the extra "{extra}": pip install "gpu-dse[{extra}]", or ".[{extra}]" in a checkout'


@contextmanager
def needs(package: str, expected: str) -> Iterator[None]:
    """For the import of an optional package; `expected` says how it is installed.

    **Raises:** DseError that says so, if it is missing, or is there and cannot be imported.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise DseError(f"{package}: found none, expected {expected}") from None
    except Exception as error:  # one of its libraries is missing, or made for another system
        found = f"found one that cannot be imported ({type(error).__name__}: {error})"
        raise DseError(f"{package}: {found}, expected {expected}") from None


def tried(requirement: str, module: str, extra: str) -> Any:
    """Import a module whose insides a bridge uses, of a version that it was tried with: "torch==2.13.*".

    **Raises:** DseError in one line for another version, or as `needs`.
    """
    wanted = Requirement(requirement)
    try:
        installed = version(wanted.name)
    except PackageNotFoundError:
        installed = ""
    if installed and not wanted.specifier.contains(installed, prereleases=True):
        raise DseError(
            f"{wanted.name}: found {installed}, expected {wanted.specifier}, which this was tried with"
        )
    with needs(wanted.name, install(extra)):
        return import_module(module)
