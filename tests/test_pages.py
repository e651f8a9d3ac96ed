"""The pages of the site that teach: their code runs from top to bottom, with the files that they show."""

import re
import runpy
from pathlib import Path

import pytest

from dse.measure.bench import benchmarks

ROOT = Path(__file__).parents[1]
run_page = runpy.run_path(str(ROOT / "scripts" / "run_page.py"))["run_page"]
ELSEWHERE = {  # pages whose blocks need more than a folder, and the tests that run them
    "models": "tests/simulator/case/test_intervals.py",
    "source": "tests/cli/test_characterise.py",
    "triton": "tests/test_documents.py",
    "tuners": "tests/bridges/test_page.py",
    "style": "",  # shows how code reads
}
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {
    path.stem: BLOCK.findall(path.read_text(encoding="utf-8"))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if path.stem not in ELSEWHERE
}
SHOWN = {  # commands of pages other than the README
    line
    for page, blocks in BLOCKS.items()
    for language, code in blocks
    if language == "sh" and page != "README"
    for line in code.splitlines(keepends=True)
}
PAGES = [page for page, blocks in BLOCKS.items() if {"sh", "python"} & {language for language, _ in blocks}]


def test_commands_that_a_page_shows_are_run_or_marked():
    """What needs a GPU, a server or a user's own files is marked as `console`."""
    shown = [code for blocks in BLOCKS.values() for kind, code in blocks if kind not in ("sh", "console")]
    assert not [code for code in shown if code.startswith(("dse ", "$ "))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    """Of the README, what no page of the documentation shows; of microbenchmarks, one mix of each pair."""
    monkeypatch.setattr(benchmarks, "BETAS", (4,))
    for name in ("gpus", "kernels", "examples"):  # as in the checkout
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    path = ROOT / ("README.md" if page == "README" else f"docs/{page}.md")
    if page == "README":
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path = tmp_path / "README.md"
        path.write_text("".join(line for line in lines if line not in SHOWN), encoding="utf-8")
    run_page(path)
