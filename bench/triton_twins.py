#!/usr/bin/env python3
"""Interpreter speed by family of kernels, against Triton's interpreter on the same work.

Each twin does what a corpus case does, on the same shapes and in the same blocks, as one would write it in Triton. Both
run in this process, on one core, from the same arrays; their results are compared before anything is timed. Needs
triton and torch, and tilesim (TILESIM_LIBRARY may name a build folder).

    TILESIM_LIBRARY=build python3 bench/triton_twins.py CORPUS [--repeat 3] [--only FAMILY]
"""
import argparse
import json
import os
import sys
import time

os.environ["TRITON_INTERPRET"] = "1"
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))

import numpy as np  # noqa: E402
import tilesim  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

LOG2E = tl.constexpr(1.44269504)


@triton.jit
def gemm(A, B, C, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(1) * BM + tl.arange(0, BM)
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        a = tl.load(A + i[:, None] * K + (s + k)[None, :])
        b = tl.load(B + (s + k)[:, None] * N + j[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(C + i[:, None] * N + j[None, :], tl.maximum(acc, 0))


@triton.jit
def attention(Q, K, V, O, seq: tl.constexpr, heads: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    row = heads * D
    head = tl.program_id(1) * D + tl.arange(0, D)
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.arange(0, BN)
    q = tl.load(Q + i[:, None] * row + head[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    m = tl.full((BM,), -float("inf"), tl.float32)
    scale = LOG2E / D**0.5
    for s in range(0, seq, BN):
        k = tl.load(K + (s + n)[:, None] * row + head[None, :])
        p = tl.dot(q, tl.trans(k)) * scale
        m_new = tl.maximum(m, tl.max(p, 1))
        fix = tl.exp2(m - m_new)
        p = tl.exp2(p - m_new[:, None])
        total = total * fix + tl.sum(p, 1)
        v = tl.load(V + (s + n)[:, None] * row + head[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * fix[:, None])
        m = m_new
    tl.store(O + i[:, None] * row + head[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def softmax(X, Y, N: tl.constexpr, BM: tl.constexpr):
    at = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(X + at).to(tl.float32)
    x = tl.exp2((x - tl.max(x, 1)[:, None]) * LOG2E)
    tl.store(Y + at, (x / tl.sum(x, 1)[:, None]).to(tl.float16))


@triton.jit
def layernorm(X, G, Bi, Y, N: tl.constexpr, BM: tl.constexpr):
    j = tl.arange(0, N)
    at = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * N + j[None, :]
    x = tl.load(X + at).to(tl.float32)
    x = x - tl.sum(x, 1)[:, None] / N
    x = x * tl.rsqrt(tl.sum(x * x, 1) / N + 1e-5)[:, None]
    y = x * tl.load(G + j).to(tl.float32)[None, :] + tl.load(Bi + j).to(tl.float32)[None, :]
    tl.store(Y + at, y.to(tl.float16))


@triton.jit
def add(A, B, C, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(1) * BM + tl.arange(0, BM)
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    at = i[:, None] * N + j[None, :]
    tl.store(C + at, tl.load(A + at) + tl.load(B + at))


@triton.jit
def unary_exp(X, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.exp(tl.load(X + i)))


@triton.jit
def reduce_sum(A, B, N: tl.constexpr, BM: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(B + i, tl.sum(tl.load(A + i[:, None] * N + tl.arange(0, N)[None, :]), 1))


@triton.jit
def gemv(x, W, y, K: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, CHUNK)
    p = tl.zeros((ROWS, CHUNK), tl.float32)
    for s in range(0, K, CHUNK):
        w = tl.load(W + i[:, None] * K + (s + j)[None, :]).to(tl.float32)
        p += w * tl.load(x + s + j).to(tl.float32)[None, :]
    tl.store(y + i, tl.sum(p, 1))


@triton.jit
def scan_sum(A, B, N: tl.constexpr, BM: tl.constexpr):
    at = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(B + at, tl.cumsum(tl.load(A + at), 1))


@triton.jit
def histogram(X, H, BLOCK: tl.constexpr):
    x = tl.load(X + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(H + x, tl.full((BLOCK,), 1, tl.int32))


@triton.jit
def atomic_max(K, X, H, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(H + tl.load(K + i), tl.load(X + i))


@triton.jit
def transpose(A, B, M: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(1) * BM + tl.arange(0, BM)
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    a = tl.load(A + i[:, None] * N + j[None, :])
    tl.store(B + j[:, None] * M + i[None, :], tl.trans(a))


@triton.jit
def gather_rows(A, index, B, N: tl.constexpr, BM: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.arange(0, N)
    rows = tl.load(index + i)
    tl.store(B + i[:, None] * N + j[None, :], tl.load(A + rows[:, None] * N + j[None, :]))


# family, case, twin, grid, what follows the tensors
TWINS = [
    ("gemm", "gemm_seed", gemm, (8, 8), dict(N=1024, K=1024, BM=128, BN=128, BK=32)),
    ("gemm sm_80", "gemm_seed_sm80", gemm, (8, 8), dict(N=1024, K=1024, BM=128, BN=128, BK=32)),
    ("attention", "attention", attention, (4, 2), dict(seq=256, heads=2, D=64, BM=64, BN=64)),
    ("gemv", "gemv_f16", gemv, (256,), dict(K=1024, ROWS=4, CHUNK=256)),
    ("softmax", "softmax", softmax, (32,), dict(N=512, BM=4)),
    ("normalisation", "layernorm", layernorm, (64,), dict(N=512, BM=2)),
    ("elementwise", "add_f32", add, (8, 16), dict(N=1024, BM=64, BN=128)),
    ("exponential", "unary_exp", unary_exp, (16,), dict(BLOCK=1024)),
    ("reduction", "reduce_sum_t128", reduce_sum, (4,), dict(N=256, BM=32)),
    ("scan", "scan_sum", scan_sum, (4,), dict(N=128, BM=16)),
    ("integer atomics", "histogram_global", histogram, (8,), dict(BLOCK=2048)),
    ("float atomics", "atomic_max_f32", atomic_max, (8,), dict(BLOCK=1024)),
    ("transposition", "transpose_plain", transpose, (4, 4), dict(M=256, N=256, BM=64, BN=64)),
    ("gather", "gather_rows", gather_rows, (4,), dict(N=128, BM=16)),
]
# Relative to the largest element; other orders of summation, and exp2 by the special function unit.
BOUND = {torch.float16: 2**-9, torch.float32: 2**-18, torch.int32: 0}


def make_tensors(case, generator):
    """Inputs as launch.json describes them, with this program's own random numbers."""
    tensors = []
    with open(os.path.join(case, "launch.json"), encoding="utf-8") as file:
        described = json.load(file)["tensors"]
    for item in described:
        mode, *bounds = item["init"].split(":")
        dtype = getattr(torch, item["dtype"])
        if mode == "uniform":
            values = torch.from_numpy(generator.uniform(-1, 1, item["shape"]))
        elif mode == "int":
            values = torch.from_numpy(generator.integers(int(bounds[0]), int(bounds[1]) + 1, item["shape"]))
        else:
            values = torch.zeros(item["shape"])
        tensors.append((item["name"], item["role"], values.to(dtype)))
    return tensors


class Pair:
    """A case and its twin on the same arrays."""

    def __init__(self, corpus, family, name, twin, grid, rest):
        folder = os.path.join(corpus, name)
        self.family, self.name = family, name
        self.case = tilesim.open(folder)
        self.tensors = make_tensors(folder, np.random.default_rng(1))
        self.twin, self.grid, self.rest = twin, grid, rest

    def run_tilesim(self):
        return self.case.run(workers=1, write_back=False, **{name: value for name, _, value in self.tensors}).outputs

    def run_triton(self):
        copies = [value.clone() for _, _, value in self.tensors]
        self.twin[self.grid](*copies, **self.rest)
        return {name: copy for (name, role, _), copy in zip(self.tensors, copies, strict=True) if role != "in"}

    def compare(self):
        """None, or how the results differ."""
        ours, theirs = self.run_tilesim(), self.run_triton()
        for name, their in theirs.items():
            error = (ours[name].double() - their.double()).abs().max().item()
            if not error <= BOUND[their.dtype] * max(1.0, their.double().abs().max().item()):
                return f"{name} differs by {error:g}"
        return None

    def seconds(self, repeat):
        """Best of each, taken in turns so that both meet the same machine."""
        best = {self.run_tilesim: float("inf"), self.run_triton: float("inf")}
        for _ in range(repeat):
            for run in best:
                start = time.perf_counter()
                run()
                best[run] = min(best[run], time.perf_counter() - start)
        return tuple(best.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", help="folder of case folders")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="families whose name contains this")
    options = parser.parse_args()
    torch.set_num_threads(1)
    failures = 0
    print("best seconds; a ratio above 1: tilesim is faster")
    print(f"{'family':<18}{'case':<20}{'tilesim':>10}{'Triton':>10}{'ratio':>8}")
    for row in TWINS:
        if options.only not in row[0]:
            continue
        pair = Pair(options.corpus, *row)
        difference = pair.compare()
        if difference:
            failures += 1
            print(f"{pair.family:<18}{pair.name:<20}{difference}", flush=True)
            continue
        ours, theirs = pair.seconds(options.repeat)
        print(f"{pair.family:<18}{pair.name:<20}{ours:>10.4f}{theirs:>10.4f}{theirs / ours:>8.2f}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
