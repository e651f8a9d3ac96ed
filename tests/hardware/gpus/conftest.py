"""The GPUs of the catalogue, and a file to be spoiled."""

import numpy as np
import pytest

from dse.hardware import gpus


@pytest.fixture(scope="session")
def files():
    """All files of the catalogue: a warning that one contradicts itself would be an error."""
    return {name: gpus.load(name, np.float64) for name in gpus.names()}


@pytest.fixture
def edited(tmp_path):
    """The A100's file with one piece of its text replaced."""

    def write(old, new):
        text = gpus.find("a100").read_text()
        assert text.count(old) == 1, old
        path = tmp_path / "mine.toml"
        path.write_text(text.replace(old, new))
        return path

    return write
