#!/usr/bin/env python3
"""Checks the contract of the command line: exit status, what goes to stdout and what to stderr, help and its examples,
JSON that parses, files that are whole or absent. Needs only the standard library."""
import argparse
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from cli_checks import ROOT, Checks  # noqa: E402

COMMANDS = ["run", "check", "time", "compare", "events", "import", "ops", "machines", "num"]
ADD = "traces/add_f32_ragged"


def check_hazards(checks):
    """tilesim check: text, JSON and SARIF of a clean case; schedules that are tried in turn."""
    done = checks.run("check", ADD)
    checks.expect(done.returncode == 0 and done.stdout == f"{ADD}: success, 0 hazards, 0 remarks\n", f"check: {done}")
    done = checks.run("check", "traces/softmax", "--schedule", "explore:3", "--format", "json")
    checks.expect(done.returncode == 0 and json.loads(done.stdout)["hazards"] == 0, f"check explore: {done}")
    done = checks.run("check", "traces/transpose_swizzled", "--remarks", "--format", "sarif")
    log = json.loads(done.stdout)
    results = log["runs"][0]["results"]
    checks.expect(done.returncode == 0 and log["version"] == "2.1.0", f"check sarif: {done}")
    checks.expect([row["ruleId"] for row in results] == ["TS-PERF-001"], f"check sarif: {done.stdout}")
    checks.expect("startLine" in results[0]["locations"][0]["physicalLocation"]["region"], "check sarif: place")
    for schedule in ("explore:", "explore:99999999", "last:x"):
        checks.expect_error(2, "is not known", "run", ADD, "--schedule", schedule)


def check_help(checks):
    version = checks.run("--version")
    checks.expect(version.returncode == 0 and version.stdout.startswith("tilesim "), "--version")
    overview = checks.run("--help")
    checks.expect(all(len(line) <= 80 for line in overview.stdout.splitlines()), "--help fits 80 columns")
    checks.expect(overview.returncode == 0 and all(name in overview.stdout for name in COMMANDS), "--help")
    for name in COMMANDS:
        texts = [checks.run(name, "--help").stdout, checks.run("help", name).stdout]
        checks.expect(texts[0] == texts[1] and "example: " in texts[0], f"{name} --help")
        checks.expect(all(len(line) <= 80 for line in texts[0].splitlines()), f"{name} --help fits 80 columns")
        with tempfile.TemporaryDirectory() as folder:
            for example in texts[0].split("example: ")[1].strip().splitlines():
                check_example(checks, example.strip(), folder)
    checks.expect(checks.run().returncode == 2, "no command")


def check_example(checks, example, folder):
    """Runs a line of a help text with the folder instead of /tmp."""
    line = example.replace("/tmp/", folder + "/").replace("tilesim ", checks.program + " ")
    done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=ROOT)
    checks.expect(done.returncode == 0 and done.stdout and not done.stderr, f"example '{example}': {done.stderr}")


