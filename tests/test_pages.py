"""The pages of the site that teach: their code runs from top to bottom, with the files that they show."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (
    "index",
    "tutorial",
    "columns",
    "gpus",
    "choosing_a_model",
    "guide_sweeps",
    "guide_tuner",
    "guide_new_gpu",
    "your_kernel",
    "inductor",
    "helion",
    "tilelang",
    "cutile",
    "tokamax",
)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page, tmp_path):
    (tmp_path / "gpus").symlink_to(ROOT / "gpus")  # as in the checkout
    command = [sys.executable, str(ROOT / "scripts" / "run_page.py"), str(ROOT / "docs" / f"{page}.md")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "Warning" not in ran.stderr


def test_a_page_stops_at_what_fails(tmp_path):
    (tmp_path / "page.md").write_text('```text title="a.txt"\nhello\n```\n\n```sh\ndse rank nothing\n```\n')
    command = [sys.executable, str(ROOT / "scripts" / "run_page.py"), "page.md"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "dse rank nothing: ended with 2" in ran.stderr
    assert (tmp_path / "a.txt").read_text() == "hello\n"


def test_the_pictures_are_those_of_the_script(tmp_path):
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "studies" / "draw_concepts.py"), str(tmp_path)], check=True
    )
    drawn = sorted(tmp_path.iterdir())
    assert len(drawn) == 3
    for picture in drawn:
        assert picture.read_text() == (ROOT / "docs" / "figures" / picture.name).read_text()
