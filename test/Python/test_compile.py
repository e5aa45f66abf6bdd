# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc.compile and mpc.load: models, options, files, errors."""

import ast
import concurrent.futures
import copy
import gc
import importlib.metadata
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import weakref

import mpc
import numpy as np
import pytest
from conftest import INPUTS
from mpc import _mpc


def test_a_file_is_a_function(cnn):
    path, images = cnn
    wide = mpc.compile(path, policy="float32")(images)
    assert wide.shape == (32, 10) and wide.dtype == np.float32
    np.testing.assert_allclose(wide.sum(1), 1, rtol=1e-5)
    narrow = mpc.compile(path, images, policy="mixed_bfloat16")
    error = narrow(images) - wide
    assert 0 < np.abs(error).max() < 2e-2
    assert narrow.outputs == ["probabilities"]
    assert narrow.layers["0/conv2"] == "bf16" and narrow.layers["1"] == "f32"


def test_a_compile_can_be_verified(cnn):
    path, images = cnn
    np.testing.assert_array_equal(mpc.compile(path, images, policy="mixed_bfloat16", verify=True)(images),
                                  mpc.compile(path, images, policy="mixed_bfloat16")(images))


def test_bytes_and_text_are_models_too(cnn, dense, factors):
    path, images = cnn
    np.testing.assert_array_equal(mpc.compile(path.read_bytes(), policy="float32")(images),
                                  mpc.compile(path, policy="float32")(images))
    x, w = factors
    for model in (dense, dense.encode()):
        np.testing.assert_allclose(mpc.compile(model, policy="float32")(x, w), x @ w, atol=1e-4)


def test_overrides_keep_a_layer_wide(cnn):
    path, images = cnn
    function = mpc.compile(path, images, policy="mixed_bfloat16", overrides={"layer:0/conv2": "float32"})
    assert function.layers["0/conv1"] == "bf16" and function.layers["0/conv2"] == "f32"


def test_auto_names_the_policy(dense):
    assert mpc.compile(dense, policy="auto").policy in ("float32", "mixed_bfloat16", "mixed_float16")


def test_inputs_say_what_is_the_callers(dense):
    text = mpc.compile(dense, policy="float32")
    assert [(i.name, i.dtype, i.shape) for i in text.inputs] == [("x", "f32", [4, 64]), ("w", "f32", [64, 8])]
    symbolic = mpc.compile(INPUTS / "onnx" / "shape-chain.onnx", policy="float32")
    assert symbolic.inputs[0].shape[0] == -1 and symbolic.inputs[0].symbols[0] == "batch"


def test_new_shapes_are_compiled_for():
    function = mpc.compile(INPUTS / "onnx" / "shape-chain.onnx", policy="float32", cache=False)
    shape = function.inputs[0].shape
    before = function.counts.compiles
    sizes = [function(np.ones([batch, *shape[1:]], np.float32)).size for batch in (1, 3, 1, 3)]
    assert sizes == [sizes[0], 3 * sizes[0], sizes[0], 3 * sizes[0]]
    assert function.counts.compiles == before + 2


def test_sizes_of_a_bucket_share_a_program():
    function = mpc.compile(INPUTS / "onnx" / "shape-chain.onnx", policy="float32", buckets={"batch": [4]}, cache=False)
    shape = function.inputs[0].shape
    before = function.counts.compiles
    for batch in (1, 2, 3, 4):
        x = np.arange(12 * batch, dtype=np.float32).reshape(batch, *shape[1:])
        np.testing.assert_array_equal(function(x).ravel(), x.ravel() / 2)
    assert function.counts.compiles == before + 1


def test_a_saved_file_gives_the_same_bits(cnn, tmp_path):
    path, images = cnn
    function = mpc.compile(path, policy="mixed_bfloat16")
    function.save(tmp_path / "m.mpcx")
    loaded = mpc.load(tmp_path / "m.mpcx")
    assert loaded.outputs == ["probabilities"] and loaded.policy == "mixed_bfloat16"
    assert repr(loaded).endswith("in mixed_bfloat16>")
    np.testing.assert_array_equal(loaded(images), function(images))
    with pytest.raises(mpc.InvalidArgument, match="not for image"):
        loaded(images[:3])
    with pytest.raises(mpc.InvalidArgument, match="copy that file"):
        loaded.save(tmp_path / "other.mpcx")


def test_bench_times_runs(dense, factors):
    found = mpc.compile(dense, policy="float32").bench(*factors, seconds=0.01)
    assert found["runs"] >= 3 and 0 < found["min_ms"] <= found["median_ms"]


@pytest.mark.parametrize("model, error, text", [
    ("/nowhere/model.onnx", FileNotFoundError, "cannot be opened"),
    (b"\x08no model", ValueError, "not an ONNX model"),
    ("func.func @main() {\n", ValueError, "text.mlir"),
    (17, ValueError, "none of a path"),
])
def test_wrong_models_are_errors(model, error, text):
    with pytest.raises(error, match=text) as caught:
        mpc.compile(model)
    assert isinstance(caught.value, mpc.Error)


