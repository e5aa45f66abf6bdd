# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin execution provider in an unmodified ONNX Runtime."""
import concurrent.futures
import ctypes
import gc
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import mpc

onnx = pytest.importorskip("onnx", reason="the package onnx makes the models")
ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime loads the plugin")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="the package ml_dtypes has bfloat16")
plugin = pytest.importorskip("onnxruntime_ep_mpc", reason="this build has no plugin")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

INPUTS = pathlib.Path(__file__).resolve().parents[1] / "Inputs"
RANDOM = np.random.default_rng(5)
UNCHANGED = ort.GraphOptimizationLevel.ORT_DISABLE_ALL


@pytest.fixture(scope="module", autouse=True)
def registered():
    ort.register_execution_provider_library("mpc", plugin.get_library_path())
    yield
    gc.collect()
    ort.unregister_execution_provider_library("mpc")
    assert plugin.get_ep_name() not in [device.ep_name for device in ort.get_ep_devices()]


def open_session(model, level=None, entries={}, **options):
    """A session of a model (bytes, path or ModelProto) with the provider."""
    settings = ort.SessionOptions()
    if level is not None:
        settings.graph_optimization_level = level
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in entries.items():
        settings.add_session_config_entry(key, value)
    devices = [device for device in ort.get_ep_devices() if device.ep_name == plugin.get_ep_name()]
    settings.add_provider_for_devices(devices, {key: str(value) for key, value in options.items()})
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    return ort.InferenceSession(model if isinstance(model, bytes) else str(model), settings,
                                enable_fallback=False)


def assigned(session):
    """Operators of the nodes that mpc runs."""
    return [node.op_type for part in session.get_provider_graph_assignment_info()
            if part.ep_name == plugin.get_ep_name() for node in part.get_nodes()]


def value(name, shape, element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def make_model(nodes, inputs, outputs, constants={}, domains=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, [
        array if isinstance(array, TensorProto) else numpy_helper.from_array(array, name)
        for name, array in constants.items()])
    return helper.make_model(graph, ir_version=9, opset_imports=[
        helper.make_opsetid("", 18), *(helper.make_opsetid(domain, 1) for domain in domains)])


WEIGHTS = RANDOM.standard_normal((64, 32), np.float32)


def dense(rows=8):
    return make_model([helper.make_node("MatMul", ["x", "w"], ["t"], "product"),
                       helper.make_node("Relu", ["t"], ["y"])],
                      [value("x", [rows, 64])], [value("y", [rows, 32])], {"w": WEIGHTS})


def rows(count):
    return RANDOM.standard_normal((count, 64), np.float32)


def expected(model, arrays, tmp_path, **options):
    """Results of the model compiled by mpc alone, a list."""
    if isinstance(model, onnx.ModelProto):
        onnx.save(model, tmp_path / "alone.onnx")
        model = tmp_path / "alone.onnx"
    results = mpc.compile(str(model), **options)(**arrays)
    return list(results) if isinstance(results, (list, tuple)) else [results]


# --- The binary interface


# A plugin without providers that keeps ONNX Runtime's function tables.
KEEPER = """
#include <stddef.h>
const void *kept;
void *CreateEpFactories(const char *name, const void *base, const void *logger, void **factories,
                        size_t most, size_t *count) {
  kept = base;
  *count = 0;
  return NULL;
}
void *ReleaseEpFactory(void *factory) { return NULL; }
"""


class Table:
    """ONNX Runtime's function table OrtApi, called by position."""

    def __init__(self, folder):
        compiler = shutil.which("cc") or shutil.which("clang-22")
        if not compiler:
            pytest.skip("there is no C compiler")
        library = folder / "keeper.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-xc", "-", "-o", library], input=KEEPER, text=True,
                       check=True)
        ort.register_execution_provider_library("keeper", str(library))
        base = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(library), "kept")
        self.table = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)(base[0])(24)

    def call(self, position, result, *arguments):
        types = [ctypes.c_void_p if not isinstance(argument, (bytes, int)) else
                 ctypes.c_char_p if isinstance(argument, bytes) else ctypes.c_int
                 for argument in arguments]
        return ctypes.CFUNCTYPE(result, *types)(self.table[position])(*arguments)


