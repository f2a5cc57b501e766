#!/usr/bin/env python3
"""`--schedule explore:N` on a case whose barrier has been taken out: the schedules differ, and both commands say so with exit
status 1. The case as it is: they agree. Needs only the standard library."""
import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASE = "traces/transpose_swizzled"
BARRIER, NOTHING = b"tirx.tvm_storage_sync", b"tl.no_set_max_nreg"


def run(program, *arguments):
    done = subprocess.run([program, *arguments, "--format", "json"], capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def remove_barrier(case):
    path = os.path.join(case, "device.json.xz")
    with lzma.open(path) as device:
        text = device.read()
    os.chmod(path, 0o644)
    with lzma.open(path, "wb") as device:
        device.write(text.replace(BARRIER, NOTHING))
    return text.count(BARRIER)


def schedules_told(output):
    """Schedules that gave other bits than eager."""
    diagnostics = json.loads(output)["diagnostics"]
    return {row["place"]["file"] for row in diagnostics if row["code"] == "TS-ORDER-003"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tilesim", required=True)
    program, failures = parser.parse_args().tilesim, []
    for command in ("check", "run"):
        status, output, errors = run(program, command, CASE, "--schedule", "explore:4")
        if status != 0 or schedules_told(output):
            failures.append(f"{command} of the case as it is: exit status {status}: {errors}")
    with tempfile.TemporaryDirectory() as folder:
        case = os.path.join(folder, "case")
        shutil.copytree(os.path.join(ROOT, CASE), case)
        if not remove_barrier(case):
            failures.append("the case has no barrier")
        status, output, errors = run(program, "check", case, "--schedule", "explore:4")
        told = schedules_told(output)
        if status != 1 or not any(name.startswith("last:") for name in told) or not any(
                name.startswith("random:") for name in told):
            failures.append(f"check without the barrier: exit status {status}, {sorted(told)}: {errors}")
        status, output, errors = run(program, "run", case, "--schedule", "explore:4")
        if status != 1 or not schedules_told(output):
            failures.append(f"run without the barrier: exit status {status}: {errors}")
        # One schedule alone: `run` has nothing to compare it with.
        status, _, errors = run(program, "run", case)
        if status != 0:
            failures.append(f"run eager without the barrier: exit status {status}: {errors}")
    print("\n".join(failures) or "explore: as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
