# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python scalars with 16-bit tensors: backend ops with scalars, alpha and beta are as accurate as eager mode."""

import math

import pytest

torch = pytest.importorskip("torch")

import mpc.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

ROWS = 48
# Numbers that neither 16-bit type has.
SCALARS = (0.3, 0.7, 1.1, 0.22, 0.013, 2.3)

# Functions of x, y and z, matrices of normal numbers of which the first ones are next to SCALARS.
FORMS = {
    "add": lambda x, y, z: x + 0.3, "radd": lambda x, y, z: 0.3 + x, "add alpha": lambda x, y, z: torch.add(x, y, alpha=0.3),
    "sub": lambda x, y, z: x - 0.3, "sub alpha": lambda x, y, z: torch.sub(x, y, alpha=1.1),
    "rsub": lambda x, y, z: 1.1 - x, "rsub alpha": lambda x, y, z: torch.rsub(x, y, alpha=0.3),
    "mul": lambda x, y, z: x * 0.3, "mul whole": lambda x, y, z: x * 257, "mul large": lambda x, y, z: (x * 1e-3) * 7e4,
    "mul rank 0": lambda x, y, z: x * torch.tensor(1.1), "add rank 0": lambda x, y, z: x + torch.tensor(1.1),
    "mul whole rank 0": lambda x, y, z: x * torch.tensor(257), "residual": lambda x, y, z: x + y * 0.22,
    "div": lambda x, y, z: x / 3.3, "rdiv": lambda x, y, z: 0.3 / (x.abs() + 1), "reciprocal": lambda x, y, z: 1 / (x.abs() + 0.7),
    "div floor": lambda x, y, z: torch.div(x * 40, 0.7, rounding_mode="floor"),
    "div trunc": lambda x, y, z: torch.div(x * 40, 0.7, rounding_mode="trunc"),
    "div trunc tensors": lambda x, y, z: torch.div(x * 40, y.abs() + 0.5, rounding_mode="trunc"),
    "div floor tensors": lambda x, y, z: torch.div(x * 40, y.abs() + 0.5, rounding_mode="floor"),
    "floor divide": lambda x, y, z: (x.detach() * 40) // 0.7, "fmod": lambda x, y, z: torch.fmod(x * 4, 0.7),
    "remainder": lambda x, y, z: (x * 4) % 0.7, "remainder of number": lambda x, y, z: 2.3 % (y.detach().abs() + 1),
    "square": lambda x, y, z: x ** 2, "cube": lambda x, y, z: x ** 3, "pow": lambda x, y, z: x.abs() ** 1.7,
    "root": lambda x, y, z: (x.abs() + 0.1) ** -0.5, "rpow": lambda x, y, z: 1.7 ** x, "float power": lambda x, y, z: torch.float_power(x.abs(), 0.3),
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=0.3), "addcdiv": lambda x, y, z: torch.ops.aten.addcdiv(x, y, z.abs() + 1, value=0.3),
    "lerp": lambda x, y, z: torch.lerp(x, y, 0.3), "lerp high": lambda x, y, z: torch.lerp(x, y, 0.7), "lerp tensor": lambda x, y, z: torch.lerp(x, y, z.sigmoid()),
    "addmm": lambda x, y, z: torch.addmm(z, x, y, alpha=0.3, beta=0.7), "addmm plain": lambda x, y, z: torch.addmm(z[0], x, y),
    "addmm alone": lambda x, y, z: torch.addmm(z, x, y, alpha=0.3, beta=0),
    "baddbmm": lambda x, y, z: torch.baddbmm(z.view(4, 12, 48), x.view(4, 12, 48), y.expand(4, 48, 48), alpha=0.3, beta=0.7),
    "addbmm": lambda x, y, z: torch.addbmm(z[:12], x.view(4, 12, 48), y.expand(4, 48, 48), alpha=0.3, beta=0.7),
    "addmv": lambda x, y, z: torch.addmv(z[0], x, y[0], alpha=0.3, beta=0.7), "addr": lambda x, y, z: torch.addr(z, x[0], y[0], alpha=0.3, beta=0.7),
    "softplus": lambda x, y, z: F.softplus(x, 1.3), "softplus threshold": lambda x, y, z: F.softplus(x, 1.3, 0.7),
    "elu": lambda x, y, z: F.elu(x, 1.1), "celu": lambda x, y, z: F.celu(x, 1.1), "selu": lambda x, y, z: F.selu(x),
    "leaky relu": lambda x, y, z: F.leaky_relu(x, 0.013), "prelu": lambda x, y, z: F.prelu(x, z[0, :1]),
    "hardtanh": lambda x, y, z: F.hardtanh(x, -0.3, 0.7), "relu6": lambda x, y, z: F.relu6(x * 4), "clamp": lambda x, y, z: x.clamp(-0.3, 0.7),
    "clamp min": lambda x, y, z: torch.clamp_min(x, 0.3), "clamp max": lambda x, y, z: torch.clamp_max(x, 0.3),
    "threshold": lambda x, y, z: F.threshold(x, 0.3, 0.22), "hardshrink": lambda x, y, z: F.hardshrink(x, 0.3), "softshrink": lambda x, y, z: F.softshrink(x, 0.3),
    "hardsigmoid": lambda x, y, z: F.hardsigmoid(x), "hardswish": lambda x, y, z: F.hardswish(x), "mish": lambda x, y, z: F.mish(x),
    "logit": lambda x, y, z: torch.logit(x.sigmoid(), 0.013), "xlogy": lambda x, y, z: torch.special.xlogy(x, 0.3),
    "where": lambda x, y, z: torch.where(x > 0, x, 0.3), "masked fill": lambda x, y, z: x.masked_fill(y > 0, 0.3),
    "maximum rank 0": lambda x, y, z: torch.maximum(x, torch.tensor(0.3, dtype=x.dtype)), "nan to num": lambda x, y, z: torch.nan_to_num(x, 0.3),
    "index add": lambda x, y, z: x.index_add(0, torch.arange(ROWS), y, alpha=0.3), "index fill": lambda x, y, z: x.index_fill(0, torch.tensor([1]), 0.3),
    "std": lambda x, y, z: x.std(1), "norm": lambda x, y, z: torch.linalg.vector_norm(x, 3, 1), "huber": lambda x, y, z: F.huber_loss(x, y, delta=0.7, reduction="none"),
    "smooth l1": lambda x, y, z: F.smooth_l1_loss(x, y, beta=0.7, reduction="none"), "renorm": lambda x, y, z: torch.renorm(x, 2, 0, 0.7),
    "rad2deg": lambda x, y, z: torch.rad2deg(x), "log2": lambda x, y, z: torch.log2(x.abs() + 0.1), "logaddexp": lambda x, y, z: torch.logaddexp(x, y),
    "pad": lambda x, y, z: F.pad(x, (1, 2), value=0.3), "full like": lambda x, y, z: x + torch.full_like(x, 0.3),
    "attention": lambda x, y, z: F.scaled_dot_product_attention(x[None, None], y[None, None], z[None, None], scale=0.0883),
    "foreach": lambda x, y, z: torch.stack(torch._foreach_add(torch._foreach_mul([x, y], 0.3), [y, z], alpha=0.7)),
    "foreach lists": lambda x, y, z: torch.stack(torch._foreach_addcdiv([x, y], [y, x], [z.abs() + 1, z.abs() + 2], [0.3, 0.7])),
    "foreach steps": lambda x, y, z: torch.stack(torch._foreach_lerp(torch._foreach_maximum([x, y], 0.3), [z, x], 0.3)),
    "gelu": lambda x, y, z: F.gelu(x, approximate="tanh"), "dropout": lambda x, y, z: torch.ops.aten.native_dropout_backward(x, y > 0, 1.1),
}
COMPARISONS = {f"{name} {number}": lambda x, name=name, number=number: getattr(torch, name)(x, number)
               for name in ("eq", "ne", "lt", "le", "gt", "ge") for number in SCALARS}