def test_positions_of_functions(tmp_path):
    table = Table(tmp_path)
    status = ctypes.c_void_p(table.call(0, ctypes.c_void_p, 2, b"a text"))
    assert table.call(1, ctypes.c_int, status) == 2
    assert table.call(2, ctypes.c_char_p, status) == b"a text"
    table.call(93, None, status)
    # Options of a session are read back as the plugin reads them.
    options, entries = ctypes.c_void_p(), ctypes.c_void_p()
    assert not table.call(10, ctypes.c_void_p, ctypes.byref(options))
    assert not table.call(130, ctypes.c_void_p, options, b"a key", b"its value")
    assert not table.call(379, ctypes.c_void_p, options, ctypes.byref(entries))
    keys, values = (ctypes.POINTER(ctypes.c_char_p)() for _ in range(2))
    count = ctypes.c_size_t()
    table.call(298, None, entries, ctypes.byref(keys), ctypes.byref(values), ctypes.byref(count))
    assert dict(zip(keys[:count.value], values[:count.value]))[b"a key"] == b"its value"
    table.call(300, None, entries)
    table.call(100, None, options)
    assert table.call(291, ctypes.c_void_p) and table.call(317, ctypes.c_void_p)


def test_older_version_is_refused():
    """A runtime without version 24 of the interface gets a status with one sentence."""
    said = []
    create_status = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int, ctypes.c_char_p)(
        lambda code, text: said.append(text) or 1)
    functions = (ctypes.c_void_p * 1)(ctypes.cast(create_status, ctypes.c_void_p))
    get_api = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_uint32)(
        lambda version: ctypes.addressof(functions) if version <= 20 else 0)
    version = ctypes.create_string_buffer(b"1.20.1")
    get_version = ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: ctypes.addressof(version))
    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p),
                                 ctypes.cast(get_version, ctypes.c_void_p))
    count = ctypes.c_size_t(7)
    create = ctypes.CDLL(plugin.get_library_path()).CreateEpFactories
    create.restype = ctypes.c_void_p
    factories = (ctypes.c_void_p * 1)()
    assert create(b"mpc", base, None, factories, ctypes.c_size_t(1), ctypes.byref(count)) == 1
    assert count.value == 0
    assert said == [b"onnxruntime: version 1.24 or later is needed, but this is 1.20.1"]


# --- Results


def test_static_shapes(tmp_path):
    session = open_session(dense())
    x = rows(8)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0],
                                  expected(dense(), {"x": x}, tmp_path)[0])
    assert assigned(session) == ["MatMul", "Relu"]


def test_dynamic_shapes(tmp_path):
    session = open_session(dense("rows"))
    for count in (1, 5, 8, 5, 0):
        x = rows(count)
        result = session.run(None, {"x": x})[0]
        assert result.shape == (count, 32)
        if count:
            np.testing.assert_array_equal(result, expected(dense(count), {"x": x}, tmp_path)[0])


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_bits_of_a_trained_network(policy, cnn):
    path, images = cnn
    session = open_session(path, level=UNCHANGED, policy=policy)
    np.testing.assert_array_equal(session.run(None, {"image": images})[0],
                                  mpc.compile(str(path), policy=policy)(images))


