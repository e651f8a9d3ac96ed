"""The look that all charts share."""

import struct

from dse.report.chart import COLOURS, DASHES, WIDTH
from dse.report.measured import curves
from dse.report.save import save_chart


def rows(series):
    return [
        {"chart": "gpu", "series": name, "x": x, "y": x / (x + 3 + k)}
        for k, name in enumerate(series)
        for x in range(1, 9)
    ]


def test_many_series_all_look_different():
    names = [f"m{i}" for i in range(60)]
    [panel] = curves(rows(names), {"gpu": ("warps", "throughput")}).to_dict()["vconcat"]
    scales = [panel["encoding"][channel]["scale"] for channel in ("color", "strokeDash")]
    assert [scale["domain"] for scale in scales] == [names, names]
    assert len(set(zip(scales[0]["range"], map(tuple, scales[1]["range"]), strict=True))) == 60
    assert len(set(COLOURS)) * len(DASHES) == 60


def test_a_picture(tmp_path):
    path = tmp_path / "a.png"
    save_chart(curves(rows("ab"), {"gpu": ("warps", "throughput")}), path)
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, _ = struct.unpack(">II", content[16:24])
    assert 2 * WIDTH < width < 2 * 1000
