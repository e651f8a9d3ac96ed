"""GPU files read, written and read again, and their mistakes in one line."""

import re
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from dse.errors import DseError, InputWarning
from dse.hardware import gpus
from dse.hardware.gpus import write as gpu_text

A100 = gpus.find("a100").read_text()


def table(field):
    """The text of the A100's table of a field, without its rule."""
    start = A100.index(f"[{field}]\n")
    return A100[start : A100.index('"\nprovenance', start) + 1]


def stated(field, value, unit):
    return f'[{field}]\nvalue = {value}\nunit = "{unit}"\nsource = "me"'


def mistake(path):
    with pytest.raises(DseError) as error:
        gpus.load(path)
    line = str(error.value)
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
        ("l2_bytes", "40", "MiB", 40 * 2**20),
        ("l2_bytes", "40", "MB", 40e6),
        ("l2_bytes", "0", "B", 0),
        ("latency.fp32", "0.25", "cycles", 0.25),
        ("limits.shared_bytes_per_sm", "100", "KiB", 102400),
        ("limits.registers_per_sm", "32768.0", "registers", 32768),
    ],
)
def test_units(edited, field, value, unit, expected):
    number: Any = gpus.load(edited(table(field), stated(field, value, unit)), np.float64).gpu
    for part in field.split("."):
        number = getattr(number, part)
    np.testing.assert_allclose(number, expected, rtol=1e-15)


@pytest.mark.parametrize(
    ("field", "value", "unit", "expected"),
    [
        ("clock", "-3", "MHz", "clock: found -3, expected MHz above 0"),
        ("clock", "nan", "MHz", "clock: found nan, expected MHz above 0"),
        ("clock", "inf", "MHz", "clock: found inf, expected MHz above 0"),
        ("clock", "1" + 400 * "0", "MHz", "found an integer of 1329 bits, expected one of 64"),
        ("l2_bytes", "-1", "B", "l2_bytes: found -1, expected B of 0 or more"),
        ("sm_count", "0", "1", "sm_count: found 0, expected a number above 0"),
        ("limits.warps_per_sm", "48.5", "warps", "limits.warps_per_sm: found 48.5, expected a whole number"),
        ("limits.registers_per_sm", "4294967296", "registers", "limits.registers_per_sm: found 4294967296"),
        ("clock", "1410", "mhz", "clock.unit: found 'mhz', expected Hz or kHz or MHz or GHz"),
        ("cpi.fp32", "1", "ns", "cpi.fp32.unit: found 'ns', expected cycles"),
        ("clock", "true", "MHz", "clock.value: found True, expected a number"),
    ],
)
def test_wrong_values(edited, field, value, unit, expected):
    assert mistake(edited(table(field), stated(field, value, unit))).startswith(expected)


CLOCK = table("clock") + '\nprovenance = "stated"'
ORIGIN = '[clock]\nvalue = 1410\nunit = "MHz"\n'
IMUL = '[cpi.imul32]\nlike = "cpi.int32"'
FP64 = "[cpi.fp64]\nlanes = 32"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[clock]\n", "[clok]\n", r"clok: unknown field.* did you mean clock\?"),
        (
            'vendor = "NVIDIA"',
            "xyz = 3",
            "xyz: unknown field, expected one of name, aliases, device, vendor,",
        ),
        (
            "[cpi.fp32]\n",
            "[groups.fp32]\n",
            "groups: unknown field, expected one of name, aliases, device, vendor,",
        ),
        ('vendor = "NVIDIA"\n', "", "vendor: found nothing, expected a name such as"),
        ('name = "NVIDIA A100-PCIE-40GB"', 'name = ""', "name: found '', expected the full name of the GPU"),
        ('compute_capability = "8.0"', "compute_capability = 8.0", "compute_capability: found 8.0"),
        ('compute_capability = "8.0"', 'compute_capability = "8.0', "is not TOML: "),
        ('unit = "MHz"\n', "", "clock.unit: missing, expected a unit"),
        ("value = 1410\n", "value = 1410\nvaleu = 3\n", r"clock.valeu: found .* did you mean value\?"),
        (CLOCK, f'{ORIGIN}source = "me"\nprovenance = "guessed"', "clock.provenance: found 'guessed', exp"),
        (CLOCK, f'{ORIGIN}source = ""\nprovenance = "stated"', "clock.source: found '', expected a text"),
        (CLOCK, f'{ORIGIN}source = "me"\nprovenance = "derived"', "clock.rule: missing, expected one line"),
        (CLOCK, f'{ORIGIN}source = "me"\nprovenance = "derived"\nrule = "a\\nb"', "clock.rule: found 'a"),
        (FP64, "[cpi.fp64]\nlanes = 0", "cpi.fp64.lanes: found 0, expected a number above 0"),
        (FP64, "[cpi.fp64]", "cpi.fp64.value: missing, expected a number"),
        (FP64, "[cpi.fp64]\nper_cycle = 32", "cpi.fp64.per_cycle: found 32, expected value or lanes or like"),
        (FP64, f'{FP64}\nlike = "cpi.fp32"', "cpi.fp64: found lanes and like, expected one of them"),
        (IMUL, '[cpi.imul32]\nlike = ""', "cpi.imul32.like: found '', expected the name of another field"),
        (IMUL, '[cpi.imul32]\nlike = "sm_count"', "cpi.imul32.like: found 'sm_count', expected one of"),
        ("[cpi.int32]\nlanes = 64", '[cpi.int32]\nlike = "cpi.imul32"', "cpi.int32.like: .*expected no ring"),
        (IMUL, '[cpi.imul32]\nlike = "cpi.sfu"\ntimes = 9e29', "cpi.imul32: found cpi.sfu x 9e.29: IMAD"),
    ],
)
def test_wrong_structure(edited, old, new, expected):
    assert re.match(expected, mistake(edited(old, new)))


