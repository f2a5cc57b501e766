"""Packs the output of mufu_sample: raw results become differences to the rounded double reference
(int32, then xz), which the fit reads back. usage: mufu_pack.py DIR OUT"""
import lzma, sys
from multiprocessing import Pool
import numpy as np

src, out = sys.argv[1:3]

def reference(name, n):
    i = np.arange(n, dtype=np.int64)
    if name == "lg2": x = (i + 0x3F800000).astype(np.uint32).view(np.float32).astype(np.float64); return np.log2(x)
    if name == "lg2l": x = (i + 0x3F000000).astype(np.uint32).view(np.float32).astype(np.float64); return np.log2(x)
    step = np.float32(6.283185307179586 / 4194304.0)
    if name == "sin": return np.sin((i.astype(np.float32) * step).astype(np.float64))
    if name == "cos": return np.cos((i.astype(np.float32) * step).astype(np.float64))
    x = (i * 64 + 0x39000000).astype(np.uint32).view(np.float32).astype(np.float64)
    return np.tanh(x)

def pack(name):
    raw = open(f"{src}/{name}.bin", "rb").read()
    if name in ("lg2", "lg2l", "sin", "cos", "tanh"):
        bits = np.frombuffer(raw, dtype=np.int32)
        ref = reference(name, bits.size).astype(np.float32).view(np.int32)
        raw = (bits - ref).astype(np.int32).reshape(-1, 1).view(np.uint8).T.tobytes()  # byte planes
    data = lzma.compress(raw, preset=3)
    open(f"{out}/{name}.xz", "wb").write(data)
    return name, len(raw), len(data)

if __name__ == "__main__":
    names = "ex2 ex2n rcp rsq sqrt lg2 lg2l sin cos tanh ex2_f16 ex2_bf16 tanh_f16 tanh_bf16".split()
    for row in Pool(14).imap_unordered(pack, names):
        print(*row, flush=True)
