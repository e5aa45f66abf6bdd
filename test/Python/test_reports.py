# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""explain() and check(): the program's documents, as tables and as HTML."""

import copy
import json
import pickle
import shutil
import unicodedata
import xml.etree.ElementTree as ElementTree

import mpc
import numpy as np
import pytest
from conftest import INPUTS

SVG = "{http://www.w3.org/2000/svg}"
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="no program dot, of Graphviz")


def test_explain_reports_types_rules_and_kernels(cnn):
    path, images = cnn
    function = mpc.compile(path, images, policy="mixed_bfloat16", overrides={"layer:0/conv2": "float32"})
    report = function.explain()
    ops = {(op["layer"], op["kind"]): op for op in report.ops}
    assert ops["0/conv1", "conv"]["compute"] == "bf16" and ops["0/conv1", "conv"]["rule"] == "low"
    assert ops["0/conv2", "conv"]["compute"] == "f32" and ops["0/conv2", "conv"]["override"] == "layer:0/conv2=float32"
    assert {op["kernel"] for op in report.ops} - {None} <= {kernel["name"] for kernel in report.kernels}
    assert json.loads(report.to_json()) == dict(report)
    lines = str(report).splitlines()
    assert "policy mixed_bfloat16" in lines[0]
    assert any(line.split()[:4] == ["node_softmax", "softmax", "1", "f32"] for line in lines)


def test_a_notebook_gets_tables(cnn):
    path, images = cnn
    report = mpc.compile(path, images, policy="mixed_bfloat16").explain()
    tree = ElementTree.fromstring(report._repr_html_())
    tables = {table.findtext("caption"): table for table in tree.iter("table")}
    assert len(tables["ops"].findall("tbody/tr")) == len(report.ops)
    assert len(tables["kernels"].findall("tbody/tr")) == len(report.kernels)


def drawn(report):
    """Texts of nodes, of boxes and of edges, from the drawing in a notebook's HTML."""
    found = {"node": [], "cluster": [], "edge": []}
    for part in ElementTree.fromstring(report._repr_html_()).iter(SVG + "g"):
        if part.get("class") in found:
            found[part.get("class")].append([text.text for text in part.iter(SVG + "text")])
    return found


@needs_dot
def test_a_notebook_gets_the_graph(cnn):
    path, images = cnn
    report = mpc.compile(path, images, policy="mixed_bfloat16").explain()
    found = drawn(report)
    assert sorted(found["cluster"]) == sorted([kernel] for kernel in {op["kernel"] for op in report.ops} - {None})
    assert ["node_softmax", "softmax f32"] in found["node"] and ["image"] in found["node"]
    assert len(found["node"]) == len(report.ops) + 2 and len(found["edge"]) == len(report.edges)
    # The edge of a value that is cast has a label.
    assert {"bf16", "to bf16"} == {word for text in found["edge"] for word in text} and [] in found["edge"]
    colours = {op["compute"]: set() for op in report.ops}
    for i, line in enumerate(report.dot().split("  o")[1:len(report.ops) + 1]):
        colours[report.ops[int(line.split()[0])]["compute"]].add(line.split("fillcolor=")[1].split(",")[0])
    assert all(len(of) == 1 for of in colours.values()) and len(set().union(*colours.values())) == len(colours)


@needs_dot
def test_a_layer_is_drawn_alone(cnn):
    path, images = cnn
    report = mpc.compile(path, images, policy="float32").explain()
    names = [op["name"] for op in report.ops if op["layer"] == "0/conv2"]
    text = report.svg(layer="0/conv2")
    assert names and ElementTree.fromstring(text).tag == SVG + "svg"
    assert all(name in text for name in names) and "node_softmax" not in text


def test_edges_go_from_inputs_to_results(dense, factors):
    report = mpc.compile(dense, *factors, policy="mixed_bfloat16").explain()
    assert [(e["from"], e["to"], e["type"]) for e in report.edges] == [("x", 0, "bf16"), (0, "y", "f32")]


def test_a_notebook_without_graphviz_is_reported(cnn, monkeypatch):
    path, images = cnn
    report = mpc.compile(path, images, policy="float32").explain()
    monkeypatch.setenv("PATH", "")
    page = report._repr_html_()
    assert "install it (apt install graphviz)" in page and ElementTree.fromstring(page).find(".//table") is not None
    with pytest.raises(mpc.Unavailable, match="install it"):
        report.svg()


