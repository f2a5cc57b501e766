"""Scalar builtins and types of TileLang's kernels, one thread an element, against NumPy."""

import os

import numpy as np
import pytest

if os.environ.get("TILESIM_WITH_TILELANG"):
    import tilelang  # noqa: F401 -- installed for these tests: not being able to import it is a failure
else:
    pytest.importorskip("tilelang", reason="TileLang is not installed: TILESIM_WITH_TILELANG=1")

import tilelang.language as T
import torch

from tilesim import tilelang as bridge

pytestmark = pytest.mark.integration
COUNT = 64


def make_unary(function, dtype, out_dtype=None):
    @T.prim_func
    def main(A: T.Tensor((COUNT,), dtype), C: T.Tensor((COUNT,), out_dtype or dtype)):
        with T.Kernel(1, threads=COUNT) as _:
            tx = T.get_thread_binding()
            C[tx] = function(A[tx])

    return bridge.compile(main, target="sm_90", out_idx=-1)


def make_binary(function, dtype, out_dtype=None):
    @T.prim_func
    def main(A: T.Tensor((COUNT,), dtype), B: T.Tensor((COUNT,), dtype), C: T.Tensor((COUNT,), out_dtype or dtype)):
        with T.Kernel(1, threads=COUNT) as _:
            tx = T.get_thread_binding()
            C[tx] = function(A[tx], B[tx])

    return bridge.compile(main, target="sm_90", out_idx=-1)


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "sinh", "cosh"])
def test_inverse_and_hyperbolic(name):
    a = np.linspace(-0.99, 0.99, COUNT, dtype=np.float32)
    c = np.asarray(make_unary(getattr(T, name), "float32")(a))
    expected = getattr(np, "arc" + name[1:] if name[0] == "a" else name)(a.astype(np.float64))
    np.testing.assert_allclose(c, expected, rtol=4e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda a, b: T.max(a, b), torch.maximum),
        (lambda a, b: T.min(a, b), torch.minimum),
        (lambda a, b: a + b, torch.add),
        (lambda a, b: a * b, torch.mul),
    ],
)
def test_small_floats_compute_in_singles(dtype, function, expected):
    a = torch.linspace(-3, 3, COUNT).to(dtype)
    b = torch.linspace(4, -2, COUNT).to(dtype)
    c = make_binary(function, str(dtype)[6:])(a, b)
    assert torch.equal(c.view(torch.uint8), expected(a.float(), b.float()).to(dtype).view(torch.uint8))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
