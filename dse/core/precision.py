"""The single place that selects JAX's precision.

- Expressions of kernels and spaces, fits, surrogates, slopes and references use 64 bits, `in_64_bits`.
- Models use the precision of the GPU's fields, float32 by default (`dse.hardware.gpus.load`), in which closed
  forms are within 1e-5 of float64 (checked by the contract test of all models).
- The simulator counts ticks in 32-bit integers if these are exact, else in float64.

Importing `dse` changes no global setting: precision is set by contexts.
"""

from contextlib import AbstractContextManager

import jax


def in_64_bits() -> AbstractContextManager[None]:
    """Context in which JAX uses 64-bit numbers."""
    return jax.enable_x64(True)
