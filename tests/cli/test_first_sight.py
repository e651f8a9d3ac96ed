"""Nothing silent, nothing impossible: mistakes that once gave a plausible answer, by the command line."""

import json

import pytest

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


def test_contradictory_settings_are_named_with_the_constraint(run_dse, toy_kernel):
    ran = run_dse("rank", str(toy_kernel), "-g", "a100", "--set", "block=1024", "--set", "items=3")
    assert ran.code == 2
    assert "none fulfils 'block * items <= 2048' at block=1024, items=3" in ran.err
    ran = run_dse("rank", str(toy_kernel), "-g", "a100", "--set", "block=48", "--set", "items=2")
    assert "'block % 32 == 0 or items == 1' at block=48, items=2" in ran.err


@pytest.mark.parametrize("gpu", ["a100", "mi250x"])
@pytest.mark.parametrize("command", [("characterise",), ("characterise", "--explain"), ("rank", "--source")])
def test_a_kernel_known_by_its_description_only(run_dse, gpu, command):
    name, *options = command
    ran = run_dse(name, "blackscholes", "-g", gpu, *options)
    assert ran.code == 2
    assert "blackscholes: source: found a kernel that is known by its description only" in ran.err
    assert "site-packages" not in ran.err


def test_a_triton_kernel_on_an_amd_gpu(run_dse):
    ran = run_dse("rank", "triton_softmax", "-g", "mi300x")
    assert ran.code == 2
    assert "found a Triton kernel (softmax.py) with an AMD GPU, expected an NVIDIA GPU" in ran.err
