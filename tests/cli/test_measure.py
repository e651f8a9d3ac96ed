"""`dse measure` without a GPU: what it says, what it can do nevertheless."""

import re
import shutil
from pathlib import Path

import pytest

from dse import kernels
from dse.cli.measure.plans import gpu_like, plan_built, title
from dse.errors import DseError
from dse.hardware import gpus
from dse.measure import built, journal
from dse.measure.device import Device


def has_no_gpu() -> bool:
    try:
        with Device():
            return False
    except DseError:
        return True


@pytest.mark.skipif(not has_no_gpu(), reason="there is a GPU")
@pytest.mark.parametrize("command", [["gpu"], ["space", "reduction", "-o", "table.parquet"]])
def test_one_line_without_a_gpu(run_dse, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run_dse("measure", *command)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert ran.err.startswith("dse: GPU: found ")
    assert ran.err.endswith(", or a dry run\n")
    assert not list(tmp_path.iterdir())


def test_what_would_run(run_dse, tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path))
    ran = run_dse("measure", "space", "transpose", "--sample", "1", "--dry-run", "--arch", "90", "--csv")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[1:] == ["90,transpose,36,1,1,"]


def test_what_is_built_is_measured(run_dse, tmp_path, monkeypatch):
    """Cases of problem sizes come one after another into one file, which another GPU refuses."""
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "cache"))
    cases, path = tmp_path / "cases.csv", tmp_path / "built.zip"
    cases.write_text("width,height\n64,32\n128,32\n")
    build = ("measure", "build", "--gpu", "h100-sxm", "-o", path, "--sample", "1", "--csv")
    ran = run_dse(*build, "transpose", "--cases", cases)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[1:] == [f'90,transpose,"width={n}, height=32",1,1,' for n in (64, 128)]
    assert run_dse(*build, "reduction").code == 0
    spaces = [(space.kernel, space.sizes.get("width")) for space in built.read(path).spaces]
    assert spaces == [("transpose", 64), ("transpose", 128), ("reduction", None)]

    [plan] = plan_built(path, ["transpose"], ["width=128"], None, 0, gpu_like("", 90), 90)
    assert (title(plan), len(plan.parameters)) == ("transpose (width=128, height=32)", 1)
    with pytest.raises(DseError, match="architecture: found sm_90, expected sm_80 of this GPU"):
        plan_built(path, [], None, None, 0, gpu_like("", 80), 80)
    ran = run_dse("measure", "build", "reduction", "--gpu", "a100", "-o", path)
    assert ran.err.startswith(f"dse: {path}: architecture: found sm_90, expected sm_80 of NVIDIA A100")


def test_measurements_beside_a_kernel_are_those_of_its_gpu(run_dse, tmp_path):
    folder = tmp_path / "reduction"
    shutil.copytree(kernels.find("reduction").parent, folder, ignore=shutil.ignore_patterns("measured"))
    (folder / "measured").mkdir()
    rows = [
        {"block": block, "items": items, "shuffle": 1, "count": 67108864, "status": "ok", "time_ms": time}
        for block, items, time in [(64, 1, 0.9), (128, 2, 0.5), (256, 4, 0.2), (512, 8, 0.25)]
    ]
    compare = ("compare", folder, "--model", "roofline", "--gpu")
    assert "--measured: found none, and no" in run_dse(*compare, "h100-sxm").err
    journal.write(folder / "measured" / "h100_sxm.parquet", {}, rows)
    mine = tmp_path / "h100_sxm_measured.toml"
    shutil.copyfile(gpus.find("h100-sxm"), mine)
    ran = run_dse(*compare, mine)
    assert (ran.code, ran.err) == (0, "")
    assert "4 configurations, 4 of them measured" in ran.out
    assert "measured are h100_sxm" in run_dse(*compare, "a100").err


def test_measurements_are_stored(run_dse, tmp_path, own_catalogue):
    folder, name = own_catalogue(["h100-sxm"], ["reduction"]), "NVIDIA H100 80GB HBM3"
    mine, table = tmp_path / "gpu.toml", tmp_path / "spaces.parquet"
    mine.write_text(gpus.find("h100-sxm").read_text().replace(f'"{name}"', f'"{name}, measured"'))
    about = {"gpu": name, "sweep": False, "kernels": {"reduction": {}}}
    journal.write(table, about, [{"kernel": "reduction", "block": 64, "status": "ok", "time_ms": 1.0}])
    ran = run_dse("measure", "store", mine, table, "--csv")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split(",") for line in ran.out.splitlines()[1:]] == [
        [str(folder / "gpus" / "h100_sxm_measured.toml"), ""],
        [str(folder / "kernels" / "reduction" / "measured" / "h100_sxm.parquet"), "1"],
    ]
    assert gpus.load("h100_sxm_measured").name == f"{name}, measured"


def test_the_page_shows_options_that_there_are(run_dse):
    page = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text()
    shown = re.findall(r"^(?:\$ )?dse ((?:measure )?\w+)(.*)$", page, re.MULTILINE)
    assert len(shown) > 4
    for command, rest in shown:
        ran = run_dse(*command.split(), "--help")
        assert all(option in ran.out for option in re.findall(r"--[\w-]+", rest)), command