def test_bfloat16_that_onnxruntime_refuses():
    narrow = WEIGHTS.astype(ml_dtypes.bfloat16)
    model = make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", [8, 64], TensorProto.BFLOAT16)], [value("y", [8, 32], TensorProto.BFLOAT16)],
        {"w": helper.make_tensor("w", TensorProto.BFLOAT16, narrow.shape, narrow.tobytes(), raw=True)})
    with pytest.raises(Exception, match="MatMul"):
        ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    session = open_session(model)
    x = rows(8).astype(ml_dtypes.bfloat16)
    given = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), TensorProto.BFLOAT16)
    result = session.run_with_ort_values(None, {"x": given})[0]
    assert result.element_type() == TensorProto.BFLOAT16
    bits = (ctypes.c_uint16 * (8 * 32)).from_address(result.data_ptr())
    got = np.frombuffer(bits, ml_dtypes.bfloat16).reshape(8, 32)
    want = (x.astype(np.float32) @ narrow.astype(np.float32)).astype(ml_dtypes.bfloat16)
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2**-7, atol=1e-4)


def test_constants_of_two_bits():
    """ONNX Runtime numbers the smallest integer types in another order than the format."""
    numbers = np.array([-2, -1, 0, 1, 1], ml_dtypes.int2)
    model = make_model([helper.make_node("Cast", ["w"], ["t"], to=TensorProto.FLOAT),
                        helper.make_node("Add", ["x", "t"], ["y"])],
                       [value("x", [5])], [value("y", [5])], {"w": numpy_helper.from_array(numbers, "w")})
    model.opset_import[0].version = 25
    session = open_session(model, level=UNCHANGED)
    assert assigned(session) == ["Cast", "Add"]
    np.testing.assert_array_equal(session.run(None, {"x": np.zeros(5, np.float32)})[0],
                                  numbers.astype(np.float32))


def test_control_flow():
    """A loop whose body reads a constant of the outer graph."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "square"], ["next"]),
         helper.make_node("Identity", ["condition"], ["again"])], "body",
        [value("step", [], TensorProto.INT64), value("condition", [], TensorProto.BOOL),
         value("state", [4, 16])],
        [value("again", [], TensorProto.BOOL), value("next", [4, 16])])
    square = RANDOM.standard_normal((16, 16), np.float32)
    model = make_model([helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
                       [value("x", [4, 16])], [value("y", [4, 16])],
                       {"trips": np.array(3, np.int64), "square": square})
    session = open_session(model)
    assert assigned(session) == ["Loop"]
    x = RANDOM.standard_normal((4, 16), np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ square @ square @ square,
                               rtol=1e-4, atol=1e-4)


def test_defaults_of_attributes():
    """ONNX Runtime writes an RNN's default activations, one for each of two directions, into the graph."""
    model = make_model([helper.make_node("RNN", ["x", "w", "r"], ["", "y"], hidden_size=8)],
                       [value("x", [3, 2, 4])], [value("y", [1, 2, 8])],
                       {"w": WEIGHTS[None, :8, :4], "r": WEIGHTS[None, :8, 8:16]})
    session = open_session(model)
    assert assigned(session) == ["RNN"]
    x, state = RANDOM.standard_normal((3, 2, 4), np.float32), np.zeros((2, 8), np.float32)
    for step in x:
        state = np.tanh(step @ WEIGHTS[:8, :4].T + state @ WEIGHTS[:8, 8:16].T)
    np.testing.assert_allclose(session.run(None, {"x": x})[0][0], state, rtol=1e-4, atol=1e-4)


def test_value_of_an_input_determines_a_shape():
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["t"]),
                        helper.make_node("Reshape", ["t", "shape"], ["y"])],
                       [value("x", [8, 64]), value("shape", [2], TensorProto.INT64)],
                       [value("y", None)], {"w": WEIGHTS})
    session = open_session(model)
    x = rows(8)
    for shape in ((16, 16), (4, 64), (16, 16)):
        result = session.run(None, {"x": x, "shape": np.array(shape)})[0]
        assert result.shape == shape
        np.testing.assert_allclose(result.ravel(), (x @ WEIGHTS).ravel(), rtol=1e-4, atol=1e-4)


