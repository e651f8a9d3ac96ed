"""Models scored on our own measurements, here made up from what a model says."""

import json

import numpy as np
import pytest
from own_measurements import limited, main, predicted, stored

from dse import kernels
from dse.errors import DseError
from dse.explore.fit.launches import of_kernel
from dse.hardware import gpus
from dse.measure import journal

SIZES = {"count": 67108864}
ABOUT = {"gpu": "", "sweep": False, "kernels": {}}  # what all such files state
CLOCK = 0.8  # of the catalogue's: what the made-up GPU runs at


@pytest.fixture
def tables(own_catalogue):
    """Where the tables lie in a catalogue of one GPU and one kernel: there are none yet."""
    folder = own_catalogue(["h100-sxm"], ["reduction"]) / "kernels" / "reduction" / "measured"
    folder.mkdir()
    return folder


@pytest.fixture
def measured(tables):
    """Make up times by Volkov's model: a space on a slower clock, of which it gives the size, and a sweep."""
    description = kernels.load("reduction")
    columns = description.space.configurations(SIZES)
    launches = of_kernel(description, gpus.load("h100-sxm").gpu, columns, SIZES)
    seconds = predicted(launches, "volkov") / CLOCK
    rows = [
        {**dict(zip(columns, map(int, values), strict=True)), **SIZES, "status": "ok", "time_ms": 1e3 * time}
        for *values, time in zip(*columns.values(), seconds, strict=True)
        if np.isfinite(time)
    ]
    rows.append({**rows[0], "status": "correctness", "time_ms": None})
    journal.write(tables / "h100_sxm.parquet", ABOUT, rows)
    steps = [{**rows[0], "resident_blocks": blocks} for blocks in (8, 6, 4, 2)]
    steps += [{**rows[1], "resident_blocks": blocks} for blocks in (2, 1)]  # two steps are no curve
    seconds = predicted(limited(next(stored()), steps), "volkov")
    steps = [{**row, "time_ms": 1e3 * time} for row, time in zip(steps, seconds.tolist(), strict=True)]
    journal.write(tables / "h100_sxm_occupancy.parquet", ABOUT, steps)
    return len(rows)


@pytest.mark.slow
def test_scores(measured, tmp_path, capsys):
    main(["--model", "volkov", "--json"])
    scores = json.loads(capsys.readouterr().out)
    [space] = scores["spaces"]
    [volkov] = space["rows"]
    assert (space["kernel"], volkov["model"]) == ("reduction", "volkov")
    assert (volkov["configurations"], volkov["failed"]) == (measured, 1)
    assert volkov["spearman"] == pytest.approx(1)
    assert volkov["mape_percent"] == pytest.approx(100 * (1 - CLOCK), rel=1e-4)
    assert volkov["fitted_mape_percent"] < 3
    [[swept]] = scores["curves"].values()
    assert (swept["configurations"], swept["steps"]) == (1, 4)
    assert swept["errors"]["volkov"]["mape_percent"] == pytest.approx(0, abs=1e-4)
    main(["--model", "volkov"])
    text = capsys.readouterr().out
    assert text.startswith("### reduction on NVIDIA H100")
    assert "### Over occupancy on NVIDIA H100" in text
    assert "| mean | 0.0 / 0.0 |" in text
    page = tmp_path / "page.md"
    page.write_text("<!-- own measurements: begin -->\n<!-- own measurements: end -->\n")
    main(["--model", "volkov", "--page", str(page)])
    assert capsys.readouterr().out == ""
    assert "| mean | 0.0 / 0.0 |" in page.read_text()


def test_tables_of_other_problem_sizes_are_the_same_gpu_s(tables):
    for name in ("h100_sxm-count1024", "h100_sxm_occupancy-count1024"):
        journal.write(tables / f"{name}.parquet", ABOUT, [{"block": 64}])
    assert [(x.path.stem, x.gpu.name) for x in stored()] == [("h100_sxm-count1024", "NVIDIA H100 80GB HBM3")]
    assert [item.path.stem for item in stored(swept=True)] == ["h100_sxm_occupancy-count1024"]


@pytest.mark.slow
def test_what_cannot_be_scored_is_left_out(measured, tables, capsys):
    (tables / "h100_sxm.parquet").unlink()
    about, rows = journal.read(tables / "h100_sxm_occupancy.parquet")
    journal.write(tables / "h100_sxm_occupancy.parquet", about, rows[-2:])
    with pytest.raises(DseError, match="found no table, expected those of `dse measure store`"):
        main([])
    [left_out] = capsys.readouterr().err.splitlines()
    assert "h100_sxm_occupancy.parquet: found no configuration with three steps of occupancy" in left_out
    assert left_out.endswith("that ran: left out")
