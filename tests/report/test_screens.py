"""Screens of commands as a user sees them, at 80 columns and through a pipe, beside those kept.

`DSE_WRITE_SCREENS=1 pytest tests/report/test_screens.py` writes them again, to be looked at.
"""

import io
import os
import re
from pathlib import Path

import pytest

from dse.cli.commands import COMMANDS
from dse.cli.main import run

FOLDER = Path(__file__).parent / "screens"
TIMES = [(64, 1, 2.5), (64, 2, 2.0), (128, 1, 1.5), (128, 2, 1.25), (256, 1, 1.75), (256, 4, 1.0)]
SCREENS = {
    "rank": "rank {kernel} --gpu a100 -m roofline -m volkov --top 5",
    "compare": "compare {kernel} --gpu a100 --measured {times} -m roofline -m volkov",
    "sweep": "sweep {kernel} -g a100 -g gtx-280 --set n=1048576,4194304 -m roofline --top 2 --per gpu,size",
    "tune": "tune {kernel} --gpu a100 --replay {times} --budget 3 -m roofline",
}
OTHERS = {  # of these only what holds for every screen is checked
    "accuracy": "accuracy {folder} -m roofline",
    "cache": "cache",
    "characterise": "characterise transpose -g a100-pcie-40gb",
    "doctor": "doctor",
    "fit": "fit {kernel} --gpu a100 --measured {times} -m roofline --free clock --starts 1",
    "gpus": "gpus --name a100",
    "gpus show": "gpus show a100",
    "kernels": "kernels",
    "kernels show": "kernels show {kernel}",
    "measure": "measure gpu --dry-run --arch 80",
    "measure space": "measure space reduction --dry-run --arch 80 --sample 2",
    "models": "models",
    "models aspects": "models aspects",
    "models show": "models show volkov",
    "occupancy_curve": "occupancy-curve {kernel} --gpu a100 -m roofline",
    "prune": "prune {kernel} --gpu a100 -m roofline",
    "report": "report {times} --kernel {kernel} --gpu a100",
    "reproduce": "reproduce lemeire",
    "reproduce differing": "reproduce lemeire --differing",
    "search": "search {kernel} --gpu a100 -m roofline --trials 3 --storage none",
    "simulate": "simulate {kernel} --gpu a100 --warps 2",
    "table": "table {kernel} --gpu a100 --for n=1048576",
}
WIDTHS = (80, None)  # None: a pipe


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def screen(monkeypatch, toy_kernel, tmp_path):
    def shown(command, width):
        times = tmp_path / "times.csv"
        times.write_text("\n".join(["block,items,time_ms", *(f"{b},{i},{t}" for b, i, t in TIMES)]))
        (measured := tmp_path / "measured" / "mat_naive" / "A100.csv").parent.mkdir(
            parents=True, exist_ok=True
        )
        measured.write_text("\n".join(["block_size,time_ms", *(f"{b},{t}" for b, _, t in TIMES[::2])]))
        names = {"kernel": toy_kernel.name, "times": times, "folder": tmp_path / "measured"}
        stream = io.StringIO() if width is None else Terminal()
        monkeypatch.setattr("sys.stdout", stream)
        for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.chdir(toy_kernel.parent)
        if width is not None:
            monkeypatch.setenv("COLUMNS", str(width))
        with pytest.raises(SystemExit) as end:
            run([word.format(**names) for word in (SCREENS | OTHERS)[command].split()])
        assert not end.value.code
        text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
        return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"

    return shown


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", SCREENS)
def test_a_screen_is_as_it_was(screen, command, width):
    found = screen(command, width)
    kept = FOLDER / f"{command}_{width or 'piped'}.txt"
    if os.environ.get("DSE_WRITE_SCREENS"):
        FOLDER.mkdir(exist_ok=True)
        kept.write_text(found, encoding="utf-8")
    if width is not None:
        assert max(map(len, found.splitlines())) <= width
    assert found == kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", SCREENS | OTHERS)
def test_a_screen_fits_and_ends_with_a_conclusion(screen, command):
    """Of 80 columns, none cut; through a pipe, where no line is broken, the last one is a sentence."""
    *_, last = screen(command, None).splitlines()
    assert len(last.split()) >= 4
    assert not re.search(r"\S {3,}\S|^Not shown", last)  # a row of a table has gaps
    shown = screen(command, 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_every_command_has_a_screen():
    assert {command.split()[0] for command in SCREENS | OTHERS} == set(COMMANDS)
