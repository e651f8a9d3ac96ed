"""`dse doctor` tells what is here, and what is missing for what."""

import json

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
        doctor, "_packages_of", lambda extra: ["no-such-package"] if extra == "triton" else []
    )
    rows = {row["part"]: row for row in json.loads(run_dse("doctor", "--no-devices", "--json").out)}
    assert rows["triton"]["state"] == "missing"
    assert rows["triton"]["what"] == "for Triton kernels: pip install 'gpu-dse[triton]' (no-such-package)"
    assert rows["cuda"]["state"] == "ok"
    assert "devices of JAX" not in rows


def test_extras_are_those_of_the_package():
    assert "pyelftools" in doctor._packages_of("cuda")
    assert doctor._packages_of("cluster") == ["dask", "distributed"]
