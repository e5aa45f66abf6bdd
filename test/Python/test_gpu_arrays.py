# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays on a GPU, on the recording driver (gpu.test): whose memory, on which stream, how long."""

import gc
import os
import weakref

import mpc
import numpy as np
import pytest
from conftest import INPUTS
from recorded_gpu import Array, Driver, Interface, at, stand_in_for_torch

DRIVER = os.environ.get("MPC_RECORDING_DRIVER")
pytestmark = pytest.mark.skipif(not DRIVER, reason="MPC_RECORDING_DRIVER names no driver")


@pytest.fixture(scope="module")
def driver():
    made = Driver(DRIVER)
    mpc._function._device("cuda", 0)
    made.start()
    yield made
    assert made.complaints() == 0
    made.close()


@pytest.fixture
def product(driver, dense, factors):
    """x @ w on the GPU, the arrays, and the addresses that its kernel got."""
    x, w = factors
    function, seen = mpc.compile(dense, policy="float32", device="cuda"), []

    def work(addresses):
        seen.append(addresses)
        at(addresses[-1], (4, 8))[...] = at(addresses[0], x.shape) @ at(addresses[1], w.shape)

    driver.kernels_do(work)
    return function, Array(driver, x), Array(driver, w), seen


def test_no_byte_moves(driver, product, factors):
    function, x, w, seen = product
    function.compile(x, w)
    before = driver.copies()
    y = function(x, w)
    assert driver.copies() == before and not seen
    np.testing.assert_array_equal(y.numpy(), factors[0] @ factors[1])
    assert seen[0][:2] == [x.address, w.address]
    assert seen[0][-1] == y.__cuda_array_interface__["data"][0]
    assert y.shape == (4, 8) and y.dtype == np.float32 and y.__dlpack_device__() == (2, 0)
    assert "on cuda:0" in repr(y)


def test_streams_are_passed_and_waited_for(driver, product, factors):
    function, x, w, _ = product
    y = function(x, w)
    own = y.__cuda_array_interface__["stream"]
    assert x.streams[-1] == w.streams[-1] == own
    # Without its stream, a consumer would read the memory before the result is written.
    consumer = driver.stream()
    y.__dlpack__(stream=consumer)
    found = driver.fetch(y.__cuda_array_interface__["data"][0], np.empty((4, 8), np.float32), consumer)
    np.testing.assert_array_equal(found, factors[0] @ factors[1])
    # Results are valid arguments.
    assert isinstance(function(x, w=w), mpc._mpc.GpuArray)
    with pytest.raises(BufferError, match="copy"):
        y.__dlpack__(stream=-1, copy=True)


def test_the_other_protocol(driver, product, factors):
    function, x, w, seen = product
    stream, waits = driver.stream(), driver.count("cuStreamWaitEvent")
    y = function(Interface(x, stream), Interface(w))
    assert driver.count("cuStreamWaitEvent") > waits
    np.testing.assert_array_equal(y.numpy(), factors[0] @ factors[1])
    assert seen[0][0] == x.address
    with pytest.raises(mpc.InvalidArgument, match="input 'w': is not contiguous"):
        function(x, Interface(w, strides=(4, 4 * 64)))


def test_pytorchs_memory_and_stream(driver, product, factors, monkeypatch):
    torch = stand_in_for_torch(driver, monkeypatch)
    function, _, _, seen = product
    x, w = torch.tensor(factors[0]), torch.tensor(factors[1])
    w.requires_grad = True
    y = function(x, w)
    # No stream is passed: the tensors belong to the stream of the run.
    assert type(y) is type(x) and x.streams == [-1] and not seen
    np.testing.assert_array_equal(driver.fetch(y.address, y.view, torch.stream), factors[0] @ factors[1])
    assert seen[0][-1] == y.address
    # Another framework gets the stream; the framework itself makes arrays with gaps contiguous.
    other = Array(driver, factors[1])
    x.view = np.asfortranarray(x.view)
    y = function(x, other)
    assert other.streams == [torch.stream]
    np.testing.assert_array_equal(driver.fetch(y.address, y.view, torch.stream), factors[0] @ factors[1])


