#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the machine code of a model's kernels.

usage: check_sass.py NVDISASM MPC MODEL [--policy P] [--architecture sm_80] [FLAG...]
Compiles MODEL with its machine code beside the IR and holds each kernel to what its kind
promises under a narrow type: contractions, convolutions and attention multiply on tensor
cores, the first two, and filters' gradients that do, with no FFMA in between or in a loop
that does; elementwise kernels
read 64 or 128 bits at a time where their text does; no kernel spills registers into local
memory, but those of SPILLS, nor touches memory before it has waited for the kernel in front of
it, where it may overlap that (sm_90 on). Prints one line per kernel and closes with `N kernels, N wrong`.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# Kernels that are allowed to spill, by a pattern of their names.
SPILLS = []
# Instructions that wait for the preceding kernel, and that access device memory.
WAIT, TOUCHES = re.compile(r"\bACQBULK\b"), re.compile(r"\b(LDG|LD|LDGSTS|STG|ST|ATOM|ATOMG|RED)\b")
TENSOR_CORES = re.compile(r"\b(HMMA|HGMMA|IMMA|QMMA)\b")


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def functions(listing):
    """Instructions and labels of each kernel."""
    code, name = {}, None
    for line in listing.splitlines():
        section = re.match(r"\s*\.section\s+\.text\.([A-Za-z0-9_]+)", line)
        if section:
            name = section.group(1)
            code[name] = []
        elif name:
            label = re.match(r"\s*(\.L_x_[0-9]+):", line)
            instruction = re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?);", line)
            if label:
                code[name].append(label.group(1) + ":")
            elif instruction:
                code[name].append(instruction.group(1))
    return code


def loops(lines):
    """Ranges of lines from a label to a branch back to it."""
    at = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    for number, line in enumerate(lines):
        branch = re.search(r"\bBRA\b.*?`?\(?(\.L_x_[0-9]+)", line)
        if branch and at.get(branch.group(1), number) < number:
            yield lines[at[branch.group(1)]:number]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nvdisasm")
    parser.add_argument("mpc")
    parser.add_argument("model")
    parser.add_argument("--policy", default="mixed_bfloat16")
    parser.add_argument("--architecture", default="sm_80")
    args, flags = parser.parse_known_args()

    target = "cuda:" + args.architecture
    base = [args.model, "--policy", args.policy, "--target", target, "--quiet"] + flags
    problems, count = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run([args.mpc, "compile", "-o", folder / "m.mpcx", "--dump-dir", folder] + base)
        plan, = folder.glob("*-plan.mlir")
        kinds = dict(re.findall(r"exe\.launch @(\w+) kind\((\w+)\)", plan.read_text()))
        spills = dict(re.findall(r"Function properties for (\w+)\n.*? bytes stack frame, (\d+) bytes spill stores",
                                 (folder / "ptxas.log").read_text()))
        texts = (folder / "kernels.cu").read_text()
        for cubin in sorted(folder.glob("kernels-*.cubin")):
            for name, lines in functions(run([args.nvdisasm, "-c", cubin])).items():
                count += 1
                kind, wrong, cores = kinds.get(name, "unknown"), [], 0
                whole = "\n".join(lines)
                if kind in ("contraction", "convolution", "attention") and not TENSOR_CORES.search(whole):
                    wrong.append("no tensor cores")
                # A filter's gradient multiplies on tensor cores where that pays.
                if kind in ("contraction", "convolution") or kind == "library" and TENSOR_CORES.search(whole):
                    places = [number for number, line in enumerate(lines) if TENSOR_CORES.search(line)]
                    # Few steps are unrolled into straight code, many are a loop.
                    parts = [lines[places[0]:places[-1]]] if places else []
                    for loop in loops(lines):
                        if TENSOR_CORES.search("\n".join(loop)):
                            cores += 1
                            parts.append(loop)
                    if any("FFMA" in line for part in parts for line in part):
                        wrong.append("FFMA among tensor cores")
                if kind == "elementwise":
                    source = texts.split(f" {name}(", 1)[1].split("\n}\n", 1)[0]
                    wide = re.search(r"mpc::load(Constant)?<(4|8)>", source)
                    if wide and not re.search(r"LDG\.E\.(128|64)", whole):
                        wrong.append("no wide loads")
                if int(spills.get(name, 0)) and not any(re.search(text, name) for text in SPILLS):
                    wrong.append(f"{spills[name]} bytes of spills")
                if int(re.match(r"sm_(\d+)", args.architecture).group(1)) >= 90:
                    first = next((line for line in lines if WAIT.search(line) or TOUCHES.search(line)), "")
                    if not WAIT.search(first):
                        wrong.append(f"does not wait before {first or 'it ends'}")
                if name not in spills:
                    wrong.append("no word of the assembler about it")
                problems += bool(wrong)
                widths = sorted(set(re.findall(r"LDG\.E\.(\d+)", whole)))
                print(f"{name} ({kind}): {len(lines)} lines, loads {','.join(widths) or 'narrow'}"
                      f"{', tensor cores' if TENSOR_CORES.search(whole) else ''}"
                      f"{f' in {cores} loops' if cores else ''}"
                      f"{': WRONG: ' + ', '.join(wrong) if wrong else ''}")
    print(f"{count} kernels, {problems} wrong")
    return int(problems > 0 or count == 0)


if __name__ == "__main__":
    sys.exit(main())
