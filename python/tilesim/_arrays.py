"""NumPy arrays and CPU torch tensors as the library's tensors, and back.

Memory is handed over as unsigned integers of the element's width (the carrier), a view of the
caller's memory, so that bf16 and fp8 never pass through another type."""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any, NamedTuple

import numpy as np

from . import _library

# Name in tilesim, name in NumPy, ml_dtypes, torch and TVM, bits of an element in memory.
_ROWS = [
    ("f16", "float16", 16),
    ("bf16", "bfloat16", 16),
    ("f32", "float32", 32),
    ("f64", "float64", 64),
    ("e4m3", "float8_e4m3fn", 8),
    ("e5m2", "float8_e5m2", 8),
    ("e8m0", "float8_e8m0fnu", 8),
    ("e2m3", "float6_e2m3fn", 6),
    ("e3m2", "float6_e3m2fn", 6),
    ("e2m1", "float4_e2m1fn", 4),
    ("s4", "int4", 4),
    ("u4", "uint4", 4),
    ("s8", "int8", 8),
    ("u8", "uint8", 8),
    ("s16", "int16", 16),
    ("u16", "uint16", 16),
    ("s32", "int32", 32),
    ("u32", "uint32", 32),
    ("s64", "int64", 64),
    ("u64", "uint64", 64),
    ("pred", "bool", 8),
]
_BITS = {name: bits for name, _, bits in _ROWS}
_LONG_NAME = {name: long_name for name, long_name, _ in _ROWS}
_SHORT_NAME = {long_name: name for name, long_name, _ in _ROWS}
_PACKED = {"float4_e2m1fn_x2"}  # torch types whose elements are bytes with several values


class Argument(NamedTuple):
    """A caller's array: its elements as the library sees them, and the object itself."""

    dtype: str
    shape: tuple[int, ...]
    carrier: np.ndarray
    owner: Any

    def strides(self) -> tuple[int, ...] | None:
        """In elements, or None when the array is compact."""
        if self.carrier.flags.c_contiguous:
            return None
        return tuple(stride // self.carrier.itemsize for stride in self.carrier.strides)

    def to_c(self) -> _library.CTensor:
        """For ts_sim_set_tensor; valid while the argument is alive."""
        rank = len(self.shape)
        strides = self.strides()
        span = self.carrier.size
        if strides is not None and span:
            span = 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, strides, strict=True))
        vector = ctypes.c_int64 * max(rank, 1)
        return _library.CTensor(
            dtype=self.dtype.encode(),
            rank=rank,
            shape=vector(*self.shape),
            strides=vector(*strides) if strides is not None else None,
            data=self.carrier.ctypes.data,
            size_bytes=span * self.carrier.itemsize,
        )


def torch_module() -> Any:
    """torch, when somebody has imported it."""
    return sys.modules.get("torch")


def is_torch(value: object) -> bool:
    """Whether value is a torch tensor."""
    torch = torch_module()
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: object) -> bool:
    """Whether value is something that wrap() takes."""
    return isinstance(value, np.ndarray) or is_torch(value)


def wrap(name: str, value: Any, wanted: str) -> Argument:
    """The array as an argument for parameter `name`, whose dtype is `wanted`.

    Unsigned integers stand for a type of their width that NumPy lacks, and bytes for packed
    elements of less than a byte. Any other difference is left to the host function to judge."""
    long_name, carrier = _torch_carrier(name, value) if is_torch(value) else _numpy_carrier(name, value)
    dtype = _SHORT_NAME.get(long_name, long_name)
    if _BITS.get(wanted, 8) < 8:
        return _wrap_packed(name, value, long_name, carrier, wanted)
    if dtype != wanted and long_name == f"uint{_BITS.get(wanted)}" and not _is_native(wanted):
        dtype = wanted
    strides = zip(carrier.shape, carrier.strides, strict=True)
    if any(extent > 1 and (stride < 0 or stride % carrier.itemsize) for extent, stride in strides):
        raise ValueError(f"{name}: strides must be whole elements and not negative; pass a contiguous copy")
    return Argument(dtype, carrier.shape, carrier, value)


