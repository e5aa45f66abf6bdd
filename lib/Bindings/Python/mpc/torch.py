# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A backend of `torch.compile`, for inference and training:

    import mpc.torch
    model = torch.compile(model, backend="mpc", options={"policy": "mixed_bfloat16"})
"""

from __future__ import annotations

import functools
import operator
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import list_backends, register_backend
from torch._functorch.partitioners import default_partition
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves, tree_map

from . import _function, _mpc
from ._aten import TABLE
from ._errors import ModelWarning
from ._graph import HOST, Graph, Text, base_of, is_symbolic, layer_of, why_not
from ._policy import as_policy

_aten = torch.ops.aten

# ===----------------------------------------------------------------------=== #
# Decompositions
# ===----------------------------------------------------------------------=== #

# Random ops stay PyTorch's, so that its generator gives the same numbers as in eager mode.
_DRAWS = (_aten.bernoulli.p, _aten.bernoulli.default, _aten.native_dropout.default)


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions to core ATen, without those of ops that mpc supports."""
    from torch._decomp import _core_aten_decompositions_post_autograd, get_decompositions

    more = get_decompositions([_aten.grid_sampler_2d, _aten.native_batch_norm, _aten.std_mean,
                               _aten.cudnn_batch_norm, _aten.cudnn_batch_norm_backward])
    return _foreach_rules() | {op: _in_float32(rule) if _is_elementwise(op) else rule
                               for op, rule in (_core_aten_decompositions_post_autograd() | more).items()
                               if op not in TABLE and op not in _DRAWS}


def _is_elementwise(op: Any) -> bool:
    # PyTorch's decomposition of index_add's alpha is elementwise.
    return isinstance(op, torch._ops.OpOverload) and (torch.Tag.pointwise in op.tags or op is _aten.index_add.default)


def _in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition that computes 16-bit arguments in float32 and rounds the result, like eager mode's
    elementwise kernels; PyTorch's own round, in some ops, every scalar and step."""
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    def cast(value: Any, wanted: Callable[[torch.Tensor], bool], dtype: torch.dtype) -> Any:
        return tree_map(lambda v: v.to(dtype) if isinstance(v, torch.Tensor) and wanted(v) else v, value)

    def run(*arguments: Any, **named: Any) -> Any:
        tensors = [leaf for leaf in tree_leaves((arguments, named)) if isinstance(leaf, torch.Tensor)]
        kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        compute, result = elementwise_dtypes(*tensors, type_promotion_kind=kind)
        if compute is result:
            return rule(*arguments, **named)
        arguments, named = cast((arguments, named), torch.is_floating_point, compute)
        return cast(rule(*arguments, **named), lambda made: made.dtype is compute, result)

    return run


def _foreach_rules() -> dict[Any, Callable[..., Any]]:
    """Decomposes ops on lists of tensors to elementwise ops."""
    rules = {}
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::_foreach_").partition(".")
        # The scale of these two is a keyword argument.
        scaled = packet in ("addcmul", "addcdiv")
        one = packet if "Scalar" not in overload else {"maximum": "clamp_min", "minimum": "clamp_max"}.get(packet, packet)
        if not name.startswith("aten::_foreach_") or (scaled and overload == "Tensor") or not hasattr(_aten, one):
            continue
        op = getattr(getattr(_aten, f"_foreach_{packet}"), overload or "default")
        each = getattr(_aten, one)
        if not op._schema.is_mutable and any(_is_elementwise(getattr(each, form)) for form in each.overloads()):
            rules[op] = functools.partial(_for_each, each, scaled)
    return rules


def _for_each(op: Any, scaled: bool, *arguments: Any, **named: Any) -> list[torch.Tensor]:
    if scaled and len(arguments) == 4:
        named["value"], arguments = arguments[3], arguments[:3]
    count = next(len(a) for a in arguments if isinstance(a, (list, tuple)))

    def part(value: Any, i: int) -> Any:
        return value[i] if isinstance(value, (list, tuple)) else value

    return [op(*(part(a, i) for a in arguments), **{key: part(a, i) for key, a in named.items()})
            for i in range(count)]


# ===----------------------------------------------------------------------=== #
# Forward and backward
# ===----------------------------------------------------------------------=== #

# Arguments of backward ops that their lowerings recompute: otherwise forward results would be saved, or
# computed, unnecessarily.
_FORGET = {_aten.native_layer_norm_backward.default: (3, 4), _aten.native_batch_norm_backward.default: (5, 6),
           _aten._scaled_dot_product_flash_attention_for_cpu_backward.default: (4, 5),
           _aten._scaled_dot_product_flash_attention_backward.default: (4, 5, 6, 7, 8, 9, 12, 13),
           _aten._scaled_dot_product_efficient_attention_backward.default: (5, 6, 7, 8),
           _aten._scaled_dot_product_cudnn_attention_backward.default: (4, 5, 6, 7, 9, 10, 11, 12),
           _aten.max_pool2d_with_indices_backward.default: (7,)}


