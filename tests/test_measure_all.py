"""The parts of scripts/measure_all.sh, by what it calls: another script stands in for `dse`."""

import os
import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "measure_all.sh"
PLAYS = """#!/bin/sh
shift 2
echo "$*" >> "$TOLD"
case "$*" in
*gpu.toml*) for name in gpu.toml records.parquet; do echo x > "$FOLDER/$name"; done ;;
*a100.zip*) exit 2 ;;
*) ;;
esac
"""


@pytest.fixture
def ran(tmp_path: Path):
    python, told = tmp_path / "python", tmp_path / "told"
    python.write_text(PLAYS)
    python.chmod(0o755)

    def run(seconds: int, **environment: str) -> tuple[list[str], str]:
        told.write_text("")
        folder = tmp_path / "results"
        given = {"PYTHON": str(python), "TOLD": str(told), "FOLDER": str(folder), **environment}
        done = subprocess.run(
            [SCRIPT, folder, str(seconds)],
            cwd=tmp_path,
            env={**os.environ, **given},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0
        return told.read_text().splitlines(), done.stderr

    return run


def parts(commands: list[str]) -> list[str]:
    return [re.split(r"[/ ]", command)[-1] for command in commands]


def budget(command: str) -> int:
    found = re.search(r"--budget (\d+)", command)
    assert found is not None
    return int(found[1])


def test_each_part_has_what_is_left(ran):
    commands, _ = ran(520)
    assert [command.split()[1] for command in commands] == ["gpu", "space", "space"]
    assert parts(commands)[1:] == ["spaces.parquet", "occupancy.parquet"]
    assert 430 <= budget(commands[1]) <= 450
    assert 480 <= budget(commands[2]) <= 495
    assert parts(ran(60)[0]) == ["occupancy.parquet"]  # the GPU is measured already


def test_what_was_built_comes_before_other_spaces(ran, tmp_path: Path):
    """What is built for another GPU fails, and the next is tried."""
    folder = tmp_path / "built"
    folder.mkdir()
    for name in ("a100.zip", "h100.zip"):
        (folder / name).write_text("x")
    expected = ["gpu.toml", "a100.parquet", "h100.parquet", "spaces.parquet", "occupancy.parquet"]
    commands, errors = ran(520)
    assert [Path(re.split("-o ", command)[1].split()[0]).name for command in commands] == expected
    assert "measure_all: failed: dse measure space --built built/a100.zip --repeats 3" in errors
    assert 480 <= budget(commands[2]) <= 495
    folder.rename(tmp_path / "elsewhere")
    assert parts(ran(520, BUILT=str(tmp_path / "elsewhere"))[0]) == expected[1:]
    assert parts(ran(520)[0]) == expected[3:]