def _wrap_packed(name: str, value: Any, long_name: str, carrier: np.ndarray, wanted: str) -> Argument:
    """Bytes with several elements each: the last dimension counts bytes."""
    long_name = "uint8" if long_name in _PACKED else long_name
    if long_name not in ("uint8", "int8") or not carrier.ndim or not carrier.flags.c_contiguous:
        raise TypeError(f"{name}: pass {wanted} as contiguous uint8, elements packed low bits first")
    *outer, last = carrier.shape
    return Argument(wanted, (*outer, last * 8 // _BITS[wanted]), carrier, value)


def _numpy_carrier(name: str, value: np.ndarray) -> tuple[str, np.ndarray]:
    dtype = value.dtype
    if not dtype.isnative:
        raise TypeError(f"{name}: the byte order of {dtype.str} is not the machine's")
    if dtype.itemsize not in (1, 2, 4, 8) or dtype.hasobject or dtype.fields:
        raise TypeError(f"{name}: arrays of {dtype} are not understood")
    long_name = f"uint{8 * dtype.itemsize}" if dtype.kind == "V" and dtype.name.startswith("void") else dtype.name
    return long_name, value.view(f"u{dtype.itemsize}")


def _torch_carrier(name: str, value: Any) -> tuple[str, np.ndarray]:
    torch = torch_module()
    if value.device.type != "cpu":
        raise TypeError(f"{name}: the tensor is on {value.device}; pass .cpu()")
    if value.layout != torch.strided or value.dtype.is_complex:
        raise TypeError(f"{name}: {value.layout} tensors of {value.dtype} are not understood")
    size = value.element_size()
    integers = value.detach().view(getattr(torch, f"int{8 * size}")).numpy()
    return str(value.dtype).removeprefix("torch."), integers.view(f"u{size}")


def _is_native(dtype: str) -> bool:
    """Whether NumPy itself has the type."""
    return hasattr(np, _LONG_NAME[dtype]) or dtype == "pred"


def numpy_dtype(dtype: str) -> np.dtype:
    """NumPy's type, ml_dtypes' when that is installed, else the unsigned integer of that width."""
    if _BITS[dtype] < 8:
        return np.dtype(np.uint8)
    if _is_native(dtype):
        return np.dtype(_LONG_NAME[dtype])
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), _LONG_NAME[dtype]))
    except (ImportError, AttributeError):
        return np.dtype(f"u{_BITS[dtype] // 8}")


def view(tensor: _library.CTensor) -> tuple[str, np.ndarray]:
    """dtype and carrier of a tensor of the library, without a copy. Packed elements come as bytes."""
    dtype = tensor.dtype.decode()
    shape = tuple(tensor.shape[: tensor.rank])
    bits = _BITS[dtype]
    memory = (ctypes.c_uint8 * tensor.size_bytes).from_address(tensor.data) if tensor.size_bytes else b""
    carrier = np.frombuffer(memory, f"u{max(bits // 8, 1)}")
    if bits < 8:
        return dtype, carrier.reshape(*shape[:-1], -1) if carrier.size else carrier
    if not tensor.strides or not carrier.size:
        return dtype, carrier.reshape(shape)
    strides = [stride * carrier.itemsize for stride in tensor.strides[: tensor.rank]]
    return dtype, np.lib.stride_tricks.as_strided(carrier, shape, strides)


def to_numpy(dtype: str, carrier: np.ndarray) -> np.ndarray:
    """A compact copy, typed."""
    return carrier.copy(order="C").view(numpy_dtype(dtype))


def to_torch(dtype: str, carrier: np.ndarray) -> Any:
    """A compact copy as a torch tensor, of bytes when the elements are packed."""
    torch = torch_module()
    copy = carrier.copy(order="C")
    if _BITS[dtype] < 8:
        return torch.from_numpy(copy)
    return torch.from_numpy(copy.view(f"i{copy.itemsize}")).view(getattr(torch, _LONG_NAME[dtype]))
