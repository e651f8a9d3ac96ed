"""Bad input: one clear line that names the place, exit code 2, no traceback, nothing half written."""

import gzip
import json

import pytest

GPU = """
name = "mine"
vendor = "NVIDIA"
"""


@pytest.fixture
def mistake(run_dse):
    """Run, and hand back the one line."""

    def run(*arguments):
        ran = run_dse(*(str(argument) for argument in arguments))
        assert ran.code == 2
        assert "Traceback" not in ran.err
        assert ran.out == ""
        lines = ran.err.strip().splitlines()
        assert len(lines) == 1, ran.err
        return lines[0]

    return run


@pytest.fixture
def gpu_file(tmp_path):
    """Copies a catalogue file, one field's line changed."""
    from dse.hardware import gpus

    def write(field, line):
        text = gpus.find("a100").read_text().splitlines()
        start = text.index(f"[{field}]")
        key = line.split(" =")[0]
        at = next(i for i in range(start, len(text)) if text[i].startswith(f"{key} ="))
        text[at] = line
        path = tmp_path / "mine.toml"
        path.write_text("\n".join(text))
        return path

    return write


def test_unknown_gpu(mistake):
    line = mistake("rank", "example", "--gpu", "a1001")
    assert "a1001" in line


def test_ambiguous_gpu(mistake):
    line = mistake("rank", "example", "--gpu", "v100")
    assert "PCI" in line.upper()
    assert "SXM2" in line.upper()


def test_unknown_kernel(mistake):
    line = mistake("rank", "convolutoin", "--gpu", "a100")
    assert "convolutoin" in line
    assert "did you mean convolution" in line


def test_unknown_model(mistake):
    line = mistake("rank", "example", "--gpu", "a100", "--model", "volkow")
    assert "volkow" in line
    assert "did you mean volkov" in line


def test_unknown_parameter(mistake, toy_kernel):
    line = mistake("rank", toy_kernel, "--gpu", "a100", "--set", "blok=3")
    assert "blok" in line
    assert "block" in line
    assert "blok" in mistake("sweep", toy_kernel, "-g", "a100", "--set", "blok=3", "-o", "x.parquet")


@pytest.mark.parametrize("text", ["block", "block=", "=3", "block=three"])
def test_malformed_set(mistake, toy_kernel, text):
    assert "--set" in mistake("rank", toy_kernel, "--gpu", "a100", "--set", text)


def test_missing_files(mistake, tmp_path):
    assert "nothing.toml" in mistake("rank", tmp_path / "nothing.toml", "--gpu", "a100")
    assert "nothing.toml" in mistake("rank", "example", "--gpu", tmp_path / "nothing.toml")
    assert "nothing.csv" in mistake(
        "compare", "example", "-g", "a100", "--measured", tmp_path / "nothing.csv"
    )
    assert "T1.json" in mistake("rank", "example", "-g", "a100", "--space", tmp_path / "T1.json")


def test_compiling_some_takes_a_source(mistake):
    for command in (("rank", "example"), ("compare", "example", "--measured", "none.csv")):
        assert "--compile: found 48 without --source" in mistake(*command, "-g", "a100", "--compile", "48")


def test_malformed_files(mistake, toy_kernel, tmp_path):
    broken = tmp_path / "broken.toml"
    broken.write_text("name = [")
    assert "broken.toml" in mistake("rank", broken, "--gpu", "a100")
    assert "broken.toml" in mistake("rank", "example", "--gpu", broken)
    table = tmp_path / "m.csv"
    table.write_text("block,items,time_ms\n64,one,2.5\n")
    assert "items" in mistake("compare", toy_kernel, "-g", "a100", "--measured", table)
    table.write_text("block,items\n64,1\n")
    assert "time" in mistake("compare", toy_kernel, "-g", "a100", "--measured", table)
    zipped = tmp_path / "m.csv.gz"
    zipped.write_bytes(gzip.compress(b"block,items,time_ms\n")[:-9])
    assert "m.csv.gz" in mistake("compare", toy_kernel, "-g", "a100", "--measured", zipped)
    t1 = tmp_path / "T1.json"
    for text in ("{", "[]", json.dumps({"General": {}})):
        t1.write_text(text)
        assert "T1.json" in mistake("rank", toy_kernel, "-g", "a100", "--space", t1)


def test_negative_bandwidth(mistake, gpu_file):
    line = mistake("rank", "example", "--gpu", gpu_file("dram_bandwidth", "value = -3"))
    assert "dram_bandwidth" in line
    assert "-3" in line


def test_unit_mistake(mistake, gpu_file):
    line = mistake("rank", "example", "--gpu", gpu_file("dram_bandwidth", 'unit = "GHz"'))
    assert "dram_bandwidth" in line
    assert "GHz" in line
    assert "GB/s" in line


