#!/usr/bin/env python3
"""Writes a PTX file with one kernel for each scalar operation of `tilesim num --list` that this ptxas assembles for
sm_90a, and the names of these operations. scalar_check.cu runs them against the library.

  scalar_ptx.py TILESIM OUT.ptx OUT.txt && ptxas -arch=sm_90a OUT.ptx -o OUT.cubin"""
import json
import re
import subprocess
import sys

BITS = {"pred": 8, "tf32": 32, "ue8m0": 8}
HEAD = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def bits_of(kind):
    if kind in BITS:
        return BITS[kind]
    number = re.match(r"[a-z]+?(\d+)(x2)?$", kind)
    if kind.startswith("e"):
        return {"e4m3x2": 16, "e5m2x2": 16}.get(kind, 8)
    return int(number.group(1)) * (2 if number.group(2) else 1)


def register(kind, index):
    """Narrow types live in 32-bit registers, as PTX allows for cvt."""
    return f"%{ {8: 'r', 16: 'h', 32: 'r', 64: 'd'}[bits_of(kind)]}{index}"


def load(kind, index):
    to = register(kind, index)
    width = {8: 32, 16: 16, 32: 32, 64: 64}[bits_of(kind)]
    lines = [f"ld.param.u64 %p{index}, [in{index}];", f"add.u64 %p{index}, %p{index}, %o;",
             f"ld.global.u64 %x{index}, [%p{index}];", f"ld.global.b{width} {to}, [%p{index}];"]
    if kind == "s8":
        lines.append(f"cvt.s32.s8 {to}, {to};")
    if kind == "u8":
        lines.append(f"and.b32 {to}, {to}, 255;")
    return lines


def instruction(name, operands, result):
    """The operation on registers, result in %x9; None when it is none of PTX."""
    registers = [register(kind, i) for i, kind in enumerate(operands)]
    if name.startswith("lop3"):
        registers[3] = "0xca"
    arguments = ", ".join(registers)
    if name.startswith("setp."):
        return [f"{name} %q, {arguments};", "selp.u64 %x9, 1, 0, %q;"]
    if name.startswith(("red.", "atom.")):
        return memory_instruction(name, registers, result)
    target = register(result, 9)
    width = {8: 32, 16: 16, 32: 32, 64: 64}[bits_of(result)]
    last = f"cvt.u64.u{width} %x9, {target};" if width != 64 else f"mov.b64 %x9, {target};"
    return [f"{name} {target}, {arguments};", last]


def memory_instruction(name, registers, result):
    shared = ".shared." in name
    place = "%s" if shared else "%p9"
    space = "shared" if shared else "global"
    lines = ["mov.u32 %t, cell;", "mad.lo.u32 %s, %i, 8, %t;"] if shared else []
    lines.append(f"st.{space}.u64 [{place}], %x0;")
    arguments = ", ".join(registers[1:])
    if name.startswith("red."):
        lines.append(f"{name} [{place}], {arguments};")
    else:
        lines.append(f"{name} {register(result, 9)}, [{place}], {arguments};")
    lines.append(f"ld.{space}.u64 %x9, [{place}];")
    return lines


def kernel(index, row):
    operands = [part.split(":")[1] for part in row["operands"].split()]
    parameters = ", ".join(f".param .u64 {name}" for name in ["out", "in0", "in1", "in2", "in3"])
    body = instruction(row["op"], operands, row["result"])
    lines = [".reg .b16 %h<10>; .reg .b32 %r<10>; .reg .b64 %d<10>, %x<10>, %p<10>, %o; .reg .u32 %i, %b, %s, %t;",
             ".reg .pred %q; .shared .align 8 .b8 cell[2048];",
             "mov.u32 %i, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %b, %b, 256, %i; mul.wide.u32 %o, %b, 8;"]
    lines += ["ld.param.u64 %p9, [out];", "add.u64 %p9, %p9, %o;"]
    for i, kind in enumerate(operands):
        lines += load(kind, i)
    lines += body + ["st.global.u64 [%p9], %x9;", "ret;"]
    return f".visible .entry k{index}({parameters}) {{ // {row['op']}\n" + "\n".join(lines) + "\n}\n"


def assemble(kernels):
    """Numbers of the kernels that ptxas refuses."""
    text, line_of, line = HEAD, [], HEAD.count("\n") + 1
    for index, body in kernels.items():
        line_of.append((line, index))
        text += body
        line += body.count("\n")
    with open("/tmp/scalar_try.ptx", "w", encoding="utf-8") as out:
        out.write(text)
    done = subprocess.run(["ptxas", "-arch=sm_90a", "/tmp/scalar_try.ptx", "-o", "/dev/null"], capture_output=True,
                          text=True)
    bad = set()
    for match in re.finditer(r"line (\d+); error", done.stderr + done.stdout):
        at = int(match.group(1))
        bad.add(max(index for start, index in line_of if start <= at))
    if done.returncode != 0 and not bad:
        sys.exit(done.stderr[:2000])
    return bad, text


def main():
    tilesim, ptx_path, names_path = sys.argv[1:4]
    rows = json.loads(subprocess.run([tilesim, "num", "--list", "--profile", "sm_90", "--format", "json"],
                                     capture_output=True, text=True, check=True).stdout)
    kernels, names = {}, {}
    for index, row in enumerate(rows):
        name = row["op"]
        scalar = "[" not in row["operands"] and "." in name and not name.startswith(("cast.", "ascend."))
        if scalar and not re.search(r"\b(s4|u4)\b", name + row["operands"]):
            names[index] = name
            kernels[index] = kernel(index, row)
    bad, text = assemble(kernels)
    while bad:
        for index in bad:
            del kernels[index]
        bad, text = assemble(kernels)
    with open(ptx_path, "w", encoding="utf-8") as out:
        out.write(text)
    with open(names_path, "w", encoding="utf-8") as out:
        out.writelines(f"k{index} {names[index]}\n" for index in kernels)
    print(f"{len(kernels)} of {len(names)} operations")


if __name__ == "__main__":
    main()
