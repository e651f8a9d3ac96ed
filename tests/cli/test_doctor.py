"""`dse doctor` tells what is here, and what is missing for what."""

import json

import numpy as np
import pytest
from packaging.requirements import Requirement

from dse.cli import doctor


def test_it_says_what_is_here(run_dse, tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path))
    (tmp_path / "some").write_bytes(bytes(3 * 2**20))
    ran = run_dse("doctor", "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = {row["part"]: row for row in json.loads(ran.out)}
    assert "cpu" in rows["devices of JAX"]["what"]
    assert "3.0 MiB" in rows["cache"]["what"]
    assert set(doctor.EXTRAS) <= set(rows)


def test_a_missing_extra_says_what_for_and_how_to_get_it(run_dse, monkeypatch):
    monkeypatch.setattr(
        doctor, "_wanted", lambda extra: [Requirement("no-such-package")] if extra == "triton" else []
    )
    rows = {row["part"]: row for row in json.loads(run_dse("doctor", "--no-devices", "--json").out)}
    assert rows["triton"]["state"] == "missing"
    assert rows["triton"]["what"] == "for Triton kernels: pip install 'gpu-dse[triton]' (no-such-package)"
    assert rows["cuda"]["state"] == "ok"
    assert "devices of JAX" not in rows


def test_an_extra_of_another_version_is_told(run_dse, monkeypatch):
    monkeypatch.setattr(doctor, "_wanted", lambda extra: [Requirement("numpy<1")] if extra == "gp" else [])
    rows = {row["part"]: row for row in json.loads(run_dse("doctor", "--no-devices", "--json").out)}
    assert rows["gp"]["state"] == "other"
    assert rows["gp"]["what"] == f"found numpy {np.__version__}, expected <1: pip install 'gpu-dse[gp]'"


def test_extras_are_those_of_the_package():
    assert "pyelftools" in [one.name for one in doctor._wanted("cuda")]
    assert [one.name for one in doctor._wanted("cluster")] == ["cryptography", "dask", "distributed"]
    assert all(doctor._wanted(extra) for extra in ("amd", "gp", "grpc"))


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
    assert rows["devices of JAX"]["what"] in ("JAX_PLATFORMS=cuda finds none", "no CUDA", "XLA_FLAGS: no")
