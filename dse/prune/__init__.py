"""The configurations worth measuring, with a stated risk of leaving out the fastest ones."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dse.prune.triton_configs import triton

__all__ = ["triton"]


def __getattr__(name: str) -> Any:
    if name == "triton":
        from dse.prune.triton_configs import triton  # imports jax: seconds

        return triton
    raise AttributeError(f"module 'dse.prune' has no attribute {name!r}")
