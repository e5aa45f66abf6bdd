# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many threads at once, also of an interpreter without a lock (tools/ci/free-threaded.sh)."""

import concurrent.futures
import subprocess
import sys
import sysconfig
import threading

import mpc
import numpy as np
import pytest
from conftest import INPUTS

free_threaded = pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this interpreter has a lock")
THREADS = 16


def together(work, threads=THREADS):
    """Results of `work` for each number, in threads that start at the same time."""
    start = threading.Barrier(threads)

    def one(number):
        start.wait()
        return work(number)

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))


@free_threaded
def test_the_interpreter_stays_without_its_lock():
    program = "import sys, mpc; print(sys._is_gil_enabled())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_one_function_is_called_by_all(dense, factors):
    x, w = factors
    function = mpc.compile(dense, policy="float32", cache=False)

    def calls(number):
        return all(np.allclose(function(x * i, w=w), i * (x @ w), rtol=1e-4, atol=1e-3)
                   for i in range(number + 1, number + 100))

    # The first call of each compiles, or waits for who does.
    assert all(together(calls)) and function.counts.compiles >= 1


def test_arrays_are_shared(dense, factors):
    """Results of one thread are read and dropped by others."""
    x, w = factors
    function = mpc.compile(dense, x, w, policy="float32")
    results = together(lambda number: [function(x, w) for _ in range(50)])
    wanted = function(x, w)
    assert all(together(lambda number: all(np.array_equal(r, wanted) for part in results for r in part)))
    results.clear()


def test_failures_and_questions_are_of_their_thread(dense, factors):
    x, w = factors
    function = mpc.compile(dense, policy="float32")

    def mixed(number):
        for _ in range(20):
            if number % 2:
                assert np.allclose(function(x, w), x @ w, atol=1e-3)
                assert [i.name for i in function.inputs] == ["x", "w"] and function.outputs in ([], ["y"])
                continue
            with pytest.raises(mpc.InvalidArgument, match="input 'w' was not given"):
                function(x)
            with mpc.policy("mixed_bfloat16" if number % 4 else "float16"):
                assert mpc.Policy(mpc.global_policy()).name
        return True

    assert all(together(mixed))


def test_trainers_step_concurrently():
    numbers = np.random.default_rng(0)
    x, y = numbers.standard_normal((2, 1, 8, 8), np.float32), numbers.integers(0, 10, 2)

    def loss(number):
        trainer = mpc.Trainer(INPUTS / "onnx" / "small-cnn.onnx", policy="float32", optimizer="sgd", lr=0.01, threads=1)
        for _ in range(3):
            trainer.step(x, y)
        return trainer.metrics()["loss"]

    assert len(set(together(loss, 4))) == 1


def test_sixteen_threads_compile_and_run(factors):
    """Each a model of its own."""
    def work(number):
        rows = number + 1
        text = f"""func.func @main(%x: tensor<{rows}x64xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}},
                %w: tensor<64x8xf32> {{mpc.role = #mpc.role<parameter>, mpc.name = "w"}})
    -> (tensor<{rows}x8xf32> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %0 = mpc.matmul %x, %w : (tensor<{rows}x64xf32>, tensor<64x8xf32>) -> tensor<{rows}x8xf32>
  return %0 : tensor<{rows}x8xf32>
}}
"""
        x = np.random.default_rng(number).standard_normal((rows, 64), np.float32)
        function = mpc.compile(text, policy="float32", cache=False)
        return all(np.allclose(function(x, factors[1]), x @ factors[1], rtol=1e-4, atol=1e-3) for _ in range(20))

    assert all(together(work))
