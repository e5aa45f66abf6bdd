# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments and results of a function: types, strides, memory ownership."""

import ctypes
import resource
import time

import ml_dtypes
import mpc
import numpy as np
import pytest

IDENTITY = """func.func @main(%x: tensor<{0}> {{mpc.role = #mpc.role<input>, mpc.name = "x"}})
    -> (tensor<{0}> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %0 = mpc.{1} %x {2}: tensor<{0}>{3}
  return %0 : tensor<{0}>
}}
"""


def turned(type_, extent=6):
    """A function that returns its input reversed."""
    text = IDENTITY.format(f"{extent}x{type_}", "reverse", "axes([0]) ", "")
    return mpc.compile(text, policy="float32")


@pytest.mark.parametrize("type_, dtype", [
    ("i1", np.bool_), ("i8", np.int8), ("i16", np.int16), ("i32", np.int32), ("i64", np.int64), ("ui8", np.uint8),
    ("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32), ("f64", np.float64)])
def test_types_keep_their_bits(type_, dtype):
    x = np.array([0, 1, 1, 0, 3, 2]).astype(dtype)
    y = turned(type_)(x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x[::-1])


def test_strides_do_not_matter(dense, factors):
    x, w = factors
    function = mpc.compile(dense, policy="float32")
    wanted = function(x, w)
    np.testing.assert_array_equal(function(np.asfortranarray(x), np.asfortranarray(w)), wanted)
    wide = np.zeros((4, 128), np.float32)
    wide[:, ::2] = x
    np.testing.assert_array_equal(function(wide[:, ::2], w), wanted)
    np.testing.assert_array_equal(function(x[::-1].copy()[::-1], w), wanted)
    odd = np.zeros(x.nbytes + 1, np.uint8)[1:]
    odd[:] = np.frombuffer(x.tobytes(), np.uint8)
    np.testing.assert_array_equal(function(odd.view(np.float32).reshape(x.shape), w), wanted)


def test_lists_numbers_and_buffers_are_arrays():
    function = turned("f64", 3)
    np.testing.assert_array_equal(function([1.0, 2.0, 3.0]), [3, 2, 1])
    np.testing.assert_array_equal(function(memoryview(np.array([1.0, 2, 3]))), [3, 2, 1])
    np.testing.assert_array_equal(function((ctypes.c_double * 3)(1, 2, 3)), [3, 2, 1])
    for wrong in ("abc", object(), [[1.0], [1.0, 2.0]], np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False])):
        with pytest.raises(mpc.InvalidArgument, match="input 'x'"):
            function(wrong)


def test_numbers_of_python_take_the_type_of_the_input():
    for kind in ("f16", "bf16", "f32", "f64"):
        found = turned(kind, 3)([1, 2.5, -3])
        np.testing.assert_array_equal(np.asarray(found, np.float64), [-3, 2.5, 1])
    for kind in ("i8", "i32", "i64", "ui8"):
        np.testing.assert_array_equal(turned(kind, 3)((1, 2, 3)), [3, 2, 1])
    for kind, numbers, text in (("i32", [1.5, 2, 3], "not f64"), ("i8", [1, 2, 300], "a number that no i8 is"),
                                ("ui8", [1, -2, 3], "a number that no ui8 is"), ("f32", [1j, 2, 3], "input 'x'"),
                                ("f32", ["1", "2", "3"], "input 'x'"), ("f32", [[1.0], [1.0, 2.0]], "is not an array")):
        with pytest.raises(mpc.InvalidArgument, match=text):
            turned(kind, 3)(numbers)
    # Arrays have an explicit type; an implicit conversion would hide its cost.
    with pytest.raises(mpc.InvalidArgument, match="f32, not f64"):
        turned("f32", 3)(np.array([1.0, 2, 3]))


def test_inputs_are_not_written_and_results_are_new(dense, factors):
    x, w = factors
    x.setflags(write=False)
    function = mpc.compile(dense, policy="float32")
    first = function(x, w)
    kept = first.copy()
    second = function(x, 2 * w)
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_allclose(second, 2 * kept, rtol=1e-5)


def test_a_large_input_is_not_copied():
    extent = 25 << 20
    text = f"""func.func @main(%x: tensor<{extent}xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}})
    -> (tensor<f32> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %0 = mpc.reduce_max %x axes([0]) : tensor<{extent}xf32> -> tensor<f32>
  return %0 : tensor<f32>
}}
"""
    x = np.arange(extent, dtype=np.float32)
    function = mpc.compile(text, policy="float32")
    function.compile(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert function(x) == extent - 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10


def test_a_call_costs_few_microseconds():
    """Overhead beyond the C++ API; the minimum of many calls, which is stable on a busy machine."""
    layer = """%{1} = mpc.matmul %{0}, %w : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  %{2} = mpc.relu %{1} : tensor<1x64xf32>
  """
    text = f"""func.func @main(%x: tensor<1x64xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}})
    -> (tensor<1x64xf32> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %w = mpc.constant dense<0.01> : tensor<64x64xf32>
  {layer.format("x", 0, 1)}{layer.format(1, 2, 3)}return %3 : tensor<1x64xf32>
}}
"""
    x = np.ones((1, 64), np.float32)
    function = mpc.compile(text, x, policy="float32", threads=1)
    inside, calls = function.bench(x, seconds=0.2)["min_ms"] / 1e3, []
    for _ in range(5000):
        start = time.perf_counter()
        function(x)
        calls.append(time.perf_counter() - start)
    assert min(calls) - inside < 15e-6
