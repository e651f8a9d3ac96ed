"""What the README and the pages show does run."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dse import kernels
from dse.hardware import gpus

MAIN = "from dse.cli.main import run\nif __name__ == '__main__':\n    run()"
ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_examples_with_triton(tmp_path, own_cache, monkeypatch):
    pytest.importorskip("triton")

    def run_dse(*words: str) -> subprocess.CompletedProcess[str]:
        """In a process of its own: those that compile know the environment that the first one began with."""
        command = [sys.executable, "-c", MAIN, *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    [kernel], [description] = blocks("docs/triton.md", "triton"), blocks("docs/triton.md", "toml")
    (tmp_path / "scale.py").write_text(kernel)
    (tmp_path / "kernel.toml").write_text(description)
    page = (ROOT / "docs" / "triton.md").read_text()
    [_, by_options] = re.findall(r"^dse (.*)$", page, re.MULTILINE)
    ran = run_dse(*shlex.split(by_options), "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    described = run_dse("rank", "kernel.toml", "--gpu", "h100-sxm", "--json")
    times = [[row["time_s"] for row in json.loads(item.stdout)] for item in (ran, described)]
    assert len(times[0]) == 9
    assert times[0] == pytest.approx(times[1])
    in_cache = run_dse("rank", "triton:scale", "--gpu", "h100-sxm", "--grid", "8192", "--arg", "columns=4096",
                       "--arg", "which=8192:int32:index", "--json")  # fmt: skip
    assert sorted(row["time_s"] for row in json.loads(in_cache.stdout)) == pytest.approx(times[0])
    [code] = blocks("docs/triton.md", "python")
    (tmp_path / "tuned.py").write_text(code)
    command = [sys.executable, "tuned.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "'rank': 1" in ended.stdout
    assert re.search(r"^[1-4] of 4$", ended.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("page", "command", "said"),
    [("kernels", "rank {} --gpu mi250x", "saxpy on AMD"), ("simulator", "simulate {} --warps 2", "bound by")],
)
def test_the_first_file_of_a_page(run_dse, tmp_path, page, command, said):
    path = tmp_path / "file.toml"
    path.write_text(blocks(f"docs/{page}.md", "toml")[0])
    ran = run_dse(*command.format(path).split())
    assert (ran.code, ran.err) == (0, "")
    assert said in ran.out


def test_the_source_of_a_kernel_on_the_page_is_that_of_the_file():
    *_, source = blocks("docs/kernels.md", "toml")
    shown, told = (tomllib.loads(text)["source"] for text in (source, kernels.find("histogram").read_text()))
    assert shown == {"kernel": "histogram"} | told


def test_the_numbers_of_gpus_on_the_page_are_those_of_the_file():
    file = tomllib.loads(gpus.find("a100-pcie-40gb").read_text())
    bandwidth, share = (tomllib.loads(block) for block in blocks("docs/gpus.md", "toml"))
    assert bandwidth == {"dram_bandwidth": file["dram_bandwidth"]}
    assert share == {"cpi": {"dram": file["cpi"]["dram"]}}


def test_summaries_of_accuracy_quote_the_tables():
    """The first table of each page on accuracy has no decimal that no other table has."""
    pages = [path.read_text() for path in (ROOT / "docs").glob("accuracy*.md")]
    tables = [re.findall(r"^\|.*?(?:\n(?!\|)|\Z)", page, re.MULTILINE | re.DOTALL) for page in pages]
    decimals = re.compile(r"\d+\.\d+").findall
    measured = {number for _, *others in tables for table in others for number in decimals(table)}
    assert len(pages) == 3
    for summary, *_ in tables:
        assert len(decimals(summary)) > 8
        assert set(decimals(summary)) <= measured