# Numbers that are part of an op of the dialect, or of no 16-bit tensor.
ELSEWHERE = set("""native_layer_norm native_group_norm native_batch_norm_backward batch_norm_no_training _fused_rms_norm
_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training native_layer_norm_backward
native_batch_norm cudnn_batch_norm cudnn_batch_norm_backward miopen_batch_norm miopen_batch_norm_backward
_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
_scaled_dot_product_cudnn_attention_backward _cdist_forward _pdist_forward upsample_linear1d upsample_bilinear2d upsample_nearest2d
arange linspace logspace iota full fill new_full scalar_tensor scatter isin norm multi_margin_loss var var_mean std_mean
_unsafe_masked_index normal uniform bernoulli native_dropout masked_fill_ bitwise_and bitwise_or bitwise_xor true_divide
special_xlog1py index_fill constant_pad_nd avg_pool2d""".split())


def tensors(dtype):
    """x, y and z, and a cotangent of the results."""
    numbers = torch.Generator().manual_seed(0)
    given = [torch.randn(ROWS, 48, generator=numbers) for _ in range(3)]
    near = torch.tensor([sign * s * (1 + step * torch.finfo(dtype).eps)
                         for s in SCALARS for sign in (1, -1) for step in (-1, 0, 1)])
    for matrix in given[:2]:
        matrix.view(-1)[:len(near)] = near
    return [v.to(dtype) for v in given], torch.randn(ROWS * 48 * 2, generator=numbers).to(dtype)


