#!/usr/bin/env python3
"""GEMM+ReLU 1024x1024x1024 (f16 -> f32), one process on one pinned core each, in one run:
tilesim (whole process), a plain scalar C model of the same arithmetic, NumPy's float32 matmul and Triton's
interpreter. Prints seconds, GMAC/s and ratios; peers that are not installed are named.

    python3 bench/bench_gemm.py [--build build] [--repeat 3]
"""
import argparse
import importlib.util
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GIGA_MACS = 1024**3 / 1e9
CLEAN_ENV = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
CLEAN_ENV.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

NUMPY = """
import time, numpy as np
rng = np.random.default_rng(1)
a = rng.uniform(-1, 1, (1024, 1024)).astype(np.float16)
b = rng.uniform(-1, 1, (1024, 1024)).astype(np.float16)
best = 1e9
for _ in range(5):
    t = time.perf_counter()
    np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    best = min(best, time.perf_counter() - t)
print(best)
"""

TRITON = """
import time, torch, triton, triton.language as tl
@triton.jit
def gemm(A, B, C, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for s in range(0, N, BK):
        a = tl.load(A + i[:, None] * N + (s + k)[None, :])
        b = tl.load(B + (s + k)[:, None] * N + j[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(C + i[:, None] * N + j[None, :], tl.maximum(acc, 0))
torch.manual_seed(1)
a = (torch.rand(1024, 1024) * 2 - 1).half(); b = (torch.rand(1024, 1024) * 2 - 1).half()
c = torch.empty(1024, 1024)
gemm[(1, 1)](a, b, c, N=128, BM=128, BN=128, BK=32)
t = time.perf_counter()
gemm[(8, 8)](a, b, c, N=1024, BM=128, BN=128, BK=32)
print(time.perf_counter() - t)
"""


def pinned(command, cores="0", env=None):
    done = subprocess.run(["taskset", "-c", cores] + command, capture_output=True, text=True,
                          env=env or os.environ)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def best(repeat, measure):
    return min(measure() for _ in range(repeat))


def tilesim_seconds(binary, case, jobs):
    """The whole process: import, generated inputs, run, hash."""
    start = time.perf_counter()
    pinned([binary, "run", case, "--hash", "-j", str(jobs)], ",".join(str(i) for i in range(jobs)))
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    binary = os.path.join(options.build, "tilesim")
    case = os.path.join(ROOT, "traces", "gemm_seed")
    plain_binary = next((p for p in (os.path.join(options.build, d, "bench_gemm_plain") for d in ("", "bench"))
                         if os.path.exists(p)), None)
    rows = [("tilesim, 1 core", best(options.repeat, lambda: tilesim_seconds(binary, case, 1)), "exact")]
    if (os.cpu_count() or 1) >= 2:
        rows.append(("tilesim, 2 cores", best(options.repeat, lambda: tilesim_seconds(binary, case, 2)), "exact"))
    if plain_binary:
        rows.append(("plain scalar C model",
                     best(options.repeat, lambda: float(pinned([plain_binary]).split()[0])), "exact"))
    for name, module, text, env in (("NumPy float32 matmul", "numpy", NUMPY, CLEAN_ENV),
                                    ("TRITON_INTERPRET=1", "triton", TRITON, dict(CLEAN_ENV, TRITON_INTERPRET="1"))):
        if importlib.util.find_spec(module) is None:
            print(f"# {name}: not installed", file=sys.stderr)
            continue
        path = os.path.join(options.build, f"peer_{module}.py")
        with open(path, "w") as file:
            file.write(text)
        try:
            rows.append((name, float(pinned([sys.executable, path], env=env)), "other bits"))
        except RuntimeError as error:
            print(f"# {name}: {error}", file=sys.stderr)
    base = rows[0][1]
    print(f"{'GEMM+ReLU 1024^3, f16 -> f32':<28}{'seconds':>9}{'GMAC/s':>9}{'time / tilesim':>16}  bits")
    for name, seconds, bits in rows:
        print(f"{name:<28}{seconds:>9.3f}{GIGA_MACS / seconds:>9.2f}{seconds / base:>16.2f}  {bits}")


if __name__ == "__main__":
    main()
