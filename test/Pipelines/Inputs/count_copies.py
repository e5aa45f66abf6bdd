# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the kernels of a module after the fuse stage (stdin) that only move data.

A kernel counts where its body holds nothing but casts, copies and transposes. One
that reads arguments of the function alone brings the program's inputs into its
types and layout; these are counted apart.
"""
import re
import sys

MOVEMENT = {"cast", "transpose", "reshape", "slice", "broadcast", "constant", "yield"}
copies = inputs = kernels = 0
arguments, operands, ops = set(), None, set()
for line in sys.stdin:
    if re.match(r"\s*func\.func @main\(", line):
        arguments = set(re.findall(r"(%\w+): ", line.split(") ->")[0]))
    if "mpc.fusion kind(" in line:
        kernels += 1
        inner = re.search(r"name\(.*?\) \((.*?)\) ->", line).group(1)
        operands = set(re.findall(r"= (%[\w#]+) : ", inner))
        ops = set()
    elif operands is not None and line.strip().startswith("}"):
        if ops <= MOVEMENT:
            only_inputs = operands <= arguments
            inputs += only_inputs
            copies += not only_inputs
        operands = None
    elif operands is not None:
        ops.update(re.findall(r"\bmpc\.([a-z_0-9]+) ", line.split("{")[0]))
print(f"{kernels} kernels, {copies} only move data, {inputs} only convert inputs")