def test_large_graphs_are_not_laid_out(dense, factors, monkeypatch):
    report = mpc.compile(dense, *factors, policy="float32").explain()
    monkeypatch.setattr("mpc._drawing.MOST_OPS", 0)
    assert "a graph of 1 ops is not drawn" in report._repr_html_()


def test_html_is_escaped(dense, factors):
    text = dense.replace("mpc.matmul %x, %w", "mpc.matmul %x, %w {mpc.layer = \"<b>&\"}").replace("-> tensor<4x8xf32>\n  ret", "-> tensor<4x8xf32> loc(\"\\\"<b>&\")\n  ret")
    report = mpc.compile(text, *factors, policy="float32").explain()
    assert report.ops[0]["layer"] == "<b>&" and "&lt;b&gt;&amp;" in report._repr_html_()
    ElementTree.fromstring(report._repr_html_())


HIDDEN = {"Cc", "Cf", "Zl", "Zp", "Cs"}
# Names of a model may hold anything.
HOSTILE = ("\\N\"'`&<>{}|\\" + "</svg></div><script>owned()</script><img src=x onerror=owned()>" + "\n#error owned\r\x1b[2J\x00"
           + "".join(c for c in map(chr, range(0x110000)) if unicodedata.category(c) in HIDDEN - {"Cs"}) + "\udcff Gr\u00f6\u00dfe \u5c64\\")


def hostile_report(more=""):
    name = HOSTILE + more
    op = {"name": name, "kind": name, "layer": name, "compute": "f32", "accumulate": None, "results": ["f32"], "storage": ["f32"],
          "rule": name, "reason": name, "launch": 0, "kernel": name}
    return mpc._reports.Explanation({
        "model": name, "policy": name, "target": name, "ops": [op, {**op, "launch": None}],
        "kernels": [{"name": name, "kind": name, "bytes": 1, "flops": 1, "ops": [name]}],
        "warnings": [{"code": name, "op": name, "text": name}],
        "edges": [{"from": name, "to": 0, "type": "f32", "shape": [1]}, {"from": 0, "to": 1, "type": "f16", "shape": []},
                  {"from": 1, "to": name, "type": "f32", "shape": [1]}]})


def test_names_are_text():
    report = hostile_report()
    for text in (str(report), report.dot(), str(mpc._errors.make("internal", HOSTILE, HOSTILE, [HOSTILE]))):
        for line in text.split("\n"):
            assert not {c for c in line if unicodedata.category(c) in HIDDEN}
    assert len(str(report).split("\n")) == 1 + 5 + 4 + 4
    # The same number of lines as with plain names.
    plain = hostile_report()
    plain._document = json.loads(json.dumps(plain._document).replace(json.dumps(HOSTILE)[1:-1], "x"))
    assert report.dot().count("\n") == plain.dot().count("\n")


def test_names_are_text_in_errors():
    # Bytes that are no UTF-8 as well.
    text = """func.func @main(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"}) -> (tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
      %0 = mpc.cast %x : tensor<4xf32> to tensor<5xf32> loc("a\\FF\\1B[2J\\0A")
      return %x : tensor<4xf32>
    }"""
    with pytest.raises(mpc.InvalidArgument) as caught:
        mpc.compile(text)(np.ones(4, "f4"))
    assert caught.value.where == "a\\xff\\x1b[2J\\x0a"


@needs_dot
def test_names_are_text_in_a_notebook():
    # Graphviz and the browser see letters where the name has letters, and nothing else.
    tree = ElementTree.fromstring(hostile_report()._repr_html_())
    tags = {element.tag.removeprefix(SVG) for element in tree.iter()}
    assert tags <= {"div", "p", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "g", "title", "polygon", "path", "text", "a"}
    assert not any(name.startswith("on") for element in tree.iter() for name in element.attrib)
    assert any("<script>owned()</script>" in (text.text or "") for text in tree.iter(SVG + "text"))


def test_explain_knows_the_shapes_of_the_last_call():
    function = mpc.compile(INPUTS / "onnx" / "shape-chain.onnx", policy="float32")
    shape = function.inputs[0].shape[1:]
    with pytest.raises(mpc.InvalidArgument, match="batch"):
        function.explain()
    small = function.explain(np.ones([2, *shape], np.float32))
    function(np.ones([6, *shape], np.float32))
    large = function.explain()
    assert sum(k["bytes"] for k in large.kernels) > sum(k["bytes"] for k in small.kernels)