def check_errors(checks):
    error = checks.expect_error
    error(2, "did you mean 'run'?", "rnu", ADD)
    error(2, "did you mean --hash?", "run", ADD, "--hsah")
    error(2, "which case folder?", "run")
    error(2, "one CASE at a time", "run", ADD, ADD)
    error(2, "--out needs a value", "run", ADD, "--out")
    error(2, "--hash takes no value", "run", ADD, "--hash=1")
    error(2, "expected a number from 1 to 256", "run", ADD, "-j", "0")
    error(2, "expected a number from 1 to 256", "run", ADD, "-jx")
    error(2, "expected text or json", "run", ADD, "--format=xml")
    error(2, "expected NAME=WHAT", "run", ADD, "--arg", "A")
    error(2, "no such folder", "run", "traces/nowhere")
    error(2, "is a file; expected a folder", "run", "traces/README.md")
    error(2, "--format: expected text, json or sarif, found 'xml'", "check", "traces/nowhere", "--format", "xml")
    error(2, "TS-INPUT-004", "run", "docs")
    error(2, "no parameter X (it has A, B, C)", "run", ADD, "--arg", "X=1")
    error(2, "did you mean A?", "run", ADD, "--arg", "a=init:uniform")
    error(2, "TS-INPUT-005", "run", ADD, "--arg", "A=traces/README.md")
    error(2, "A shape[0] violates packed ABI constraint", "run", ADD, "--arg", "A=init:uniform:1@3x99")
    error(2, "hint: the arguments were A f32 3x99, B f32 100x99, C f32 100x99\n", "run", ADD, "--arg", "A=init:uniform:1@3x99")
    error(2, "not a .npy file", "run", ADD, "--arg", "A=/dev/zero")
    error(2, "argument A: there is no such file; expected FILE.npy, init:", "run", ADD, "--arg", "A=3")
    error(2, "expected FILE.npy, init:", "run", ADD, "--arg", "A=")
    error(2, "a number in 'init:bits:99999999999999999999' is too large", "run", ADD, "--arg", "A=init:bits:99999999999999999999")
    error(2, "A is given twice", "run", ADD, "--arg", "A=init:bits", "--arg", "A=init:bits")
    error(2, "grid.x is 0", "run", "traces/add_dynamic_1000", "--arg", "A=init:uniform@0", "--arg", "B=init:uniform@0")
    error(3, "TS-LIMIT-002", "run", "traces/add_dynamic_1000", "--arg", "A=init:uniform@99999999999999")
    error(2, "expected eager, lazy, random:SEED", "run", ADD, "--schedule", "lasy")
    error(2, "TS-INPUT-007", "run", ADD, "--machine", "h2000")
    error(2, "cannot write", "run", ADD, "--events", "/nowhere/x")
    error(2, "TS-INPUT-004", "run", ADD, "--out", "README.md")
    error(2, "/nowhere/x: error TS-INPUT-004", "run", ADD, "--out", "/nowhere/x")
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
        link = os.path.join(folder, "link.tsev")
        os.symlink("add.tsev", link)
        done = checks.run("run", ADD, "--events", link)
        checks.expect(done.returncode == 0 and os.path.islink(link), f"a link stays a link: {done.stderr}")
        with open(events, "r+b") as file:
            file.truncate(os.path.getsize(events) - 1)
        checks.expect(checks.run("events", events).returncode == 2, "a file that was cut short is an error")
        check_failed_run_leaves_nothing(checks, folder)


def check_failed_run_leaves_nothing(checks, folder):
    out, events = os.path.join(folder, "out2"), os.path.join(folder, "bad.tsev")
    checks.run("run", ADD, "--arg", "A=init:uniform:1@2x2", "--out", out, "--events", events)
    checks.expect(not os.path.exists(out) and not os.path.exists(events), "a failed run leaves no files")


def check_runs_at_once(checks):
    """Several runs that make the same folder and event file: all succeed, and the files are whole."""
    with tempfile.TemporaryDirectory() as folder:
        out, events = os.path.join(folder, "out"), os.path.join(folder, "add.tsev")
        command = [checks.program, "run", ADD, "--out", out, "--events", events]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) for _ in range(8)]
        for program in runs:
            error = program.communicate()[1]
            checks.expect(program.returncode == 0, f"runs at once: {error.decode()}")
        checks.expect(sorted(os.listdir(folder)) == ["add.tsev", "out"], "runs at once: nothing temporary is left")
        checks.expect(sorted(os.listdir(out)) == ["C.npy", "args.json"], "runs at once: the outputs")
        checks.expect(checks.run("events", events).returncode == 0, "runs at once: the event file is whole")


