"""Nothing silent, nothing impossible: mistakes that once gave a plausible answer, by the command line."""

import json
import re

import pytest

SOURCE = """
__constant__ float edges[4];
__constant__ int steps;
__device__ int count;
__device__ int seven = 7;
extern "C" __global__ void scaled(const int* from, const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#if TRIPS
    float sum = 0;
    for (int k = 0; k < n; k++) sum += x[i + k * 32];
    y[i] = sum;
#elif GATHERED
    y[i] = factor * x[from[i]];
#elif LOCKED
    if (atomicCAS((int*)from, 0, 1) == 0) y[i] = factor;
#elif FAR
    y[i + n] = factor * x[i];
#elif defined(STEPS)
    for (int k = 0; k < STEPS; k++) y[i + k * 32] = factor;
#elif EDGES
    if (edges[threadIdx.x % 4] > 0.5f) y[i] = factor;
#elif SELECTED
    if (x[i] > factor) y[i] = factor;
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


N = r"n: found no value.* expected n=VALUE \(--arg\)"
FROM = "from: found no contents"
EDGES = r"variable edges: found no value, which decides whether work is done: counted with 2 \* random - 1, "
SAYS = {  # of a command, GPU, macro and arguments: the exit code, and what is asked for or assumed
    "rank a100 TRIPS factor=2.0": (2, N),
    "characterise mi250x FAR factor=2.0": (2, N),
    "rank a100 OTHERS factor=2.0": (2, N),
    "rank a100 OTHERS n=65536": (0, "assumed: factor: 0"),  # on which nothing depends
    "rank mi250x OTHERS n=65536": (0, "assumed: factor: 0"),
    "rank a100 LOCKED factor=2 n=65536": (2, FROM),
    "rank a100 LOCKED factor=2 n=65536 from=1:int:0": (0, ""),
    "rank mi250x LOCKED factor=2 n=65536": (2, FROM),
    "rank mi250x LOCKED factor=2 n=65536 from=1:int:0": (0, ""),
    "rank a100 GATHERED factor=2 n=65536": (2, FROM),
    "characterise a100 GATHERED factor=2 n=65536 --explain": (2, FROM),
    "rank a100 GATHERED factor=2 n=65536 from=65536:int:index": (0, ""),
    # Variables that only the program sets
    "rank a100 STEPS=steps factor=0.5 n=65536": (2, "variable steps: found no value, which ends or skips"),
    "rank a100 STEPS=count factor=0.5 n=65536": (2, "variable count: found no value, which ends or skips"),
    "rank a100 EDGES factor=0.5 n=65536": (0, f"{EDGES}expected an initial one in the source"),
    "rank mi250x STEPS=steps factor=0.5 n=65536": (2, "variable steps: found no value, which ends or skips"),
    "rank mi250x STEPS=count factor=0.5 n=65536": (2, "variable count: found no value, which ends or skips"),
    "rank mi250x EDGES factor=0.5 n=65536": (0, f"{EDGES}expected an initial one in the source"),
}


@pytest.mark.quick("FAR", "OTHERS n", "mi250x LOCKED")
@pytest.mark.parametrize("words", SAYS)
def test_what_counts_depend_on_is_asked_for_or_assumed_and_that_is_said(run_dse, scaled, words):
    command, gpu, macro, *more = words.split()
    options = [word for item in more for word in ([item] if item[:2] == "--" else ["--arg", item])]
    ran = run_dse(command, *scaled, "--gpu", gpu, "-D", macro if "=" in macro else f"{macro}=1", *options)
    code, message = SAYS[words]
    assert ran.code == code
    assert not ran.out or not code
    assert re.search(message, ran.err)


@pytest.mark.slow
def test_what_ranks_a_file_tunes_prunes_and_compares_it(answer, run_dse, scaled, tmp_path):
    launch = (scaled[0], "--block", "B", "--grid", "65536/B", "--tune", "B=64,128", "--arg", "n=65536")
    stated = (*launch, "--gpu", "a100", "--arg", "factor=2", "--shared", "4*B")
    (tmp_path / "times.csv").write_text("B,time_ms\n64,2\n128,1\n")
    ranked = {row["B"] for row in answer("rank", *stated)}
    tuned = answer("tune", *stated, "--replay", tmp_path / "times.csv")
    assert {row["B"] for row in tuned} == ranked == {64, 128}
    assert answer("compare", *stated, "--measured", tmp_path / "times.csv")[0]["configurations"] == 2
    assert run_dse("prune", *stated).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["h100-sxm", "mi300x"])
def test_contents_are_asked_for_by_the_type_that_is_declared(run_dse, tmp_path, gpu):
    source = tmp_path / "lookup.py"
    source.write_text("""
