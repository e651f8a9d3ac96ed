"""`dse characterise`: a kernel's source counted in each of its forms, or one line on why not."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source, read_source
from dse.source.nvidia.sass.disassemble import _tool

HERE = Path(__file__).parent / "triple"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, new_cache: Callable[[Path], str]) -> Path:
    """The same kernel in all forms, and a cache that the tests share."""
    folder = tmp_path_factory.mktemp("triple") / "triple"
    shutil.copytree(HERE, folder)
    new_cache(folder / "cache")
    compile_beside(folder / "triple.cu", {"BLOCK": 48, "ITEMS": 2})
    listed = (folder / "triple.sass").read_text()
    (folder / "unknown.sass").write_text(listed.replace(" FMUL ", " FROB "))
    return folder


def compile_beside(path: Path, macros: dict[str, int | float]) -> None:
    """Write the PTX, the code for 8.0 and its listing beside a source."""
    made = compile_source(read_source(path), 80, macros, ptx=True)
    assert isinstance(made, Compiled)
    path.with_suffix(".ptx").write_text(made.ptx or "")
    path.with_suffix(".cubin").write_bytes(made.cubin)
    command = [_tool(), "-c", str(path.with_suffix(".cubin"))]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    path.with_suffix(".sass").write_text(listed)


@pytest.fixture
def triple(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSE_CACHE", str(files / "cache"))
    return files


def values(rows) -> dict[tuple[str, str], tuple[float | None, float | None]]:
    return {(row["part"], row["name"]): (row["source"], row.get("description")) for row in rows}


def test_counts_stand_beside_the_description(answer, run_dse, triple: Path):
    command = ("characterise", triple, "-g", "a100-pcie-40gb", "--set", "items=2")
    counts = values(answer(*command))
    blocks = -(-100_000 // 96)
    assert counts["resources", "threads"] == (48, 48)
    assert counts["resources", "blocks"] == (blocks, blocks)
    assert counts["resources", "registers"][1] == 40
    # The last block has 64 of 96 numbers left: its second pass has half a warp.
    warps = (4 * (blocks - 1) + 3) / blocks / 2
    for name in ("load_insts", "store_insts"):
        assert counts["global", name] == (pytest.approx(warps), 2)
    assert counts["warp", "fp32"][1] == 2
    assert counts["phase 1", "passes"] == (1, None)
    active, _ = counts["phase 1", "lanes active"]
    assert active is not None
    assert 0.7 < active <= 0.75
    assert counts["phase 1", "global load: requests"][0] == pytest.approx(warps)
    table = run_dse(*command)
    for text in ("block=48, items=2", "registers", "int32", "sectors", "all phases", "phase 1"):
        assert text in table.out.replace("\n", " ")


LAUNCH = ("--block", "48", "--grid", "1042")
MACROS = ("-D", "BLOCK=48", "--define", "ITEMS=2")


@pytest.mark.parametrize(
    ("file", "more"),
    [
        ("T1.json", ("--set", "ITEMS=2")),
        ("triple.cu", (*LAUNCH, *MACROS, "--arg", "n=100000")),
        ("triple.cubin", (*LAUNCH, "--arg", "?", "--arg", "?", "--arg", "100000")),
        ("triple.ptx", (*LAUNCH, "--arg", "?", "--arg", "100000:float", "--arg", "100000")),
        ("triple.sass", (*LAUNCH, "--arg", "?", "--arg", "?", "--arg", "100000")),
    ],
)
def test_every_form_of_a_kernel_gives_the_same(answer, triple: Path, file: str, more: tuple[str, ...]):
    gpu = ("-g", "a100-pcie-40gb")
    described = values(answer("characterise", triple, *gpu, "--set", "items=2"))
    counts = values(answer("characterise", triple / file, *gpu, *more))
    launch = [("resources", name) for name in ("threads", "blocks", "shared_bytes")]
    same = [key for key in described if key[0] == "global" or key in launch or "lanes" in key[1]]
    if file in ("T1.json", "triple.cu", "triple.cubin"):  # the very same code
        same = [key for key in described if key[1] != "spill_bytes"]
    assert len(same) > 9
    assert {key: counts[key][0] for key in same} == {key: described[key][0] for key in same}
    assert {description for _, description in counts.values()} == {None}


@pytest.mark.slow
def test_all_configurations_in_one_file(run_dse, triple: Path, tmp_path: Path):
    out = tmp_path / "all.parquet"
    ran = run_dse("characterise", triple / "T1.json", "-g", "a100-pcie-40gb", "--all", "--out", out)
    assert ran.code == 0
    assert not ran.err
    assert ran.out.startswith("triple on NVIDIA A100-PCIE-40GB: 5 of 5 configurations (1: ")
    rows = pyarrow.parquet.read_table(out).to_pylist()
    assert [(x["BLOCK"], x["ITEMS"]) for x in rows] == [(48, 1), (48, 2), (64, 1), (64, 2), (2048, 2)]
    *fine, impossible = rows
    assert {row["status"] for row in fine} == {"ok"}
    assert (impossible["status"], impossible["message"]) == ("cannot run", "too many threads in a block")
    for row in fine:
        assert (row["threads"], row["blocks"]) == (row["BLOCK"], -(-100_000 // (row["BLOCK"] * row["ITEMS"])))
        assert row["phase1.global_load.requests"] == pytest.approx(row["load_insts"])
        assert row["work.fp32"] == pytest.approx(row["phase1.fp32"] + row["phase1.fp16"] / 2)


@pytest.mark.slow
def test_a_random_part_is_of_the_whole_and_what_was_counted_is_kept(run_dse, triple: Path):
    command = ("characterise", triple, "-g", "a100-pcie-40gb", "--all")
    every = json.loads(run_dse(*command, "--json").out)
    some = json.loads(run_dse(*command, "--sample", "2", "--seed", "3", "--json").out)
    assert (len(every), len(some)) == (4, 2)
    assert all(row in every for row in some)
    assert "2 of 4 configurations" in run_dse(*command, "--sample", "2").out


@pytest.mark.slow
def test_phases_that_repeat_add_up_to_the_traffic(answer):
    command = ("characterise", "matmul_tiled", "-g", "a100-pcie-40gb")
    dram = next(row["source"] for row in answer(*command) if row["name"] == "dram")
    phases = answer(*command, "--explain")["phases"]
    assert max(row["passes"] for row in phases) > 1
    moved = (row["passes"] * (row["loads_past_l2"] + row["stores_past_l2"]) for row in phases)
    assert sum(moved) == pytest.approx(dram)


def test_where_it_spends_what(answer, run_dse, triple: Path):
    command = ("characterise", triple, "-g", "a100-pcie-40gb", "--set", "items=2", "--explain")
    parts = answer(*command)
    blocks = -(-100_000 // 96)
    assert parts["resources"]["blocks"] == blocks
    assert parts["configuration"] == {"block": 48, "items": 2}
    assert sum(row["share"] for row in parts["mix"]) == pytest.approx(1)
    [line] = [row for row in parts["lines"] if row["source"].startswith("if (at < n)")]
    assert line["line"] == 6
    loads = [row for row in parts["accesses"] if row["op"] == "load"]
    assert sum(row["requests"] for row in loads) == pytest.approx((4 * (blocks - 1) + 3) / blocks / 2)
    assert {row["line"] for row in loads} == {6}
    assert {row["degree"] for row in parts["accesses"]} == {1}
    assert (len(parts["phases"]), bool(parts["branches"]), parts["unknown"]) == (1, True, [])
    ran = run_dse(*command)
    for text in ("by pipe", "Phases", "Memory instructions", "Conditional branches", "y[at] = 3.0f * x[at];"):
        assert text in ran.out
    command = ("characterise", triple / "triple.sass", "-g", "a100-pcie-40gb", *LAUNCH, "--explain")
    arguments = ("--arg", "?", "--arg", "?", "--arg", "100000")
    assert answer(*command, *arguments)["lines"] == []  # nothing tells of them
    assert "branches that depend on parameter at 0x170, expected none: counted as if" in run_dse(*command).err


def test_amd_gpus_are_explained_too(answer, triple: Path):
    launch = ("--block", "64", "--grid", "4", "--arg", "n=250", "--arg", "x=256")
    parts = answer("characterise", triple / "own.hip", "-g", "w6600", *launch, "--explain")
    assert parts["resources"]["threads"] == 64
    assert [access["op"] for access in parts["accesses"]] == ["load", "store"]
    assert {line["line"] for line in parts["lines"]} >= {4, 5}


@pytest.mark.slow
def test_the_work_flow_graph_as_text_and_picture(run_dse, triple: Path, tmp_path):
    picture = tmp_path / "flow.svg"
    command = ("characterise", triple, "-g", "a100-pcie-40gb", "--set", "items=2", "--graph")
    ran = run_dse(*command, picture)
    assert ran.code == 0, ran.err
    *table, conclusion = ran.out.splitlines()[1:]
    assert max(map(len, table)) <= 80
    loads = [line for line in table if " M " in line and "┌" in line]
    uses = [line for line in table if "└" in line]
    assert len(loads) == len(uses) == 2
    latency, hidden = (float(number) for number in loads[0].split()[-2:])
    assert 0 < hidden < latency
    assert all(100 < float(use.split()[-1]) < latency - hidden for use in uses)  # an item after the other
    assert [line.split()[1] for line in table if " by " in line] == ["taken", "passed"]
    assert "the average warp takes" in conclusion
    assert "└" in picture.read_text()
    assert run_dse(*command, "-").out.splitlines()[:-1] == ran.out.splitlines()[:-1]


@pytest.mark.parametrize("gpu", ["a100-pcie-40gb", "mi250x"])
def test_the_work_flow_graph_of_a_description(run_dse, gpu):
    ran = run_dse("characterise", "blackscholes", "-g", gpu, "--graph", "-")
    assert ran.code == 0, ran.err
    nodes = [line[18:].split()[0] for line in ran.out.splitlines()[2:8]]
    assert nodes == ["loop,", "C", "S", "M", "loop,", "M"]
    assert "the average warp takes" in ran.out.splitlines()[-1]


ONE = ("-g", "t4", "--block", "32", "--grid", "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("triple.cubin", *ONE), "triple.cubin: architecture: found sm_80, expected sm_75"),
        (("unknown.sass", "-g", "a100-pcie-40gb", *LAUNCH), "opcode: found FROB, expected one that is known"),
    ],
)
def test_code_that_cannot_be_counted(run_dse, triple: Path, arguments: tuple[str, ...], message: str):
    ran = run_dse("characterise", triple / arguments[0], *arguments[1:])
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert message in ran.err


def test_shared_memory_that_the_launch_sizes(answer, triple: Path):
    counts = answer("characterise", triple / "others.cu", *ONE, "--function", "sized", "--shared", "128")
    assert values(counts)["resources", "shared_bytes"][0] == 128


@pytest.mark.slow
def test_the_page_shows_what_runs(run_dse, tmp_path: Path, triple: Path, monkeypatch: pytest.MonkeyPatch):
    page = (Path(__file__).parents[2] / "docs" / "source.md").read_text()
    shown = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
    texts = dict(shown)
    (tmp_path / "saxpy.cu").write_text(texts["cuda"])
    (tmp_path / "T1.json").write_text(texts["json"])
    compile_beside(tmp_path / "saxpy.cu", {"BLOCK": 256, "ITEMS": 4, "STRIDED": 1})
    monkeypatch.chdir(tmp_path)
    commands = [line for kind, text in shown for line in text.splitlines() if not kind and line[:4] == "dse "]
    assert len(commands) == 14
    out = ""
    for command in commands:
        ran = run_dse(*shlex.split(command)[1:])
        assert (ran.code, ran.err) in [(0, ""), (0, "assumed: a: 0, since no value is stated\n")], command
        out += ran.out if "--explain" in command else ""
    [row] = [line for _, text in shown for line in text.splitlines() if " 0x120 " in line]
    assert row.split() in [line.split() for line in out.splitlines()]
