"""Our kernels on AMD targets: small launches equal NumPy, as check_amd.py has it of many more."""

from types import ModuleType

import pytest

SCRIPT = "validate/check_amd"


@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        ("transpose", "gfx906"),
        ("reduction", "gfx90a"),
        ("prefix_sum", "gfx1100"),
        ("nbody", "gfx1032"),
        ("stencil2d", "gfx942"),
        ("stencil2d", "gfx1200"),
    ],
)
def test_configurations_run_and_values_are_numpys(script: ModuleType, kernel: str, target: str):
    checked = script.check(kernel, target, 2, 1, seed=0)
    assert checked.failures == []
    assert (checked.configurations, checked.values) == (2, 1)
    assert checked.unknown_data == 0
    assert checked.instructions > 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1032", "gfx1100"])
@pytest.mark.parametrize("kernel", ["convolution", "dedispersion", "gemm", "matmul_tiled"])
def test_more_of_them(script: ModuleType, kernel: str, target: str):
    assert script.check(kernel, target, 2, 1, seed=1).failures == []


def test_wrong_values_are_told(script: ModuleType, monkeypatch: pytest.MonkeyPatch):
    from dse.source.amd.execute import opcodes
    from dse.source.amd.execute.opcodes import OpcodeRow

    opcodes.opcode.cache_clear()
    monkeypatch.setitem(opcodes.TABLE, "v_add_f32", OpcodeRow("valu", "f=ff", lambda a, b: a - b))
    try:
        [failure] = script.check("reduction", "gfx90a", 0, 1, seed=0).failures
    finally:
        opcodes.opcode.cache_clear()
    assert failure.startswith("values, ")
    assert "NumPy has" in failure
