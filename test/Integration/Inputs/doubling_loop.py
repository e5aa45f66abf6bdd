# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a model whose loop doubles the length of its carried tensor in each of N steps: doubling_loop.py FILE N"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))

from onnx_file import BOOL, FLOAT, INT64, Graph  # noqa: E402

body = Graph()
body.input("step", INT64, ())
body.input("go", BOOL, ())
body.input("part", FLOAT, ("n",))
body.op("Identity", ["go"], "goes_on")
body.op("Concat", ["part", "part"], "whole", axis=0)
body.output("goes_on", BOOL, ())
body.output("whole", FLOAT, ("m",))
graph = Graph()
graph.input("x", FLOAT, (4,))
graph.op("Loop", [graph.integers(int(sys.argv[2]), scalar=True), "", "x"], "y", body=body)
graph.output("y", FLOAT, ("k",))
graph.write(sys.argv[1])