def test_check_uses_the_given_arrays(cnn):
    path, images = cnn
    wide = mpc.compile(path, policy="float32").check(images)
    narrow = mpc.compile(path, policy="mixed_bfloat16").check(image=images, per_op=True)
    assert wide and wide.ok and narrow.ok
    (first,), (second,) = wide.outputs, narrow.outputs
    assert first["name"] == second["name"] == "probabilities"
    assert 0 < first["max_abs_error"] < 1e-6 < 1e-4 < second["max_abs_error"] < second["tolerance"]
    assert not wide.ops and {"conv", "matmul"} <= {op["kind"] for op in narrow.ops}
    assert "all checks held" in str(narrow) and ElementTree.fromstring(narrow._repr_html_()) is not None


def test_what_leaves_the_range_is_over_tolerance():
    text = """func.func @main(%x: tensor<4xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
        -> (tensor<4xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
      %0 = mpc.mul %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %1 = mpc.sqrt %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    """
    report = mpc.compile(text, policy="float16").check(np.full(4, 1e4, np.float32))
    assert not report and not report.outputs[0]["ok"] and "OVER TOLERANCE" in str(report)


def test_a_policy_object_is_explained_and_checked(cnn):
    path, images = cnn
    policy = mpc.Policy("mixed_bfloat16", overrides={"layer:0/conv2": "float32"}, name="house")
    function = mpc.compile(path.read_bytes(), policy=policy)
    judged = function.check(images)
    assert judged.ok and judged["model"] == "model.onnx"
    report = function.explain(images)
    assert {op["compute"] for op in report.ops if op["layer"] == "0/conv2"} == {"f32"}


def test_a_file_is_checked_and_not_explained(cnn, tmp_path):
    path, images = cnn
    mpc.compile(path, images, policy="mixed_bfloat16").save(tmp_path / "m.mpcx")
    loaded = mpc.load(tmp_path / "m.mpcx")
    with pytest.raises(mpc.InvalidArgument, match="explain the model that it was compiled from"):
        loaded.explain()


def test_an_explanation_goes_to_other_processes(cnn, tmp_path):
    path, images = cnn
    report = mpc.compile(path, images, policy="mixed_bfloat16").explain()
    again = pickle.loads(pickle.dumps(report))
    assert again == report and again.dot() == report.dot() and str(again) == str(report)
    with pytest.raises(mpc.Unavailable, match="save the page where it was explained"):
        again.save_html(tmp_path / "page.html")
    assert copy.deepcopy(report) is report


def test_errors_of_reports_are_exceptions(dense, factors):
    function = mpc.compile(dense, policy="float32", overrides={"layer:tail": "float16"})
    with pytest.raises(mpc.InvalidArgument, match="layer:tail=float16"):
        function.check(*factors)
    with pytest.raises(mpc.InvalidArgument, match="takes 2 inputs, not 3"):
        function.check(*factors, factors[0])


def data_of(page):
    return json.loads(page.read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0])


@needs_dot
def test_a_report_is_saved_as_a_page(cnn, tmp_path):
    path, images = cnn
    report = mpc.compile(path, images, policy="mixed_bfloat16").explain()
    report.save_html(tmp_path / "report.html")
    data = data_of(tmp_path / "report.html")
    assert data["command"] == "explain" and data["document"] == dict(report)
    assert len([node for node in data["drawing"]["nodes"] if "op" in node]) == len(report.ops)


@needs_dot
def test_a_page_of_a_model_in_memory_has_its_name(dense, factors, tmp_path):
    report = mpc.compile(dense, *factors, policy="mixed_bfloat16").explain()
    report.save_html(str(tmp_path / "report.html"))
    assert data_of(tmp_path / "report.html")["document"] == dict(report)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_errors_are_found_from_arrays(dense, factors):
    function = mpc.compile(dense, *factors, policy="mixed_bfloat16")
    report = function.explain(*factors, errors=True)
    assert sum(op["error_share"] for op in report.ops) + sum(report["error"]["inputs"].values()) == pytest.approx(1)
    measured = function.check(*factors).outputs[0]["rms_relative_error"]
    assert 0.5 < report["error"]["predicted"] / measured < 2 and report["ranges"]["x"]["elements"] == factors[0].size
    with pytest.raises(mpc.InvalidArgument, match="has no errors without arrays"):
        function.explain(errors=True)


@needs_dot
def test_a_page_that_cannot_be_written_is_reported(cnn, tmp_path, monkeypatch):
    path, images = cnn
    report = mpc.compile(path, images, policy="float32").explain()
    with pytest.raises(mpc.Error, match="nowhere"):
        report.save_html(tmp_path / "nowhere" / "report.html")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(mpc.Unavailable, match="needs Graphviz"):
        report.save_html(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
