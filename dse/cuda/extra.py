"""The packages that only reading CUDA needs, which `gpu-dse` installs on request."""

from collections.abc import Iterator
from contextlib import contextmanager

from dse.errors import DseError

INSTALL = 'the extra "cuda": pip install "gpu-dse[cuda]"'


@contextmanager
def needs(package: str) -> Iterator[None]:
    """For the import of an optional package.

    **Raises:** DseError that says what to install, if it is missing.
    """
    try:
        yield
    except ImportError:
        raise DseError(f"{package}: found none, expected {INSTALL}") from None
