"""Counts the checks of a command line's contract and keeps what failed. Needs only the standard library."""
import json
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Checks:
    def __init__(self, program):
        self.program, self.failures, self.count = program, [], 0

    def run(self, *arguments, **options):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, cwd=ROOT, check=False,
                              **options)

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

    def json(self, *arguments, status=0):
        done = self.run(*arguments, "--format", "json")
        self.expect(done.returncode == status, f"{arguments}: exit status {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)