def test_failure_for_a_value_is_not_lasting():
    """The element counts of a shape that one run gives by mistake."""
    model = make_model([helper.make_node("Reshape", ["x", "shape"], ["t"]),
                        helper.make_node("MatMul", ["t", "w"], ["y"])],
                       [value("x", ["n"]), value("shape", [2], TensorProto.INT64)],
                       [value("y", None)], {"w": WEIGHTS})
    session = open_session(model, entries={"session.disable_cpu_ep_fallback": "1"})
    x = RANDOM.standard_normal(384, np.float32)
    for shape in ((5, 64), (6, 64), (5, 64), (6, -1)):
        if shape[0] == 5:
            with pytest.raises(Exception, match="changes 384 elements"):
                session.run(None, {"x": x, "shape": np.array(shape)})
        else:
            result = session.run(None, {"x": x, "shape": np.array(shape)})[0]
            np.testing.assert_allclose(result, x.reshape(shape) @ WEIGHTS, rtol=1e-4, atol=1e-4)


def test_input_without_a_rank():
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Relu", ["t"], ["y"])],
                       [value("x", None)], [value("y", None)], {"w": WEIGHTS})
    session = open_session(model, entries={"session.disable_cpu_ep_fallback": "1"})
    assert assigned(session) == ["MatMul", "Relu"]
    for shape in ((3, 64), (2, 3, 64), (64,)):
        x = RANDOM.standard_normal(shape, np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], np.maximum(x @ WEIGHTS, 0),
                                   rtol=1e-4, atol=1e-4)


def test_more_shapes_than_are_cached():
    """Without a fallback each shape is compiled; the model is small, so that this takes seconds."""
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", ["rows", 4])],
                       [value("y", ["rows", 2])], {"w": WEIGHTS[:4, :2]})
    session = open_session(model, entries={"session.disable_cpu_ep_fallback": "1"})
    for count in range(1, 68):
        assert session.run(None, {"x": np.ones((count, 4), np.float32)})[0].shape == (count, 2)


# --- The division between mpc and ONNX Runtime


def test_other_nodes_run_in_onnxruntime(capfd):
    """The result of NonZero has a shape that depends on values."""
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["t"]),
                        helper.make_node("Relu", ["t"], ["u"]),
                        helper.make_node("NonZero", ["u"], ["y"], "places")],
                       [value("x", [8, 64])], [value("y", [2, None], TensorProto.INT64)], {"w": WEIGHTS})
    session = open_session(model)
    assert assigned(session) == ["MatMul", "Relu"]
    said = capfd.readouterr().err
    assert "mpc: compiles 2 of 3 nodes in 1 subgraphs; ONNX Runtime runs the others" in said
    assert "node 'places' (NonZero): " in said
    x = rows(8)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.nonzero(x @ WEIGHTS > 0))


@pytest.mark.parametrize("is_nested", [False, True])
def test_random_numbers_differ_between_runs(is_nested, capfd):
    random = helper.make_node("RandomNormalLike", ["t"], ["noise"], "generator")
    if is_nested:
        random = helper.make_node("If", ["condition"], ["noise"], "choice", **{
            branch: helper.make_graph([helper.make_node(op, ["t"], ["result"])], branch, [],
                                      [value("result", [8, 32])])
            for branch, op in (("then_branch", "RandomNormalLike"), ("else_branch", "Relu"))})
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["t"]), random,
                        helper.make_node("Add", ["t", "noise"], ["y"])],
                       [value("x", [8, 64]), value("condition", [], TensorProto.BOOL)], [value("y", [8, 32])],
                       {"w": WEIGHTS})
    session = open_session(model, level=UNCHANGED)
    assert "MatMul" in assigned(session) and random.op_type not in assigned(session)
    assert "random numbers" in capfd.readouterr().err
    feed = {"x": rows(8), "condition": np.array(True)}
    assert np.any(session.run(None, feed)[0] != session.run(None, feed)[0])


def test_no_islands():
    model = make_model([helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["u"]),
                        helper.make_node("NonZero", ["u"], ["y"])],
                       [value("x", [8, 64])], [value("y", [2, None], TensorProto.INT64)])
    assert assigned(open_session(model)) == []


