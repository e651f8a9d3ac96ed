"""What the README and the pages show does run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_python_example(run_python):
    [code] = blocks("README.md", "python")
    ran = run_python(code)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("'rank'") == 3


@pytest.mark.slow
def test_the_examples_from_python(run_python):
    codes = blocks("docs/python.md", "python")
    assert len(codes) == 4
    ran = run_python("\n".join(codes))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("'rank'") == 1


def test_every_command_of_the_readme_is_a_command(run_dse):
    shown = re.findall(r"^dse ([\w-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert shown
    for command in shown:
        assert run_dse(command, "--help").code == 0


def test_the_kernel_of_the_page(run_dse, tmp_path):
    [description] = blocks("docs/kernels.md", "toml")
    path = tmp_path / "kernel.toml"
    path.write_text(description)
    ran = run_dse("rank", str(path), "--gpu", "mi250x")
    assert (ran.code, ran.err) == (0, "")
    assert "saxpy on AMD" in ran.out


@pytest.mark.slow
def test_the_graph_and_the_example_of_the_simulator(run_dse, run_python, tmp_path):
    [graph] = blocks("docs/simulator.md", "toml")
    path = tmp_path / "graph.toml"
    path.write_text(graph)
    ran = run_dse("simulate", str(path), "--warps", "2")
    assert (ran.code, ran.err) == (0, "")
    assert "bound by" in ran.out
    [code] = blocks("docs/simulator.md", "python")
    ran = run_python(code)
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) > 2
