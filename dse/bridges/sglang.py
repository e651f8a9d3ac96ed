"""The same for SGLang 0.5.23, whose functions have the names of vLLM's (Apache-2.0)."""

from dse.bridges.tables import BestConfigurations
from dse.bridges.vllm import named, text

__all__ = ["file_name", "text"]


def file_name(table: BestConfigurations) -> str:
    """The name under which SGLang looks the file up."""
    return named(table, table.device or table.gpu, "[{}, {}]")