def interleaved():
    """Products with a node between them that only ONNX Runtime runs."""
    return make_model([helper.make_node("MatMul", ["x", "w"], ["t"]),
                       helper.make_node("NonZero", ["t"], ["places"]),
                       helper.make_node("Cast", ["places"], ["u"], to=TensorProto.FLOAT),
                       helper.make_node("MatMul", ["t", "v"], ["s"]),
                       helper.make_node("ReduceSum", ["u"], ["total"], keepdims=0),
                       helper.make_node("Add", ["s", "total"], ["r"]),
                       helper.make_node("MatMul", ["r", "v"], ["y"])],
                      [value("x", [8, 64])], [value("y", [8, 32])], {"w": WEIGHTS, "v": WEIGHTS[:32]})


def test_no_path_through_other_nodes():
    session = open_session(interleaved())
    assert assigned(session).count("MatMul") == 3
    x = rows(8)
    t = x @ WEIGHTS
    s = t @ WEIGHTS[:32] + np.float32(np.sum(np.nonzero(t)))
    np.testing.assert_allclose(session.run(None, {"x": x})[0], s @ WEIGHTS[:32], rtol=1e-3, atol=1e-2)


def test_fallback_of_a_run(capfd):
    """A subgraph that cannot be compiled for a run's shapes runs in ONNX Runtime, once with a message."""
    session = open_session(dense("rows"), max_memory=20000)
    assert assigned(session) == ["MatMul", "Relu"]
    for count in (500, 4, 600, 500):
        x = rows(count)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], np.maximum(x @ WEIGHTS, 0),
                                   rtol=1e-4, atol=1e-4)
    assert capfd.readouterr().err.count("runs in ONNX Runtime's CPU provider") == 1
    strict = open_session(dense("rows"), entries={"session.disable_cpu_ep_fallback": "1"}, max_memory=20000)
    assert strict.run(None, {"x": rows(2)})[0].shape == (2, 32)
    with pytest.raises(Exception, match="bytes"):
        strict.run(None, {"x": rows(500)})


# --- Options


@pytest.mark.parametrize("options, text", [
    ({"polcy": "float32"}, "provider option 'polcy': is unknown; did you mean 'policy'"),
    ({"policy": "float33"}, "float33"),
    ({"threads": "two"}, "must be a whole number, but is 'two'"),
    ({"threads": "5000"}, "must be at most 1024"),
    ({"target": "cuda:sm_90"}, "must be cpu or cpu:LEVEL"),
    ({"rounding": "up"}, "must be strict or relaxed"),
    ({"set": "layer:x"}, "is not of the form NAME=VALUE"),
    ({"set": "op:MatMul=float33"}, "names the unknown type 'float33'"),
    ({"set": "name:produkt=float32"}, "override 'name:produkt=float32' matches no op that mpc compiles"),
    ({"target": "cpu:avx9"}, "target 'cpu:avx9'"),
    ({"dims": "rows=x"}, "must be a whole number"),
    ({"dims": "rows=8"}, "no input has a symbolic dimension named 'rows'"),
    ({"trusted": "yes"}, "must be 0 or 1"),
])
def test_wrong_options(options, text):
    with pytest.raises(Exception) as failure:
        open_session(dense(), **options)
    assert text in str(failure.value)


def test_two_sessions_with_policies(tmp_path):
    x = rows(8)
    wide, narrow = open_session(dense()), open_session(dense(), policy="mixed_bfloat16", threads=1)
    kept = open_session(dense(), policy="mixed_bfloat16", set="name:product=float32")
    results = [session.run(None, {"x": x})[0] for session in (wide, narrow, kept)]
    for result, options in zip(results, ({}, {"policy": "mixed_bfloat16"},
                                         {"policy": "mixed_bfloat16", "overrides": {"name:product": "float32"}})):
        np.testing.assert_array_equal(result, expected(dense(), {"x": x}, tmp_path, **options)[0])
    assert np.any(results[0] != results[1])


