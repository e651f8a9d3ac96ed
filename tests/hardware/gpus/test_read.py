"""GPU files read, and their mistakes."""

from typing import Any

import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus


def table(field):
    """The text of the A100's table of a field, without its rule."""
    text = gpus.find("a100").read_text()
    start = text.index(f"[{field}]\n")
    return text[start : text.index('"\nprovenance', start) + 1]


def mistake(path):
    with pytest.raises(DseError) as error:
        gpus.load(path)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("field", "value", "unit", "expected"),
    [
        ("clock", "1.41", "GHz", 1.41e9),
        ("clock", "1410000", "kHz", 1.41e9),
        ("clock", "1410000000", "Hz", 1.41e9),
        ("dram_bandwidth", "1.5", "TB/s", 1.5e12),
        ("dram_bandwidth", "1500", "MB/s", 1.5e9),
        ("dram_bandwidth", "15", "B/s", 15),
        ("l2_bytes", "40", "MiB", 40 * 2**20),
        ("l2_bytes", "40", "MB", 40e6),
        ("l2_bytes", "40", "KB", 40e3),
        ("l2_bytes", "0", "B", 0),
        ("latency.fp32", "0.25", "cycles", 0.25),
        ("limits.shared_bytes_per_sm", "100", "KiB", 102400),
        ("limits.registers_per_sm", "32768.0", "registers", 32768),
    ],
)
def test_units(edited, field, value, unit, expected):
    path = edited(table(field), f'[{field}]\nvalue = {value}\nunit = "{unit}"\nsource = "me"')
    number: Any = gpus.load(path, np.float64).gpu
    for part in field.split("."):
        number = getattr(number, part)
    np.testing.assert_allclose(number, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("field", "value", "unit", "expected"),
    [
        ("clock", "-3", "MHz", "clock: found -3, expected MHz above 0"),
        ("clock", "0", "MHz", "clock: found 0, expected MHz above 0"),
        ("clock", "nan", "MHz", "clock: found nan, expected MHz above 0"),
        ("clock", "inf", "MHz", "clock: found inf, expected MHz above 0"),
        ("clock", "1e300", "MHz", "clock: found 1e+300, expected MHz above 0"),
        ("clock", "1" + 400 * "0", "MHz", "found an integer of 1329 bits, expected one of 64"),
        ("latency.fp32", "-0.5", "cycles", "latency.fp32: found -0.5, expected cycles above 0"),
        ("l2_bytes", "-1", "B", "l2_bytes: found -1, expected B of 0 or more"),
        ("sm_count", "0", "1", "sm_count: found 0, expected a number above 0"),
        ("limits.warps_per_sm", "0", "warps", "limits.warps_per_sm: found 0, expected warps above 0"),
        (
            "limits.warps_per_sm",
            "48.5",
            "warps",
            "limits.warps_per_sm: found 48.5, expected a whole number of warps below 2^31",
        ),
        (
            "limits.registers_per_sm",
            "4294967296",
            "registers",
            "limits.registers_per_sm: found 4294967296, expected a whole number of registers below 2^31",
        ),
        ("clock", "1410", "GB/s", "clock.unit: found 'GB/s', expected Hz or kHz or MHz or GHz"),
        ("clock", "1410", "mhz", "clock.unit: found 'mhz', expected Hz or kHz or MHz or GHz"),
        ("cpi.fp32", "1", "ns", "cpi.fp32.unit: found 'ns', expected cycles"),
        ("limits.warps_per_sm", "64", "threads", "limits.warps_per_sm.unit: found 'threads', expected warps"),
        ("clock", "true", "MHz", "clock.value: found True, expected a number"),
        ("clock", '"1410"', "MHz", "clock.value: found '1410', expected a number"),
    ],
)
def test_wrong_values(edited, field, value, unit, expected):
    path = edited(table(field), f'[{field}]\nvalue = {value}\nunit = "{unit}"\nsource = "me"')
    assert mistake(path).startswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[clock]\n", "[clok]\n", "clok: unknown field … did you mean clock?"),
        ("[cpi.fp32]\n", "[cpi.fp23]\n", "cpi.fp23: unknown field … did you mean cpi.fp32?"),
        ("[limits.warp_unit]\n", "[limit.warp_unit]\n", "limit: unknown field … did you mean limits?"),
        ('vendor = "NVIDIA"', 'vender = "NVIDIA"', "vender: unknown field … did you mean vendor?"),
        ('vendor = "NVIDIA"', "xyz = 3", "xyz: unknown field, expected one of name, aliases, vendor,"),
        ("[cpi.fp32]\n", "[groups.fp32]\n", "groups: unknown field, expected one of name, aliases, vendor,"),
        ("[cpi.fp32]\n", "[cpi.xyz]\n", "cpi.xyz: unknown field, "),
        ('vendor = "NVIDIA"\n', "", "vendor: missing, expected a name such as"),
        ('vendor = "NVIDIA"', "vendor = 3", "vendor: found 3, expected a name such as"),
        ('name = "NVIDIA A100-PCIE-40GB"', 'name = ""', "name: found '', expected the full name of the GPU"),
        (
            'compute_capability = "8.0"',
            "compute_capability = 8.0",
            "compute_capability: found 8.0, expected a te",
        ),
        ('compute_capability = "8.0"', "clock = 3", "is not TOML: "),
        ('compute_capability = "8.0"', 'compute_capability = "8.0', "is not TOML: "),
        ("value = 1410\n", "", "clock.value: missing, expected a number"),
        ('unit = "MHz"\n', "", "clock.unit: missing, expected a unit"),
        ("value = 1410\n", "valeu = 1410\n", "clock.valeu: unknown field … did you mean value?"),
        ("value = 1410\n", "value = 1410\nvaleu = 3\n", "clock.valeu: unknown field … did you mean value?"),
    ],
)
def test_wrong_structure(edited, old, new, expected):
    begin, _, nearest = expected.partition(" … ")
    said = mistake(edited(old, new))
    assert said.startswith(begin)
    assert said.endswith(nearest)


