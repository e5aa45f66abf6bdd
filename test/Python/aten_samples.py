# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arguments for each op of core ATen, and the code that runs an op through the backend's table.

`test_torch_ops.py` uses them.
"""

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

_generator = torch.Generator().manual_seed(0)


def R(*shape):
    """Normal numbers."""
    return torch.randn(shape, generator=_generator)


def P(*shape):
    """Numbers from 0.2 to 0.9, inside the domain of every function."""
    return torch.rand(shape, generator=_generator) * 0.7 + 0.2


def Z(*shape, low=-4, high=5, dtype=torch.int64):
    """Integers."""
    return torch.randint(low, high, shape, generator=_generator, dtype=dtype)


def B(*shape):
    return torch.rand(shape, generator=_generator) > 0.5


def distinct(*shape):
    count = int(torch.Size(shape).numel())
    return (torch.randperm(count, generator=_generator).float() / count - 0.5).reshape(shape)


_unary = {name: [((R(3, 5),), {})] for name in (
    "abs.default neg.default sign.default floor.default ceil.default round.default trunc.default exp.default "
    "expm1.default sin.default cos.default tan.default asinh.default atan.default sinh.default cosh.default "
    "tanh.default sigmoid.default erf.default relu.default alias.default clone.default isnan.default isinf.default "
    "logical_not.default gelu.default leaky_relu.default elu.default hardtanh.default").split()}
_positive = {name: [((P(3, 5),), {})] for name in (
    "log.default log1p.default log2.default log10.default sqrt.default rsqrt.default reciprocal.default asin.default "
    "acos.default atanh.default").split()}
_compare = {f"{name}.{form}": [((Z(3, 5), Z(5) if form == "Tensor" else 1), {}),
                               ((R(3, 5), R(3, 1) if form == "Tensor" else 0.5), {})]
            for name in ("eq", "ne", "lt", "le", "gt", "ge") for form in ("Tensor", "Scalar")}
_bits = {f"bitwise_{name}.{form}": [((Z(3, 5), Z(5) if form == "Tensor" else 6), {})] +
         ([((B(3, 5), B(5)), {})] if form == "Tensor" else [])
         for name in ("and", "or", "xor") for form in ("Tensor", "Scalar")}
_logic = {f"logical_{name}.default": [((B(3, 5), B(5)), {}), ((Z(4), Z(4)), {})] for name in ("and", "or", "xor")}
_image = R(2, 3, 7, 6)
_norm = [2, 4, 3, 5]

SAMPLES = {
    **_unary, **_positive, **_compare, **_bits, **_logic,
    "acosh.default": [((1 + P(3, 5),), {})],
    "bitwise_not.default": [((Z(3, 5),), {}), ((B(3, 5),), {})],
    "add.Tensor": [((R(3, 5), R(5)), {"alpha": 2}), ((Z(3), R(3)), {})],
    "add.Scalar": [((R(3, 5), 1.5), {})],
    "sub.Tensor": [((R(3, 5), R(3, 1)), {}), ((Z(3), Z(3)), {"alpha": 2})],
    "sub.Scalar": [((R(3, 5), 1.5), {})],
    "mul.Tensor": [((R(3, 5), R(5)), {}), ((B(4), B(4)), {})],
    "mul.Scalar": [((R(3, 5), 1.5), {})],
    "div.Tensor": [((R(3, 5), P(5)), {}), ((Z(3), Z(3, low=1)), {})],
    "div.Scalar": [((R(3, 5), 1.5), {})],
    "div.Tensor_mode": [((R(3, 5) * 4, P(5)), {"rounding_mode": "floor"}),
                        ((Z(9), Z(9, low=1)), {"rounding_mode": "floor"}),
                        ((R(3, 5) * 4, P(5)), {"rounding_mode": "trunc"})],
    "div.Scalar_mode": [((R(3, 5) * 4, -0.7), {"rounding_mode": "floor"})],
    "fmod.Tensor": [((R(3, 5) * 4, P(5)), {})], "fmod.Scalar": [((R(3, 5) * 4, 0.7), {})],
    "remainder.Tensor": [((R(3, 5) * 4, -P(5)), {}), ((Z(9), Z(9, low=1)), {})],
    "remainder.Scalar": [((R(3, 5) * 4, 0.7), {})],
    "pow.Tensor_Tensor": [((P(3, 5), R(5)), {})], "pow.Scalar": [((1.7, R(3, 5)), {})],
    "pow.Tensor_Scalar": [((P(3, 5), e), {}) for e in (2, 3, 0.5, -1, 1.7)],
    "atan2.default": [((R(3, 5), R(5)), {})],
    "maximum.default": [((R(3, 5), R(5)), {})], "minimum.default": [((R(3, 5), R(5)), {})],
    "clamp.default": [((R(3, 5), -0.5, 0.5), {}), ((R(3, 5), None, 0.5), {})],
    "clamp.Tensor": [((R(3, 5), -P(5), P(5)), {})],
    "where.self": [((B(3, 5), R(3, 1), R(5)), {})],
    "copy.default": [((R(3, 5), Z(5)), {})],
    "_to_copy.default": [((R(3, 5),), {"dtype": torch.int32}), ((Z(3, 5),), {"dtype": torch.float32}),
                         ((R(3, 5),), {"dtype": torch.bool})],
    # Reductions
    "sum.dim_IntList": [((R(3, 4, 5), [0, -1]), {}), ((Z(3, 5, dtype=torch.int32), [1], True), {})],
    "mean.default": [((R(3, 5),), {})], "mean.dim": [((R(3, 4, 5), [1], True), {})],
    "prod.default": [((P(3, 5),), {})], "prod.dim_int": [((P(3, 5), 1), {})],
    "amax.default": [((R(3, 4, 5), [0, 2]), {})], "amin.default": [((R(3, 4, 5), [1], True), {})],
    "any.default": [((B(3, 5),), {})], "any.dim": [((Z(3, 5, low=0, high=2), 1), {})],
    "any.dims": [((B(3, 4, 2), [0, 2]), {})],
    "argmax.default": [((distinct(3, 5), 1), {}), ((distinct(3, 5),), {})],
    "argmin.default": [((distinct(3, 5), 0, True), {})],
    "max.dim": [((distinct(3, 5), 1), {})], "min.dim": [((distinct(3, 5), 0, True), {})],
    "var.correction": [((R(3, 4, 5), [1, 2]), {"correction": 1}), ((R(3, 5),), {"correction": 0, "keepdim": True})],
    "var.dim": [((R(3, 5), [1]), {})],
    "cumsum.default": [((R(3, 5), 1), {}), ((Z(3, 5), 0), {})],
    "topk.default": [((distinct(3, 7), 3), {}), ((distinct(3, 7), 2, 0, False), {})],
    "sort.default": [((distinct(3, 7), 1, True), {}), ((distinct(7), 0), {})],
    # Movement
    "view.default": [((R(3, 4), [2, 6]), {})], "permute.default": [((R(2, 3, 4), [2, 0, 1]), {})],
    "expand.default": [((R(3, 1), [2, 3, 4]), {})], "squeeze.dim": [((R(3, 1, 2), 1), {})],
    "squeeze.dims": [((R(3, 1, 2, 1), [1, 3]), {})], "unsqueeze.default": [((R(3, 2), -1), {})],
    "repeat.default": [((R(2, 3), [2, 1, 3]), {})], "flip.default": [((R(2, 3), [0, 1]), {})],
    "as_strided.default": [((R(4, 6), [2, 3], [6, 2], 1), {})],
    "diagonal.default": [((R(4, 6),), {"offset": 1}), ((R(2, 4, 3), -1, 1, 2), {})],
    "slice.Tensor": [((R(4, 6), 1, 1, -1, 2), {})], "select.int": [((R(4, 6), 1, -2), {})],
    "split_with_sizes.default": [((R(4, 6), [1, 2, 3], 1), {})],
    "cat.default": [(([R(2, 3), R(4, 3)],), {}), (([R(2, 3), Z(2, 1)], 1), {})],
    "slice_scatter.default": [((R(4, 6), R(4, 2), 1, 1, 3), {}), ((R(6, 3), R(3, 3), 0, 0, 6, 2), {})],
    "select_scatter.default": [((R(4, 6), R(4), 1, 2), {})],
    "constant_pad_nd.default": [((R(2, 3, 4), [1, 2, 0, 1], 1.5), {}), ((R(5, 4), [-1, 1]), {})],
    "reflection_pad1d.default": [((R(2, 5), [1, 2]), {})],
    "reflection_pad2d.default": [((R(2, 3, 5, 4), [1, 2, 2, 1]), {})],
    "reflection_pad3d.default": [((R(1, 2, 3, 4, 5), [1, 1, 2, 1, 1, 2]), {})],
    "replication_pad2d.default": [((R(2, 3, 5, 4), [1, 2, 2, 1]), {})],
    "replication_pad3d.default": [((R(1, 2, 3, 4, 5), [1, 1, 2, 1, 1, 2]), {})],
    # Indexing
    "embedding.default": [((R(7, 3), Z(2, 4, low=0, high=7)), {})],
    "embedding_dense_backward.default": [((R(2, 4, 3), Z(2, 4, low=0, high=7), 7, -1, False), {}),
                                         ((R(6, 3), Z(6, low=0, high=7), 7, 2, False), {})],
    "index_select.default": [((R(4, 5), 1, Z(3, low=0, high=5)), {})],
    "gather.default": [((R(4, 5), 1, Z(4, 3, low=0, high=5)), {})],
    "index.Tensor": [((R(4, 5, 3), [None, Z(2, low=0, high=5)]), {}),
                     ((R(4, 5, 3), [Z(2, 1, low=0, high=4), Z(3, low=0, high=5)]), {}),
                     ((R(4, 5, 3), [Z(2, low=0, high=4), None, Z(2, low=0, high=3)]), {}),
                     ((R(4, 5, 3), [None, Z(2, low=0, high=5), Z(2, low=0, high=3)]), {})],
    "index_put.default": [((R(4, 5), [torch.tensor([0, 2])], R(2, 5)), {}),
                          ((R(4, 5), [torch.tensor([0, 2, 2]), torch.tensor([1, 1, 1])], R(3), True), {}),
                          ((R(3, 5), [None, torch.tensor([4, 1])], R(2)), {}),
                          ((R(3, 5), [B(3, 5)], R()), {})],
    "scatter.src": [((R(3, 5), 1, torch.tensor([[0, 2], [4, 1]]), R(3, 2)), {})],
    "scatter.value": [((R(3, 5), 1, torch.tensor([[0, 2], [4, 1]]), 1.5), {})],
    "scatter_add.default": [((R(3, 5), 0, Z(3, 5, low=0, high=3), R(3, 5)), {})],
    "scatter_reduce.two": [((R(3, 5), 0, Z(3, 5, low=0, high=3), R(3, 5), how), {}) for how in ("amax", "prod")],
    "masked_scatter.default": [((R(3, 5), B(3, 5), R(15)), {})],
    # Contractions, windows
    "mm.default": [((R(3, 5), R(5, 4)), {}), ((Z(3, 5), Z(5, 2)), {})], "bmm.default": [((R(2, 3, 5), R(2, 5, 4)), {})],
    "addmm.default": [((R(4), R(3, 5), R(5, 4)), {}), ((R(3, 4), R(3, 5), R(5, 4)), {"beta": 0.5, "alpha": 2})],
    "convolution.default": [
        ((_image, R(4, 3, 3, 3), R(4), [2, 1], [1, 1], [1, 1], False, [0, 0], 1), {}),
        ((R(2, 4, 9), R(4, 2, 3), None, [1], [1], [2], False, [0], 2), {}),
        ((R(2, 4, 5, 5), R(4, 3, 3, 3), R(3), [2, 2], [1, 1], [1, 1], True, [1, 0], 1), {})],
    "convolution_backward.default": [
        ((R(2, 4, 4, 6), _image, R(4, 3, 3, 3), [4], [2, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3), {}),
        ((R(2, 4, 7), R(2, 4, 9), R(4, 2, 3), [4], [1], [1], [2], False, [0], 2, [True] * 3), {}),
        ((R(2, 3, 10, 9), R(2, 4, 5, 5), R(4, 3, 3, 3), [3], [2, 2], [1, 1], [1, 1], True, [1, 0], 1, [True] * 3), {})],
    "max_pool2d_with_indices.default": [((distinct(2, 3, 7, 6), [3, 2], [2, 2], [1, 1]), {}),
                                        ((distinct(2, 3, 7, 6), [3, 3], [2, 2], [1, 1], [1, 1], True), {})],
    "max_pool2d_with_indices_backward.default": [],
    "max_pool3d_with_indices.default": [((distinct(1, 2, 4, 5, 6), [2, 2, 2]), {})],
    "avg_pool2d.default": [((_image, [3, 2], [2, 2], [1, 1]), {}), ((_image, [2, 2], [2, 2], [0, 0], True, False), {}),
                           ((_image, [2, 2], [2, 2], [0, 0], False, True, 3), {})],
    "avg_pool2d_backward.default": [((R(2, 3, 4, 4), _image, [3, 2], [2, 2], [1, 1], False, True, None), {}),
                                    ((R(2, 3, 4, 4), _image, [3, 2], [2, 2], [1, 1], False, False, None), {})],
    "avg_pool3d.default": [((R(1, 2, 4, 5, 6), [2, 2, 3]), {})],
    "_adaptive_avg_pool2d.default": [((_image, [1, 1]), {}), ((_image, [3, 4]), {})],
    "_adaptive_avg_pool2d_backward.default": [((R(2, 3, 1, 1), _image), {}), ((R(2, 3, 3, 4), _image), {})],
    "avg_pool1d.default": [((R(2, 3, 7), [3], [2], [1]), {})], "adaptive_avg_pool1d.default": [((R(2, 3, 7), [3]), {})],
    "_adaptive_avg_pool3d.default": [((R(1, 2, 4, 5, 6), [2, 2, 4]), {})],
    "upsample_nearest2d.vec": [((_image, None, [2.0, 1.5]), {}), ((_image, [10, 4], None), {})],
    "upsample_bilinear2d.vec": [((_image, None, False, [2.0, 1.5]), {}), ((_image, [10, 4], True, None), {})],
    "grid_sampler_2d.default": [((R(1, 2, 5, 6), P(1, 3, 4, 2) * 2 - 1.1, 0, 0, False), {})],
    "col2im.default": [((R(1, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]), {})],
    # Norms
    "_softmax.default": [((R(3, 5), 1, False), {}), ((R(3, 5), 0, False), {})],
    "_log_softmax.default": [((R(3, 5), 1, False), {})],
    "native_layer_norm.default": [((R(2, 3, 6), [6], R(6), R(6), 1e-5), {}),
                                  ((R(2, 3, 6), [3, 6], None, None, 1e-5), {})],
    "native_layer_norm_backward.default": [],
    "native_group_norm.default": [((R(*_norm), R(4), R(4), 2, 4, 15, 2, 1e-5), {}),
                                  ((R(2, 4, 9), None, None, 2, 4, 9, 4, 1e-5), {})],
    "native_group_norm_backward.default": [],
    "_native_batch_norm_legit.no_stats": [((R(*_norm), R(4), R(4), True, 0.1, 1e-5), {})],
    "_native_batch_norm_legit_no_training.default": [((R(*_norm), R(4), R(4), R(4), P(4), 0.1, 1e-5), {})],
    "_native_batch_norm_legit.default": [((R(*_norm), R(4), R(4), R(4), P(4), True, 0.1, 1e-5), {})],
    # Creation
    "full.default": [(([2, 3], 1.5), {})], "full_like.default": [((R(2, 3), 1.5), {})],
    "fill.Scalar": [((R(2, 3), 1.5), {})],
    "scalar_tensor.default": [((1.5,), {})], "empty.memory_format": [(([2, 3],), {})],
    "empty_strided.default": [(([2, 3], [3, 1]), {})], "arange.start_step": [((1, 9, 2), {}), ((0.5, 3.0, 0.25), {})],
    # Distances and bags, which PyTorch may decompose
    "_cdist_forward.default": [((R(3, 4), R(5, 4), 2.0, None), {})], "_pdist_forward.default": [((R(4, 3), 2.0), {})],
    "_embedding_bag.default": [((R(7, 3), torch.tensor([0, 2, 4, 1]), torch.tensor([0, 2])), {})],
    "_fft_r2c.default": [((R(8), [0], 0, True), {})], "_fft_c2r.default": [((torch.complex(R(5), R(5)), [0], 2, 8), {})],
    "nonzero.default": [((B(5),), {})], "native_dropout.default": [((R(8), 0.5, True), {})],
    "_local_scalar_dense.default": [], "sym_size.int": [], "sym_numel.default": [], "sym_stride.int": [],
    "sym_storage_offset.default": [], "sym_is_contiguous.default": [], "atan2.out": [], "resize_.default": [],
    "rand.default": [(([3],), {})], "randn.default": [(([3],), {})], "randperm.default": [((5,), {})],
}


def _late_samples():
    """Backward ops, whose arguments include results of their forward ops."""
    x, scale = R(2, 3, 6), R(6)
    _, mean, inverse = torch.ops.aten.native_layer_norm(x, [6], scale, scale, 1e-5)
    SAMPLES["native_layer_norm_backward.default"] = [((R(2, 3, 6), x, [6], mean, inverse, scale, scale, [True] * 3), {})]
    image, weight = R(*_norm), R(4)
    _, mean, inverse = torch.ops.aten.native_group_norm(image, weight, weight, 2, 4, 15, 2, 1e-5)
    SAMPLES["native_group_norm_backward.default"] = [((R(*_norm), image, mean, inverse, weight, 2, 4, 15, 2, [True] * 3), {})]
    pooled = distinct(2, 3, 7, 6)
    best, where = torch.ops.aten.max_pool2d_with_indices(pooled, [3, 2], [2, 2], [1, 1])
    SAMPLES["max_pool2d_with_indices_backward.default"] = [
        ((R(*best.shape), pooled, [3, 2], [2, 2], [1, 1], [1, 1], False, where), {})]


_late_samples()


def core_ops():
    """Names and overloads of all ops with PyTorch's core tag."""
    found = {}
    # All that are registered: torch.ops lists only those that somebody has used.
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if space == "aten":
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if torch.Tag.core in op.tags:
                found[f"{packet}.{overload or 'default'}"] = op
    return found


