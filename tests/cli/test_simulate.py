"""`dse simulate`: a graph, or a kernel on a GPU; what it prints and writes, and mistakes in one line."""

import json

import pytest

from dse import kernels
from dse.core import catalogue
from dse.simulator.case import idg

KERNELS = catalogue.folder("kernels")
SHARES = ("throughput", "latency", "same warp")

GRAPH = """
name = "mix"
[core]
warps = 4
issue_limit = 1
[subsystems]
alu = { lambda = 1, Lambda = 18 }
sfu = { lambda = 4, Lambda = 40 }
none = { lambda = 1, Lambda = 1 }
[[instruction]]
name = "a"
subsystem = "alu"
needs = ["s"]
same_warp = 2
[[instruction]]
name = "s"
subsystem = "sfu"
needs = ["a"]
[[loop]]
first = "a"
last = "s"
trips = 5
"""


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "mix.toml"
    path.write_text(GRAPH)
    return path


@pytest.fixture
def read(run_dse):
    """`read(...)`: the one object that --json prints."""

    def read(*arguments):
        ran = run_dse("simulate", *(str(x) for x in arguments), "--json")
        assert (ran.code, ran.err) == (0, "")

        def refuse(name):
            raise AssertionError(f"{name} is no JSON")

        return json.loads(ran.out, parse_constant=refuse)

    return read


def whole(found):
    return found["issue_share"] + sum(row[name] for row in found["subsystems"] for name in SHARES)


def test_the_example(read, run_dse, tmp_path):
    """The worked example, and what would change it."""
    trace = tmp_path / "profile.json"
    changes = ("warps=4", "memory.Lambda=0.5x", "scheduler=gto")
    options = ("--profile", trace, *(x for change in changes for x in ("--what-if", change)))
    found = read("example", *options)
    assert (found["name"], found["warps"], found["slots"], found["groups"]) == ("example", 1, 1, 1)
    assert (found["makespan_cycles"], found["entries"], found["in_ticks"]) == (25, 6, False)
    assert found["ipc"] == pytest.approx(6 / 25)
    assert found["bottleneck"] in ("computation latency", "memory latency")  # 12 cycles each
    assert [row["subsystem"] for row in found["subsystems"]] == ["computation", "memory"]
    assert [row["entries"] for row in found["subsystems"]] == [4, 2]
    assert [row["busy"] for row in found["subsystems"]] == [pytest.approx(4 / 25)] * 2
    assert [row["latency"] for row in found["subsystems"]] == [pytest.approx(12 / 25)] * 2
    assert whole(found) == pytest.approx(1)
    assert [(row["what if"], row["makespan"]) for row in found["what_if"]] == list(
        zip(changes, (35, 19, 25), strict=True)
    )
    assert [row["gain"] for row in found["what_if"]] == [pytest.approx(25 / x) for x in (35, 19, 25)]
    events = json.loads(trace.read_text())["traceEvents"]
    assert "M5" in json.dumps(events)

    ran = run_dse("simulate", str(KERNELS / "example" / "graph.toml"), *map(str, options))
    assert ran.code == 0
    for text in (f"wrote {trace}", "25 cycles", "bound by", "latency", "What if", "1.316x", "16.0%"):
        assert text in ran.out


def test_a_graph_of_ones_own(read, run_dse, graph):
    options = ("--scheduler", "oldest", "--groups", "2", "--what-if", "sfu.lambda=1")
    found = read(graph, "--warps", "60", *options, "--what-if", "issue_limit=0.1")
    assert (found["warps"], found["groups"]) == (60, 2)
    assert found["bottleneck"].startswith("sfu ")
    assert found["entries"] == 60 * 2 * 10
    assert found["makespan_cycles"] >= 4 * 60 * 2 * 5
    assert [row["subsystem"] for row in found["subsystems"]] == ["alu", "sfu"]  # none enters the third
    assert whole(found) == pytest.approx(1)
    faster, slower = found["what_if"]
    assert faster["gain"] > 1.5
    assert slower["makespan"] >= 10 * (60 * 2 * 10 - 1)
    ran = run_dse("simulate", str(graph), *options)
    assert "mix: warps=4, slots=1, groups=2" in ran.out
    assert run_dse("simulate", str(graph), "--warps", "1").out.count("What if") == 0


