#!/usr/bin/env python3
"""Checks the contract of the command line: exit status, what goes to stdout and what to stderr, help and its examples,
JSON that parses, files that are whole or absent. Needs only the standard library."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = ["run", "events", "import", "ops", "machines"]
ADD = "traces/add_f32_ragged"


class Checks:
    def __init__(self, program):
        self.program = program
        self.failures = []
        self.count = 0

    def run(self, *arguments, **options):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, cwd=ROOT, **options)

    def expect(self, condition, what):
        self.count += 1
        if not condition:
            self.failures.append(what)

    def expect_error(self, status, part, *arguments):
        done = self.run(*arguments)
        what = " ".join(arguments)
        self.expect(done.returncode == status, f"{what}: exit status {done.returncode}, not {status}: {done.stderr}")
        self.expect(part in done.stderr, f"{what}: stderr lacks '{part}': {done.stderr}")
        self.expect(done.stdout == "", f"{what}: stdout of a failed command: {done.stdout[:200]}")
        self.expect("\033" not in done.stderr, f"{what}: colours without a terminal")


def check_help(checks):
    version = checks.run("--version")
    checks.expect(version.returncode == 0 and version.stdout.startswith("tilesim "), "--version")
    overview = checks.run("--help")
    checks.expect(overview.returncode == 0 and all(name in overview.stdout for name in COMMANDS), "--help")
    for name in COMMANDS:
        texts = [checks.run(name, "--help").stdout, checks.run("help", name).stdout]
        checks.expect(texts[0] == texts[1] and "example: " in texts[0], f"{name} --help")
        examples = texts[0].split("example: ")[1].strip().splitlines()
        for example in examples:
            check_example(checks, example.strip())
    checks.expect(checks.run().returncode == 2, "no command")


def check_example(checks, example):
    """Runs a line of a help text with a folder of its own instead of /tmp."""
    with tempfile.TemporaryDirectory() as folder:
        line = example.replace("/tmp/", folder + "/").replace("tilesim ", checks.program + " ")
        done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=ROOT)
        checks.expect(done.returncode == 0 and done.stdout and not done.stderr, f"example '{example}': {done.stderr}")


def check_errors(checks):
    error = checks.expect_error
    error(2, "did you mean 'run'?", "rnu", ADD)
    error(2, "did you mean --hash?", "run", ADD, "--hsah")
    error(2, "which case folder?", "run")
    error(2, "one case folder at a time", "run", ADD, ADD)
    error(2, "--out needs a value", "run", ADD, "--out")
    error(2, "--hash takes no value", "run", ADD, "--hash=1")
    error(2, "expected a number from 1 to 256", "run", ADD, "-j", "0")
    error(2, "expected a number from 1 to 256", "run", ADD, "-jx")
    error(2, "expected text or json", "run", ADD, "--format=xml")
    error(2, "expected NAME=WHAT", "run", ADD, "--arg", "A")
    error(2, "no such folder", "run", "traces/nowhere")
    error(2, "TS-INPUT-004", "run", "docs")
    error(2, "no parameter X (it has A, B, C)", "run", ADD, "--arg", "X=1")
    error(2, "did you mean A?", "run", ADD, "--arg", "a=init:uniform")
    error(2, "TS-INPUT-005", "run", ADD, "--arg", "A=traces/README.md")
    error(2, "A shape[0] violates packed ABI constraint", "run", ADD, "--arg", "A=init:uniform:1@3x99")
    error(2, "grid.x is 0", "run", "traces/add_dynamic_1000", "--arg", "A=init:uniform@0", "--arg", "B=init:uniform@0")
    error(3, "TS-LIMIT-002", "run", "traces/add_dynamic_1000", "--arg", "A=init:uniform@99999999999999")
    error(2, "expected eager, lazy or random:SEED", "run", ADD, "--schedule", "lasy")
    error(2, "TS-INPUT-007", "run", ADD, "--machine", "h2000")
    error(2, "cannot write", "run", ADD, "--events", "/nowhere/x")
    error(2, "TS-INPUT-004", "run", ADD, "--out", "README.md")
    error(2, "TS-INPUT-006", "events", "README.md")
    error(2, "TS-INPUT-004", "events", "nowhere.tsev")
    error(2, "unexpected 'x'", "ops", "x")


def check_json(checks):
    done = checks.run("run", ADD, "--format", "json", "--stats", "--fidelity")
    report = json.loads(done.stdout)
    checks.expect(report["status"] == 0 and report["diagnostics"] == [] and done.stderr == "", "run --format json")
    checks.expect(report["outputs"][0]["shape"] == [100, 99] and report["statistics"]["blocks"] > 0, "outputs as JSON")
    checks.expect(any(row["level"] == "exact" for row in report["fidelity"]), "fidelity as JSON")
    done = checks.run("run", ADD, "--format", "json", "--arg", "Q=1")
    report = json.loads(done.stdout)
    checks.expect(done.returncode == 2 == report["status"] and report["diagnostics"][0]["code"] == "TS-ARG-001", "error as JSON")
    checks.expect(len(json.loads(checks.run("ops", "--format=json").stdout)) > 50, "ops --format json")
    checks.expect("name" in json.loads(checks.run("machines", "--format=json").stdout)[0], "machines --format json")
    rows = json.loads(checks.run("import", "traces/add_dynamic_1000", "--format=json").stdout)
    checks.expect([row["shape"] for row in rows] == [["n"]] * 3, "import --format json")


def check_files(checks):
    with tempfile.TemporaryDirectory() as folder:
        out, events = os.path.join(folder, "out"), os.path.join(folder, "add.tsev")
        done = checks.run("run", ADD, "--hash", "--out", out, "--events", events)
        index = json.load(open(os.path.join(out, "args.json"), encoding="utf-8"))
        checks.expect(done.stdout == f"C {index['tensors'][0]['sha256']}\n", "args.json has the hash")
        checks.expect(sorted(os.listdir(out)) == ["C.npy", "args.json"], "files of --out")
        checks.expect(sorted(os.listdir(folder)) == ["add.tsev", "out"], "nothing temporary is left")
        lines = checks.run("events", events).stdout.splitlines()
        checks.expect(len(lines) > 100 and max(map(len, lines)) <= 80, "events has lines of at most 80 columns")
        checks.expect(checks.run("events", events, "--limit", "7").stdout.splitlines() == lines[:7], "events --limit")
        listed = json.loads(checks.run("events", events, "--format", "json").stdout)
        checks.expect([row["seq"] for row in listed] == list(range(len(lines))), "events --format json")
        with open(events, "r+b") as file:
            file.truncate(os.path.getsize(events) - 1)
        checks.expect(checks.run("events", events).returncode == 2, "a file that was cut short is an error")
        check_failed_run_leaves_nothing(checks, folder)


def check_failed_run_leaves_nothing(checks, folder):
    out, events = os.path.join(folder, "out2"), os.path.join(folder, "bad.tsev")
    checks.run("run", ADD, "--arg", "A=init:uniform:1@2x2", "--out", out, "--events", events)
    checks.expect(not os.path.exists(out) and not os.path.exists(events), "a failed run leaves no files")


def check_damaged_case(checks):
    """A module that breaks off, is empty, or is something else."""
    with tempfile.TemporaryDirectory() as folder:
        case = os.path.join(folder, "case")
        shutil.copytree(os.path.join(ROOT, ADD), case)
        module = os.path.join(case, "device.json.xz")
        whole = open(module, "rb").read()
        for data in (whole[: len(whole) // 2], b"", b"{}", b"[1", b"\xfd7zXZ\0", whole[:-1] + b"x"):
            with open(module, "wb") as file:
                file.write(data)
            done = checks.run("run", case)
            checks.expect(done.returncode == 2 and "device.json.xz" in done.stderr, f"damaged module: {done.stderr}")
        with open(module, "wb") as file:
            file.write(whole)
        for text in ("", "[]", "{\"tensors\": 1}", "{\"tensors\": [{}]}", "{\"tensors\": [{\"name\": \"A\"}]}"):
            with open(os.path.join(case, "launch.json"), "w", encoding="utf-8") as file:
                file.write(text)
            done = checks.run("run", case)
            checks.expect(done.returncode == 2 and "launch.json" in done.stderr, f"launch.json {text}: {done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tilesim", default=os.path.join(ROOT, "build", "tilesim"), help="the program")
    checks = Checks(os.path.abspath(parser.parse_args().tilesim))
    for check in (check_help, check_errors, check_json, check_files, check_damaged_case):
        check(checks)
    for failure in checks.failures:
        print("FAILED", failure)
    print(f"command line: {checks.count} checks, {len(checks.failures)} failures")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
