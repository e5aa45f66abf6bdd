# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks documents on standard input, one per line or one in all, by a definition of a JSON schema.
Knows the keywords that docs/Reference/output.schema.json uses.

usage: check_schema.py SCHEMA NAME
"""
import json
import sys

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
         "number": (int, float), "integer": int}


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name not in ("number", "integer") or not isinstance(value, bool))


def problems(value, schema, where="document"):
    found = []
    types = schema.get("type", [])
    if types and not any(is_of(value, name) for name in ([types] if isinstance(types, str) else types)):
        return [f"{where}: {json.dumps(value)[:60]} is no {types}"]
    if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
        found.append(f"{where}: {value!r}")
    if "oneOf" in schema and sum(not problems(value, one) for one in schema["oneOf"]) != 1:
        found.append(f"{where}: fits not one form: {[problems(value, one) for one in schema['oneOf']]}")
    if isinstance(value, dict):
        found += [f"{where}: lacks {name}" for name in schema.get("required", []) if name not in value]
        for name, entry in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            found += problems(entry, known, f"{where}.{name}")
    if isinstance(value, list):
        for index, entry in enumerate(value):
            found += problems(entry, schema.get("items", {}), f"{where}[{index}]")
    return found


text = sys.stdin.read()
with open(sys.argv[1], encoding="utf-8") as file:
    definition = json.load(file)["$defs"][sys.argv[2]]
try:
    documents = [json.loads(text)]
except ValueError:
    documents = [json.loads(line) for line in text.splitlines()]
all_problems = [line for document in documents for line in problems(document, definition)]
if all_problems or not documents:
    sys.exit("\n".join(all_problems) or "no document")
