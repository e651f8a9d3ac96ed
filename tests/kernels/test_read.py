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


def test_reads_everything(write):
    kernel = kernels.load(write())
    assert (kernel.name, kernel.summary, kernel.variant_of) == ("stencil", "a made-up stencil", "smoothing")
    assert kernel.source == kernel.path.parent / "stencil.cu"
    assert dict(kernel.space.values) == {
        "block_x": (16, 32, 64),
        "block_y": (1, 2, 4, 8),
        "tile": (1, 3, 5, 7),
        "staged": (0, 1),
    }
    assert [each.text for each in kernel.space.constraints] == [
        "block_x * block_y <= width",
        "staged == 0 or tile > 1",
    ]
    assert kernel.problem == (("width", 1024), ("scale", 0.5))
    assert [name for name, _ in kernel.let] == ["columns", "rows"]
    assert {name: each.text for name, each in kernel.launch} == {
        "threads": "block_x * block_y",
        "blocks": "ceil(width / columns)",
        "registers": "32",
        "shared_bytes": "4 * rows if staged else 0",
    }
    assert {name: each.text for name, each in kernel.warp} == {"fp32": "rows * warps", "ilp": "2"}
    image, tile = kernel.accesses
    assert (image.name, image.space, image.op) == ("image", "global", "load")
    assert [name for name, _ in image.fields] == ["count", "sectors"]
    assert {name: each.text for name, each in tile.fields} == {"count": "tile", "passes": "2"}
    old, new = kernel.spaces
    assert (old.name, old.rename, old.set) == ("stencil_old", (), ())
    assert new.rename == (("BX", "block_x"), ("BY", "block_y"), ("W", "width"))
    assert new.set == (("staged", 1), ("tile", 3))
    assert kernel == kernels.load(kernel.path.parent)
    assert hash(kernel) == hash(kernels.load(str(kernel.path)))


def test_what_may_be_left_out(tmp_path):
    (tmp_path / "kernel.toml").write_text(
        'name = "copy"\nsummary = "."\n[parameters]\nn = [1]\n'
        '[launch]\nthreads = "32 * n"\nblocks = 1\nregisters = 8\n'
    )
    kernel = kernels.load(tmp_path)
    assert kernel.variant_of == "copy"
    assert kernel.source is None
    assert kernel.problem == kernel.let == kernel.warp == kernel.accesses == kernel.spaces == ()
    assert dict(kernel.launch)["shared_bytes"].text == "0"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "stencil"\n', "", "name: found nothing, expected a value"),
        ('name = "stencil"\n', "name = 3\n", "name: found 3, expected a valid string"),
        ('source = "stencil.cu"', 'sorce = "x"', r"sorce: found an unknown field, .*; did you mean source\?"),
        (
            'source = "stencil.cu"',
            'source = "../x.cu"',
            r"source: found '\.\./x\.cu', expected a file beside",
        ),
        ('source = "stencil.cu"', 'source = "x.cu"', r"source: found no file x\.cu"),
        ('source = "stencil.cu"', f'source = "{"x" * 5000}.cu"', "source: found no file xxx"),
        (
            "fp32 =",
            "fp23 =",
            r"warp\.fp23: found an unknown field, expected one of .*did you mean fp32\?",
        ),
        ("threads =", "thread =", r"launch\.(threads: found nothing|thread: found an unknown field)"),
        (
            'space = "shared"',
            'space = "share"',
            r"access\.tile\.space: found 'share', expected 'global' or 'sh",
        ),
        ('op = "load"', 'op = "read"', r"access\.image\.op: found 'read', expected 'load' or 'store'"),
        ('name = "image"\n', "", r"access\.1\.name: found nothing"),
        ("passes = 2", "sectors = 2", r"access\.tile\.sectors: found in a shared access"),
        ("passes = 2", 'phase = "copy"', r"access\.tile\.phase: found 'copy', expected"),
        (
            "[spaces.stencil_old]",
            "[[phase]]\nint32 = 1\n[spaces.stencil_old]",
            r"phase\.1\.name: found nothing",
        ),
        (
            "[spaces.stencil_old]",
            '[[phase]]\nname = "copy"\nint = 1\n[spaces.stencil_old]',
            r"phase\.copy\.int: found an unknown field",
        ),
        ('"rows * warps"', '"rows *"', r"warp\.fp32: cannot read 'rows \*'"),
        ('"rows * warps"', '"row * warps"', r"warp\.fp32: unknown name 'row' .*did you mean rows"),
        ('"rows * warps"', "[1]", r"warp\.fp32: found \[1\], expected an expression or a number"),
        ('"rows * warps"', "inf", r"warp\.fp32: found inf, expected an expression or a number"),
        ('"ceil(width / columns)"', '"warps"', r"launch\.blocks: unknown name 'warps'"),
        ('"block_x * tile"', '"rows"', r"let\.columns: unknown name 'rows'"),
        ("tile > 1", "tiles > 1", r"constraints\.2: unknown name 'tiles' .*did you mean tile"),
        ("tile > 1", "columns > 1", r"constraints\.2: unknown name 'columns'"),
        ("[16, 32, 64]", "[]", r"parameters\.block_x: found no value"),
        ("[16, 32, 64]", "[16, 16]", r"parameters\.block_x: found 16 twice"),
        ("[16, 32, 64]", '["16"]', r"parameters\.block_x: found '16', expected numbers only"),
        ("[16, 32, 64]", "{ from = 1 }", r"parameters\.block_x: found {'from': 1}, expected numbers"),
        ("step = 2", "step = 0", r"parameters\.tile\.step: found 0"),
        ("width = 1024", 'width = "big"', r"problem\.width: found 'big', expected a number"),
        ("width = 1024", "width = true", r"problem\.width: found True, expected a number"),
        ("width = 1024", "width = 8\ntile = 1", r"problem\.tile: found a name of parameters"),
        ("scale = 0.5", "warps = 2", r"problem\.warps: found a name of the language"),
        ("scale = 0.5", '"a b" = 2', r"problem: found the name 'a b'"),
        ('rows = "', 'max = "', r"let\.max: found a name of the language"),
        ('BY = "block_y"', 'BY = "blocky"', r".*rename\.BY: found 'blocky', .*did you mean block_y"),
        ('BY = "block_y"', 'BY = "block_x"', r"spaces\.stencil_new\.rename\.BY: found 'block_x' again"),
        ('BY = "block_y"', 'BY = "tile"', r"spaces\.stencil_new\.set\.tile: found 'tile' again"),
        ("tile = 3 }", "tile = 3, x = 1 }", r"spaces\.stencil_new\.set\.x: found 'x'"),
        (
            "staged = 1,",
            'staged = "yes",',
            r"spaces\.stencil_new\.set\.staged: found 'yes', expected a number",
        ),
        (
            "[problem]",
            '[problem]\nconstraints = ["1"]',
            r"constraints: found in \[problem\], expected before",
        ),
        ("[warp]", "[warp", "is not TOML: .*line"),
        ('[[access]]\nname = "image"', '[access]\nname = "image"', "is not TOML"),
    ],
)
def test_a_mistake_gets_one_line(write, old, new, message):
    path = write(old, new)
    with pytest.raises(DseError, match=f"^{path}: {message}") as error:
        kernels.load(path)
    assert "\n" not in str(error.value)


