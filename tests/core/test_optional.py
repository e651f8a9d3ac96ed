"""Optional packages: what is told where one is missing, or cannot be imported."""

import numpy as np
import pytest

from dse.core.optional import import_tested, install, needs
from dse.errors import DseError


@pytest.mark.parametrize(
    ("problem", "found"),
    [
        (ModuleNotFoundError("No module named 'x'"), "found none"),
        (
            ImportError("libx.so: no such file"),
            "found one that cannot be imported (ImportError: libx.so: no such file)",
        ),
    ],
)
def test_what_is_missing_or_broken(problem, found):
    with pytest.raises(DseError) as error, needs("x", install("cuda")):
        raise problem
    assert str(error.value).startswith(f'x: {found}, expected the extra "cuda": pip install "gpu-dse[cuda]"')


def test_versions_that_were_tried():
    assert import_tested("numpy>=1", "numpy", "x") is np
    with pytest.raises(DseError, match=rf"numpy: found {np.__version__}, expected the tested ==1.0.*"):
        import_tested("numpy==1.0.*", "numpy", "x")
    with pytest.raises(DseError, match='missing_one: found none, expected the extra "x"'):
        import_tested("missing_one==1.0.*", "missing_one", "x")
