"""Arrays on their way to the library and back."""

import numpy as np
import pytest

from tilesim import _arrays


def test_native_array_is_shared():
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    argument = _arrays.wrap("A", array, "f16")
    assert argument.dtype == "f16" and argument.shape == (2, 3) and argument.strides() is None
    assert np.shares_memory(argument.carrier, array)
    assert argument.to_c().size_bytes == 12


def test_strides_are_elements_and_reach_counts_bytes():
    argument = _arrays.wrap("A", np.zeros((4, 6), np.float32)[1:, ::2], "f32")
    record = argument.to_c()
    assert argument.strides() == (6, 2)
    assert record.shape[:2] == [3, 3] and record.strides[:2] == [6, 2]
    assert record.size_bytes == 4 * (1 + 2 * 6 + 2 * 2)


@pytest.mark.parametrize(
    ("given", "wanted", "dtype"),
    [
        ("uint16", "bf16", "bf16"),  # carriers of what NumPy lacks
        ("uint8", "e4m3", "e4m3"),
        ("uint8", "e5m2", "e5m2"),
        ("V2", "bf16", "bf16"),
        ("uint16", "f16", "u16"),  # NumPy has float16: the host function will object
        ("int16", "bf16", "s16"),
        ("float16", "bf16", "f16"),
        ("bool", "pred", "pred"),
        ("uint32", "s32", "u32"),
    ],
)
def test_dtypes(given, wanted, dtype):
    assert _arrays.wrap("A", np.zeros(4, given), wanted).dtype == dtype


def test_packed_elements():
    array = np.zeros((2, 8), np.uint8)
    argument = _arrays.wrap("A", array, "e2m1")
    assert argument.dtype == "e2m1" and argument.shape == (2, 16)
    assert argument.to_c().size_bytes == 16
    with pytest.raises(TypeError, match="packed low bits first"):
        _arrays.wrap("A", array.astype(np.uint16), "s4")


def test_empty_and_scalar_arrays():
    assert _arrays.wrap("A", np.zeros((0, 3), np.float32), "f32").to_c().size_bytes == 0
    assert _arrays.wrap("A", np.zeros((), np.float32), "f32").to_c().rank == 0


def test_view_of_library_memory():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1:3]
    record = _arrays.wrap("A", array, "f32").to_c()
    dtype, carrier = _arrays.view(record)
    np.testing.assert_array_equal(_arrays.to_numpy(dtype, carrier), array)
    assert _arrays.to_numpy(dtype, carrier).flags.c_contiguous
