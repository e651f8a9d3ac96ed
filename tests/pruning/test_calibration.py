"""The measured spaces that pruning's risk rests on."""

from dataclasses import replace

from dse.gpus import find
from dse.kernels import load as load_kernel
from dse.pruning.calibration import FILE, load


def test_file_of_the_package():
    """The depths that the stated risk was checked with, and where each is from."""
    known = load()
    assert known.by_model == (0.0013, 0.11, 0.00023, 0.00023, 9e-05, 9e-05, 0.0005)
    assert known.refitted == (0.0013, 0.022, 0.00023, 0.00023, 9e-05, 9e-05, 0.0005)
    assert (known.model, known.within, known.refitted_to, known.draws) == ("phase", 0.05, 50, 6)
    for space in known.spaces:
        find(space.gpu)
        names = [alias.name for alias in load_kernel(space.kernel).spaces]
        assert space.space in names
        assert 1 / space.configurations <= 1.01 * space.refitted <= 1.01 * space.by_model


def test_what_is_written_is_read_again(tmp_path):
    assert FILE.read_text() == load().text()
    first = load().spaces[0]
    other = replace(load(), model="roofline", spaces=(replace(first, by_model=0.25, gpu='A "B"'),))
    path = tmp_path / "calibration.toml"
    path.write_text(other.text())
    assert load(path) == other