def test_what_is_read_lives_until_it_was(driver, product):
    function, _, w, seen = product
    x = Array(driver, np.ones((4, 64), np.float32))
    gone = weakref.ref(x.view.base)
    y = function(x, w)
    del x
    gc.collect()
    assert gone() is not None and not seen
    y.numpy()
    function(w=w, x=Array(driver, np.zeros((4, 64), np.float32))).numpy()
    gc.collect()
    assert gone() is None


def test_numbers_come_along(driver):
    text = """func.func @main(%x: tensor<8xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %s: tensor<f32> {mpc.role = #mpc.role<input>, mpc.name = "s"})
    -> (tensor<8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.broadcast %s : tensor<f32> to tensor<8xf32>
  %1 = mpc.mul %x, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""

    x = Array(driver, np.arange(8, dtype=np.float32))

    def work(addresses):
        s, = {*addresses[:2]} - {x.address}
        at(addresses[2], (8,))[...] = x.view * at(s, (1,))

    driver.kernels_do(work)
    function = mpc.compile(text, policy="float32", device="cuda")
    np.testing.assert_array_equal(function(x, np.float32(3)).numpy(), 3 * x.view)


def test_what_cannot_be(driver, product, dense, factors):
    function, x, w, _ = product
    for wrong, text in ((Array(driver, factors[0], ordinal=1), "input 'x': is on cuda:1, but the model runs on cuda:0"),
                        (factors[0], "input 'x': is in host memory, but other inputs are on cuda:0"),
                        (Array(driver, factors[0].astype(np.float64)), "input 'x' has elements of type f32, not f64"),
                        (Array(driver, factors[0].astype(np.complex64)), "input 'x': has an element type that models"),
                        (Array(driver, factors[0][:, :32]), "4")):
        with pytest.raises(mpc.InvalidArgument, match=text):
            function(wrong, w)
    with pytest.raises(mpc.InvalidArgument, match="input 'x': is on device 0, but the model does not run there; compile for"):
        mpc.compile(dense, policy="float32")(x, w)


def test_host_arrays_go_there_and_back(driver, product, factors):
    function = product[0]
    y = function(*factors)
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, factors[0] @ factors[1])


def test_an_example_names_the_gpu(driver, product, dense):
    _, x, w, _ = product
    function = mpc.compile(dense, x, w, policy="float32")
    assert isinstance(function(x, w), mpc._mpc.GpuArray)
    assert function.bench(x, w, seconds=0)["runs"] >= 3


def test_a_loaded_file(driver, product, factors, tmp_path):
    function, x, w, seen = product
    function.compile(x, w)
    file = tmp_path / "product.mpcx"
    function.save(file, targets="cuda:sm_90a")
    loaded = mpc.load(file, device="cuda")
    np.testing.assert_array_equal(loaded(x, w).numpy(), factors[0] @ factors[1])
    assert seen[-1][0] == x.address and loaded.outputs == ["y"]


def test_a_batch_on_the_gpu(driver):
    numbers = np.random.default_rng(0)
    driver.kernels_do(lambda addresses: None)
    trainer = mpc.Trainer(INPUTS / "onnx" / "small-cnn.onnx", policy="float32", optimizer="sgd", device="cuda")
    shapes = [v.shape for v in trainer.batch_types]
    images, labels = numbers.standard_normal(shapes[0], np.float32), numbers.integers(0, 10, shapes[1]).astype(np.int32)
    x, y = Array(driver, images), Array(driver, labels)
    trainer.step(images, labels)
    trainer.metrics()
    before, inside = driver.count("cuMemcpyHtoDAsync"), driver.count("cuMemcpyDtoDAsync")
    trainer.step(x, y)
    assert driver.count("cuMemcpyHtoDAsync") == before and driver.count("cuMemcpyDtoDAsync") == inside + 2
    assert trainer.metrics()["batches"] == 1
    trainer.step(x, labels)
    assert trainer.metrics()["batches"] == 1
    assert x.streams[-1] == y.streams[-1] != -1
