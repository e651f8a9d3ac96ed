"""A table as the file that SGLang 0.5.23 loads; its functions have the names of vLLM's (Apache-2.0)."""

from dse.bridges.tables import BestConfigurations
from dse.bridges.vllm import compared, named, text

__all__ = ["file_name", "shipped", "text"]


def file_name(table: BestConfigurations) -> str:
    """The name under which SGLang looks the file up."""
    return named(table, table.named_device, "[{}, {}]")


def shipped(table: BestConfigurations) -> str:
    """Compare with the file of this name that an installed SGLang ships; "" if there is none."""
    return compared("sglang", file_name(table), text(table))
