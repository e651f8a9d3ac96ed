"""What every command shows on a terminal of 80 columns."""

import re

import pytest

from dse.cli.commands import COMMANDS
from dse.cli.main import run

TIMES = [(64, 1, 2.5), (64, 2, 2.0), (128, 1, 1.5), (128, 2, 1.25), (256, 1, 1.75), (256, 4, 1.0)]
SCREENS = """
rank {kernel} --gpu a100 -m roofline -m volkov --top 5
compare {kernel} --gpu a100 --measured {times} -m roofline -m volkov
sweep {kernel} -g a100 -g gtx-280 --set n=1048576,4194304 -m roofline --top 2 --per gpu,size
tune {kernel} --gpu a100 --replay {times} --budget 3 -m roofline
accuracy {folder} -m roofline
cache
characterise transpose -g a100-pcie-40gb
doctor
fit {kernel} --gpu a100 --measured {times} -m roofline --free clock --starts 1
gpus --name a100
gpus show a100
kernels
kernels show {kernel}
measure space transpose --sample 1 --dry-run --arch 90
models
models show volkov
models aspects
occupancy-curve {kernel} --gpu a100 -m roofline
prune {kernel} --gpu a100 -m roofline
report {times} --kernel {kernel} --gpu a100
reproduce kothapalli --differing
search {kernel} --gpu a100 -m roofline --trials 3 --storage none
simulate {kernel} --gpu a100 --warps 2
table {kernel} --gpu a100 --for n=1048576
""".strip().splitlines()


@pytest.fixture
def screen(monkeypatch, terminal, toy_kernel, tmp_path):
    """`screen("cache")`: the lines of a command's screen, without colours."""

    def screen(command):
        times = tmp_path / "times.csv"
        times.write_text("\n".join(["block,items,time_ms", *(f"{b},{i},{t}" for b, i, t in TIMES)]))
        measured = tmp_path / "measured" / "mat_naive" / "A100.csv"
        measured.parent.mkdir(parents=True)
        measured.write_text("\n".join(["block_size,time_ms", *(f"{b},{t}" for b, _, t in TIMES[::2])]))
        names = {"kernel": toy_kernel.name, "times": times, "folder": tmp_path / "measured"}
        monkeypatch.chdir(toy_kernel.parent)

        def shown():
            with pytest.raises(SystemExit) as end:
                run([word.format(**names) for word in command.split()])
            assert not end.value.code

        return terminal(shown, 80)

    return screen


SLOW = ("characterise", "fit")


@pytest.mark.parametrize(
    "command",
    [pytest.param(item, marks=[pytest.mark.slow] * (item.split()[0] in SLOW)) for item in SCREENS],
)
def test_a_screen_fits_and_ends_with_a_conclusion(screen, command):
    lines = screen(command)
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    assert not re.search(r"\S {3,}\S|^Not shown", lines[-1])  # a row of a table has gaps


def test_every_command_has_a_screen():
    assert {command.split()[0].replace("-", "_") for command in SCREENS} == set(COMMANDS)