def test_division_by_zero(dtype):
    """All ones, as an H200 gives; a signed floor is TVM's expansion of it, one less."""
    a = np.arange(COUNT).astype(dtype)
    b = (np.arange(COUNT) % 2 * 3).astype(dtype)
    zero = b == 0
    ones = np.array(-1).astype(dtype)
    quotient = np.asarray(make_binary(lambda x, y: T.truncdiv(x, y), dtype)(a, b))
    rest = np.asarray(make_binary(lambda x, y: T.truncmod(x, y), dtype)(a, b))
    floor = np.asarray(make_binary(lambda x, y: x // y, dtype)(a, b))
    assert (quotient[zero] == ones).all() and (quotient[~zero] == a[~zero] // 3).all()
    assert (rest[zero] == ones).all() and (rest[~zero] == a[~zero] % 3).all()
    assert (floor[zero] == (ones if dtype == "uint32" else -2)).all() and (floor[~zero] == a[~zero] // 3).all()


def test_return_of_threads():
    @T.prim_func
    def main(A: T.Tensor((COUNT,), "int32"), C: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT) as _:
            tx = T.get_thread_binding()
            C[tx] = 1
            if A[tx] > 5:
                T.thread_return()
            C[tx] = 2

    a = np.arange(COUNT, dtype=np.int32)
    c = np.asarray(bridge.compile(main, target="sm_90", out_idx=-1)(a))
    assert (c == np.where(a > 5, 1, 2)).all()


def test_fma_and_fmul_are_instructions_of_their_own():
    """fmul's product is rounded before the addition, which the compiler may not fuse."""

    @T.prim_func
    def main(A: T.Tensor((COUNT,), "float32"), C: T.Tensor((3, COUNT), "float32")):
        with T.Kernel(1, threads=COUNT) as _:
            tx = T.get_thread_binding()
            C[0, tx] = T.fmul(A[tx], A[tx]) - T.float32(1)
            C[1, tx] = T.fma(A[tx], A[tx], T.float32(-1))
            C[2, tx] = A[tx] * A[tx] - T.float32(1)

    a = (1 + np.arange(1, COUNT + 1) * 2.0**-20).astype(np.float32)
    c = np.asarray(bridge.compile(main, target="sm_90", out_idx=-1)(a))
    fused = (a.astype(np.float64) * a - 1).astype(np.float32)
    assert (c[0] == a * a - np.float32(1)).all()
    assert (c[1] == fused).all() and (c[2] == fused).all() and (c[0] != fused).any()


# --- elements of 4 bits


def pack(values):
    """Two to a byte, the first one in the lower half."""
    return (values[..., 0::2] | values[..., 1::2] << 4).astype(np.uint8)


def test_fp4_is_copied_and_converted():
    rows, width = 16, 64

    @T.prim_func
    def main(
        A: T.Tensor((rows, width), "float4_e2m1fn"),
        B: T.Tensor((rows, width), "float4_e2m1fn"),
        C: T.Tensor((rows, width), "float16"),
    ):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((rows, width), "float4_e2m1fn")
            T.copy(A, tile)
            T.copy(tile, B)
            for i, j in T.Parallel(rows, width):
                C[i, j] = T.cast(A[i, j], "float16")

    codes = np.random.default_rng(1).integers(0, 16, (rows, width))
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float16)
    a = torch.from_numpy(pack(codes)).view(torch.float4_e2m1fn_x2)
    b, c = bridge.compile(main, target="sm_90", out_idx=[1, 2])(a)
    assert torch.equal(torch.as_tensor(b).view(torch.uint8), a.view(torch.uint8))
    expected = np.where(codes < 8, values[codes % 8], -values[codes % 8])
    assert (np.asarray(c) == expected).all()


# --- threads, atomics


def test_thread_numbers_by_any_width():
    @T.prim_func
    def main(C: T.Tensor((4, COUNT), "int32")):
        with T.Kernel(1, threads=COUNT) as _:
            tx = T.get_thread_binding()
            C[0, tx] = T.get_lane_idx(24)
            C[1, tx] = T.get_warp_idx(24)
            C[2, tx] = T.get_warp_group_idx(8, 3)
            C[3, tx] = T.get_warp_idx()

    c = np.asarray(bridge.compile(main, target="sm_90", out_idx=0)())
    t = np.arange(COUNT)
    assert (c == [t % 24, t // 24, t // 24, t // 32]).all()


def test_vectors_are_added_atomically():
    """Pairs that are values, not memory."""

    @T.prim_func
    def main(A: T.Tensor((COUNT, 8), "float32"), C: T.Tensor((COUNT, 8), "float32")):
        with T.Kernel(2, threads=COUNT) as _:
            for i, j in T.Parallel(COUNT, 8):
                T.atomic_add(C[i, j], A[i, j] * 2 + 1)

    a = torch.arange(COUNT * 8, dtype=torch.float32).reshape(COUNT, 8)
    c = torch.zeros(COUNT, 8)
    bridge.compile(main, target="sm_90")(a, c)
    assert torch.equal(c, 2 * (2 * a + 1))


def test_reducer_with_a_loop_that_stays_parallel():
    """The code generator prints such a loop as a serial one."""
    rows, width = 16, 64

    @T.prim_func
    def main(A: T.Tensor((rows, width), "float32"), C: T.Tensor((rows,), "float32")):
        with T.Kernel(1, threads=128) as _:
            values = T.alloc_fragment((rows, width), "float32")
            sums = T.alloc_reducer((rows,), "float32", op="sum")
            out = T.alloc_fragment((rows,), "float32")
            T.copy(A, values)
            T.reducer_init(sums)
            for i, j in T.Parallel(rows, width):
                T.reducer_update(sums[i], values[i, j])
            T.finalize_reducer(sums, out)
            T.copy(out, C)

    a = np.arange(rows * width, dtype=np.float32).reshape(rows, width)
    c = np.asarray(bridge.compile(main, target="sm_90", out_idx=-1)(a))
    assert (c == a.sum(axis=1)).all()
