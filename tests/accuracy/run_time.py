#!/usr/bin/env python3
"""Checks the contract of `tilesim time`, `compare` and `machines`: exit status, streams, 80 columns, JSON with what it
promises, result files that are resumed. Needs only the standard library."""
import argparse
import json
import os
import pty
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from cli_checks import ROOT, Checks  # noqa: E402

SMALL = ["traces/add_dynamic_1000", "traces/softmax", "traces/transpose_swizzled", "traces/gemm_64x64x32_s2"]
COLLATZ = "../shared/data/tilelang/cases/collatz"   # what it executes depends on contents
GEMMS = ["traces/gemm_64x64x32_s2", "traces/gemm_sparse24", "traces/gemm_sparse24_sm80"]


def check_text(checks):
    """SMALL, and cases of the tree with rates of all sizes; a copy has next to no arithmetic."""
    for case in [*SMALL, "traces/copy_oob_safe", "traces/gemm_seed", "traces/reduce_sum_one_row"]:
        done = checks.run("time", case)
        checks.expect(done.returncode == 0 and not done.stderr, f"time {case}: {done.stderr}")
        wide = [line for line in done.stdout.splitlines() if len(line) > 80]
        checks.expect(not wide, f"time {case}: more than 80 columns: {wide}")
        for part in ("hot ", "cold ", "cycles", "limited by", "unit ", "% of a warp's life"):
            checks.expect(part in done.stdout, f"time {case}: the report lacks '{part}'")
    conflicts = checks.run("time", "traces/transpose_swizzled").stdout
    checks.expect("bank conflicts" in conflicts and "kernels.py:595" in conflicts, f"bank conflicts: {conflicts}")
    checks.expect("bank conflicts" not in checks.run("time", SMALL[0]).stdout, "conflicts of a kernel without")


def check_json(checks):
    time = checks.json("time", "traces/gemm_64x64x32_s2", "--machine", "h200")
    for key in ("kernel_us", "kernel_us_cold", "launch_us", "cycles", "uncertainty", "stalls", "machine", "unverified"):
        checks.expect(key in time, f"time --format json lacks {key}")
    launch = time["launches"][0]
    checks.expect(abs(sum(time["stalls"].values()) - 1) < 1e-3, f"stalls add up to 1: {time['stalls']}")
    checks.expect(abs(launch["kernel_us"] + time["launch_us"] - time["kernel_us"]) < 1e-3, "the parts of the time")
    checks.expect(launch["units"][launch["limiting_unit"]] == max(launch["units"].values()), "the limiting unit")
    for role in launch["roles"]:
        life = role["issue_cycles"] + sum(role["stalls"].values())
        checks.expect(abs(life / role["life_cycles"] - 1) < 1e-3, f"the life of {role['name']}")
    checks.expect(time == checks.json("time", "traces/gemm_64x64x32_s2", "--machine", "h200"), "equal runs, equal times")
    full = checks.json("time", "traces/gemm_64x64x32_s2", "--machine", "h200", "--full")
    for answer in (full, time):
        for launch in answer["launches"]:
            del launch["events"]   # equal blocks are told once when values do not matter
    checks.expect(full == time, "values do not change the time")
    given = checks.json("time", "traces/softmax", "--registers", "255")["launches"][0]
    checks.expect(given["registers_per_thread"] == 255 and not given["registers_are_estimated"], "--registers")
    failed = checks.json("time", "traces/gemm_64x64x32_s2", "--machine", "a100", status=2)
    checks.expect("tma_issue" in failed["diagnostics"][0]["message"] and "kernel_us" not in failed, f"refused: {failed}")


