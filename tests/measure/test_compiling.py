"""Configurations are compiled in order, each settings once, and kept."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dse.measure.compiling import compile_all, compiled
from dse.source.contract import Failure, Settings
from dse.source.nvidia.compile.constants import Constants
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import read_source

TEXT = "__global__ void k(float* x) { x[threadIdx.x] = SIZE; }"
WANTED = [(("SIZE", 1),), (("SIZE", 2),)]
compilations: list[Settings] = []


@dataclass(frozen=True)
class Refuses:
    """A source that no compiler is needed for."""

    path: str = "k.py"
    text: str = ""
    digest: str = "a"
    compiler: str = "none"
    names: tuple[str, ...] = ()
    most_declared: float = math.inf

    def architectures(self) -> tuple[int, ...]:
        return (90,)

    def settings(self, defines: Settings, arguments: Sequence[Any]) -> Settings:
        return defines

    def constants(self, defines: Any, count: int) -> Constants:
        return Constants({}, None)

    def compile(self, arch: int, settings: Settings) -> Failure:
        compilations.append(settings)
        return Failure("compile error", f"{settings} {os.environ['TRITON_DISABLE_LINE_INFO']}")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_CACHE_DIR", "mine")
    monkeypatch.delenv("TRITON_DISABLE_LINE_INFO", raising=False)
    compilations.clear()


@pytest.mark.slow
def test_all_in_order_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "k.cu"
    path.write_text(TEXT)
    source = read_source(path)
    actual = list(compiled(source, 80, WANTED, 1))
    assert [isinstance(item, Compiled) for item in actual] == [True, True]
    monkeypatch.setattr(type(source), "compile", None)  # the second time nothing is compiled
    assert list(compiled(source, 80, WANTED[::-1], 1)) == actual[::-1]


def test_the_same_settings_are_compiled_once():
    messages: list[int] = []
    actual = compile_all(Refuses(), 90, [*WANTED, *WANTED[::-1], WANTED[0]], messages.append, 1)
    assert compilations == WANTED
    assert [item.message[:12] for item in actual if isinstance(item, Failure)] == [
        f"(('SIZE', {size})" for size in (1, 2, 2, 1, 1)
    ]
    assert messages == [3, 2]
    assert actual == compile_all(Refuses(), 90, [*WANTED, *WANTED[::-1], WANTED[0]], messages.append, 1)
    assert len(compilations) == 2
    # And Triton's own settings are as before.
    [actual] = compile_all(Refuses(), 90, WANTED[:1], workers=1)
    assert isinstance(actual, Failure)
    assert actual.message.endswith(" 1")
    assert os.environ["TRITON_CACHE_DIR"] == "mine"
    assert "TRITON_DISABLE_LINE_INFO" not in os.environ
