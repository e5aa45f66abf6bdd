# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of PyTorch on a GPU become text as those of the host do; no GPU is used, since tensors are fake."""

import pytest

torch = pytest.importorskip("torch")

import mpc.torch  # noqa: E402
from mpc._graph import HOST, why_not, write  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

GPU = torch.device("cuda", 0)
aten = torch.ops.aten


def traced(function, *shapes, dtype=torch.float32, hosts=()):
    """A graph on fake GPU tensors; those with the numbers in `hosts` are in host memory."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        tensors = [torch.empty(shape, dtype=dtype, device=HOST if i in hosts else GPU)
                   for i, shape in enumerate(shapes)]
        module = make_fx(function, decomposition_table=mpc.torch.decompositions())(*tensors)
    module.graph.eliminate_dead_code()
    return module


def text_of(module, device=GPU):
    return write(module, {node: node.meta.get("val") for node in module.graph.nodes}, device).text


def reasons(module):
    device = mpc.torch._place(module.graph)
    assert device == GPU
    return {str(n.target): why_not(n, device) for n in module.graph.nodes if n.op == "call_function"
            and why_not(n, device)}


def test_layers_lower():
    def network(x, w, b, g, h):
        y = nn.functional.gelu(nn.functional.linear(x, w, b))
        return nn.functional.layer_norm(y, (16,), g, h).softmax(-1)

    module = traced(network, (4, 8), (16, 8), (16,), (16,), (16,))
    text = text_of(module)
    assert not reasons(module) and "mpc.matmul" in text and "norm" in text
    # The same graph on another device is not this one.
    with pytest.raises(mpc._graph.Unsupported, match="tensors on cuda:0"):
        text_of(module, HOST)


@pytest.mark.parametrize("training", [False, True])
def test_batch_norms_lower(training):
    def network(x, w, g, b, m, v):
        return nn.functional.batch_norm(nn.functional.conv2d(x, w), m, v, g, b, training)

    module = traced(network, (2, 3, 8, 8), (4, 3, 3, 3), (4,), (4,), (4,), (4,))
    assert set(reasons(module)) <= {"aten.copy_.default"}


def attention(kind, *rest):
    return lambda q, k, v: getattr(aten, kind)(q, k, v, *rest)[0]


@pytest.mark.parametrize("kind, rest", [
    ("_scaled_dot_product_flash_attention", (0.0, True)),
    ("_scaled_dot_product_efficient_attention", (None, False, 0.0, True)),
    ("_scaled_dot_product_cudnn_attention", (None, False, 0.0, True))])
def test_attention_stays_whole(kind, rest):
    module = traced(attention(kind, *rest), *[(2, 4, 16, 64)] * 3, dtype=torch.float16)
    assert not reasons(module)
    assert text_of(module).count("mpc.attention ") == 1 and " causal" in text_of(module)


def flash(q, k, v, gradient):
    out, sums, first_q, first_k, most_q, most_k, *draws, _ = aten._scaled_dot_product_flash_attention(q, k, v)
    return aten._scaled_dot_product_flash_attention_backward(
        gradient, q, k, v, out, sums, first_q, first_k, most_q, most_k, 0.0, False, *draws)


def efficient(q, k, v, gradient):
    out, *state = aten._scaled_dot_product_efficient_attention(q, k, v, None, True)
    return aten._scaled_dot_product_efficient_attention_backward(
        gradient, q, k, v, None, out, *state, 0.0, [True, True, True, False])[:3]


def cudnn(q, k, v, gradient):
    out, sums, first_q, first_k, most_q, most_k, *draws, _ = aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True)
    return aten._scaled_dot_product_cudnn_attention_backward(
        gradient, q, k, v, out, sums, *draws, None, first_q, first_k, most_q, most_k, 0.0, False)


@pytest.mark.parametrize("step", [flash, efficient, cudnn])
def test_attention_learns(step):
    """The saved results of the forward pass are dropped, and the backward pass recomputes them."""
    module = traced(step, *[(2, 4, 16, 64)] * 4, dtype=torch.float16)
    mpc.torch._forget_results(module)
    module.graph.eliminate_dead_code()
    assert not reasons(module)
    assert text_of(module).count("mpc.attention_gradient ") == 1


def test_numbers_of_the_host_come_along():
    module = traced(lambda x, s: x * s, (4, 8), (), hosts=(1,))
    assert not reasons(module) and "tensor<f32> {mpc.role" in text_of(module)
    # Tensors that are computed in host memory stay there.
    module = traced(lambda x, s, t: x * (s + t), (4, 8), (), (), hosts=(1, 2))
    assert list(reasons(module).values()) == ["tensors on cpu"]
