"""The benchmark of matrix kernels counts the points that it asks for, and asks for other cases each time."""

import json

SCRIPT = "bench/matrix"


def test_points_are_gpus_times_cases_times_configurations(script, capsys):
    script.main(["--quick", "--calls", "1", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [row["cases"] for row in found["rates"]] == ["dense", "experts"]
    for row in found["rates"]:
        assert row["points"] == 2 * 2 * 1280  # GPUs, cases, configurations
        assert row["slowest"] <= row["points_per_second"] <= row["fastest"]


def test_no_case_is_asked_for_twice(script):
    for cases in script.CASES.values():
        asked = [case for call in range(8) for case in cases(call, script.FULL)]
        assert len(set(asked)) == len(asked)