def test_a_field_that_is_missing_or_no_table(tmp_path):
    path, start = tmp_path / "mine.toml", A100.index("[latency.dram]")
    path.write_text(A100[:start] + A100[A100.index("\n[", start) + 1 :])
    assert mistake(path) == "latency.dram: missing, expected a table [latency.dram]"
    for field, expected in (
        ("clock", "clock: found 1410, expected a table of value, unit, lanes, bytes_per_cycle,"),
        ("cpi", "cpi: found 1410, expected a table for each of its fields"),
    ):
        others = [part for part in A100.split("\n[") if not part.startswith((f"{field}]", f"{field}."))]
        path.write_text(f"{field} = 1410\n" + "\n[".join(others))
        assert mistake(path).startswith(expected)
    path.write_bytes(b"\xff\xfe\x00")
    assert mistake(path).startswith("text: found byte 0 that is no UTF-8")


def test_fields_that_a_file_need_not_have(files):
    # LLVM compiles for blocks of 1,024 work-items; a work-group processor of RDNA is two CUs
    a100, mi250x, w6600 = (files[name].gpu for name in ("a100_pcie_40gb", "mi250x", "radeon_pro_w6600"))
    assert (a100.compiler_registers, mi250x.compiler_registers, w6600.compiler_registers) == (255, 128, 128)
    assert (a100.guard_branches, mi250x.guard_branches) == (0, 1)
    assert (a100.memory_cache_bytes, w6600.memory_cache_bytes) == (0, 32 * 2**20)
    assert (w6600.sm_count, w6600.limits.sub_partitions, w6600.limits.registers_per_sm) == (14, 4, 131072)
    assert {gpu.guard_branches.dtype for gpu in (a100, mi250x)} == {a100.clock.dtype}


# Values that contradict one another


def test_values_that_contradict_one_another_are_reported(edited):
    path = edited("[cpi.fp64]\n", '[cpi.fp64]\nvalue = 3\nunit = "cycles"\n')
    line = r"mine.toml: cpi.fp64: found 3, and 32 threads / 32 lanes, which is 1; the value of .* counts$"
    with pytest.warns(InputWarning, match=line):
        assert gpus.load(path).gpu.cpi.fp64 == 3
    share = re.search(r"\[cpi.dram\]\n(bandwidth_share = .+\n)", A100)
    assert share is not None
    path = edited(share[1], 'value = 1.6\nunit = "cycles"\n')
    line = r"cpi.dram: found 1.6 cycles, 3046 GB/s, beside a dram_bandwidth of 1555 GB/s, expected 0.5 to 1"
    with pytest.warns(InputWarning, match=line):
        assert float(gpus.load(path).gpu.cpi.dram) == pytest.approx(1.6)


# Writing


@pytest.mark.parametrize("name", ["a100-pcie-40gb", "mi50"])
def test_what_is_written_is_read(name, tmp_path):
    file = gpus.load(name, np.float64)
    path = tmp_path / "mine.toml"
    gpu_text.write(path, file.header, file.fields, ["one line", "and another"])
    assert path.read_text().startswith("# one line\n# and another\nname = ")
    again = gpus.load(path, np.float64)
    assert (again.header, again.fields) == (file.header, file.fields)
    assert jax.tree.all(jax.tree.map(lambda a, b: a == b, again.gpu, file.gpu))


def test_texts_and_numbers_of_any_kind_are_written(files, tmp_path):
    file, path = files["a100_pcie_40gb"], tmp_path / "mine.toml"
    header = file.header.model_copy(update={"name": 'a "fast" \\ one, λ', "aliases": []})
    values = {"cpi.l1": 1234567.891, "cpi.l2": 1.5e-9, "latency.dram": 3e15, "sm_count": 108}
    changed = {"source": 'tab\t"quoted" µ', "spread": 0.012345, "follows": None}
    records = [replace(r, value=values[r.field], **changed) if r.field in values else r for r in file.fields]
    gpu_text.write(path, header, records)
    again = gpus.load(path, np.float64)
    assert again.name == header.name
    actual = {record.field: record for record in again.fields}
    for field, value in values.items():
        assert actual[field].value == pytest.approx(value, rel=1e-5)
        assert (actual[field].source, actual[field].spread) == ('tab\t"quoted" µ', 0.0123)
    assert isinstance(actual["sm_count"].value, int)
    file = files["a100_pcie_40gb"]
    with pytest.raises(DseError, match="found no folder"):
        gpu_text.write(tmp_path / "no" / "mine.toml", file.header, file.fields)
    wrong = [replace(record, value=-1) if record.field == "clock" else record for record in file.fields]
    with pytest.raises(DseError, match="clock: found -1"):
        gpu_text.write(tmp_path / "mine.toml", file.header, wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]  # and no part of one
