"""Kernels are found by name or path, and listed without reading more than is asked for."""

import pytest

from dse import kernels
from dse.core import catalogue
from dse.errors import DseError

MINIMAL = """summary = "a made-up stencil"
[parameters]
block = [16, 32]
[launch]
threads = "block"
blocks = 1
registers = 32
"""


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A catalogue of three kernels, two of which do the same."""
    for name, work in (("stencil", "smoothing"), ("Stencil_Big", "smoothing"), ("fft", None)):
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True)
        text = f'variant_of = "{work}"\n{MINIMAL}' if work else MINIMAL
        (folder / "kernel.toml").write_text(f'name = "{name}"\n{text}')
    (tmp_path / "kernels" / "notes.txt").touch()
    monkeypatch.setattr(catalogue, "folder", lambda name: tmp_path / name)
    return tmp_path / "kernels"


def test_names_and_forgiving_find(shelf):
    assert kernels.names() == ["Stencil_Big", "fft", "stencil"]
    assert kernels.find("stencil-big") == kernels.find("STENCIL BIG") == shelf / "Stencil_Big" / "kernel.toml"
    assert kernels.find(shelf / "fft") == kernels.find(str(shelf / "fft" / "kernel.toml"))
    assert kernels.load("FFT").name == "fft"
    assert kernels.variants("smoothing") == kernels.variants("Smoothing") == ["Stencil_Big", "stencil"]
    assert kernels.variants("stencil-big") == ["Stencil_Big", "stencil"]
    assert kernels.variants("fft") == ["fft"]
    with pytest.raises(DseError, match="work: found 'gemm', expected one of fft, smoothing"):
        kernels.variants("gemm")