COUNTED = 'sectors = "4 if block_x >= 32 else 8"'
FOUND = 'access = "A[bx * ntx + tx + i * width]"\nloops = ["i"]'


def test_reads_a_subscript(write):
    kernel = kernels.load(write(COUNTED, FOUND))
    image, tile = kernel.accesses
    assert image.subscript is not None
    assert (image.subscript.array, image.subscript.index.text) == ("A", "bx * ntx + tx + i * width")
    assert (image.loops, [name for name, _ in image.fields]) == (("i",), ["count"])
    assert (tile.subscript, tile.loops, kernel.shape) == (None, (), ())
    shaped = kernels.load(write("registers = 32\n", 'registers = 32\nthreads_x = "block_x"\n'))
    assert [(name, each.text) for name, each in shaped.shape] == [("threads_x", "block_x")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            COUNTED,
            f"{COUNTED}\n{FOUND}",
            "access.image.sectors: found beside access, expected one of the two",
        ),
        (COUNTED, 'loops = ["i"]', "access.image.loops: found without access, expected"),
        (COUNTED, FOUND.replace('["i"]', '["tile"]'), "access.image.loops: found 'tile', expected a name"),
        (COUNTED, FOUND.replace('["i"]', '["j"]'), "access.image.access: unknown name 'i' in"),
        (COUNTED, FOUND.replace(']"', '"'), "access.image.access: found 'A.*expected an element of an array"),
        ("passes = 2\n", 'passes = 2\naccess = "t[tx]"\n', "access.tile.passes: found beside access"),
    ],
)
def test_a_mistake_in_a_subscript(write, old, new, message):
    with pytest.raises(DseError, match=f"kernel.toml: {message}"):
        kernels.load(write(old, new))


def test_names_of_threads_are_taken_where_there_are_subscripts(write):
    path = write(COUNTED, FOUND)
    path.write_text(path.read_text().replace("columns", "tx"))
    with pytest.raises(DseError, match=r"access\.image\.access: found a parameter, size or let 'tx'"):
        kernels.load(path)


def test_a_single_table_of_access(write):
    path = write()
    text = path.read_text()
    head, tail = text[: text.index("[[access]]")], text[text.index("[spaces.stencil_old]") :]
    path.write_text(head + '[access]\nname = "a"\n' + tail)
    with pytest.raises(DseError, match=r"access: found {'name': 'a'}, expected a valid list"):
        kernels.load(path)


def test_no_parameters(write):
    path = write()
    path.write_text(
        'name = "a"\nsummary = "b"\n[parameters]\n[launch]\nthreads = 1\nblocks = 1\nregisters = 1\n'
    )
    with pytest.raises(DseError, match=r"parameters: found \{\}, expected at least one"):
        kernels.load(path)


def test_not_utf8(tmp_path):
    (tmp_path / "kernel.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(DseError, match="text: found byte 8 that is no UTF-8, expected UTF-8"):
        kernels.load(tmp_path)


@pytest.mark.parametrize("name", kernels.names())
def test_the_catalogue_loads(name):
    assert kernels.load(name).name == name
