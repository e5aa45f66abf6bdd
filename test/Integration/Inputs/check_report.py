# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks a page of --html: that it is self-contained, that its script is the one that it
permits, that its data are the document that --json printed, and that its drawing has
every op once, inside of its kernel. Prints what the graph has.

usage: check_report.py PAGE [DOCUMENT.json]
"""
import base64
import hashlib
import html.parser
import json
import pathlib
import re
import sys


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts, self.policy, self.open = {}, "", None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        outside = {"src", "href", "srcset", "action", "data", "poster"} & set(given)
        assert not outside, f"<{tag}> asks for {outside}"
        assert not any(name.startswith("on") for name in given), f"<{tag}> has a handler"
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag in ("script", "style"):
            self.open = given.get("id", tag)
            assert self.open not in self.parts, f"a second <{tag}>"
            self.parts[self.open] = ""

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self.open = None

    def handle_data(self, data):
        if self.open:
            self.parts[self.open] += data


def contains(outer, inner):
    return (outer["x"] <= inner["x"] and outer["y"] <= inner["y"]
            and inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1
            and inner["y"] + inner["height"] <= outer["y"] + outer["height"] + 1)


def check_launches(explanation):
    """Values come from earlier launches, or from the same one; derived values of a training step
    have the name of the original op and come later."""
    ops = explanation["ops"]
    for edge in explanation["edges"]:
        if isinstance(edge["from"], int) and isinstance(edge["to"], int):
            first, then = ops[edge["from"]]["launch"], ops[edge["to"]]["launch"]
            assert first is None or then is None or first <= then, f"{ops[edge['to']]['name']} is computed before what it reads"


def check_drawing(drawing, explanation):
    ops, kernels, nodes = explanation["ops"], explanation["kernels"], drawing["nodes"]
    boxes = {box["kernel"]: box for box in drawing["kernels"]}
    whole = {"x": 0, "y": 0, "width": drawing["width"], "height": drawing["height"]}
    assert all(contains(whole, place) for place in nodes + drawing["kernels"])
    assert all(edge["path"].startswith("M") and max(edge["from"], edge["to"]) < len(nodes) for edge in drawing["edges"])
    if drawing["of"] == "kernels":
        assert sorted(node["kernel"] for node in nodes if "kernel" in node) == list(range(len(kernels)))
        return
    assert sorted(node["op"] for node in nodes if "op" in node) == list(range(len(ops))), "an op is not drawn once"
    for node in nodes:
        launch = ops[node["op"]]["launch"] if "op" in node else None
        assert launch is None or contains(boxes[launch], node), f"{node} is outside of its kernel"
    # Every edge of the document is in the drawing, once where ops read a value twice.
    ends = [node.get("op", node.get("input", node.get("result"))) for node in nodes]
    drawn = {(ends[edge["from"]], ends[edge["to"]], edge["type"]) for edge in drawing["edges"]}
    assert drawn == {(edge["from"], edge["to"], edge["type"]) for edge in explanation["edges"]}


page = Page()
page.feed(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
assert sorted(page.parts) == ["data", "script", "style"], sorted(page.parts)
script = base64.b64encode(hashlib.sha256(page.parts["script"].encode()).digest()).decode()
assert f"script-src 'sha256-{script}'" in page.policy and "default-src 'none'" in page.policy, page.policy
links = set(re.findall(r"\w+://[^'\" ]+", page.parts["script"] + page.parts["style"]))
assert links <= {"http://www.w3.org/2000/svg"}, links
data = json.loads(page.parts["data"])
document, drawing = data["document"], data["drawing"]
if len(sys.argv) > 2:
    # The last line: mpc train prints the others as they come, which the page has as "progress".
    lines = pathlib.Path(sys.argv[2]).read_text(encoding="utf-8").strip().split("\n")
    expected = json.loads(lines[-1])
    if data["command"] == "train":
        expected["progress"] = [json.loads(line) for line in lines[:-1]]
    assert document == expected, "the page and --json differ"
explanation = document.get("explanation", document)
if drawing:
    check_launches(explanation)
    check_drawing(drawing, explanation)
print(data["command"], drawing and f"{drawing['of']}: {len(drawing['nodes'])} nodes, {len(drawing['kernels'])} boxes, {len(drawing['edges'])} lines")