def test_fields_that_a_file_need_not_have(files):
    # LLVM compiles for blocks of 1,024 work-items; a work-group processor of RDNA is two CUs
    a100, mi250x, w6600 = (files[name].gpu for name in ("a100_pcie_40gb", "mi250x", "radeon_pro_w6600"))
    assert (a100.compiler_registers, mi250x.compiler_registers, w6600.compiler_registers) == (255, 128, 128)
    assert (a100.guard_branches, mi250x.guard_branches) == (0, 1)
    assert (a100.memory_cache_bytes, w6600.memory_cache_bytes) == (0, 32 * 2**20)
    assert (w6600.sm_count, w6600.limits.sub_partitions, w6600.limits.registers_per_sm) == (14, 4, 131072)
    assert {gpu.guard_branches.dtype for gpu in (a100, mi250x)} == {a100.clock.dtype}


def test_missing_field(edited):
    path = edited(table("latency.dram"), table("latency.dram").replace("latency.dram", "note"))
    assert mistake(path).startswith("note: unknown field")
    text = gpus.find("a100").read_text()
    start = text.index("[latency.dram]")
    path.write_text(text[:start] + text[text.index("\n[", start) + 1 :])
    assert mistake(path) == "latency.dram: missing, expected a table [latency.dram]"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            'source = "me"\nprovenance = "guessed"',
            "clock.provenance: found 'guessed', expected stated, measured,",
        ),
        ('source = ""\nprovenance = "stated"', "clock.source: found '', expected a text that says where"),
        ('source = "me"\nprovenance = "derived"', "clock.rule: missing, expected one line on how"),
        (
            'source = "me"\nprovenance = "derived"\nrule = "a\\nb"',
            "clock.rule: found 'a\\nb', expected one line",
        ),
    ],
)
def test_wrong_source(edited, lines, expected):
    old = table("clock") + '\nprovenance = "stated"'
    path = edited(old, f'[clock]\nvalue = 1410\nunit = "MHz"\n{lines}')
    assert mistake(path).startswith(expected)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("clock", "clock: found 1410, expected a table of value, unit, lanes, bytes_per_cycle,"),
        ("cpi", "cpi: found 1410, expected a table for each of its fields"),
    ],
)
def test_a_field_that_is_no_table(tmp_path, field, expected):
    path = tmp_path / "mine.toml"
    text = gpus.find("a100").read_text()
    others = [part for part in text.split("\n[") if not part.startswith((f"{field}]", f"{field}."))]
    path.write_text(f"{field} = 1410\n" + "\n[".join(others))
    assert mistake(path).startswith(expected)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert mistake(path).startswith("text: found byte 0 that is no UTF-8")