def _place(graph: torch.fx.Graph) -> torch.device:
    """Device of a graph: the GPU of the first tensor on one, else the CPU."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for part in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(part, torch.Tensor) and part.device.type == "cuda":
                return part.device
    return HOST


def _forget_results(joint: GraphModule) -> None:
    """Drops arguments that the lowerings of backward ops do not need."""
    if is_symbolic(joint.graph):
        return  # Sizes are propagated through the ops themselves, which need all arguments.
    device = _place(joint.graph)
    for node in joint.graph.nodes:
        if node.target not in _FORGET:
            continue
        if node.target is _aten.native_batch_norm_backward.default and not node.args[7]:
            continue
        if node.target is _aten.native_layer_norm_backward.default:
            mean = node.args[3]
            forward = mean.args[0] if isinstance(mean, Node) and mean.target is operator.getitem else None
            if forward is None or forward.target is not _aten.native_layer_norm.default:
                continue
            node.meta["mpc_extra"] = {"eps": forward.args[4]}
        given = node.args
        node.args = tuple(None if i in _FORGET[node.target] else a for i, a in enumerate(given))
        if why_not(node, device) is not None:
            node.args = given


_VIEWS = {_aten.alias, _aten.detach, _aten.expand, _aten.permute, _aten.select, _aten.slice, _aten.split,
          _aten.split_with_sizes, _aten.squeeze, _aten.t, _aten.transpose, _aten.unbind, _aten.unsqueeze, _aten.view}


def _is_view(node: Node) -> bool:
    # Excludes views with sizes that are nodes, which are saved as numbers.
    if node.op != "call_function" or len(node.all_input_nodes) != 1 or node.args[0] is not node.all_input_nodes[0]:
        return False
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    return getattr(node.target, "overloadpacket", None) in _VIEWS


def _view_again(joint: GraphModule) -> None:
    """Makes the backward pass recompute views instead of saving them.

    A saved view (the transposed weight of each linear layer) would be passed to the backward function as
    a non-contiguous array, which is copied at each call.
    """
    nodes = list(joint.graph.nodes)
    ends = [i for i, node in enumerate(nodes) if node.meta.get("partitioner_tag") == "is_forward"]
    if not ends:
        return
    forward, copies = set(nodes[:ends[-1] + 1]), {}

    def again(node: Node) -> Node:
        if node not in forward or not _is_view(node):
            return node
        if node not in copies:
            made = joint.graph.node_copy(node, again)
            made.meta = {**node.meta, "partitioner_tag": "is_backward"}
            copies[node] = made
        return copies[node]

    for user in nodes[ends[-1] + 1:]:
        if user.op == "call_function":
            with joint.graph.inserting_before(user):
                user.args, user.kwargs = map_arg(user.args, again), map_arg(user.kwargs, again)


def _partition(joint: GraphModule, inputs: Any, **options: Any) -> tuple[GraphModule, GraphModule]:
    _forget_results(joint)
    _view_again(joint)
    return default_partition(joint, inputs, **options)


# ===----------------------------------------------------------------------=== #
# What mpc runs, and what is left to eager mode
# ===----------------------------------------------------------------------=== #


def _is_draw(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


_EMPTY = {_aten.empty, _aten.empty_like, _aten.empty_permuted, _aten.empty_strided, _aten.new_empty}
_Draw = Callable[[], torch.Tensor]


def _draw_of(node: Node) -> tuple[_Draw, Any] | None:
    """A function that generates a node's random numbers, and their fake tensor, if they are independent of
    data."""
    if not node.all_input_nodes:
        return functools.partial(node.target, *node.args, **node.kwargs), node.meta["val"]
    if node.target is _aten.native_dropout.default and node.args[2]:
        value, chance = node.meta["val"][1], 1 - node.args[1]
    elif node.target is _aten.bernoulli.p and not node.kwargs and node.args[0].target.overloadpacket in _EMPTY:
        value, chance = node.meta["val"], node.args[1]
    else:
        return None
    size, stride = tuple(value.shape), tuple(value.stride())
    if not all(isinstance(extent, int) for extent in (*size, *stride)) or 0 in size:
        return None
    place = {"dtype": value.dtype, "device": value.device}
    return lambda: torch.empty_strided(size, stride, **place).bernoulli_(chance), value


def _drop(graph: torch.fx.Graph, node: Node, mask: Node) -> None:
    """Replaces a dropout by PyTorch's arithmetic with a given mask."""
    wanted, keep = node.meta["val"][0], 1 - node.args[1]

    def emit(target: Any, *arguments: Any, **named: Any) -> Node:
        made = graph.call_function(target, arguments, named)
        with wanted.fake_mode:
            made.meta = {**node.meta, "val": torch.empty_like(wanted)}
        return made

    with graph.inserting_before(node):
        kept = emit(_aten.mul.Tensor, node.args[0], emit(_aten._to_copy.default, mask, dtype=wanted.dtype))
        scaled = emit(_aten.mul.Scalar, kept, 1 / keep if keep else 0.0)
    for part in list(node.users):
        part.replace_all_uses_with((scaled, mask)[part.args[1]])
        graph.erase_node(part)


