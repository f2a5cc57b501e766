"""TileLang kernels of the integration tests."""

import tilelang.language as T


def gemm_relu(M, N, K, bM=64, bN=64, bK=32, stages=2, dtype="float16", out="float32", transposed=False):
    """C = max(A B, 0), or max(A B^T, 0). With M = N = K = 512 this is traces/gemm_64x64x32_s2."""
    shape_b, tile_b = ((N, K), (bN, bK)) if transposed else ((K, N), (bK, bN))

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor(shape_b, dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            As = T.alloc_shared((bM, bK), dtype)
            Bs = T.alloc_shared(tile_b, dtype)
            Cl = T.alloc_fragment((bM, bN), "float32")
            T.clear(Cl)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=stages):
                T.copy(A[by * bM, k * bK], As)
                if transposed:
                    T.copy(B[bx * bN, k * bK], Bs)
                else:
                    T.copy(B[k * bK, bx * bN], Bs)
                T.gemm(As, Bs, Cl, False, transposed)
            for i, j in T.Parallel(bM, bN):
                Cl[i, j] = T.max(Cl[i, j], 0)
            T.copy(Cl, C[by * bM, bx * bN])

    return main


def gemm_dynamic(N=128, K=64, bM=64, bN=64, bK=32):
    """C = A B, with a row count that is known only at run time."""
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((m, N), "float32")):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(m, bM), threads=128) as (bx, by):
            As = T.alloc_shared((bM, bK), "float16")
            Bs = T.alloc_shared((bK, bN), "float16")
            Cl = T.alloc_fragment((bM, bN), "float32")
            T.clear(Cl)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=2):
                T.copy(A[by * bM, k * bK], As)
                T.copy(B[k * bK, bx * bN], Bs)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, C[by * bM, bx * bN])

    return main


def softmax(M=64, N=256, bM=4, dtype="float32"):
    """Softmax of each row."""

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, bM), threads=128) as bx:
            x = T.alloc_fragment((bM, N), "float32")
            high = T.alloc_fragment((bM,), "float32")
            total = T.alloc_fragment((bM,), "float32")
            T.copy(X[bx * bM, 0], x)
            T.reduce_max(x, high, dim=1)
            for i, j in T.Parallel(bM, N):
                x[i, j] = T.exp(x[i, j] - high[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(bM, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * bM, 0])

    return main


def sum_and_difference(n, dtype="float32", block=128):
    """S = A + B, D = A - B; the outputs come first."""

    @T.prim_func
    def main(S: T.Tensor((n,), dtype), A: T.Tensor((n,), dtype), D: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=block) as bx:
            for i in T.Parallel(block):
                S[bx * block + i] = A[bx * block + i] + B[bx * block + i]
                D[bx * block + i] = A[bx * block + i] - B[bx * block + i]

    return main


def scale(n=256, dtype="float32", to="float32"):
    """Y = to(a X) with a scalar parameter a."""

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), a: T.float32, Y: T.Tensor((n,), to)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                Y[i] = T.Cast(to, X[i] * a)

    return main


def iota(step=2):
    """Y[i] = step i + start, of an extent that is a scalar parameter."""
    n = T.dynamic("n")

    @T.prim_func
    def main(n: T.int32, start: T.int64, Y: T.Tensor((n,), "int64")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = T.Cast("int64", (bx * 128 + i) * step) + start

    return main


def accumulate(n=128):
    """Y += X: an argument that is read and written."""

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                Y[i] = Y[i] + X[i]

    return main


def waits_for_ever(n=128):
    """Nobody arrives at the barrier."""

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=128):
            ready = T.alloc_barrier(128)
            T.mbarrier_wait_parity(ready, 0)  # the line to blame
            for i in T.Parallel(n):
                Y[i] = X[i]

    return main


def scale_or_add(with_bias, n=128):
    """C = A + Bias, or 2 A: then the kernel never uses Bias, and it may be None."""

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), Bias: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n):
            for i in T.Parallel(n):
                if with_bias:
                    C[i] = A[i] + Bias[i]
                else:
                    C[i] = A[i] * 2

    return main
