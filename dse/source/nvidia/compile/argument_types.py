"""Types of a kernel's arguments, by the names of tuners and CUDA."""

import re

import ml_dtypes
import numpy as np

HALVES = {
    **dict.fromkeys(("half", "__half", "_Float16"), np.dtype(np.float16)),
    **dict.fromkeys(
        ("nv_bfloat16", "__nv_bfloat16", "hip_bfloat16", "__hip_bfloat16"), np.dtype(ml_dtypes.bfloat16)
    ),
}

# NumPy's name of a part, and the number of parts of a value.
TYPES = {
    "bool": ("uint8", 1),
    "char": ("int8", 1),
    "short": ("int16", 1),
    "int": ("int32", 1),
    "long": ("int64", 1),
    "half": ("float16", 1),
    "float": ("float32", 1),
    "double": ("float64", 1),
    **{f"{sign}int{bits}": (f"{sign}int{bits}", 1) for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (f"float{bits}", 1) for bits in (16, 32, 64)},
    **{
        f"{sign}{name}": (f"{'u' * bool(sign)}int{bits}", 1)
        for sign in ("unsigned ", "u")
        for name, bits in (("char", 8), ("short", 16), ("int", 32), ("long", 64))
    },
    "long long": ("int64", 1),
    "unsigned long long": ("uint64", 1),
    "signed char": ("int8", 1),
    "unsigned": ("uint32", 1),
    "size": ("uint64", 1),
    "bfloat16": ("bfloat16", 1),
}
_SIGNED_OR_NOT = (f"{sign}{name}" for sign in ("", "u") for name in ("char", "short", "int", "long"))
_VECTORS = (*_SIGNED_OR_NOT, "half", "bfloat16", "float", "double")
TYPES |= {f"{name}{parts}": (TYPES[name][0], parts) for name in _VECTORS for parts in (2, 3, 4)}
_SPELLED = re.compile(r"_*(nv_|hip_)?")  # before the names of halves


def type_of(name: str) -> tuple[str, int] | None:
    """Return NumPy's name of a part of a value, and the number of parts; None for an unknown type."""
    return TYPES.get(_SPELLED.sub("", name.lower(), count=1).removesuffix("_t"))


def kind_of(name: str) -> tuple[np.dtype | str, int] | None:
    """Return NumPy's type of a part and the number of parts, of halves too; None for an unknown type."""
    return (HALVES[name], 1) if name in HALVES else type_of(name)