def two_subgraphs(count):
    """Two products with a node of ONNX Runtime between them; only the first has static shapes if `count` has."""
    return make_model([helper.make_node("MatMul", ["x", "w"], ["t"], "first"),
                       helper.make_node("NonZero", ["t"], ["places"]),
                       helper.make_node("Cast", ["places"], ["u"], to=TensorProto.FLOAT),
                       helper.make_node("MatMul", ["v", "u"], ["y"], "second")],
                      [value("x", [count, 64])], [value("t", [count, 32]), value("y", None)],
                      {"w": WEIGHTS, "v": WEIGHTS[:4, :2]})


@pytest.mark.parametrize("count", [8, "rows"])
def test_override_of_one_subgraph(count, capfd):
    x = rows(8)
    plain, changed = (open_session(two_subgraphs(count), level=UNCHANGED, policy="bfloat16", **options)
                      for options in ({}, {"set": "name:first=float32"}))
    assert assigned(changed) == assigned(plain) and assigned(changed).count("MatMul") == 2
    before, after = (session.run(None, {"x": x})[0] for session in (plain, changed))
    np.testing.assert_allclose(after, x @ WEIGHTS, rtol=1e-4, atol=1e-4)
    assert np.any(before != after)
    said = capfd.readouterr().err
    # The second product has dynamic shapes: a run reports what it lacks.
    assert said.count("override 'name:first=float32' matches no op") == 1
    assert "runs in ONNX Runtime's CPU provider" not in said


# Runs a product and prints the names of the process's threads.
NAMES_OF_THREADS = """
import pathlib, sys, time
import numpy as np, onnxruntime as ort, onnxruntime_ep_mpc as plugin
ort.register_execution_provider_library("mpc", plugin.get_library_path())
settings = ort.SessionOptions()
settings.intra_op_num_threads = 3
devices = [device for device in ort.get_ep_devices() if device.ep_name == plugin.get_ep_name()]
settings.add_provider_for_devices(devices, {"threads": "2"} if sys.argv[2:] else {})
session = ort.InferenceSession(sys.argv[1], settings)
for _ in range(50):  # until a worker has got a core
    session.run(None, {"x": np.ones((4096, 64), np.float32)})
    time.sleep(0.002)
print([path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")])
"""


def test_threads_of_the_session(tmp_path):
    """Runs use ONNX Runtime's threads, unless an option asks for mpc's own."""
    onnx.save(dense(4096), tmp_path / "dense.onnx")
    for own in ([], ["own"]):
        names = subprocess.run([sys.executable, "-c", NAMES_OF_THREADS, tmp_path / "dense.onnx", *own],
                               capture_output=True, text=True, check=True).stdout
        assert ("mpc-worker" in names) == bool(own)


def test_dims_compile_with_the_session():
    session = open_session(dense("rows"), dims="rows=8")
    for count in (8, 3):
        assert session.run(None, {"x": rows(count)})[0].shape == (count, 32)


# --- Sessions and memory


def test_threads_on_one_session():
    session = open_session(dense("rows"))
    arrays = [rows(1 + i % 5) for i in range(64)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda x: session.run(None, {"x": x})[0], arrays))
    for x, result in zip(arrays, results):
        np.testing.assert_allclose(result, np.maximum(x @ WEIGHTS, 0), rtol=1e-4, atol=1e-4)


def test_bound_memory():
    """Results are written into the caller's memory."""
    session = open_session(dense())
    x, y = rows(8), np.full((8, 32), np.nan, np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(y, np.maximum(x @ WEIGHTS, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [48, "rows"])
def test_output_in_the_memory_of_an_input(count):
    square = RANDOM.standard_normal((64, 64), np.float32)
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "x"], ["y"])],
                       [value("x", [count, 64])], [value("y", [count, 64])], {"w": square})
    session = open_session(model)
    x = rows(48)
    shared = ort.OrtValue.ortvalue_from_numpy(x.copy())
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", shared)
    binding.bind_ortvalue_output("y", shared)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(shared.numpy(), session.run(None, {"x": x})[0])