def check_files(checks, folder):
    spans, trace = os.path.join(folder, "spans.tsv"), os.path.join(folder, "trace.json")
    events = os.path.join(folder, "events.tsev")
    checks.run("time", "traces/softmax", "--spans", spans, "--trace", trace)
    with open(spans, encoding="utf-8") as file:
        lines = file.read().splitlines()
    checks.expect(lines[0] == "# tilesim-spans 1", f"head of the spans: {lines[0]}")
    rows = [dict(zip(lines[2].split("\t"), line.split("\t"))) for line in lines[3:]]
    warps = [row for row in rows if row["unit"] == "warp"]
    checks.expect({row["warp"] for row in warps} == {"0", "1", "2", "3"}, "spans of all warps")
    checks.expect(all(int(row["start"]) <= int(row["end"]) for row in rows), "spans end after their start")
    with open(trace, encoding="utf-8") as file:
        slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
    told = [event for event in slices if event["cat"] != "stall"]
    checks.expect(len(told) == len(rows), f"{len(told)} slices of {len(rows)} spans")
    last = {}
    for event in sorted((e for e in slices if e["cat"] == "warp"), key=lambda e: (e["tid"], e["ts"])):
        checks.expect(event["ts"] >= last.get(event["tid"], 0) - 1e-4, f"slices of a warp overlap: {event}")
        last[event["tid"]] = event["ts"] + event["dur"]
    checks.run("run", "traces/softmax", "--events", events)
    live, replayed = checks.json("time", "traces/softmax"), checks.json("time", "--events", events)
    checks.expect(live["kernel_us"] == replayed["kernel_us"] and live["launches"][0]["roles"] ==
                  replayed["launches"][0]["roles"], "live and from the file")
    checks.expect(os.listdir(folder) and not [n for n in os.listdir(folder) if ".tmp-" in n], "temporary files are left")


def check_compare(checks, folder):
    both = checks.json("compare", *GEMMS)
    times = [row["kernel_us"] for row in both["variants"]]
    checks.expect(times == sorted(times) and both["variants"][0]["ratio"] == 1, f"ranking: {times}")
    checks.expect(both["variants"][0]["reason"] is None and all(row["reason"] for row in both["variants"][1:]),
                  "each that loses has a reason")
    for i, row in enumerate(both["variants"]):
        for k, other in enumerate(both["variants"]):
            checks.expect(abs(row["beats"][k] + other["beats"][i] - 1) < 2e-4, "a beats b, or b beats a")
            checks.expect(i >= k or row["beats"][k] >= 0.5, "the faster one is more likely to be faster")
    checks.expect(both == checks.json("compare", *GEMMS, "-j", "2"), "-j changes nothing")
    text = checks.run("compare", *GEMMS).stdout
    checks.expect(all(len(line) <= 80 for line in text.splitlines()), f"compare fits 80 columns: {text}")
    alone = checks.json("compare", GEMMS[0], GEMMS[0])
    checks.expect(alone["variants"][0]["beats"] == [0.5, 0.5], f"the same twice: {alone}")

    results = os.path.join(folder, "results.jsonl")
    checks.json("compare", *GEMMS[:2], "--resume", results)
    with open(results, encoding="utf-8") as file:
        lines = file.read().splitlines()
    checks.expect(len(lines) == 2 and all(json.loads(line)["key"] for line in lines), f"result file: {lines}")
    with open(results, "w", encoding="utf-8") as file:
        file.write(lines[0] + "\n" + lines[1][:40])   # killed within a line
    again = checks.json("compare", *GEMMS, "--resume", results)
    resumed = {row["case"]: row["is_resumed"] for row in again["variants"]}
    first = json.loads(lines[0])["case"]
    checks.expect(resumed[first] and sum(resumed.values()) == 1, f"resumed: {resumed}")
    checks.expect([row["kernel_us"] for row in again["variants"]] == times, "resumed results are the same")
    told = [checks.run("compare", *GEMMS, "--resume", results).stdout for _ in range(2)]
    fresh = checks.run("compare", *GEMMS).stdout
    checks.expect(told[0] == fresh and told[1] == fresh, "resumed reports are the same")
    checks.expect([row["reason"] for row in again["variants"]] == [row["reason"] for row in both["variants"]],
                  "and so are the reasons")
    other = checks.json("compare", GEMMS[0], "--resume", results, "--machine", "h100")
    checks.expect(not other["variants"][0]["is_resumed"], "another machine is another key")
    failed = checks.json("compare", GEMMS[0], "traces/none", status=2)
    checks.expect([row["case"] for row in failed["failed"]] == ["traces/none"] and len(failed["variants"]) == 1,
                  f"a case that is not there: {failed}")


def resume_from(checks, path, content, *arguments):
    """compare with a result file of that content; answers the run and what the file has then."""
    with open(path, "wb") as file:
        file.write(content)
    done = checks.run("compare", SMALL[0], "--resume", path, *arguments)
    with open(path, "rb") as file:
        return done, file.read()


