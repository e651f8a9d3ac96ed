"""Serialised results for the cache: data of known types, validated when read, and never code."""

import hashlib
import warnings
import zlib
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np

from dse.errors import InputWarning

Kept = TypeVar("Kept")

_ARRAY = 1  # the extension type of a NumPy array: its type, its shape, its bytes
_DIGEST_BYTES = 8
_LARGEST_BYTES = 1 << 30  # of an unpacked record


def pack(value: Any, *, smaller: bool = False) -> bytes:
    """Serialise a dataclass of numbers, strings, arrays and such dataclasses; `smaller`: compressed."""
    content = _encoder().encode((type(value).__name__, value))
    content = b"z" + zlib.compress(content, 1) if smaller else b"-" + content
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest() + content


def unpack(data: Any, *kinds: type[Kept]) -> Kept | None:
    """Read one of `kinds`. Other, truncated and outdated records give None and a warning."""
    try:
        digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest() != digest:
            raise ValueError("its checksum is wrong")
        content = _inflated(content[1:]) if content[:1] == b"z" else content[1:]
        name, value = msgspec.msgpack.decode(content, type=tuple[str, msgspec.Raw])
        kind = {kind.__name__: kind for kind in kinds}[name]
        return _decoder(kind).decode(value)
    except (ValueError, TypeError, KeyError, zlib.error, msgspec.MsgspecError) as error:
        what = " ".join(str(error).split())[:200]
        warnings.warn(f"cache: a record cannot be read and is made again: {what}", InputWarning, stacklevel=2)
        return None


def _inflated(data: bytes) -> bytes:
    inflate = zlib.decompressobj()
    content = inflate.decompress(data, _LARGEST_BYTES)
    if not inflate.eof:
        raise ValueError("it is cut off, or too large")
    return content


@cache
def _encoder() -> msgspec.msgpack.Encoder:
    return msgspec.msgpack.Encoder(enc_hook=_extended)


@cache
def _decoder(kind: type) -> msgspec.msgpack.Decoder:
    return msgspec.msgpack.Decoder(kind, ext_hook=_array, dec_hook=_checked)


def _extended(value: Any) -> Any:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        parts = value.dtype.str, value.shape, value.tobytes()
        return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(parts))
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"found {type(value).__name__}, expected data")


def _array(code: int, data: memoryview) -> np.ndarray:
    if code != _ARRAY:
        raise ValueError(f"extension: found {code}, expected {_ARRAY}")
    kind, shape, content = msgspec.msgpack.decode(data, type=tuple[str, tuple[int, ...], bytes])
    dtype = np.dtype(kind)
    if dtype.hasobject:
        raise ValueError(f"array: found {kind}, expected numbers")
    return np.frombuffer(content, dtype).reshape(shape).copy()


def _checked(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"found {type(value).__name__}, expected {kind.__name__}")
    return value