def test_nothing_that_takes_time(read, run_dse, graph):
    """No cycles, so no rates: not a number that JSON has not."""
    none = "{ lambda = 0, Lambda = 0 }"
    text = GRAPH.replace("{ lambda = 1, Lambda = 18 }", none).replace("{ lambda = 4, Lambda = 40 }", none)
    graph.write_text(text.replace("issue_limit = 1", "").replace("same_warp = 2", ""))
    options = ("--what-if", "warps=2", "--what-if", "alu.Lambda=3")
    found = read(graph, *options)
    assert (found["makespan_cycles"], found["ipc"], found["subsystems"][0]["busy"]) == (0, None, None)
    assert [row["gain"] for row in found["what_if"]] == [None, 0]
    assert "0 cycles" in run_dse("simulate", str(graph), *options).out


def test_a_drawing(run_dse, tmp_path):
    path = tmp_path / "profile.svg"
    ran = run_dse("simulate", "example", "--profile", str(path), "--window", "0", "12")
    assert (ran.code, ran.err) == (0, "")
    svg = path.read_text()
    assert svg.startswith("<svg")
    assert "C3" in svg
    assert "M5" not in svg  # it enters at cycle 19


def test_a_kernel_on_a_gpu(read, run_dse, toy_kernel, tmp_path):
    where = (toy_kernel, "--gpu", "a100", "--set", "n=65536", "--set", "block=128")
    changes = ("dram=off", "dram.lambda=4x", "dram.Lambda=0.5x", "blocks=1", "scheduler=gto")
    options = [x for change in changes for x in ("--what-if", change)]
    found = read(*where, *options, "--profile", tmp_path / "p.json")
    assert (found["kernel"], found["gpu"]) == ("toy", "NVIDIA A100-PCIE-40GB")
    assert found["parameters"]["block"] == 128
    items = found["parameters"]["items"]
    blocks = -(-65536 // (128 * items))
    assert found["blocks"] == found["groups"] == -(-blocks // 108)
    assert found["warps"] == 4
    assert whole(found) == pytest.approx(1)
    assert {row["subsystem"] for row in found["subsystems"]} <= set(idg.SUBSYSTEMS)
    assert "barrier" not in {row["subsystem"] for row in found["subsystems"]}
    assert 0 < found["ipc"] < 4
    # All instructions of the kernel, of which an entry stands for several.
    insts = (8 + 4 * items) * 4 * found["groups"]
    assert found["ipc"] * found["makespan_cycles"] == pytest.approx(insts)
    gains = {row["what if"]: row["gain"] for row in found["what_if"]}
    assert list(gains) == list(changes)
    assert gains["dram=off"] > 1.2
    assert gains["dram.Lambda=0.5x"] > 1.05
    assert gains["dram.lambda=4x"] < 0.9
    assert gains["blocks=1"] < 1.0
    assert "load" in (tmp_path / "p.json").read_text()

    ran = run_dse("simulate", *map(str, where), *options)
    assert ran.code == 0
    first, second, *_, conclusion = ran.out.splitlines()
    assert first == f"toy on NVIDIA A100-PCIE-40GB: block=128, items={items}"
    resident = f"resident={found['slots']}, warps_per_block=4"
    assert second == f"{found['groups']} of {found['blocks']} blocks of an SM, {resident}"
    assert conclusion.startswith(f"{found['makespan_cycles']:,.6g} cycles, ")
    assert "s at" in conclusion
    assert "dram=off makes it" in conclusion

    fewer = read(*where, "--warps", "8", "--groups", "3", "--what-if", "blocks=1")
    assert (fewer["slots"], fewer["groups"]) == (2, 3)
    assert fewer["what_if"][0]["gain"] < 1


def test_help_is_light(run_python):
    ran = run_python(
        "import sys\nfrom dse.cli.main import run\ntry: run(['simulate', '--help'])\n"
        "except SystemExit: pass\nassert not {'jax', 'numpy', 'altair'} & set(sys.modules)"
    )
    assert ran.code == 0, ran.err


def test_the_graph_of_a_kernel_without_a_gpu():
    """Kernels of the catalogue with a graph beside them."""
    beside = {name for name in kernels.names() if kernels.find(name).with_name("graph.toml").is_file()}
    assert {"example", "instruction_mix", "iterative_barrier"} <= beside
