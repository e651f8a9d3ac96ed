"""The packages that only reading a kernel's source needs, which `gpu-dse` installs on request."""

from collections.abc import Iterator
from contextlib import contextmanager

from dse.errors import DseError


def install(extra: str) -> str:
    """Say how an extra is installed."""
    return f'the extra "{extra}": pip install "gpu-dse[{extra}]"'


INSTALL = install("cuda")


@contextmanager
def needs(package: str, extra: str = "cuda") -> Iterator[None]:
    """For the import of an optional package.

    **Raises:** DseError that says what to install, if it is missing.
    """
    try:
        yield
    except ImportError:
        raise DseError(f"{package}: found none, expected {install(extra)}") from None
