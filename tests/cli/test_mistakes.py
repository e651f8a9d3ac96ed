"""Bad input, command by command: one line that names the place, exit code 2, nothing printed or written.

`mistakes.txt` holds a line a mistake, `arguments => part of the message`, below the words that the commands
of its section begin with.
"""

import gzip
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dse.hardware import gpus

HERE = Path(__file__).parent
GRAPH = """
name = "mix"
[subsystems]
alu = { lambda = 1, Lambda = 18 }
sfu = { lambda = 4, Lambda = 40 }
none = { lambda = 1, Lambda = 1 }
[[instruction]]
name = "a"
subsystem = "alu"
needs = ["s"]
[[instruction]]
name = "s"
subsystem = "sfu"
needs = ["a"]
[[loop]]
first = "a"
last = "s"
trips = 5
"""
TIMES = "block,items,time_ms\n"


def mistakes() -> Iterator[tuple[str, str]]:
    start = ""
    for line in (HERE / "mistakes.txt").read_text().splitlines():
        if line.startswith("["):
            start = line[1:-1]
        elif line:
            arguments, _, message = line.partition("=> ")
            yield f"{start} {arguments}".strip(), message


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, toy_kernel: Path) -> Path:
    """The files that the commands name, right and wrong."""
    folder = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(HERE / "triple", folder / "triple")
    (folder / "toy").mkdir()
    toy, a100 = toy_kernel.read_text(), gpus.find("a100").read_text()
    bandwidth = a100[a100.index("[dram_bandwidth]") :].splitlines()[1:3]
    assert [line.split()[0] for line in bandwidth] == ["value", "unit"]
    texts = {
        "toy.toml": toy,
        "toy/kernel.toml": toy,
        "unknown.toml": toy.replace('"block != 96"', '"blok != 96"'),
        "large.toml": toy.replace("<= 2048", "<= 8192"),
        "broken.toml": "name = [",
        "negative.toml": a100.replace("\n".join(bandwidth), f"value = -3\n{bandwidth[1]}"),
        "unit.toml": a100.replace("\n".join(bandwidth), f'{bandwidth[0]}\nunit = "GHz"'),
        "graph.toml": GRAPH,
        "no_needs.toml": GRAPH.replace('["a"]', '["b"]'),
        "open.json": "{",
        "list.json": "[]",
        "empty.json": '{"General": {}}',
        "few.csv": f"{TIMES}64,1,2.5\n128,2,2.0\n",
        "word.csv": f"{TIMES}64,one,2.5\n",
        "untimed.csv": "block,items\n64,1\n",
        "foreign.csv": f"{TIMES}4096,1,0.5\n",
        "failed.csv": f"{TIMES}32,1,\n",
        "no_number.csv": "M,BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,GROUP_SIZE_M,num_warps,num_stages,us\n"
        "64,16,32,64,32,8,2,nan\n",
        "foreign.jsonl": '{"parameters": {"tile": 1}, "seconds": 1}\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "cut.csv.gz").write_bytes(gzip.compress(TIMES.encode())[:-9])
    return folder


@pytest.mark.parametrize(("command", "message"), list(mistakes()))
def test_a_mistake_is_one_line(run_dse, folder, command, message, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    ran = run_dse(*shlex.split(command))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dse: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before
