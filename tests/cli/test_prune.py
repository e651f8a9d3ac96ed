"""`dse prune`: what is kept of the toy kernel, shown and written."""

import json

import pytest

ALL = 23  # configurations of the toy kernel


@pytest.fixture
def prune(run_dse, toy_kernel):
    def run(*arguments):
        return run_dse("prune", str(toy_kernel), "-g", "a100-pcie-40gb", "-m", "transit", *arguments)

    return run


@pytest.fixture
def rank(run_dse, toy_kernel):
    """All configurations by the model, the fastest first, with their times."""

    def run():
        options = ("-g", "a100-pcie-40gb", "-m", "transit", "--top", "0", "--json")
        return json.loads(run_dse("rank", str(toy_kernel), *options).out)

    return run


def configurations(rows):
    return [(row["block"], row["items"]) for row in rows]


def test_by_the_model(prune, rank, tmp_path):
    ran = prune("--top", "0", "--json", "--risk", "0.2")
    assert ran.code == 0, ran.err
    rows, ranked = json.loads(ran.out), rank()
    assert len(ranked) == ALL
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))
    times = {(row["block"], row["items"]): row["time_s"] for row in ranked}
    kept = configurations(rows)
    last = max(times[each] for each in kept)
    assert set(kept) == {each for each, time in times.items() if time <= last}  # the first, with all equals
    assert 0 < len(kept) < ALL
    out = tmp_path / "kept.csv"
    ran = prune("--risk", "0.2", "-o", str(out), "--top", "1")
    assert f"{len(kept)} of {ALL} kept" in " ".join(ran.out.split())
    assert out.read_text().splitlines() == ["block,items", *(f"{block},{items}" for block, items in kept)]


def test_by_measurements(prune, rank, tmp_path):
    """One that failed is left out, the fastest is kept; what is not of the space does not count."""
    path = tmp_path / "few.csv"
    ranked = rank()
    some = [row for row in ranked if row["block"] <= 512][:14]
    failed, fastest = some[0], some[7]
    lines = ["4096,1,0.001"]
    for row in some:
        time = "" if row is failed else 1e3 * row["time_s"] * (0.5 if row is fastest else 1.0)
        lines.append(f"{row['block']},{row['items']},{time}")
    path.write_text("block,items,time_ms\n" + "\n".join(lines) + "\n")
    kept = configurations(json.loads(prune("--measured", str(path), "--top", "0", "--json").out))
    assert configurations([fastest])[0] in kept
    assert configurations([failed])[0] not in kept


def test_why_much_is_kept_and_a_prior(prune, tmp_path):
    """Measured backwards: the model does not explain it. Recorded elsewhere, a part is kept."""
    path, backwards = tmp_path / "few.csv", []
    rows = json.loads(prune("--top", "0", "--json", "--risk", "0.001").out)
    for place, row in enumerate(rows):
        backwards.append(f"{row['block']},{row['items']},{2.0**-place}")
    path.write_text("\n".join(["block,items,time_ms", *backwards]))
    ran = prune("--measured", str(path), "--json")
    assert (
        "model does not explain this space (0% of the variance of 19 measurements, rank correlation -"
        in ran.err
    )
    assert "model does not explain this space" in " ".join(prune("--measured", str(path)).out.split())
    ran = prune("--prior", str(path), "--top", "0", "--json")
    assert (ran.code, len(json.loads(ran.out)) > 0) == (0, True)