def step(forms, given, tangent, run=lambda f: f):
    """Result and gradients of each form; each form has separate arguments and so separate gradients."""
    inputs = [v.clone().requires_grad_() for _ in forms for v in given]
    results = run(lambda *all: [form(*all[3 * i:3 * i + 3]) for i, form in enumerate(forms)])(*inputs)
    smooth = [r for r in results if r.requires_grad]
    tangents = [tangent[:r.numel()].view(r.shape).to(r.dtype) for r in smooth]
    gradients = torch.autograd.grad(smooth, inputs, tangents, allow_unused=True)
    return [[r.detach(), *(g for g in gradients[3 * i:3 * i + 3] if g is not None)] for i, r in enumerate(results)]


def measure(value, exact, dtype):
    """Root mean square and mean of the error relative to the exact numbers, and how many these are."""
    kept = exact.abs() <= torch.finfo(dtype).max
    error = (value.double()[kept] - exact[kept]) / exact[kept].abs().clamp(min=1e-3)
    return float(error.square().mean().sqrt()), abs(float((error * exact[kept].sign()).mean())), error.numel()


GROUPS = [list(FORMS)[i::6] for i in range(6)]


@pytest.mark.parametrize("names", GROUPS, ids=range(len(GROUPS)))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_no_further_off_than_eager_mode(names, dtype):
    torch._dynamo.reset()
    forms, (given, tangent) = [FORMS[name] for name in names], tensors(dtype)
    found = step(forms, given, tangent, lambda f: torch.compile(f, backend="mpc", fullgraph=True, options={"policy": "float32"}))
    eager, exact = step(forms, given, tangent), step(forms, [v.double() for v in given], tangent.double())
    for name, *parts in zip(names, found, eager, exact, strict=True):
        for f, e, x in zip(*parts, strict=True):
            assert f.dtype == e.dtype and f.shape == e.shape, name
            (error, bias, count), (rounding, least, _) = measure(f, x, dtype), measure(e, x, dtype)
            assert error <= 1.15 * rounding + 1e-9, (name, error, rounding)
            # The mean of so many roundings is no better known.
            assert bias <= least + 0.025 * torch.finfo(dtype).eps + 2 * rounding / count ** 0.5, (name, bias, least)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_comparisons_are_those_of_eager_mode(dtype):
    torch._dynamo.reset()
    x = tensors(dtype)[0][0]
    compare = torch.compile(lambda x: [form(x) for form in COMPARISONS.values()], backend="mpc", options={"policy": "float32"})
    for name, found in zip(COMPARISONS, compare(x), strict=True):
        assert torch.equal(found, COMPARISONS[name](x)), name


def test_numbers_beyond_float32():
    x = torch.tensor([0.0, 1.0, -2.0], dtype=torch.bfloat16)
    for form in (lambda x: x * 1e300, lambda x: x + math.inf):
        torch._dynamo.reset()
        found = torch.compile(form, backend="mpc", options={"policy": "float32"})(x)
        assert torch.equal(found.isnan(), form(x).isnan()) and torch.equal(found.isinf(), form(x).isinf())


class _Record(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.names.add(op.overloadpacket.__name__)
        return op(*args, **kwargs or {})


def test_every_op_with_a_number_has_a_form():
    with _Record() as record:
        x, y, z = (torch.rand(ROWS, 48).bfloat16().requires_grad_() for _ in range(3))
        for form in (*FORMS.values(), *(lambda x, y, z, f=f: f(x) for f in COMPARISONS.values())):
            result = form(x, y, z)
            if result.requires_grad:
                result.sum().backward()
    table = [op for op in {*mpc.torch.TABLE, *mpc.torch.decompositions()} if isinstance(op, torch._ops.OpOverload)]
    wanted = {op.overloadpacket.__name__ for op in table if not op._schema.is_mutable and "_foreach_" not in str(op)
              and any(str(a.type) in ("number", "float") for a in op._schema.arguments)}
    assert wanted - record.names - ELSEWHERE == set()
