#!/usr/bin/env python3
"""Gives the vectors of section7.txt to `tilesim num` and compares. A vector of a matrix instruction is put at the first
and at the last row and column; results that have neither in common with it must be zero. Needs only the standard library."""
import argparse
import json
import os
import re
import subprocess
import sys
from collections import OrderedDict

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE = re.compile(r"\.m(\d+)n(\d+)k(\d+)\.")
SCALE = re.compile(r"\.(ue8m0|ue4m3)")
ONE = {"ue8m0": "7f", "ue4m3": "38"}


def read_vectors(path):
    """[(name, op, profile or None, operands, result)]"""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            left, arrow, result = line.rpartition(" -> ")
            words = left.split()
            if not arrow or len(words) < 2:
                sys.exit(f"{path}:{number}: expected NAME OP OPERANDS -> RESULT")
            op, _, profile = words[1].partition("@")
            yield words[0], op, profile or None, words[2:], result.strip()


def matrix_line(op, words):
    m, n, k = (int(text) for text in SHAPE.search(op).groups())
    a, b, c = [], [], "0"
    places, scales, at = {}, {}, 0
    for word in words:
        if "=" in word:
            key, value = word.split("=")
            scales[key] = value.split(",")
            continue
        count = 1
        if "*" in word:
            count, word = word.split("*")
        if ":" in word:
            where, word = word.split(":")
            at = int(where)
        for _ in range(int(count)):
            places[at] = word.split("x")
            at += 1
    c = scales.pop("c", ["0"])[0]
    special = {(0, 0), (m - 1, n - 1)}
    rows, columns = {0, m - 1}, {0, n - 1}
    a = [places.get(j, "00")[0] if i in rows else "0" for i in range(m) for j in range(k)]
    b = [places.get(j, "00")[1] if i in columns else "0" for j in range(k) for i in range(n)]
    parts = [a, b, [c if (i, j) in special else "0" for i in range(m) for j in range(n)]]
    scale = SCALE.search(op)
    if scale:
        one = ONE[scale.group(1)]
        block = 16 if "block16" in op or scale.group(1) == "ue4m3" else 32
        blocks = k // block
        sa = scales.get("sa", []) + [one] * blocks
        sb = scales.get("sb", []) + [one] * blocks
        parts.append([sa[j] if i in rows else one for i in range(m) for j in range(blocks)])
        parts.append([sb[j] if i in columns else one for j in range(blocks) for i in range(n)])
    return " : ".join(" ".join(part) for part in parts)


def check_matrix(op, output, expected):
    m, n, _ = (int(text) for text in SHAPE.search(op).groups())
    found = output.split()
    if len(found) != m * n:
        return f"{len(found)} elements, not {m * n}"
    for i in range(m):
        for j in range(n):
            value = found[i * n + j]
            corner = (i, j) in {(0, 0), (m - 1, n - 1)}
            if corner and value != expected:
                return f"({i}, {j}) is {value}, not {expected}"
            inner = i not in (0, m - 1) and j not in (0, n - 1)
            if inner and int(value, 16) != 0:
                return f"({i}, {j}) is {value}, not zero"
    return None


def run_group(program, op, profile, vectors):
    """Failures of the vectors of one operation."""
    is_matrix = SHAPE.search(op + ".") is not None
    lines = [matrix_line(op, words) if is_matrix else " ".join(words) for _, words, _ in vectors]
    command = [program, "num", op] + (["--profile", profile] if profile else [])
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        return [f"{op}: exit status {done.returncode}: {done.stderr.strip()}"]
    outputs = done.stdout.splitlines()
    if len(outputs) != len(lines):
        return [f"{op}: {len(outputs)} results of {len(lines)}"]
    failures = []
    for (name, words, expected), output in zip(vectors, outputs):
        if is_matrix:
            problem = check_matrix(op, output, expected)
        else:
            problem = None if output == expected else f"{output}, not {expected}"
        if problem:
            failures.append(f"{name}: {op} {' '.join(words)}: {problem}")
    return failures


ERRORS = [  # OP, input, results written before the error, part of the message
    ("add.rn.f32", "3f800000 3f800000\n\n# comment\n1 x\n", "40000000\n", "line 4: found 'x' for b"),
    ("add.rn.f32", "1\n", "", "line 1: b is missing"),
    ("add.rn.f32", "1 2 3\n", "", "expected the end of the line, found '3'"),
    ("cvt.f32.f16", "10000", "", "found '10000' for a, expected f16, that is 16 bits"),
    ("cvt.f32.f16", "0x1\n", "", "expected hexadecimal digits"),
    ("mma.m8n8k4.f64.f64.f64.f64", "1 : 2 : 3\n", "", "found 1 of the 32 elements of a"),
    ("ad.rn.f32", "", "", "did you mean add.rn.f32?"),
    ("add.rn.f32x2 --profile sm_90", "", "", "sm_90 has no add.rn.f32x2; sm_100 has it"),
    ("add.rn.f32 --profile sm_91", "", "", "--profile: expected sm_80"),
    ("", "", "", "which operation?"),
]


def check_errors(program):
    failures = []
    for arguments, text, output, message in ERRORS:
        done = subprocess.run([program, "num", *arguments.split()], input=text, capture_output=True, text=True)
        if done.returncode != 2 or done.stdout != output or message not in done.stderr:
            failures.append(f"num {arguments}: exit status {done.returncode}: {done.stdout} {done.stderr}")
    return failures


def check_lists(program):
    failures = []
    for option in ("--list", "--fidelity"):
        done = subprocess.run([program, "num", option, "--format", "json"], capture_output=True, text=True)
        if done.returncode != 0 or len(json.loads(done.stdout)) < 50:
            failures.append(f"num {option} --format json: exit status {done.returncode}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tilesim", required=True)
    parser.add_argument("--vectors", default=os.path.join(HERE, "section7.txt"))
    arguments = parser.parse_args()
    groups, count = OrderedDict(), 0
    for name, op, profile, words, result in read_vectors(arguments.vectors):
        groups.setdefault((op, profile), []).append((name, words, result))
        count += 1
    failures = check_errors(arguments.tilesim) + check_lists(arguments.tilesim)
    for (op, profile), vectors in groups.items():
        failures += run_group(arguments.tilesim, op, profile, vectors)
    for failure in failures:
        print(failure)
    print(f"{count} vectors, {len(failures)} failures")
    return 1 if failures or count < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
