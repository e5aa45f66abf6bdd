# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads one JSON document from stdin as `d` and prints the value of each expression.

usage: query.py EXPRESSION...
"""
import json
import sys

text = sys.stdin.read()
document = json.loads(text)
if text.count("\n") != 1:
    sys.exit("stdout holds more than one line")
for expression in sys.argv[1:]:
    print(eval(expression, {"d": document}))  # pylint: disable=eval-used