def check_resume_refused(checks, folder):
    """What is not a result file is named and stays as it is."""
    path = os.path.join(folder, "other")
    for content, found in ((b"a note\nmore", "'a note'"), (b"\xfd7zXZ\x00\x01", "\\xfd7zXZ\\x00\\x01"), (b"{", "'{'"),
                           (b"\n", "''"), (b'{"key": "none"}\n', "none"), (b'{"rank": 1}', "rank")):
        done, after = resume_from(checks, path, content)
        checks.expect(done.returncode == 2 and not done.stdout, f"{content}: {done}")
        checks.expect(f"{path}: line 1: expected a result" in done.stderr and found in done.stderr,
                      f"{content}: {done.stderr}")
        checks.expect(after == content, f"{content} became {after}")
    for path, found in (("/dev/full", "not a regular file"), ("/dev/zero", "not a regular file"), (folder, "a folder")):
        checks.expect_error(2, f"{path}: expected a result file or no file, found", "compare", SMALL[0], "--resume", path)
        checks.expect_error(2, found, "compare", SMALL[0], "--resume", path)


def check_resume_damaged(checks, folder):
    """Lines that are not whole or not believable are counted and timed again; an end that was cut is not counted."""
    path = os.path.join(folder, "damaged.jsonl")
    _, line = resume_from(checks, path, b"", "--format", "json")
    good = json.loads(line)

    def with_value(key, value):
        return line.replace(f'"{key}": {good[key]:.17g}'.encode(), f'"{key}": {value}'.encode())

    checks.expect(with_value("kernel_us", "1") != line, f"no kernel_us in {line}")
    cases = [(with_value(key, value), 1) for key, value in (("kernel_us", "-5"), ("kernel_us", "0"), ("kernel_us", "1e999"),
             ("kernel_us", "nan"), ("kernel_us_cold", "-1"), ("cycles", "inf"), ("dram_bytes", "-1"), ("uncertainty", "nan"))]
    cases += [(line[:60] + b"\n", 1), (line[:60] + b"\n" + line[:70] + b"\n", 2), (line[:60], 0), (line[:12], 0)]
    for content, skipped in cases:
        done, after = resume_from(checks, path, content, "--format", "json")
        told = f"{path}: skipped {skipped} line{'s' * (skipped != 1)}, damaged" if skipped else ""
        checks.expect(done.returncode == 0 and told in done.stderr and bool(done.stderr) == bool(told),
                      f"{content}: {done.stderr}")
        row = json.loads(done.stdout)["variants"][0]
        checks.expect(not row["is_resumed"] and abs(row["kernel_us"] - good["kernel_us"]) < 1e-5, f"{content}: {row}")
        checks.expect(after == content.rstrip(b"\n") + b"\n" + line, f"{content} became {after}")
    done, after = resume_from(checks, path, line + b"rubbish\n" + line[:30], "--format", "json")
    checks.expect("skipped 1 line," in done.stderr and json.loads(done.stdout)["variants"][0]["is_resumed"],
                  f"rubbish in the middle: {done}")


