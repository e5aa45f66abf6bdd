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


class Mine(torch.Tensor):
    """A tensor of a user's class."""


def test_tensors_mean_what_pytorch_means():
    """A tensor with the negative bit, whose memory holds the negated values; and a subclass of Tensor."""
    x = torch.randn(8, 8)
    function = mpc.compile(torch.nn.ReLU(), x, policy="float32")
    negative = torch.view_as_complex(torch.randn(8, 8, 2)).conj().imag
    assert negative.is_neg() and torch.equal(function(negative), negative.relu())
    mine = x.clone().as_subclass(Mine).requires_grad_()
    assert torch.equal(function(mine), x.relu())
    with pytest.raises(mpc.InvalidArgument, match="input '.*': is not an array: .*to_dense"):
        function(x.to_sparse())


@pytest.mark.filterwarnings("ignore")
def test_an_exported_program_is_a_model():
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Dropout()).eval()
    x = torch.randn(4, 8)
    program = torch.export.export(module, (x,))
    for function in (mpc.compile(program, policy="float32"), mpc.compile(program, x, policy="float32")):
        assert torch.allclose(function(x), module(x), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_parts_of_a_module_keep_their_modes():
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4))
    module[1].eval()
    mpc.compile(module, torch.randn(2, 8))
    assert [part.training for part in module.modules()] == [True, True, False]


def test_a_module_needs_an_example():
    with pytest.raises(mpc.InvalidArgument, match="which is traced: give an array"):
        mpc.compile(torch.nn.Linear(8, 4))
