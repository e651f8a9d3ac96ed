"""Reading kernel.toml: what is right is read, what is wrong gets one clear line."""

from pathlib import Path

import pytest

from dse import kernels
from dse.errors import DseError

GOOD = """
name = "stencil"
summary = "a made-up stencil"
source = "stencil.cu"
variant_of = "smoothing"
constraints = ["block_x * block_y <= width", "staged == 0 or tile > 1"]

[problem]
width = 1024
scale = 0.5
[parameters]
block_x = [16, 32, 64]
block_y = { powers_of_two = [1, 8] }
tile = { from = 1, to = 7, step = 2 }
staged = [0, 1]
[let]
columns = "block_x * tile"
rows = "block_y + columns"
[launch]
threads = "block_x * block_y"
blocks = "ceil(width / columns)"
registers = 32
shared_bytes = "4 * rows if staged else 0"
[warp]
fp32 = "rows * warps"
ilp = 2
[[access]]
name = "image"
space = "global"
op = "load"
count = "tile * threads / warp_size"
sectors = "4 if block_x >= 32 else 8"
[[access]]
name = "tile"
space = "shared"
op = "store"
count = "tile"
passes = 2
[spaces.stencil_old]
[spaces.stencil_new]
rename = { BX = "block_x", BY = "block_y", W = "width" }
set = { staged = 1, tile = 3 }
"""


@pytest.fixture
def write(tmp_path):
    """`write(old, new)`: a kernel.toml with one piece of the good one replaced."""

    def write(old: str = "", new: str = "") -> Path:
        assert not old or GOOD.count(old) == 1
        (tmp_path / "stencil.cu").touch()
        path = tmp_path / "kernel.toml"
        path.write_text(GOOD.replace(old, new) if old else GOOD)
        return path

    return write


def test_what_may_be_left_out(tmp_path):
    file, head = tmp_path / "kernel.toml", 'name = "copy"\nsummary = "."\n[parameters]\nn = [1]\n'
    launch = '[launch]\nthreads = "32 * n"\nblocks = 1\nregisters = 8\ndynamic_shared_bytes = "8 * n"\n'
    source = '[source]\nfile = "copy.cu"\nblock = [32]\ngrid = ["n"]\n'
    (tmp_path / "copy.cu").touch()
    for added, text in (("4 * n", source + 'shared_bytes = "4 * n"\n'), ("8 * n", launch + source)):
        file.write_text(head + text)
        build = kernels.load(tmp_path).build
        assert build is not None
        assert build.shared_bytes is not None
        assert build.shared_bytes.text == added
    file.write_text(head)
    with pytest.raises(DseError, match="launch: found nothing, expected it, or block and grid in source"):
        kernels.load(tmp_path)
    file.write_text(head + launch.replace("dynamic_shared_bytes", "shared_bytes").replace("8 * n", "0"))
    kernel = kernels.load(tmp_path)
    assert kernel.variant_of == "copy"
    assert kernel.source is None
    assert kernel.problem == kernel.let == kernel.warp == kernel.accesses == kernel.spaces == ()
    assert dict(kernel.launch)["shared_bytes"].text == "0"


