"""Our kernels on AMD targets: small launches equal NumPy, as check_amd.py has it of many more."""

import check_amd
import pytest


@pytest.mark.quick("gfx1200")
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
def test_configurations_run_and_values_are_numpys(kernel: str, target: str):
    checked = check_amd.check(kernel, target, 2, 1, seed=0)
    assert checked.failures == []
    assert (checked.configurations, checked.values) == (2, 1)
    assert checked.unknown_data == 0
    assert checked.instructions > 0


# With warps of 64 or of 32 threads; the product of matrices with both.
MORE = {
    "convolution": "1032",
    "dedispersion": "90a",
    "gemm": "942 1100",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "number"), [(kernel, number) for kernel, numbers in MORE.items() for number in numbers.split()]
)
def test_more_of_them(kernel: str, number: str):
    assert check_amd.check(kernel, f"gfx{number}", 1, 1, seed=1).failures == []


def test_wrong_values_are_reported(monkeypatch: pytest.MonkeyPatch):
    from dse.source.amd.execute import opcodes
    from dse.source.amd.execute.opcodes import OpcodeRow

    opcodes.opcode.cache_clear()
    monkeypatch.setitem(opcodes.TABLE, "v_add_f32", OpcodeRow("valu", "f=ff", lambda a, b: a - b))
    try:
        [failure] = check_amd.check("reduction", "gfx90a", 0, 1, seed=0).failures
    finally:
        opcodes.opcode.cache_clear()
    assert failure.startswith("values, ")
    assert "NumPy has" in failure
