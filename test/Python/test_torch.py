# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules and tensors of PyTorch; skipped without it."""

import mpc
import pytest

torch = pytest.importorskip("torch")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("policy, bound", [("float32", 2e-6), ("mixed_bfloat16", 2e-2), ("mixed_float16", 2e-3)])
def test_a_module_is_compiled(policy, bound):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                 torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(8 * 36, 10))
    x = torch.randn(4, 3, 8, 8)
    function = mpc.compile(module, x, policy=policy)
    assert module.training
    y = function(x)
    wanted = module.double().eval()(x.double())
    assert isinstance(y, torch.Tensor) and y.dtype == torch.float32
    assert (y - wanted).norm() / wanted.norm() < bound


@pytest.mark.filterwarnings("ignore")
def test_tensors_of_any_strides_and_graphs():
    module = torch.nn.Linear(8, 4)
    x = torch.randn(8, 5)
    function = mpc.compile(module, x.t().contiguous(), policy="float32")
    y = function(x.t().requires_grad_())
    assert torch.allclose(y, module(x.t()), atol=1e-5)
    with pytest.raises(mpc.InvalidArgument, match="f32, not bf16; convert it"):
        function(x.t().bfloat16())


def test_a_module_needs_an_example():
    with pytest.raises(mpc.InvalidArgument, match="which is traced: give an array"):
        mpc.compile(torch.nn.Linear(8, 4))
