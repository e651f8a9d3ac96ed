"""Nothing silent, nothing impossible: mistakes that once gave a plausible answer, by the command line."""

import json
import re

import pytest

from dse.cli.commands import COMMANDS

SOURCE = """
extern "C" __global__ void scaled(const int* from, const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if TRIPS
    float sum = 0;
    for (int k = 0; k < n; k++) sum += x[i + k * 32];
    y[i] = sum;
#elif GATHERED
    y[i] = factor * x[from[i]];
#elif FAR
    y[i + n] = factor * x[i];
#else
    if (i < n) y[i] = factor * x[i];
#endif
}
"""


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    path = tmp_path_factory.mktemp("scaled") / "scaled.cu"
    path.write_text(SOURCE)
    return str(path), "--block", "128", "--grid", "512"


@pytest.mark.parametrize("gpu", ["a100", "mi250x"])
@pytest.mark.parametrize("macro", ["TRIPS", "FAR", "OTHERS"])
@pytest.mark.parametrize("command", [("rank",), ("characterise", "--explain")])
def test_a_number_on_which_counts_depend_is_asked_for(run_dse, scaled, gpu, macro, command):
    name, *options = command
    ran = run_dse(name, *scaled, "--gpu", gpu, "-D", f"{macro}=1", "--arg", "factor=2.0", *options)
    assert (ran.code, ran.out) == (2, "")
    assert "n: found no value" in ran.err
    assert "expected n=VALUE (--arg)" in ran.err


def test_contents_on_which_addresses_depend_are_asked_for(run_dse, scaled):
    stated = ("--arg", "factor=2", "--arg", "n=65536", "-D", "GATHERED=1")
    ran = run_dse("rank", *scaled, "--gpu", "a100", *stated)
    assert ran.code == 2
    assert "from: found no contents" in ran.err
    assert run_dse("rank", *scaled, "--gpu", "a100", *stated, "--arg", "from=65536:int:index").code == 0


@pytest.mark.parametrize("gpu", ["a100", "mi250x"])
def test_a_number_on_which_nothing_depends_is_0_and_that_is_said(run_dse, scaled, gpu):
    ran = run_dse("rank", *scaled, "--gpu", gpu, "--arg", "n=65536", "--json")
    assert ran.code == 0
    assert "assumed: factor: 0" in ran.err
    assert json.loads(ran.out)[0]["assumed"].startswith("factor: 0")


@pytest.mark.parametrize("command", ["rank", "characterise"])
def test_exchanged_block_and_grid(run_dse, scaled, command):
    source, *_ = scaled
    ran = run_dse(command, source, "-g", "a100", "--block", "2048,8", "--grid", "32,8", "--arg", "n=1")
    assert ran.code == 2
    assert "block: found 16384 threads, expected at most 1024; are block and grid exchanged?" in ran.err


