"""`dse doctor` shows what is installed and what is missing."""

import json

import numpy as np
import pytest

from dse.cli.doctor import EXTRAS, extras, required


def test_it_says_what_is_here(answer, tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path))
    (tmp_path / "some").write_bytes(bytes(3 * 2**20))
    rows = {row["part"]: row for row in answer("doctor")}
    assert "cpu" in rows["devices of JAX"]["what"]
    assert "3.0 MiB" in rows["cache"]["what"]
    assert rows["cuda"]["state"] == "ok"
    assert set(EXTRAS) <= set(rows)


def test_extras_that_are_missing_or_of_another_version():
    wanted = ["no-such-thing; extra == 'triton'", "numpy<1; extra == 'gp'", "numpy; extra == 'amd'", "scipy"]
    rows = {row["part"]: (row["state"], row["what"]) for row in extras(wanted)}
    get = "pip install 'gpu-dse[triton]' (no-such-thing)"
    assert rows["triton"] == ("missing", f"for Triton kernels: {get}")
    assert rows["gp"] == ("other", f"found numpy {np.__version__}, expected <1: pip install 'gpu-dse[gp]'")
    assert rows["amd"][0] == "ok"
    assert all(required(extra) for extra in EXTRAS)


@pytest.mark.parametrize("broken", [AssertionError(), OSError("no CUDA\nat all")])
def test_without_a_device_it_still_says_the_rest(run_dse, monkeypatch, broken):
    def devices():
        raise broken

    monkeypatch.setattr("jax.devices", devices)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    ran = run_dse("doctor", "--json")
    assert ran.code == 0
    rows = {row["part"]: row for row in json.loads(ran.out)}
    assert rows["devices of JAX"]["state"] == "broken"
    assert rows["devices of JAX"]["what"] in ("JAX_PLATFORMS=cuda finds none", "no CUDA")
