"""In which precision JAX computes: the one place that decides it.

- Expressions of kernels and spaces, fits, surrogates, slopes and references compute in 64 bits, `in_64_bits`.
- Models compute in the precision of the GPU's fields, float32 by default (`dse.hardware.gpus.load`): closed
forms lie
  within 1e-5 of float64 there, which the contract test of all models checks.
- The simulator counts ticks in 32-bit integers where these are exact, else in float64.

Importing `dse` changes no global setting: each of these is a context.
"""

from contextlib import AbstractContextManager

import jax


def in_64_bits(wanted: bool = True) -> AbstractContextManager[None]:
    """A context in which JAX keeps 64-bit numbers; with `wanted` false, one in which it has 32 bits."""
    return jax.enable_x64(wanted)
