"""Tables that fit the terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.report.show import show
from dse.report.table import FIRST, TableColumn, fit


@pytest.fixture
def on_terminal(terminal):
    """Print rows on a terminal so many characters wide; return the lines."""
    return lambda rows, width, **options: terminal(lambda: show(rows, **options), width)


ROWS = [
    {"rank": 1 + i, "block_size_x": 32 << i, "use_padding": 0, "registers": 32, "shared_bytes": 4096 * i}
    | {"occupancy": 0.5 + i / 8, "limited_by": "registers", "time_s": 3e-4 + 1e-6 * i, "bottleneck": "fp32"}
    for i in range(3)
]


def test_values_equal_in_all_rows_go_above(on_terminal):
    lines = on_terminal(ROWS, 80, title="Best")
    assert lines == [
        "Best",
        "The same in these rows: use_padding 0, registers 32, limited_by registers",
        "",
        " rank   block_size_x   shared [KiB]   occupancy   time [µs]   bottleneck",
        " " + "─" * 71,
        "    1             32              0      0.5000         300   fp32",
        "    2             64              4      0.6250         301   fp32",
        "    3            128              8      0.7500         302   fp32",
        "",
    ]


def test_what_has_no_room_is_named_and_a_wide_table_has_all_columns(on_terminal):
    lines = on_terminal(ROWS, 36)
    assert "Not shown: shared_bytes, occupancy. A wider terminal, --wide" in " ".join(lines)
    assert any(line.split() == ["1", "32", "300", "fp32"] for line in lines)
    lines = on_terminal(ROWS, 36, wide=True)
    assert "limited_by" in lines[1]
    assert all("fp32" in line for line in lines[3:6])


def test_words_are_not_broken(on_terminal):
    fields = ["limits.shared_bytes_per_block", "clock"]
    rows = [{"field": field, "rule": "one two three " * len(field), "detail": field * 60} for field in fields]
    lines = on_terminal(rows, 60)
    assert any(line.split()[:2] == ["limits.shared_bytes_per_block", "one"] for line in lines)


names = st.text("ab_ ", min_size=1, max_size=14).map(lambda text: f"x{text.strip()}")
cells = st.lists(st.text("abc 12", max_size=30), min_size=2, max_size=2).map(tuple)


@given(st.lists(st.tuples(names, cells, st.booleans()), min_size=1, max_size=12), st.integers(60, 200))
def test_it_is_never_wider_than_the_terminal(given, width):
    columns = [
        TableColumn(f"{name}{i}", name, texts, numeric, max(map(len, (name, *texts))))
        for i, (name, texts, numeric) in enumerate(given)
    ]
    shown, same, left_out = fit(columns, width)
    actual = {item.name for part in (shown, same, left_out) for item in part}
    assert actual == {column.name for column in columns}
    assert len(shown) + len(same) + len(left_out) == len(columns)
    if shown:
        assert sum(item.width + 3 for item in shown) <= width
    assert all(item.width >= item.least or not (same or left_out) for item in shown)


def test_the_first_columns_stay_longest():
    names = ["detail", *FIRST[:3]]
    columns = [TableColumn(name, name, ("12345678", "1"), True, 8) for name in names]
    shown, _, left_out = fit(columns, 36)
    assert [item.name for item in shown] == list(FIRST[:3])
    assert [item.name for item in left_out] == ["detail"]
