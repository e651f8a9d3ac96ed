"""Our Triton kernels compute what their references say: run by Triton's interpreter, without a GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dse import kernels

SCRIPT = Path(__file__).with_name("triton_interpreted.py")


@pytest.mark.slow
def test_every_kernel_computes_what_is_expected():
    pytest.importorskip("triton")
    ran = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    actual = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [problem for _, problem in actual if problem] == []
    assert {name for name, _ in actual} == {name for name in kernels.names() if name.startswith("triton_")}
