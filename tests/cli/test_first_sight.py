"""Nothing silent, nothing impossible: mistakes that once gave a plausible answer, by the command line."""

import json

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


@pytest.mark.quick("FAR")
@pytest.mark.parametrize(
    ("command", "macro", "gpu"),
    [("rank", "TRIPS", "a100"), ("characterise", "FAR", "mi250x"), ("rank", "OTHERS", "a100")],
)
def test_a_number_on_which_counts_depend_is_asked_for(run_dse, scaled, gpu, command, macro):
    ran = run_dse(command, *scaled, "--gpu", gpu, "-D", f"{macro}=1", "--arg", "factor=2.0")
    assert (ran.code, ran.out) == (2, "")
    assert "n: found no value" in ran.err
    assert "expected n=VALUE (--arg)" in ran.err


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
@pytest.mark.quick("mi250x")
@pytest.mark.parametrize("gpu", ["a100", "mi250x"])
def test_contents_of_locks_are_asked_for(run_dse, scaled, gpu):
    stated = ("--gpu", gpu, "--arg", "factor=2", "--arg", "n=65536", "-D", "LOCKED=1")
    ran = run_dse("rank", *scaled, *stated)
    assert (ran.code, "from: found no contents" in ran.err) == (2, True)
    assert run_dse("rank", *scaled, *stated, "--arg", "from=1:int:0").code == 0


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


@pytest.mark.slow
def test_contents_on_which_addresses_depend_are_asked_for(run_dse, scaled):
    stated = ("--arg", "factor=2", "--arg", "n=65536", "-D", "GATHERED=1")
    for command in (("rank",), ("characterise", "--explain")):
        ran = run_dse(*command, *scaled, "--gpu", "a100", *stated)
        assert (ran.code, "from: found no contents" in ran.err) == (2, True)
    assert run_dse("rank", *scaled, "--gpu", "a100", *stated, "--arg", "from=65536:int:index").code == 0


@pytest.mark.parametrize("gpu", ["a100", "mi250x"])
def test_a_number_on_which_nothing_depends_is_0_and_that_is_said(run_dse, scaled, gpu):
    ran = run_dse("rank", *scaled, "--gpu", gpu, "--arg", "n=65536")
    assert (ran.code, "assumed: factor: 0" in ran.err) == (0, True)


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
def test_variables_that_only_the_program_sets(run_dse, scaled, gpu):
    stated = ("--gpu", gpu, "--arg", "factor=0.5", "--arg", "n=65536")
    for name in ("steps", "count"):
        ran = run_dse("rank", *scaled, *stated, "-D", f"STEPS={name}")
        assert (ran.code, f"variable {name}: found no value, which ends or skips" in ran.err) == (2, True)
    counts = json.loads(run_dse("characterise", *scaled, *stated, "-D", "STEPS=seven", "--json").out)
    assert [row["source"] for row in counts if row["name"] == "store_insts"] == [7]
    ran = run_dse("rank", *scaled, *stated, "-D", "EDGES=1")
    does = "decides whether work is done: counted with 2 * random - 1, expected an initial one in the source"
    assert (ran.code, f"variable edges: found no value, which {does}" in ran.err) == (0, True)


def test_exchanged_block_and_grid(run_dse, scaled):
    ran = run_dse("rank", scaled[0], "-g", "a100", "--block", "2048,8", "--grid", "32,8", "--arg", "n=1")
    assert ran.code == 2
    assert "block: found 16384 threads, expected at most 1024; are block and grid exchanged?" in ran.err
    much = ("--block", "32", "--grid", "8", "--arg", "n=1", "--shared", "300000")
    ran = run_dse("characterise", scaled[0], "-g", "a100", *much)
    assert (ran.code, "shared: found 300000 B a block, expected at most 166912" in ran.err) == (2, True)


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
