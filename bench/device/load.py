"""SM clock and power under a long f16 GEMM load: zeros and normal data, 6 seconds each.

Prints rows name,value,unit. Needs torch and nvidia-smi on the device machine; changes no setting.
"""
import statistics
import subprocess
import time

import torch

QUERY = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu", "--format=csv,noheader,nounits"]


def sample():
    return [float(x) for x in subprocess.check_output(QUERY, text=True).split(",")]


def load(name, a, b, seconds):
    flop = 2 * a.shape[0] * a.shape[1] * b.shape[1]
    for _ in range(3):
        a @ b
    torch.cuda.synchronize()
    readings, rates = [], []
    stop = time.time() + seconds
    while time.time() < stop:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(200):
            a @ b
        end.record()
        time.sleep(0.15)
        readings.append(sample())
        end.synchronize()
        rates.append(200 * flop / start.elapsed_time(end) / 1e9)
    tail = readings[len(readings) // 2:]
    for i, unit in enumerate(["MHz", "W", "C"]):
        label = ["sm_clock", "power", "temperature"][i]
        print(f"load_{name}_{label},{statistics.median(r[i] for r in tail):.1f},{unit}")
    print(f"load_{name}_rate,{statistics.median(rates[len(rates) // 2:]):.1f},TFLOP/s")


def main():
    n = 8192
    half = dict(device="cuda", dtype=torch.float16)
    print(f"load_idle_sm_clock,{sample()[0]:.1f},MHz")
    print(f"load_idle_power,{sample()[1]:.1f},W")
    load("gemm8192_f16_zero", torch.zeros(n, n, **half), torch.zeros(n, n, **half), 4)
    load("gemm8192_f16_normal", torch.randn(n, n, **half), torch.randn(n, n, **half), 6)
    x = torch.empty(1 << 30, device="cuda", dtype=torch.float16).normal_()
    y = torch.empty_like(x)
    stop, readings = time.time() + 3, []
    while time.time() < stop:
        for _ in range(200):
            y.copy_(x)
        readings.append(sample())
        torch.cuda.synchronize()
    print(f"load_copy_sm_clock,{readings[-1][0]:.1f},MHz")
    print(f"load_copy_power,{readings[-1][1]:.1f},W")


main()
