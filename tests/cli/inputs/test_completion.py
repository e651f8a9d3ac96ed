"""Completion of names by the shell, and help that fits the terminal."""

import itertools
import os
import subprocess
import sys

import pytest

from dse.cli.inputs.completion import complete_gpus, complete_kernels, complete_models

PROGRAM = """
import sys
sys.argv = ["dse"]
from dse.cli.main import app
try:
    app(prog_name="dse", standalone_mode=False)
finally:
    print("jax" in sys.modules, "numpy" in sys.modules, file=sys.stderr)
"""


def test_names_that_begin_so():
    assert complete_kernels("conv") == ["convolution", "convolution_direct", "convolution_shared"]
    assert complete_gpus("v100_s") == ["v100-sxm2-16gb", "v100-sxm2-32gb"]
    assert complete_gpus("rtx-3080-1") == ["rtx-3080-12-gb"]
    assert complete_models("pi") == ["pipeline"]


def test_the_shell_gets_them_without_what_is_heavy():
    environment = os.environ | {
        "_DSE_COMPLETE": "complete_bash",
        "COMP_WORDS": "dse rank convolution --gpu v100-s",
        "COMP_CWORD": "4",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["v100-sxm2-16gb", "v100-sxm2-32gb"]
    assert ran.stderr.split()[-2:] == ["False", "False"]


@pytest.mark.parametrize("command", ["rank", "compare", "prune", "tune", "fit"])
def test_help_breaks_lines_where_the_terminal_ends(run_dse, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    said = run_dse(command, "--help").out.partition("╭")[0].splitlines()
    paragraph: list[str] = []
    for line in [*said, ""]:
        if line.strip():
            paragraph.append(line.strip())
        else:
            for this, following in itertools.pairwise(paragraph):
                assert len(this) + 1 + len(following.split()[0]) > 76, this
            paragraph = []