def test_names_of_the_catalogue_win_over_what_lies_here(run_dse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gemm").mkdir()
    (tmp_path / "Mat-Tiled").write_text("")
    for name in ("gemm", "Mat-Tiled"):
        assert run_dse("rank", name, "-g", "a100", "--top", "1").code == 0
        ran = run_dse("rank", f"./{name}", "-g", "a100")
        assert ran.code == 2
        assert name in ran.err


def test_a_value_outside_the_space_is_pointed_out(run_dse, toy_kernel):
    ran = run_dse("rank", str(toy_kernel), "-g", "a100", "--set", "block=160")
    assert ran.code == 0
    assert "assumed: block may be 160, which is outside its space: 32, 48, 64" in ran.err
    assert "outside" not in run_dse("rank", str(toy_kernel), "-g", "a100", "--set", "block=128").err


def test_what_no_chip_can_do_is_not_called_determined(run_dse, toy_kernel, tmp_path):
    """Times of a tenth: the clock stops at what cards reach, and that is said."""
    rank = json.loads(run_dse("rank", str(toy_kernel), "-g", "a100", "--top", "0", "--json").out)
    times = tmp_path / "times.csv"
    ran = [f"{row['block']},{row['items']},{1e2 * row['time_s']}" for row in rank if row["time_s"]]
    times.write_text("\n".join(["block,items,time_ms", *ran]))
    ask = ("fit", str(toy_kernel), "-g", "a100", "--measured", str(times), "--starts", "1")
    lines = run_dse(*ask, "-m", "roofline", "--free", "clock").out.splitlines()
    [clock] = [line.split() for line in lines if line.strip().startswith("clock")]
    assert clock[-4:] == ["no", "at", "its", "bound"]
    assert float(clock[3]) == pytest.approx(1.3 * float(clock[2]), rel=1e-3)
    assert "0 of 1 fields determined" in lines[-1]
    assert "doubtful: clock (at its bound)" in lines[-1]
    assert "without bounds" in lines[-1]


def test_a_part_of_what_is_kept_is_called_a_part(run_dse, toy_kernel, tmp_path):
    out = tmp_path / "kept.csv"
    ran = run_dse("prune", str(toy_kernel), "-g", "a100", "--top", "1", "-o", str(out))
    kept = len(out.read_text().splitlines()) - 1
    assert kept > 1
    *_, conclusion = ran.out.splitlines()
    assert conclusion.startswith(f"kept {kept} of ")
    assert "of which 1 are shown (--top 0 shows all)" in conclusion
    assert f"wrote {out}" in conclusion


def test_a_quantity_has_one_name(run_dse, toy_kernel):
    ask = ("sweep", str(toy_kernel), "-g", "a100", "-m", "roofline", "--json")
    names = ("--pareto", "time,shared"), ("--pareto", "time_s,shared_bytes")
    short, full = (json.loads(run_dse(*ask, *name).out) for name in names)
    assert short == full
    wheres = ("time < 1e-3 and shared < 1", "time_s < 1e-3 and shared_bytes < 1")
    short, full = (json.loads(run_dse(*ask, "--top", "3", "--where", where).out) for where in wheres)
    assert short == full
    for name in ("time,registers", "time_s,registers"):
        options = ("--trials", "5", "--storage", "none", "--objective", name)
        assert run_dse("search", str(toy_kernel), "-g", "a100", *options).code == 0


@pytest.mark.parametrize("option", ["-q", "--quiet", "--verbose", "--version"])
def test_options_of_dse_itself_may_stand_anywhere(run_dse, toy_kernel, option):
    before = run_dse(option, "rank", str(toy_kernel), "-g", "a100", "--top", "1")
    after = run_dse("rank", str(toy_kernel), "-g", "a100", "--top", "1", option)
    assert (before.code, before.out) == (after.code, after.out)
    assert after.code == 0


def test_the_cache_is_shown_and_cleared(run_dse, tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "kept"))
    assert "kept 0 files" in run_dse("cache").out
    (tmp_path / "kept" / "numba" / "some").mkdir(parents=True)
    (tmp_path / "kept" / "numba" / "some" / "file").write_bytes(bytes(2048))
    ran = run_dse("cache", "--json")
    assert json.loads(ran.out) == [{"part": "numba", "files": 1, "size_bytes": 2048}]
    assert "kept 1 files, 2 KiB" in run_dse("cache").out
    assert "cleared 1 files" in run_dse("cache", "--clear").out
    assert not list((tmp_path / "kept").iterdir())


@pytest.mark.parametrize("command", [*COMMANDS, "accuracy tuning", "measure space"])
def test_help_is_a_screen_and_a_half_and_the_rest_is_named(run_dse, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    words = command.replace("_", "-").split()
    short = run_dse(*words, "--help")
    assert short.code == 0
    assert len(short.out.splitlines()) <= 64
    monkeypatch.setenv("COLUMNS", "200")  # where no name is cut
    short, whole = (
        run_dse(*command.replace("_", "-").split(), option) for option in ("--help", "--help-all")
    )
    names, named = (set(re.findall(r"--[a-z][a-z-]+", ran.out)) for ran in (whole, short))
    assert names <= named