def check_resume_memory(checks, folder):
    """A line that memory does not suffice for ends the command."""
    path = os.path.join(folder, "long.jsonl")

    def run(*arguments):
        limit = 512 << 20
        return checks.run(*arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

    if run("compare", "--help").returncode != 0:
        return   # sanitizers need more than that
    with open(path, "wb") as file:
        file.write(b'{"key": "')
        file.truncate(1 << 30)
    with open(path, "r+b") as file:
        file.seek(9)
        file.write(b"0" * 32 + b'", "case": "x')
    done = run("compare", SMALL[0], "--resume", path)
    checks.expect(done.returncode == 3 and f"{path}: cannot read: " in done.stderr, f"no memory: {done}")
    checks.expect(os.path.getsize(path) == 1 << 30, "the file stays as it is")
    os.unlink(path)


def check_diagnostics(checks, folder):
    """What time says about a case compare says too, for resumed results as well."""
    path = os.path.join(folder, "diagnostics.jsonl")
    _, line = resume_from(checks, path, b"", "--format", "json")
    checks.expect(json.loads(line)["diagnostics"] == [], f"nothing to tell: {line}")
    told = b'"diagnostics": [{"code": "TS-A-001", "title": "one"}, {"code": "TS-B-002", "title": "two"}]'
    line = line.replace(b'"diagnostics": []', told)
    row = json.loads(resume_from(checks, path, line, "--format", "json")[0].stdout)["variants"][0]
    checks.expect(row["is_resumed"] and row["diagnostics"] == json.loads(b"{" + told + b"}")["diagnostics"], f"{row}")
    text = resume_from(checks, path, line)[0].stdout
    name = os.path.basename(SMALL[0])
    checks.expect(f" TS-A-001: {name}: one\n" in text and f" TS-B-002: {name}: two\n" in text, text)
    checks.expect(text.startswith("1 variant on "), f"one variant: {text}")
    if not os.path.isdir(os.path.join(ROOT, COLLATZ)):
        return
    code = checks.json("time", COLLATZ)["diagnostics"][0]["code"]
    for _ in range(2):
        row = checks.json("compare", COLLATZ, "--resume", path)["variants"][0]
        checks.expect([item["code"] for item in row["diagnostics"]] == [code], f"{COLLATZ}: {row}")
    checks.expect(row["is_resumed"], f"{COLLATZ} is resumed")
    text = checks.run("compare", COLLATZ).stdout
    checks.expect(f"{code}: collatz: " in text and all(len(line) <= 80 for line in text.splitlines()), text)


def check_progress(checks):
    """On a terminal a bar comes and goes; stdout stays as it is."""
    terminal, end = pty.openpty()
    with subprocess.Popen([checks.program, "compare", *GEMMS], stdout=subprocess.PIPE, stderr=end, cwd=ROOT,
                          text=True) as process:
        text, _ = process.communicate(timeout=300)
        os.close(end)
        told = os.read(terminal, 65536).decode()
    os.close(terminal)
    checks.expect("] 1 of 3 variants" in told and "] 3 of 3 variants" in told, f"progress: {told!r}")
    checks.expect(told.endswith(" " * 76 + "\r"), f"the bar is wiped out: {told!r}")
    checks.expect(text == checks.run("compare", *GEMMS).stdout, "stdout with a bar")


def check_machines(checks):
    names = [row["name"] for row in checks.json("machines")]
    checks.expect(set(names) >= {"a100", "b200", "h100-pcie", "h100-sxm", "h200-sxm", "h800-pcie"}, f"{names}")
    rows = checks.json("machines", "b200")
    values = {row["key"]: row for row in rows}
    checks.expect(all(row["unit"] and row["source"] and row["tag"] in ("DOC", "MEASURED", "FITTED", "GUESS")
                      for row in rows), "unit, tag and source of every value")
    checks.expect(values["wgmma_queue"]["value"] is None and values["sm_count"]["value"] == 148, "values of a B200")
    checks.expect(values["launch_us"]["tag"] == "GUESS" and values["launch_us"]["source"] == "as on h200-sxm", "like")
    text = checks.run("machines", "h200").stdout
    checks.expect("sm_clock 1980 MHz" in text, f"machines h200: {text[:300]}")
    checks.expect(all(len(line) <= 80 for line in text.splitlines()), "machines NAME fits 80 columns")


def check_overruled(checks, folder):
    """A file of the default machine's name in $TILESIM_MACHINES counts without --machine as with it."""
    with open(os.path.join(ROOT, "machines", "h200-sxm.mach"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    mine = os.path.join(folder, "h200-sxm.mach")
    with open(mine, "w", encoding="utf-8") as file:
        file.write("\n".join("sm_clock 1000 MHz GUESS a test" if line.startswith("sm_clock") else line
                             for line in lines) + "\n")
    os.environ["TILESIM_MACHINES"] = folder
    checks.expect(checks.json("time", SMALL[0])["clock_mhz"] == 1000, "time: the folder's file overrules")
    row = checks.json("compare", SMALL[0])["variants"][0]
    checks.expect(row["kernel_us"] == checks.json("time", SMALL[0])["kernel_us"], "compare: as time")
    with open(mine, "a", encoding="utf-8") as file:
        file.write("nonsense\n")
    for command in ("run", "check", "time", "compare"):
        done = checks.run(command, SMALL[0])
        checks.expect(done.returncode == 2 and "nonsense" in done.stdout + done.stderr,
                      f"{command} with a broken file of the default machine: {done.returncode} {done.stderr}")
    del os.environ["TILESIM_MACHINES"]


def check_edited_machine(checks, folder):
    """A machine file that says what cannot be."""
    with open("machines/h200-sxm.mach", encoding="utf-8") as file:
        lines = file.read().splitlines()
    path = os.path.join(folder, "edited.mach")

    def edited(start, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(text if line.startswith(start) else line for line in lines) + "\n")
        return path

    for key in ("tensor_clock", "tensor_clock_few", "tensor_clock_long", "tensor_clock_full"):
        for value in ("0", "1000"):
            checks.expect_error(2, f"{key}: {value} is out of range", "time", "traces/gemm_seed", "--machine",
                                edited(key + " ", f"{key} {value} share MEASURED a test"))
    checks.expect_error(2, "edited.mach:", "time", SMALL[0], "--machine", edited("profile", "profile nv\nlike nosuch"))
    checks.expect_error(2, "does not fit", "time", SMALL[0], "--machine",
                        edited("shared_reserved", f"shared_reserved_bytes_per_block {2**64 - 1} bytes GUESS a test"))


def check_launches(checks):
    """Phases are parts of the time, and the clock is that of the times."""
    for case in ("traces/softmax", "traces/gemm_seed", "traces/layernorm"):
        launch = checks.json("time", case)["launches"][0]
        checks.expect(sum(launch["phases"].values()) <= launch["cycles"], f"{case}: {launch['phases']}")
        checks.expect(abs(launch["cycles"] / launch["clock_mhz"] / launch["kernel_us"] - 1) < 1e-4, f"{case}: clock")


def check_errors(checks):
    checks.expect_error(2, "which case folder?", "time")
    checks.expect_error(2, "there is no such folder", "time", "traces/nonesuch")
    checks.expect_error(2, "not both", "time", SMALL[0], "--events", "x.tsev")
    for option in (["--full"], ["--arg", "x=null"], ["--fast-math", "off"]):
        checks.expect_error(2, f"{option[0]} does not go with --events", "time", "--events", "x.tsev", *option)
    checks.expect_error(2, "cannot be both", "time", SMALL[0], "--spans", "/nowhere/x", "--trace", "/nowhere/x")
    checks.expect_error(2, "is a file; expected a folder", "time", "traces/README.md")
    checks.expect_error(2, "expected a number from 1 to 255", "time", SMALL[0], "--registers", "256")
    checks.expect_error(2, "expected on or off", "time", SMALL[0], "--fast-math", "maybe")
    checks.expect_error(2, "there is no machine", "time", SMALL[0], "--machine", "z80")
    checks.expect_error(2, "no value for tma_issue", "time", "traces/gemm_seed", "--machine", "a100")
    checks.expect_error(2, "cannot open", "time", SMALL[0], "--spans", "/nowhere/x")
    checks.expect_error(2, "which case folders?", "compare")
    checks.expect_error(2, "expected a number", "compare", SMALL[0], "-j", "0")
    checks.expect_error(2, "there is no machine", "compare", SMALL[0], "--machine", "z80")
    checks.expect_error(2, "cannot open", "compare", SMALL[0], "--resume", "/nowhere/x")
    checks.expect_error(2, "there is no machine", "machines", "z80")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tilesim", required=True)
    checks = Checks(os.path.abspath(parser.parse_args().tilesim))
    check_text(checks)
    check_json(checks)
    check_launches(checks)
    with tempfile.TemporaryDirectory() as folder:
        check_files(checks, folder)
        check_compare(checks, folder)
        check_overruled(checks, folder)
        check_edited_machine(checks, folder)
        check_resume_refused(checks, folder)
        check_resume_damaged(checks, folder)
        check_resume_memory(checks, folder)
        check_diagnostics(checks, folder)
    check_progress(checks)
    check_machines(checks)
    check_errors(checks)
    for failure in checks.failures:
        print("FAILED", failure)
    print(f"{checks.count - len(checks.failures)} of {checks.count} checks passed")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