def check_full_disk(checks):
    for arguments in (["run", ADD], ["import", ADD, "--print-ir"]):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([checks.program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        checks.expect(done.returncode == 2 and "cannot write the result: " in done.stderr, f"full disk: {done.stderr}")
        checks.expect("ioctl" not in done.stderr, f"a reason that has nothing to do with it: {done.stderr}")


def check_interrupted_run(checks):
    """A run that is killed leaves no part of an event file, where the file system has files without names."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
        except OSError:
            return
        command = [checks.program, "run", "traces/gemm_seed", "--events", os.path.join(folder, "e.tsev")]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        time.sleep(0.1)
        program.send_signal(signal.SIGINT)
        program.communicate()
        left = os.listdir(folder)
        checks.expect(left == [] or (left == ["e.tsev"] and program.returncode == 0), f"interrupted run left {left}")


def check_case_folder(checks):
    """A folder instead of a file, a link that leads nowhere, a missing file."""
    with tempfile.TemporaryDirectory() as folder:
        case = os.path.join(folder, "case")
        shutil.copytree(os.path.join(ROOT, ADD), case)
        os.rename(os.path.join(case, "launch.json"), os.path.join(folder, "launch.json"))
        os.symlink("launch.json", os.path.join(case, "launch.json"))
        checks.expect_error(2, "launch.json: error TS-INPUT-004", "run", case)
        os.unlink(os.path.join(case, "launch.json"))
        os.mkdir(os.path.join(case, "launch.json"))
        checks.expect_error(2, "launch.json: error TS-INPUT-004", "run", case)
        os.unlink(os.path.join(case, "host.json.xz"))
        checks.expect_error(2, "found no host.json", "run", case)


def check_shared_memory(checks):
    """Launches with more shared memory than the machine has, and with less than none."""
    with tempfile.TemporaryDirectory() as folder:
        case = os.path.join(folder, "case")
        shutil.copytree(os.path.join(ROOT, "traces/gemm_64x64x32_s2"), case)
        with lzma.open(os.path.join(case, "host.json.xz"), "rt", encoding="utf-8") as file:
            whole = file.read()
        os.unlink(os.path.join(case, "host.json.xz"))
        for value, part in (("999999999", "of dynamic shared memory, machine h200-sxm has"), ("-5", "is -5 bytes, expected 0 or more")):
            with open(os.path.join(case, "host.json"), "w", encoding="utf-8") as file:
                file.write(whole.replace('"value": 16384', f'"value": {value}'))
            checks.expect_error(2, part, "run", case)


def check_launch_json(checks):
    """Contradictions of launch.json are errors, never other data."""
    with tempfile.TemporaryDirectory() as folder:
        case = os.path.join(folder, "case")
        shutil.copytree(os.path.join(ROOT, ADD), case)
        with open(os.path.join(case, "launch.json"), encoding="utf-8") as file:
            whole = file.read()
        for old, new, part in (
            ('"seed"', '"sead"', "expected `seed`"),
            ('"seed": ', '"seed": -', "expected `seed`"),
            ('"uniform"', '"unifrm"', "expected `init`"),
            ('"shape": [', '"shape": [1,', "another rank"),
            ('"shape": [', '"shape": [-1,', "none below 0"),
            ('"tensors"', '"tensors', "expected a JSON object, found something else at byte"),
            ("}", "", "expected a JSON object, found"),
        ):
            with open(os.path.join(case, "launch.json"), "w", encoding="utf-8") as file:
                file.write(whole.replace(old, new, 1))
            checks.expect_error(2, part, "run", case)


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


CHECKS = (
    check_help,
    check_hazards,
    check_errors,
    check_json,
    check_files,
    check_runs_at_once,
    check_full_disk,
    check_interrupted_run,
    check_case_folder,
    check_shared_memory,
    check_launch_json,
    check_damaged_case,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tilesim", default=os.path.join(ROOT, "build", "tilesim"), help="the program")
    checks = Checks(os.path.abspath(parser.parse_args().tilesim))
    for check in CHECKS:
        check(checks)
    for failure in checks.failures:
        print("FAILED", failure)
    print(f"command line: {checks.count} checks, {len(checks.failures)} failures")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