import triton
import triton.language as tl

@triton.jit
def lookup(x, rows, y):
    tl.store(y + tl.program_id(0), tl.load(x + tl.load(rows + tl.program_id(0))))
""")
    stated = ("--signature", "*fp32,*i64,*fp32", "--grid", "64", "--gpu", gpu)
    ran = run_dse("characterise", f"{source}:lookup", *stated)
    assert (ran.code, "expected rows=SIZE:int64:VALUES" in ran.err, "(--arg)" in ran.err) == (2, True, True)


def test_fractions_on_which_work_depends_are_random_and_that_is_said(run_dse, scaled):
    stated = ("--gpu", "mi250x", "--arg", "factor=0.5", "--arg", "n=65536")
    silent = run_dse("rank", *scaled, *stated)
    assumed = run_dse("rank", *scaled, *stated, "-D", "SELECTED=1")
    known = run_dse("rank", *scaled, *stated, "-D", "SELECTED=1", "--arg", "x=65536:float:random")
    assert (silent.code, silent.err, known.code, known.err, assumed.code) == (0, "", 0, "", 0)
    does = "decides whether work is done: counted with 2 * random - 1, expected x=SIZE:float:VALUES"
    assert f"x: found no contents of the array, which {does}" in assumed.err
    ask = ("characterise", *scaled, *stated, "-D", "SELECTED=1", "--json")
    counts, explained = (json.loads(run_dse(*ask, *more).out) for more in ((), ("--explain",)))
    assert [row["source"] for row in counts if row["name"] == "store_insts"] == [1]
    assert [row["requests"] for row in explained["accesses"] if row["op"] == "store"] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["a100", "mi250x"])
def test_variables_have_their_initial_value(answer, scaled, gpu):
    stated = ("--gpu", gpu, "--arg", "factor=0.5", "--arg", "n=65536", "-D", "STEPS=seven")
    counts = answer("characterise", *scaled, *stated)
    assert [row["source"] for row in counts if row["name"] == "store_insts"] == [7]


@pytest.mark.slow
def test_what_no_chip_can_do_is_not_called_determined(run_dse, answer, toy_kernel, tmp_path):
    """Times of a tenth: the clock stops at what cards reach, and that is said."""
    times = tmp_path / "times.csv"
    ranked = answer("rank", toy_kernel, "-g", "a100", "--top", "0")
    rows = [f"{row['block']},{row['items']},{1e2 * row['time_s']}" for row in ranked if row["time_s"]]
    times.write_text("\n".join(["block,items,time_ms", *rows]))
    ask = ("fit", toy_kernel, "-g", "a100", "--measured", times, "--starts", "1")
    out = tmp_path / "fitted.toml"
    lines = run_dse(*ask, "-m", "roofline", "--free", "clock", "-o", out).out.splitlines()
    [clock] = [line.split() for line in lines if line.strip().startswith("clock")]
    assert clock[-4:] == ["no", "at", "its", "bound"]
    assert float(clock[3]) == pytest.approx(1.3 * float(clock[2]), rel=1e-3)
    for text in ("0 of 1 fields determined", "doubtful: clock (at its bound)", "without bounds"):
        assert text in lines[-1]
    assert "# As fitted, but doubtful: clock (at its bound)." in out.read_text()


@pytest.mark.slow
def test_a_part_of_what_is_kept_is_called_a_part(run_dse, toy_kernel, tmp_path):
    out = tmp_path / "kept.csv"
    ran = run_dse("prune", toy_kernel, "-g", "a100", "--top", "1", "-o", out)
    kept = len(out.read_text().splitlines()) - 1
    assert kept > 1
    conclusion = ran.out.splitlines()[-1]
    assert conclusion.startswith(f"kept {kept} of ")
    assert "of which 1 are shown (--top 0 shows all)" in conclusion
    assert f"wrote {out}" in conclusion
