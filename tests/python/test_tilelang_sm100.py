"""What only sm_100 has, from TileLang's kernels: values by definition, no hardware was asked."""

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
ROWS, WIDTH = 64, 64


def make_gather(column):
    """Four rows of A by number, out to four rows of C by number."""

    @T.prim_func
    def main(
        A: T.Tensor((ROWS, WIDTH), "float16"),
        From: T.Tensor((4,), "int32"),
        To: T.Tensor((4,), "int32"),
        C: T.Tensor((ROWS, WIDTH), "float16"),
    ):
        with T.Kernel(1, threads=128) as _:
            rows = T.alloc_shared((4, WIDTH // 2), "float16")
            arrived = T.alloc_barrier(1)
            if T.shuffle_elect(128):
                T.mbarrier_expect_tx(arrived, T.tma_gather4_bytes(WIDTH // 2, "float16"))
                T.tma_gather4(A, rows, column, [From[0], From[1], From[2], From[3]], barrier=arrived)
                T.barrier_arrive(arrived)
            T.mbarrier_wait_parity(arrived, 0)
            if T.shuffle_elect(128):
                T.tma_scatter4(rows, C, column, [To[0], To[1], To[2], To[3]])
                T.tma_store_arrive()
            T.tma_store_wait(0, read=False)

    return bridge.compile(main, target="sm_100a")


@pytest.mark.parametrize("column", [0, 32, 48])
def test_gathered_rows(column):
    a = torch.arange(ROWS * WIDTH).reshape(ROWS, WIDTH).to(torch.float16)
    c = torch.full((ROWS, WIDTH), -1, dtype=torch.float16)
    source, target = np.array([5, 17, 63, 70], np.int32), np.array([9, 0, 40, 41], np.int32)
    make_gather(column)(a, source, target, c)
    expected = torch.full((ROWS, WIDTH), -1, dtype=torch.float16)
    width = min(WIDTH // 2, WIDTH - column)
    for s, t in zip(source, target):  # a row outside reads as zeros
        expected[t, column : column + width] = a[s, column : column + width] if s < ROWS else 0
    assert torch.equal(c, expected)


def test_cleared_shared_memory():
    @T.prim_func
    def main(C: T.Tensor((32, WIDTH), "float32")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((32, WIDTH), "float32")
            T.fill(tile, 3)
            T.clear(tile)
            T.copy(tile, C)

    kernel = bridge.compile(main, target="sm_100a", out_idx=0)
    assert "st_bulk_shared" in kernel.source
    assert torch.equal(torch.as_tensor(kernel()), torch.zeros(32, WIDTH))


def test_launch_control():
    """A query that finds no block to take over ends the loop over tiles."""

    @T.prim_func
    def main(C: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=32) as bx:
            tx = T.get_thread_binding()
            response = T.alloc_shared((4,), "uint32")
            answered = T.alloc_barrier(1)
            if tx == 0:
                T.mbarrier_expect_tx(answered, 16)
                T.clc_try_cancel(response, answered)
                T.barrier_arrive(answered)
            T.mbarrier_wait_parity(answered, 0)
            if tx == 0:
                C[bx] = bx * 10 + T.clc_is_canceled(response)

    c = bridge.compile(main, target="sm_100a", out_idx=0)()
    assert np.asarray(c).tolist() == [10 * i for i in range(8)]
