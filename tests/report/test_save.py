"""Charts as files: the suffix chooses, nothing is left half-written, a page asks the network for nothing."""

import re
import resource
import sys
from html.parser import HTMLParser

import altair as alt
import pytest

from dse.errors import DseError
from dse.report.save import save_chart, suffix_of

NASTY = "</script><script>alert(1)</script>"
CHART = alt.Chart(alt.Data(values=[{"x": 1, "name": NASTY}])).mark_point().encode(x="x:Q", color="name:N")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere addresses are not limited")
def test_a_limit_of_addresses_that_would_end_the_process(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (20 * 10**9, before[1]))
    try:
        with pytest.raises(DseError, match=r"memory: found a limit of 20 GB \(ulimit -v\), expected 80 GB"):
            save_chart(CHART, tmp_path / "a.svg")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.slow
def test_a_page_is_whole_in_itself(tmp_path):
    path = tmp_path / "a<b>.html"
    save_chart(CHART, path)
    text = path.read_text()
    reader = Reader()
    reader.feed(text)
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("script") == 2  # the libraries, and the call: a name in the chart has not begun a third
    assert not {"link", "iframe", "img", "b"} & set(tags)
    assert not any({"src", "href"} & set(attributes) for _, attributes in reader.tags)
    assert not re.search(r"cdn|jsdelivr|unpkg", text, re.IGNORECASE)
    libraries, call = reader.scripts
    assert "window.vegaEmbed=" in libraries
    assert re.fullmatch(r'vegaEmbed\("#chart", \{.*\}, \{.*\}\);', call, re.DOTALL)
    assert NASTY.replace("<", "\\u003c") in call
    assert len(text) < 1.5e6


class Reader(HTMLParser):
    """The tags of a page with their attributes, and the text of its scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.get_starttag_text() == "<script>":
            self.scripts += [data] if data.strip() else []


@pytest.mark.parametrize(("name", "found"), [("a.pdf", "'.pdf'"), ("a", "none"), (".svg", "none")])
def test_another_suffix(tmp_path, name, found):
    with pytest.raises(DseError) as error:
        save_chart(CHART, tmp_path / name)
    assert str(error.value) == f"{tmp_path / name}: suffix: found {found}, expected .svg, .png or .html"
    assert list(tmp_path.iterdir()) == []
    assert suffix_of("x.JSON", (".json", ".svg")) == ".json"


def test_the_suffix_chooses_the_picture(tmp_path):
    save_chart(CHART, tmp_path / "a.SVG")
    save_chart(CHART, str(tmp_path / "a.png"))
    assert (tmp_path / "a.SVG").read_text(encoding="utf-8").startswith("<svg")
    content = (tmp_path / "a.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
