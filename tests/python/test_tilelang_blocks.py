"""TileLang's kernels of several blocks that work together, and of sparse matrices, against NumPy."""

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
WIDTH = 128


def random(*shape):
    return torch.from_numpy(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


# --- clusters


def exchange(is_bulk):
    """Every block gives its row to the other one of its cluster."""

    @T.prim_func
    def main(A: T.Tensor((4, WIDTH), "float32"), C: T.Tensor((4, WIDTH), "float32")):
        with T.ClusterKernel(4, cluster_dims=2, threads=128) as bx:
            mine = T.alloc_shared((WIDTH,), "float32")
            other = T.alloc_shared((WIDTH,), "float32")
            bar = T.alloc_cluster_barrier([1])
            T.copy(A[bx, 0], mine)
            T.cluster_sync()
            if is_bulk:
                T.copy_cluster(mine, other, dst_block=T.block_rank_in_cluster() ^ 1, remote_barrier=bar[0])
                T.mbarrier_wait_parity(bar[0], 0)
            else:
                T.copy_cluster(mine, other, dst_block=T.block_rank_in_cluster() ^ 1)
            T.cluster_sync()
            T.copy(other, C[bx, 0])

    return main


@pytest.mark.parametrize("is_bulk", [False, True])
def test_distributed_shared_memory(is_bulk):
    a = random(4, WIDTH)
    c = bridge.compile(exchange(is_bulk), target="sm_90", out_idx=-1)(a)
    assert torch.equal(c, a[[1, 0, 3, 2]])


def test_remote_arrival():
    @T.prim_func
    def main(A: T.Tensor((4, WIDTH), "float32"), C: T.Tensor((4, WIDTH), "float32")):
        with T.ClusterKernel(4, cluster_dims=2, threads=128) as bx:
            bar = T.alloc_cluster_barrier([128])
            tx = T.get_thread_binding()
            T.cluster_arrive()
            T.cluster_wait()
            T.mbarrier_arrive(bar[0], T.block_rank_in_cluster() ^ 1)
            T.mbarrier_wait_parity(bar[0], 0)
            C[bx, tx] = A[bx, tx] * 2.0
            T.cluster_sync()

    a = random(4, WIDTH)
    assert torch.equal(bridge.compile(main, target="sm_90", out_idx=-1)(a), a * 2)


def test_multicast():
    @T.prim_func
    def main(A: T.Tensor((2, WIDTH), "float32"), C: T.Tensor((4, WIDTH), "float32")):
        with T.ClusterKernel(4, cluster_dims=2, threads=128) as bx:
            row = T.alloc_shared((WIDTH,), "float32")
            bar = T.alloc_barrier([1])
            T.cluster_sync()
            T.tma_copy(A[bx // 2, 0:WIDTH], row, barrier=bar[0], cluster_mask=3)
            if T.shuffle_elect(128):
                T.mbarrier_arrive(bar[0])
            T.mbarrier_wait_parity(bar[0], 0)
            T.cluster_sync()
            T.copy(row, C[bx, 0])

    a = random(2, WIDTH)
    assert torch.equal(bridge.compile(main, target="sm_90", out_idx=-1)(a), a[[0, 0, 1, 1]])


# --- all blocks


def test_grid_barrier():
    @T.prim_func
    def main(
        A: T.Tensor((8, WIDTH), "float32"), W: T.Tensor((8, WIDTH), "float32"), C: T.Tensor((8, WIDTH), "float32")
    ):
        with T.Kernel(8, threads=128) as bx:
            tx = T.get_thread_binding()
            W[bx, tx] = A[bx, tx] * 2.0
            T.sync_grid()
            C[bx, tx] = W[(bx + 3) % 8, tx] + 1.0

    a = random(8, WIDTH)
    c = bridge.compile(main, target="sm_90", out_idx=-1)(a, torch.zeros_like(a))
    assert torch.equal(c, torch.roll(a * 2, -3, 0) + 1)


def test_dependent_launch():
    @T.prim_func
    def main(
        A: T.Tensor((4, WIDTH), "float32"), W: T.Tensor((4, WIDTH), "float32"), C: T.Tensor((4, WIDTH), "float32")
    ):
        with T.Kernel(4, threads=128) as bx:
            tx = T.get_thread_binding()
            W[bx, tx] = A[bx, tx] * 2.0
            T.pdl_trigger()
        with T.Kernel(4, threads=128) as bx2:
            tx2 = T.get_thread_binding()
            T.pdl_sync()
            C[bx2, tx2] = W[3 - bx2, tx2] + 1.0

    a = random(4, WIDTH)
    c = bridge.compile(main, target="sm_90", out_idx=-1)(a, torch.zeros_like(a))
    assert torch.equal(c, torch.flip(a * 2, [0]) + 1)


# --- sparse products: small integers, so that every order of summation gives the same

SIZE = 128


def gemm_sparse(dtype, metadata, ratio, accumulator, transposed):
    shape = (64, 64)

    @T.prim_func
    def main(
        A: T.Tensor((SIZE, SIZE // 2), dtype),
        E: T.Tensor((SIZE, SIZE // ratio), metadata),
        B: T.Tensor((SIZE, SIZE), dtype),
        C: T.Tensor((SIZE, SIZE), accumulator),
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            As = T.alloc_shared((64, 32), dtype)
            Es = T.alloc_shared((64, 64 // ratio), metadata)
            Bs = T.alloc_shared(shape, dtype)
            Cl = T.alloc_fragment((64, 64), accumulator)
            T.clear(Cl)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 64, k * 32], As)
                T.copy(E[by * 64, k * (64 // ratio)], Es)
                if transposed:
                    T.copy(B[bx * 64, k * 64], Bs)
                else:
                    T.copy(B[k * 64, bx * 64], Bs)
                T.gemm_sp(As, Es, Bs, Cl, transpose_B=transposed)
            T.copy(Cl, C[by * 64, bx * 64])

    return main


def sparse_matrix(is_pair):
    """(dense, kept elements, four bits of metadata for each group)"""
    rng = np.random.default_rng(7)
    group = 2 if is_pair else 4
    dense = np.zeros((SIZE, SIZE), np.float32)
    kept = rng.integers(-4, 5, (SIZE, SIZE // 2)).astype(np.float32)
    nibbles = np.zeros((SIZE, SIZE // group), np.uint64)
    for row in range(SIZE):
        for g in range(SIZE // group):
            places = sorted(rng.choice(group, group // 2, replace=False))
            nibbles[row, g] = (14 if places[0] else 4) if is_pair else places[0] | places[1] << 2
            for i, place in enumerate(places):
                dense[row, group * g + place] = kept[row, group // 2 * g + i]
    return dense, kept, nibbles


def pack(nibbles, dtype):
    per = np.dtype(dtype).itemsize * 2
    words = sum(nibbles[:, i::per] << np.uint64(4 * i) for i in range(per))
    return torch.from_numpy(words.astype(np.dtype(dtype).str.replace("i", "u")).view(dtype))


@pytest.mark.parametrize("target", ["sm_90", "sm_80"])
@pytest.mark.parametrize(
    ("dtype", "metadata", "ratio", "accumulator", "transposed"),
    [
        ("float16", "int16", 16, "float32", False),
        ("float16", "int16", 16, "float32", True),
        ("float16", "int16", 16, "float16", False),
        ("bfloat16", "int16", 16, "float32", False),
        ("int8", "int32", 32, "int32", False),
        ("float8_e4m3", "int32", 32, "float32", False),
        ("float8_e5m2", "int32", 32, "float32", False),
        ("float32", "int16", 8, "float32", False),
    ],
)
def test_gemm_sparse(dtype, metadata, ratio, accumulator, transposed, target):
    if "float8" in dtype and target == "sm_80":
        target = "sm_89"
    dense, kept, nibbles = sparse_matrix(dtype == "float32")
    b = np.random.default_rng(8).integers(-4, 5, (SIZE, SIZE)).astype(np.float32)
    kind = getattr(torch, {"float8_e4m3": "float8_e4m3fn"}.get(dtype, dtype))
    kernel = bridge.compile(gemm_sparse(dtype, metadata, ratio, accumulator, transposed), target=target, out_idx=-1)
    given = np.ascontiguousarray(b.T) if transposed else b
    c = kernel(torch.from_numpy(kept).to(kind), pack(nibbles, metadata), torch.from_numpy(given).to(kind))
    assert np.array_equal(c.float().numpy(), dense @ b)


# --- __fns


def test_find_nth_set():
    @T.prim_func
    def main(M: T.Tensor((32,), "uint32"), N: T.Tensor((32,), "int32"), C: T.Tensor((32,), "uint32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            C[tx] = T.__fns(M[tx], tx, N[tx])

    rng = np.random.default_rng(9)
    masks = rng.integers(0, 2**32, 32, dtype=np.uint64).astype(np.uint32)
    offsets = rng.integers(-6, 7, 32).astype(np.int32)

    def expected(mask, base, offset):
        places = range(base, 32) if offset > 0 else range(base, -1, -1)
        bits = [i for i in places if mask >> i & 1]
        if offset == 0:
            return base if mask >> base & 1 else 2**32 - 1
        return bits[abs(offset) - 1] if len(bits) >= abs(offset) else 2**32 - 1

    c = bridge.compile(main, target="sm_90", out_idx=-1)(masks, offsets)
    assert [int(x) for x in c] == [expected(int(masks[i]), i, int(offsets[i])) for i in range(32)]


# --- random numbers


def philox(counter, key):
    """Ten rounds of Philox4x32."""
    words, keys = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            b >> 32 ^ words[1] ^ keys[0],
            b & 0xFFFFFFFF,
            a >> 32 ^ words[3] ^ keys[1],
            a & 0xFFFFFFFF,
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def test_philox():
    draws, seed, offset = 6, 0x123456789, 5

    @T.prim_func
    def main(C: T.Tensor((4, 32, draws), "uint32"), U: T.Tensor((4, 32), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding()
            T.rng_init(T.int64(seed), bx * 32 + tx, offset)
            for i in T.serial(draws):
                C[bx, tx, i] = T.rng_rand()
            U[bx, tx] = T.rng_rand_float()

    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # published
    c, u = bridge.compile(main, target="sm_90", out_idx=[0, 1])()
    for sequence in (0, 1, 37, 127):
        words = [philox([n, 0, sequence, 0], [seed & 0xFFFFFFFF, seed >> 32]) for n in range(4)]
        stream = sum(words, [])[offset:]
        block, thread = divmod(sequence, 32)
        assert [int(x) for x in c[block, thread]] == stream[:draws]
        uniform = np.float32(np.float32(stream[draws]) * 2.0**-32 + 2.0**-33)
        assert u[block, thread].item() == uniform