def test_errors_name_place_and_values(dense, factors):
    x, w = factors
    function = mpc.compile(dense, policy="float32")
    with pytest.raises(mpc.InvalidArgument, match="input 'w' was not given"):
        function(x)
    with pytest.raises(mpc.InvalidArgument, match="takes 2 inputs, not 3"):
        function(x, w, w)
    with pytest.raises(mpc.InvalidArgument, match="has no input 'v'"):
        function(x, w, v=w)
    with pytest.raises(mpc.InvalidArgument, match="input 'x' was given twice"):
        function(x, x=x, w=w)
    with pytest.raises(mpc.InvalidArgument, match="input 'x' has elements of type f32, not f64; convert it"):
        function(x.astype(np.float64), w)
    with pytest.raises(mpc.InvalidArgument):
        function(x[:3], w)
    with pytest.raises(mpc.InvalidArgument, match="unknown policy 'half'"):
        mpc.compile(dense, policy="half")(x, w)
    with pytest.raises(mpc.InvalidArgument, match="not one of 'cpu', 'cuda' and 'cuda:N'"):
        mpc.compile(dense, device="tpu")
    with pytest.raises(mpc.InvalidArgument, match="batch is 0, expected at least 1"):
        mpc.compile(dense, batch=0)(x, w)
    with pytest.raises(mpc.InvalidArgument, match="no input has a symbolic dimension named 'rows'"):
        mpc.compile(dense, dims={"rows": 3})(x, w)


def test_threads_compile_and_run_at_once(dense, factors):
    x, w = factors

    def one(number):
        function = mpc.compile(dense, policy=("float32", "mixed_bfloat16")[number % 2], cache=False)
        return max(float(np.abs(function(x * i, w) - i * (x @ w)).max()) for i in range(1, 20))

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        errors = list(pool.map(one, range(32)))
    assert max(errors[0::2]) < 1e-3 and max(errors[1::2]) < 5


def test_errors_cross_processes(dense, factors):
    with pytest.raises(mpc.InvalidArgument) as caught:
        mpc.compile(dense, policy="float32")(factors[0])
    back = pickle.loads(pickle.dumps(caught.value))
    assert (type(back), str(back), back.where) == (mpc.InvalidArgument, str(caught.value), caught.value.where)


def test_a_function_is_shared_by_copies_and_not_pickled(dense, factors):
    function = mpc.compile(dense, policy="float32")
    assert copy.deepcopy({"f": function})["f"] is function
    with pytest.raises(mpc.InvalidArgument, match=r"is not pickled; save\(\) it"):
        pickle.dumps(function)


def test_a_forked_child_computes(dense, factors):
    x, w = factors
    function = mpc.compile(dense, x, w, policy="float32")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if np.allclose(function(x, w), x @ w, atol=1e-3) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_dropped_is_freed(dense, factors):
    x, w = factors

    def cycle():
        function = mpc.compile(dense, policy="float32", cache=False)
        function(x, w)
        return weakref.ref(function)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    # The engine caches the last 64 programs.
    for _ in range(80):
        assert cycle()() is None
    before = resident()
    for _ in range(80):
        cycle()
    assert resident() - before < 16 << 20


def test_the_interpreter_ends_cleanly(dense):
    program = ("import mpc, numpy as np\n"
               f"f = mpc.compile({dense!r}, policy='float32')\n"
               "y = f(np.ones((4, 64), np.float32), np.ones((64, 8), np.float32))\n"
               "print(y[0, 0])\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "64.0\n", "")


def test_the_interpreter_ends_under_threads_that_compile_and_run(dense):
    program = f"""
import threading, time, mpc, numpy as np
x, w = np.ones((4, 64), np.float32), np.ones((64, 8), np.float32)
f = mpc.compile({dense!r}, x, w, policy="float32")

def compiles():
    while True:
        mpc.compile({dense!r}, x, w, policy="float32", cache=False)

def runs():
    while True:
        f(x, w)

for work in (compiles, compiles, runs, runs):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
"""
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_subinterpreter_is_refused(dense, factors):
    interpreters = pytest.importorskip("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    function = mpc.compile(dense, *factors, policy="float32")
    other = interpreters.create()
    program = ("try:\n    import mpc\nexcept ImportError:\n    pass\nelse:\n    raise AssertionError\n")
    try:
        assert interpreters.run_string(other, f"import sys; sys.path[:0] = {sys.path!r}\n{program}") is None
    finally:
        interpreters.destroy(other)
    assert function(*factors).shape == mpc.compile(dense, policy="float32")(*factors).shape


def test_the_version_is_that_of_the_package():
    assert mpc.__version__ == importlib.metadata.version("mpc-compiler")


def test_the_stub_names_all_of_the_extension():
    stub = pathlib.Path(mpc.__file__).with_name("_mpc.pyi")
    declared = {node.name for node in ast.parse(stub.read_text()).body if hasattr(node, "name")}
    assert {name for name in dir(_mpc) if not name.startswith("_")} == declared