def test_outputs_in_the_same_memory():
    """The memory has one of the results, not a mixture."""
    square = RANDOM.standard_normal((64, 64), np.float32)
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("MatMul", ["t", "w"], ["y"])],
                       [value("x", [48, 64])], [value("t", [48, 64]), value("y", [48, 64])], {"w": square})
    session = open_session(model)
    x = rows(48)
    shared = ort.OrtValue.ortvalue_from_numpy(np.zeros((48, 64), np.float32))
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    for name in ("t", "y"):
        binding.bind_ortvalue_output(name, shared)
    session.run_with_iobinding(binding)
    assert any(np.array_equal(shared.numpy(), result) for result in session.run(None, {"x": x}))


def resident_bytes():
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_sessions_do_not_leak():
    model, x = dense().SerializeToString(), rows(8)

    def use(count):
        for _ in range(count):
            open_session(model, threads=1).run(None, {"x": x})

    use(20)
    before = resident_bytes()
    use(100)
    # A session's constants alone are 8 KiB.
    assert resident_bytes() - before < 100 * 8192


# --- Compiled models


@pytest.mark.parametrize("embedded", ["1", "0"])
def test_compiled_models(embedded, tmp_path):
    path = tmp_path / "compiled.onnx"
    onnx.save(dense(), tmp_path / "model.onnx")
    open_session(tmp_path / "model.onnx", entries={
        "ep.context_enable": "1", "ep.context_file_path": str(path), "ep.context_embed_mode": embedded})
    compiled = onnx.load(path)
    assert [node.op_type for node in compiled.graph.node] == ["EPContext"]
    x = rows(8)
    with pytest.raises(Exception, match="set the provider option trusted=1"):
        open_session(path)
    session = open_session(path, trusted=1)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0],
                                  open_session(dense()).run(None, {"x": x})[0])


def test_compiled_parts_of_a_model(tmp_path):
    """Nodes of ONNX Runtime stay; one subgraph in front of them is compiled."""
    model = make_model([helper.make_node("MatMul", ["x", "w"], ["t"]),
                        helper.make_node("NonZero", ["t"], ["places"]),
                        helper.make_node("MatMul", ["z", "w"], ["s"]),
                        helper.make_node("MatMul", ["s", "v"], ["y"])],
                       [value("x", [8, 64]), value("z", [8, 64])],
                       [value("places", [2, None], TensorProto.INT64), value("y", [8, 32])],
                       {"w": WEIGHTS, "v": WEIGHTS[:32]})
    path, feed = tmp_path / "compiled.onnx", {"x": rows(8), "z": rows(8)}
    onnx.save(model, tmp_path / "model.onnx")
    open_session(tmp_path / "model.onnx", entries={
        "ep.context_enable": "1", "ep.context_file_path": str(path), "ep.context_embed_mode": "0"})
    assert sorted(node.op_type for node in onnx.load(path).graph.node) == ["EPContext", "NonZero"]
    assert len(list(tmp_path.glob("*.mpcx"))) == 1
    for got, want in zip(open_session(path, trusted=1).run(None, feed), open_session(model).run(None, feed)):
        np.testing.assert_array_equal(got, want)


def test_damaged_compiled_models(tmp_path):
    path = tmp_path / "compiled.onnx"
    onnx.save(dense(), tmp_path / "model.onnx")
    open_session(tmp_path / "model.onnx",
                 entries={"ep.context_enable": "1", "ep.context_file_path": str(path)})
    compiled = onnx.load(path)
    context = next(a for a in compiled.graph.node[0].attribute if a.name == "ep_cache_context")
    whole = context.s
    for damaged in (b"?" + whole[1:], whole[:2000] + b"AAAA" + whole[2004:], whole[:4000], b"Zm9v"):
        context.s = damaged
        with pytest.raises(Exception, match="EPContext"):
            open_session(compiled, trusted=1)
    mode = next(a for a in compiled.graph.node[0].attribute if a.name == "embed_mode")
    mode.i = 0
    for name in (b"../compiled.mpcx", b"/etc/passwd", b"absent.mpcx"):
        context.s = name
        with pytest.raises(Exception, match="compiled program"):
            open_session(compiled, trusted=1)