def test_constraint_of_an_unknown_parameter(mistake, own_toy_kernel):
    own_toy_kernel.write_text(own_toy_kernel.read_text().replace('"block != 96"', '"blok != 96"'))
    line = mistake("rank", own_toy_kernel, "--gpu", "a100")
    assert "blok" in line
    assert "constraints" in line


def test_launch_of_4096_threads(mistake, own_toy_kernel):
    """Never scored: where nothing can be launched, that is said with the reason."""
    own_toy_kernel.write_text(own_toy_kernel.read_text().replace("<= 2048", "<= 8192"))
    line = mistake("rank", own_toy_kernel, "-g", "a100", "--set", "block=4096", "--set", "items=1")
    assert "threads" in line
    assert "4,096" in line
    assert "1,024" in line


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        ((), "--out: found none, expected a file for all rows"),
        (("--top", "1", "--counts"), "--counts: found together with --top"),
        (("--per", "gpu", "-o", "x.parquet"), "--per: found without --top"),
        (("--top", "1", "--per", "gpus"), "--per: found 'gpus', expected some of kernel, size, gpu, model"),
        (("--top", "1", "--columns", "gpu"), "--columns: found together with --top"),
        (("--pareto", "tine"), "--pareto: found 'tine', expected some of time_s"),
        (("--top", "1", "--where", "blok > 1"), "--where: unknown name 'blok'"),
        (
            ("--top", "1", "--where", "items < 3infand possible"),
            "cannot read 'items < 3infand possible'",
        ),  # a warning of Python's, too
        (("--top", "1", "--set", "n=1,two"), "--set: n: found 'two', expected a number"),
        (("--top", "1", "--set", "n=1,1"), "n: found 1 twice"),
        (("--top", "1", "--workers", "2", "--cluster", "tcp://x:1"), "--workers: found 2 together with"),
    ],
)
def test_sweeps_that_cannot_be(mistake, toy_kernel, ask, found):
    assert found in mistake("sweep", toy_kernel, "-g", "a100", *ask)


def test_out_of_reach_files_are_not_begun(mistake, toy_kernel, tmp_path):
    missing = tmp_path / "no" / "out.parquet"
    assert "no" in mistake("sweep", toy_kernel, "-g", "a100", "-o", missing)
    assert "suffix" in mistake("rank", toy_kernel, "-g", "a100", "-o", tmp_path / "out.xlsx")
    assert "suffix" in mistake("sweep", toy_kernel, "-g", "a100", "-o", tmp_path / "out.csv")
    assert "suffix" in mistake("sweep", toy_kernel, "-g", "a100", "--top", "1", "-o", tmp_path / "out.xlsx")
    assert not list(tmp_path.iterdir())


def test_kernels_of_different_work(mistake):
    assert "different work" in mistake("search", "convolution", "gemm", "-g", "a100", "--storage", "none")


def test_json_and_csv_exclude_each_other(mistake, toy_kernel):
    assert "--csv" in mistake("rank", toy_kernel, "-g", "a100", "--json", "--csv")


def test_unknown_scheduler_and_order(mistake):
    simulate = ("rank", "example", "--gpu", "a100", "--model", "pipeline")
    assert mistake(*simulate, "--scheduler", "fifo").endswith(
        "--scheduler: found 'fifo', expected one of rr, gto, oldest"
    )
    assert mistake(*simulate, "--order", "random").endswith(
        "--order: found 'random', expected one of program, dataflow"
    )


@pytest.mark.parametrize(("flag", "value"), [("scheduler", "gto"), ("order", "program"), ("groups", "8")])
def test_settings_of_what_is_not_simulated(mistake, flag, value):
    line = mistake("rank", "example", "--gpu", "a100", "--model", "volkov", f"--{flag}", value)
    assert line.endswith(f"--{flag}: found {value} with volkov, expected --model pipeline")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("rank", "Missing argument 'KERNEL'"),
        ("rank example --gpu", "'--gpu' requires an argument"),
        ("rank example --gpu a100 --tops 3", "No such option: --tops"),
        ("rank example --gpu a100 --top three", "'--top'"),
        ("rang example --gpu a100", "No such command 'rang'"),
    ],
)
def test_flags(mistake, arguments, found):
    assert found in mistake(*arguments.split())


@pytest.mark.parametrize("seed", ["-1", str(2**32)])
@pytest.mark.parametrize("command", ["search", "tune", "fit"])
def test_seeds_that_nothing_takes(mistake, command, seed):
    line = mistake(command, "example", "--gpu", "a100", "--seed", seed)
    assert "'--seed'" in line
    assert seed in line or "greater than or equal to 0" in line or "less than or equal" in line
