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
    found = list(compiled(source, 80, WANTED, 1))
    assert [isinstance(each, Compiled) for each in found] == [True, True]
    monkeypatch.setattr(type(source), "compile", None)  # the second time nothing is compiled
    assert list(compiled(source, 80, WANTED[::-1], 1)) == found[::-1]


def test_the_same_settings_are_compiled_once():
    told: list[int] = []
    found = compile_all(Refuses(), 90, [*WANTED, *WANTED[::-1], WANTED[0]], told.append, 1)
    assert compilations == WANTED
    assert [each.message[:12] for each in found if isinstance(each, Failure)] == [
        f"(('SIZE', {size})" for size in (1, 2, 2, 1, 1)
    ]
    assert told == [3, 2]
    assert found == compile_all(Refuses(), 90, [*WANTED, *WANTED[::-1], WANTED[0]], told.append, 1)
    assert len(compilations) == 2


def test_without_lines_of_the_source():
    """And Triton's own settings are as before."""
    [found] = compile_all(Refuses(), 90, WANTED[:1], workers=1)
    assert isinstance(found, Failure)
    assert found.message.endswith(" 1")
    assert os.environ["TRITON_CACHE_DIR"] == "mine"
    assert "TRITON_DISABLE_LINE_INFO" not in os.environ