def _draw_first(module: GraphModule) -> list[_Draw]:
    """Moves data-independent random ops out of the graph to additional last arguments, since they would
    split it into several functions; returns their generators in call order. None if some random op
    depends on data, since the order would change."""
    graph = module.graph
    nodes = [node for node in graph.nodes if node.op == "call_function" and _is_draw(node)]
    draws = [_draw_of(node) for node in nodes]
    if not all(draws):
        return []
    last = next((node for node in reversed(graph.nodes) if node.op == "placeholder"), None)
    for i, (node, draw) in enumerate(zip(nodes, draws)):
        with graph.inserting_after(last) if last else graph.inserting_before():
            last = graph.placeholder(f"drawn_{i}")
        last.meta["val"] = draw[1]
        if node.target is _aten.native_dropout.default:
            _drop(graph, node, last)
        else:
            node.replace_all_uses_with(last)
        sources = node.all_input_nodes
        graph.erase_node(node)
        for source in sources:
            if not source.users and source.op == "call_function":
                graph.erase_node(source)
    module.recompile()
    return [draw for draw, _ in draws]


# Ops whose result depends on their operand's storage.
_OF_STORAGE = (_aten.as_strided.default, _aten.as_strided_scatter.default, _aten.as_strided_copy.default)


class _Support(OperatorSupportBase):
    """Determines which nodes mpc lowers, with reasons for the others."""

    def __init__(self, graph: torch.fx.Graph, device: torch.device = HOST):
        self.reasons: dict[Node, str] = {}
        for node in graph.nodes:
            if node.op == "call_function" and (reason := why_not(node, device)) is not None:
                self.reasons[node] = reason
        for node in list(self.reasons):
            # Eager mode needs its own storage layout.
            if node.target in _OF_STORAGE:
                base = base_of(node.args[0], lambda other: other.meta.get("val"))
                if base.op == "call_function":
                    self.reasons.setdefault(base, "")
        for node in reversed(graph.nodes):
            # A node that only feeds eager ops and reads nothing would split the graph.
            if node.op == "call_function" and node not in self.reasons and not node.all_input_nodes and node.users \
                    and all(user in self.reasons for user in node.users):
                self.reasons[node] = ""

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return node.op == "call_function" and node not in self.reasons

    def told(self) -> str:
        """The ops that stay in eager mode, with reasons, except random ops."""
        lines = {}
        for node, reason in self.reasons.items():
            value = node.meta.get("val")
            plain = isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))
            if reason and not plain and not _is_draw(node) and node.target is not operator.getitem:
                lines[str(node.target)] = reason
        return ", ".join(f"{name} ({reason})" for name, reason in sorted(lines.items()))


def _worth(partition: Any) -> bool:
    """Returns true unless there are only views and constants, which need no kernel."""
    free = {"view", "reshape", "permute", "expand", "squeeze", "unsqueeze", "alias", "slice", "select", "full",
            "empty", "scalar_tensor", "getitem", "t", "transpose", "detach", "as_strided", "split_with_sizes",
            "_unsafe_view"}
    return any(getattr(getattr(node.target, "overloadpacket", node.target), "__name__", "") not in free
               for node in partition.nodes)


def _warn(text: str) -> None:
    if text:
        warnings.warn(f"in eager mode run {text}", ModelWarning, stacklevel=2)


def _parameters() -> set[int]:
    """Arguments of the graph being compiled that are tensors of modules and stay as they are in its calls."""
    context = torch._guards.TracingContext.try_get()
    known = context and context.fw_metadata
    return {i for i in known.static_input_indices if not known.input_info[i].mutates_data} if known else set()


