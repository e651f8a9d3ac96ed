"""Types of a kernel's arguments, by the names of tuners and CUDA."""

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
    **{
        f"{name}{parts}": (kind, parts)
        for name, kind in (("int", "int32"), ("uint", "uint32"), ("float", "float32"), ("double", "float64"))
        for parts in (2, 3, 4)
    },
}


def type_of(name: str) -> tuple[str, int] | None:
    """Return NumPy's name of a part of a value, and the number of parts; None for an unknown type."""
    return TYPES.get(name.lower().removesuffix("_t"))
