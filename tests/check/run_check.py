#!/usr/bin/env python3
"""Runs `tilesim check` on case folders: correct ones must end with exit status 0, the ones of EXPECTED with the hazard that
they have. Prints how much slower than `run` the checks are; --overhead lists every case. Needs only the standard library."""
import argparse
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# True findings, and what cannot be run: (exit status, code).
EXPECTED = {
    "deadlock_by_hand": (1, "TS-SYNC-001"),  # hangs on the device as well
    "gemm_seed_sm75_simple": (1, "TS-MEM-003"),  # ldmatrix.x4 over-runs a register array
    # The stage is given back to the producer before the product that reads it is waited for, and the producer frees tensor memory
    # while others use it: the compiler's fault, at sm_100 only.
    "gemm_tmem_sm100": (1, "TS-RACE-008"),
    "gemm_tmem_sm100_256": (1, "TS-RACE-008"),
    "h_gemm_by_hand_d3": (1, "TS-SYNC-001"),
    "h_handdead": (1, "TS-SYNC-001"),
    "h_g7": (1, "TS-MEM-003"),
    "h_deq2": (1, "TS-INIT-001"),  # a quarter of the dequantised tile is written, all of it is multiplied
}
UNSUPPORTED = 2  # exit status of input that is not run at all: golden tests say which
SHORT_SECONDS = 0.05  # below this the start of the program is most of the time


def timed(program, *arguments, limit):
    start = time.monotonic()
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, "", limit
    return done.returncode, done.stderr, time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tilesim", required=True)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--limit", type=float, default=600)
    parser.add_argument("folders", nargs="+", help="folders of cases")
    options = parser.parse_args()
    cases = [os.path.join(folder, name) for folder in options.folders for name in sorted(os.listdir(folder))
             if os.path.exists(os.path.join(folder, name, "launch.json"))]
    failures, factors, unsupported = [], [], 0
    for case in cases:
        name = os.path.basename(case)
        if "_256m" in name:
            continue
        status, errors, seconds = timed(options.tilesim, "check", case, limit=options.limit)
        wanted, code = EXPECTED.get(name, (0, ""))
        if status == UNSUPPORTED:
            unsupported += 1
        elif status != wanted or code not in errors:
            failures.append(f"{name}: exit status {status}, expected {wanted} {code}: {errors.strip()[:400]}")
        _, _, plain = timed(options.tilesim, "run", case, "-j", "1", limit=options.limit)
        if plain >= SHORT_SECONDS and status == 0:
            factors.append((seconds / plain, name, seconds, plain))
    factors.sort(reverse=True)
    for factor, name, seconds, plain in factors if options.overhead else factors[:3]:
        print(f"{factor:6.2f}  {name}: check {seconds:.2f} s, run {plain:.2f} s")
    print(f"{len(cases)} cases, {unsupported} not supported, {len(failures)} wrong")
    print("\n".join(failures))
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