def _compile(module: GraphModule, compiler: Callable[[Text, bool, torch.device], Callable[..., Any]],
             parameters: Collection[int] = ()) -> Any:
    """A graph of AOTAutograd as a function of a list of arguments."""
    device = _place(module.graph)
    draws = _draw_first(module)
    support = _Support(module.graph, device)

    def compile_text(text: Text, is_refresh: bool) -> Callable[..., Any]:
        return compiler(text, is_refresh, device)

    def graph_of(part: GraphModule, arguments: Sequence[Any]) -> Graph:
        fixed = {node for i, node in enumerate(module.graph.find_nodes(op="placeholder")) if i in parameters
                 and isinstance(node.meta.get("val"), torch.Tensor) and 0 not in node.meta["val"].shape}
        return Graph(part, compile_text, _warn, device, [i for i, node in enumerate(arguments) if node in fixed])

    hard = [node for node, reason in support.reasons.items() if not _is_plain(node)]
    if not hard:
        run: Callable[[Sequence[Any]], list[Any]] = graph_of(module, module.graph.find_nodes(op="placeholder"))
    else:
        _warn(support.told())
        partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
        wanted = [p for p in partitioner.propose_partitions() if _worth(p)]
        module = partitioner.fuse_partitions(wanted, prefix="mpc_")
        for node in module.graph.find_nodes(op="call_module"):
            if node.target.startswith("mpc_"):
                part = getattr(module, node.target)
                setattr(module, node.target, _Part(graph_of(part, node.args), _is_single(part)))
        module.recompile()

        def run(arguments: Sequence[Any]) -> list[Any]:
            return list(module(*arguments))

    def boxed(arguments: list[Any]) -> list[Any]:
        given = [*arguments, *(draw() for draw in draws)]
        arguments.clear()
        return run(given)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def _is_plain(node: Node) -> bool:
    """Returns true if the result is a number, which becomes a constant of the text."""
    return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_single(part: GraphModule) -> bool:
    return not isinstance(next(reversed(part.graph.nodes)).args[0], (tuple, list))


class _Part(torch.nn.Module):
    """A partition compiled by mpc, as a module among eager ones."""

    def __init__(self, graph: Graph, single: bool):
        super().__init__()
        self._graph, self._single = graph, single

    def forward(self, *arguments: Any) -> Any:
        results = self._graph(arguments)
        return results[0] if self._single else tuple(results)


# ===----------------------------------------------------------------------=== #
# The backend
# ===----------------------------------------------------------------------=== #


def _unmatched(graph: torch.fx.Graph, overrides: Iterable[str]) -> list[str]:
    """Overrides that match no op of a graph, because a layer or name does not exist."""
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    layers, names = {layer_of(node) for node in nodes}, {node.name for node in nodes}

    def speaks(key: str) -> bool:
        # Gradients are separate functions without a loss: `backward:` matches no op of theirs.
        kind, _, pattern = key.removeprefix("inputs:").rpartition(":")
        if kind == "layer":
            return pattern in layers or any(re.fullmatch(pattern, layer) for layer in layers)
        return kind == "op" or (kind in ("", "name") and pattern in names)

    return [key for key in overrides if not speaks(key)]


def backend(module: GraphModule, inputs: Sequence[Any], *, options: dict[str, Any] | None = None,
            **_: Any) -> Callable[..., Any]:
    """The backend "mpc" of `torch.compile`.

    `options` are those of `mpc.compile`: `policy`, `device`, `overrides`, `rounding`, `threads`, ...
    Compiles at the first call for each set of sizes, for the device of the module's tensors. Unsupported
    ops run in eager mode with an `mpc.ModelWarning`; overrides that match no op of a graph also cause a
    warning.
    """
    chosen = dict(options or {})
    # A backward graph may be compiled while another policy is the default.
    policy = as_policy(chosen.pop("policy", None))
    # Each override may match only some of a module's graphs.
    overrides = _function.as_overrides(chosen.pop("overrides", ()))

    def compiler(text: Text, is_refresh: bool, device: torch.device) -> Callable[..., Any]:
        given = {"device": str(device), **chosen}
        if is_refresh:
            given["cache"] = False  # These weights may never come back.
        changed = _function.change_policy(policy, given["device"], given.get("threads", 0), overrides)
        source = _mpc.source_bytes("text.mlir", text.text.encode(), text.weights)
        return _function.compile(source, policy=changed, **given)._made

    def compile_graph(graph: GraphModule, example: Sequence[Any]) -> Any:
        return _compile(graph, compiler)

    def compile_inference(graph: GraphModule, example: Sequence[Any]) -> Any:
        return compile_forward(graph, example, _parameters())

    def compile_forward(graph: GraphModule, example: Sequence[Any], parameters: Collection[int] = ()) -> Any:
        for key in _unmatched(graph.graph, overrides):
            warnings.warn(f"override '{key}={overrides[key]}' matches no op of a graph that PyTorch made",
                          ModelWarning, stacklevel=2)
        # Samples of the memory need one that the host reads.
        return _compile(graph, compiler, parameters if _place(graph.graph) == HOST else ())

    return aot_autograd(fw_compiler=compile_forward, bw_compiler=compile_graph,
                        inference_compiler=compile_inference, partition_fn=_partition,
                        decompositions=decompositions())(module, inputs)


# For an installed package PyTorch registers the backend itself, by its entry point.
if "mpc" not in list_backends(exclude_tags=()):
    register_backend(backend, name="mpc")