def compile_dense(tmp_path, **entries):
    """The compiled model of dense(), whose programs are in files if embed_mode is 0."""
    onnx.save(dense(), tmp_path / "model.onnx")
    open_session(tmp_path / "model.onnx", entries={
        "ep.context_enable": "1", "ep.context_file_path": str(tmp_path / "compiled.onnx"), **entries})
    return onnx.load(tmp_path / "compiled.onnx")


@pytest.mark.parametrize("declared", [value("y", [8, 32], TensorProto.INT8), value("y", [8, 31])])
def test_compiled_models_with_other_types(declared, tmp_path):
    """Memory of the declared type would be too small for the program's results."""
    compiled = compile_dense(tmp_path)
    compiled.graph.output[0].CopyFrom(declared)
    with pytest.raises(Exception, match="has the type f32\\[8,32\\] for value 'y', but the model declares another"):
        open_session(compiled, trusted=1)


def test_compiled_models_in_files(tmp_path):
    """The file is opened only if the model is trusted, and never through a link."""
    compiled = compile_dense(tmp_path, **{"ep.context_embed_mode": "0"})
    program, = tmp_path.glob("*.mpcx")
    program.rename(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="set the provider option trusted=1"):
        open_session(tmp_path / "compiled.onnx")
    program.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="is not a regular file"):
        open_session(tmp_path / "compiled.onnx", trusted=1)
    program.unlink()
    program.write_bytes((tmp_path / "elsewhere").read_bytes()[:-64])
    with pytest.raises(Exception, match="the file of the compiled program"):
        open_session(tmp_path / "compiled.onnx", trusted=1)


@pytest.mark.parametrize("is_link", [False, True])
def test_compiled_models_replace_no_files(is_link, tmp_path):
    other = tmp_path / "other"
    other.write_text("unchanged")
    program = tmp_path / "compiled_0.mpcx"
    program.symlink_to(other) if is_link else program.write_text("unchanged")
    with pytest.raises(Exception, match="compiled_0.mpcx: exists already"):
        compile_dense(tmp_path, **{"ep.context_embed_mode": "0"})
    assert program.read_text() == other.read_text() == "unchanged"


def test_compiled_models_in_bodies(tmp_path):
    node = compile_dense(tmp_path).graph.node[0]
    bodies = [helper.make_graph([body], "body", [], [value(body.output[0], [8, 32])])
              for body in (node, helper.make_node("Identity", ["z"], ["other"]))]
    model = make_model([helper.make_node("If", ["condition"], ["result"], then_branch=bodies[0],
                                         else_branch=bodies[1])],
                       [value("condition", [], TensorProto.BOOL), value("x", [8, 64]), value("z", [8, 32])],
                       [value("result", [8, 32])], domains=["com.microsoft"])
    with pytest.raises(Exception, match="only supported in the main graph"):
        open_session(model, trusted=1)


def test_compiled_models_without_first_output(tmp_path):
    compiled = compile_dense(tmp_path)
    compiled.graph.node[0].output.insert(0, "")
    session = open_session(compiled, trusted=1)
    x = rows(8)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], np.maximum(x @ WEIGHTS, 0), rtol=1e-4, atol=1e-4)


def test_compiled_models_need_shapes(tmp_path):
    onnx.save(dense("rows"), tmp_path / "model.onnx")
    entries = {"ep.context_enable": "1", "ep.context_file_path": str(tmp_path / "compiled.onnx")}
    with pytest.raises(Exception, match="bind them by the provider option 'dims'"):
        open_session(tmp_path / "model.onnx", entries=entries)
