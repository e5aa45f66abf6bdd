# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models and arrays that several tests use."""

import pathlib

import numpy as np
import pytest

INPUTS = pathlib.Path(__file__).resolve().parents[1] / "Inputs"

DENSE = """func.func @main(%x: tensor<4x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"},
                %w: tensor<64x8xf32> {mpc.role = #mpc.role<parameter>, mpc.name = "w"})
    -> (tensor<4x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.matmul %x, %w : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""


@pytest.fixture
def dense():
    """Text of a matmul of x (4 x 64) and w (64 x 8)."""
    return DENSE


@pytest.fixture
def factors():
    numbers = np.random.default_rng(0)
    return (numbers.standard_normal((4, 64), np.float32), numbers.standard_normal((64, 8), np.float32))


@pytest.fixture
def cnn():
    """A trained network's file and 32 of its images."""
    return INPUTS / "mnist-cnn" / "model.onnx", np.load(INPUTS / "mnist-cnn" / "inputs.npz")["image"]