def trace(op, arguments, named):
    """The op as a graph after the backend's decompositions, and its tensors."""
    import mpc.torch
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves, tree = tree_flatten((arguments, named))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    alone = not tensors
    if alone:  # A function takes something: here a number that is returned after the results.
        tensors = [torch.ones(1)]

    def function(*given):
        # Arguments are cloned, because some ops write them.
        left = iter([tensor.clone() for tensor in given])
        filled = [next(left) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        given_arguments, given_named = tree_unflatten(filled, tree)
        made = op(*given_arguments, **given_named)
        parts = [part for part in made if part is not None] if isinstance(made, (tuple, list)) else [made]
        return parts + [given[0] + 1] if alone else parts

    module = make_fx(torch.func.functionalize(function), decomposition_table=mpc.torch.decompositions(),
                     tracing_mode="fake")(*tensors)
    return module, tensors


def double(value):
    return tree_map(lambda v: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v, value)


def lowers(name, op):
    """Checks that mpc runs all of the op's samples; an op without samples has no tensor operand or result, or
    writes an argument, and runs in eager mode. Returns the reason as text if mpc does not."""
    import mpc.torch

    if not SAMPLES[name]:
        return "no function of tensors to tensors"
    for arguments, named in SAMPLES[name]:
        module, _ = trace(op, arguments, named)
        support = mpc.torch._Support(module.graph)
        if support.reasons:
            drawn = any(mpc.torch._is_draw(node) for node in support.reasons)
            return "sampled by PyTorch's generator" if drawn else next(iter(support.reasons.values())) or "no lowering"
    return ""