SPACES = "[spaces.stencil_old]"
COUNTED = 'sectors = "4 if block_x >= 32 else 8"'
SUBSCRIPT = 'access = "A[bx * ntx + tx + i * width]"\nloops = ["i"]'
WIDTH = "width = 1024"
BLOCK_X = "[16, 32, 64]"
FP32 = '"rows * warps"'
BY = 'BY = "block_y"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "stencil"\n', "", "name: found nothing, expected a value"),
        ('source = "stencil.cu"', 'sorce = "x"', r"sorce: found an unknown field, .*; did you mean source\?"),
        ('source = "stencil.cu"', 'source = "../x.cu"', r"source: found '\.\./x\.cu', expected a file"),
        ('source = "stencil.cu"', f'source = "{"x" * 5000}.cu"', "source: found no file xxx"),
        ("threads =", "thread =", r"launch\.(threads: found nothing|thread: found an unknown field)"),
        ('space = "shared"', 'space = "share"', r"access\.tile\.space: found 'share', expected 'global' or"),
        ('[[access]]\nname = "image"', '[access]\nname = "image"', "is not TOML"),
        ("passes = 2", "sectors = 2", r"access\.tile\.sectors: found in a shared access"),
        ("passes = 2", 'phase = "copy"', r"access\.tile\.phase: found 'copy', expected"),
        (SPACES, f"[[phase]]\nint32 = 1\n{SPACES}", r"phase\.1\.name: found nothing"),
        (SPACES, f'[[phase]]\nname = "copy"\nint = 1\n{SPACES}', r"phase\.copy\.int: found an unknown field"),
        (FP32, '"rows *"', r"warp\.fp32: cannot read 'rows \*'"),
        (FP32, '"row * warps"', r"warp\.fp32: unknown name 'row' .*did you mean rows"),
        (FP32, "inf", r"warp\.fp32: found inf, expected an expression or a number"),
        ('"ceil(width / columns)"', '"warps"', r"launch\.blocks: unknown name 'warps'"),
        ('"block_x * tile"', '"rows"', r"let\.columns: unknown name 'rows'"),
        ("tile > 1", "columns > 1", r"constraints\.2: unknown name 'columns'"),
        (BLOCK_X, "[]", r"parameters\.block_x: found no value"),
        (BLOCK_X, "[16, 16]", r"parameters\.block_x: found 16 twice"),
        (BLOCK_X, '["16"]', r"parameters\.block_x: found '16', expected numbers only"),
        (BLOCK_X, "{ from = 1 }", r"parameters\.block_x: found {'from': 1}, expected numbers"),
        ("step = 2", "step = 0", r"parameters\.tile\.step: found 0"),
        (WIDTH, "width = true", r"problem\.width: found True, expected a number"),
        (WIDTH, "width = 8\ntile = 1", r"problem\.tile: found a name of parameters"),
        ("scale = 0.5", "warps = 2", r"problem\.warps: found a name of the language"),
        ("scale = 0.5", '"a b" = 2', r"problem: found the name 'a b'"),
        (BY, 'BY = "block_x"', r"spaces\.stencil_new\.rename\.BY: found 'block_x' again"),
        (BY, 'BY = "tile"', r"spaces\.stencil_new\.set\.tile: found 'tile' again"),
        ("tile = 3 }", "tile = 3, x = 1 }", r"spaces\.stencil_new\.set\.x: found 'x'"),
        ("staged = 1,", 'staged = "yes",', r"spaces\.stencil_new\.set\.staged: found 'yes', expected"),
        ("[problem]", '[problem]\nconstraints = ["1"]', r"constraints: found in \[problem\], expected"),
        (COUNTED, f"{COUNTED}\n{SUBSCRIPT}", "access.image.sectors: found beside access, expected one of"),
        (COUNTED, 'loops = ["i"]', "access.image.loops: found without access, expected"),
        (COUNTED, SUBSCRIPT.replace('["i"]', '["tile"]'), "access.image.loops: found 'tile', expected"),
        (COUNTED, SUBSCRIPT.replace('["i"]', '["j"]'), "access.image.access: unknown name 'i' in"),
        (COUNTED, SUBSCRIPT.replace(']"', '"'), "access.image.access: found 'A.*expected an element of an"),
        ("passes = 2\n", 'passes = 2\naccess = "t[tx]"\n', "access.tile.passes: found beside access"),
    ],
)
def test_a_mistake_gets_one_line(write, old, new, message):
    path = write(old, new)
    with pytest.raises(DseError, match=f"^{path}: {message}"):
        kernels.load(path)


def test_reads_a_subscript(write):
    kernel = kernels.load(write(COUNTED, SUBSCRIPT))
    image, tile = kernel.accesses
    assert image.subscript is not None
    assert (image.subscript.array, image.subscript.index.text) == ("A", "bx * ntx + tx + i * width")
    assert (image.loops, [name for name, _ in image.fields]) == (("i",), ["count"])
    assert (tile.subscript, tile.loops, kernel.shape) == (None, (), ())
    shaped = kernels.load(write("registers = 32\n", 'registers = 32\nthreads_x = "block_x"\n'))
    assert [(name, item.text) for name, item in shaped.shape] == [("threads_x", "block_x")]
    path = write(COUNTED, SUBSCRIPT)
    path.write_text(path.read_text().replace("columns", "tx"))
    with pytest.raises(DseError, match=r"access\.image\.access: found a parameter, size or let 'tx'"):
        kernels.load(path)


def test_other_mistakes(tmp_path):
    path = tmp_path / "kernel.toml"
    head, tail = GOOD[: GOOD.index("[[access]]")], GOOD[GOOD.index(SPACES) :]
    (tmp_path / "stencil.cu").touch()
    launch = "[launch]\nthreads = 1\nblocks = 1\nregisters = 1\n"
    for text, message in (
        (f'{head}[access]\nname = "a"\n{tail}'.encode(), r"access: found {'name': 'a'}, expected a valid"),
        (f'name = "a"\nsummary = "b"\n[parameters]\n{launch}'.encode(), r"parameters: found \{\}, expected"),
        (b'name = "\xff"', "text: found byte 8 that is no UTF-8, expected UTF-8"),
    ):
        path.write_bytes(text)
        with pytest.raises(DseError, match=message):
            kernels.load(path)
