# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training of a torch module: AOTAutograd's joint graph of its forward and backward pass, as text.

The gradients are PyTorch's own, including detached values, straight-through estimators and custom
autograd functions. The cotangent of the output is an argument, which the compiler replaces by the
derivative of the loss.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node, traceback
from torch.nn.utils import stateless
from torch.utils import _pytree as pytree

from ._aten import Builder, Type, Unsupported, Value
from ._aten.builder import number
from ._errors import InvalidArgument, Unavailable
from ._exported import take_apart
from ._graph import attributes, layer_of, lower_node, module_mode, type_of
from .torch import _forget_results, _place, decompositions

_aten = torch.ops.aten
_F = torch.nn.functional
COTANGENT = "output.cotangent"
# Names of the labels of a loss that is a function, and of its result.
LABELS, LOSS = "labels", "loss"

# ===----------------------------------------------------------------------=== #
# Tracing
# ===----------------------------------------------------------------------=== #


@dataclass
class Joint:
    """A module traced on an example: text, and the meaning of its arguments and results."""
    text: str
    # Name of the output that the loss compares.
    output: str
    # Maps a trained parameter to the result that is its gradient.
    gradients: dict[str, str] = field(default_factory=dict)
    # Buffers that the forward pass updates.
    statistics: list[str] = field(default_factory=list)


def tensors_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by their first names."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def is_representable(tensor: torch.Tensor) -> bool:
    """Returns true if a step can take such a tensor."""
    try:
        type_of(tensor, tensor.device)
    except Unsupported:
        return False
    return True


def resized(example: Sequence[Any], size: int) -> tuple[Any, ...]:
    """The example with `size` rows, repeated cyclically."""
    first = example[0]
    rows = len(first) if getattr(first, "ndim", 0) else 0
    if rows in (0, size):
        return tuple(example)

    def resize(array: Any) -> Any:
        if not getattr(array, "ndim", 0) or len(array) != rows:
            return array
        return array[[i % rows for i in range(size)]]

    return tuple(resize(array) for array in example)


def trace(module: torch.nn.Module, example: Sequence[Any], output: str, dropout: Mapping[str, float], training: bool,
          statistics: Sequence[str] = (), loss: Callable[..., Any] | None = None) -> Joint:
    """Traces the module in its parts' modes, or in inference mode.

    `output` names the output to compare, empty: the only one; with `loss`, a function of the module's
    result and the labels, which are the last of `example`, that of the loss. `dropout` has probabilities for dropouts,
    and for other submodules after which one is inserted. In inference `statistics` are the buffers that
    training updates. Raises InvalidArgument if PyTorch or mpc cannot.
    """
    try:
        from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    except ImportError:
        raise Unavailable("training of a torch.nn.Module", "needs PyTorch 2.9 or newer, which this is not: "
                          f"{torch.__version__}") from None
    flat = _Flat(module, output, loss)
    # Row-major: mpc determines storage, and ops on strides have no lowering.
    arguments = [_row_major(torch.as_tensor(array)) for array in (*flat.tensors.values(), *example)]
    rules = {op: rule for op, rule in decompositions().items() if op is not _aten.native_dropout_backward.default}
    with contextlib.ExitStack() as stack:
        for context in (module_mode(module, training), _layers(module), _dropouts(module, dropout), _averages(module),
                        _recurrent_steps(), traceback.preserve_node_meta(), torch.enable_grad(),
                        warnings.catch_warnings()):
            stack.enter_context(context)
        warnings.simplefilter("ignore", FutureWarning)
        try:
            made = aot_export_joint_with_descriptors(stack, flat, tuple(arguments), decompositions=rules)
        except InvalidArgument:
            raise
        except Exception as error:  # pylint: disable=broad-exception-caught
            raise InvalidArgument(f"module {type(module).__name__}", _why(error)) from error
    names = _names(module, len(example) - 1) + [LABELS] if loss else _names(module, len(example))
    return _Writer(flat, made.graph_module, names, statistics).write(training)


def _row_major(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous leaf with its elements."""
    if tensor.is_contiguous():
        return tensor
    return tensor.detach().contiguous().requires_grad_(tensor.requires_grad)


def _why(error: Exception) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if re.search(r"data-dependent|DataDependent|_local_scalar_dense|aten\.item|guard on", f"{type(error)} {error}"):
        return ("decides in its forward pass by the values of tensors (`if`, .item(), a size), of which a step knows "
                f"nothing when it is compiled: {text}")
    return f"cannot be traced by AOTAutograd, whose gradients are trained: {type(error).__name__}: {text}"


def _names(module: torch.nn.Module, count: int) -> list[str]:
    """Names of the inputs: forward's parameter names, unless a tensor of the module uses them."""
    try:
        kinds = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        kinds = ()
    known = [kind.name for kind in kinds if kind.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
    taken = tensors_of(module)
    return [known[i] if i < len(known) and known[i] not in taken else f"input{i}" for i in range(count)]


class _Flat(torch.nn.Module):
    """A module as a function of its tensors and inputs that returns the compared output, or the loss."""

    def __init__(self, module: torch.nn.Module, output: str, loss: Callable[..., Any] | None):
        super().__init__()
        # In a tuple, so that its tensors are arguments instead of submodule state.
        self._of, self._wanted, self._loss = (module,), output, (loss,)
        self.tensors = tensors_of(module)
        self.output = output

    def forward(self, *arrays: torch.Tensor) -> torch.Tensor:
        (module,), count = self._of, len(self.tensors)
        given = dict(zip(self.tensors, arrays))
        used = {name: _hooked(self.tensors[name], array) for name, array in given.items()}
        with stateless._reparametrize_module(module, used, tie_weights=True):
            inputs, labels = arrays[count:], ()
            if self._loss[0] is not None:
                inputs, labels = inputs[:-1], inputs[-1:]
            result = module(*inputs)
            if self._loss[0] is not None:
                result = self._scalar(self._loss[0](result, *labels))
            # A reassigned buffer counts as updated.
            for name, buffer in module.named_buffers():
                if name in used and buffer is not used[name]:
                    given[name].copy_(buffer)
        return self._judged(result)

    @staticmethod
    def _scalar(loss: Any) -> torch.Tensor:
        if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
            what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise InvalidArgument("loss", f"is a function that returns {what}, not a scalar tensor; take the mean")
        return loss.float()

    def _judged(self, result: Any) -> torch.Tensor:
        if self._loss[0] is not None:
            self.output = LOSS
            return result
        found = [(".".join(re.findall(r"\w+", pytree.keystr(path))) or "output", leaf)
                 for path, leaf in pytree.tree_flatten_with_path(result)[0] if isinstance(leaf, torch.Tensor)]
        names = [name for name, _ in found]
        if self._wanted not in names and (self._wanted and len(found) != 1 or len(found) > 1 or not found):
            which = f"none is called '{self._wanted}'" if self._wanted else "set output= to the one that the loss reads"
            raise InvalidArgument("loss", f"reads an output of the module, which has {len(found)} tensors "
                                  f"({', '.join(names)}); {which}")
        self.output, value = found[names.index(self._wanted) if self._wanted in names else 0]
        if not value.is_floating_point():
            raise InvalidArgument("loss", f"reads output '{self.output}', which has elements of {value.dtype}")
        # Never a view of an input or a buffer.
        return value.clone()


def _hooked(parameter: torch.Tensor, array: torch.Tensor) -> torch.Tensor:
    """Replaces a parameter by a view with the hooks on its gradient."""
    hooks = list((parameter._backward_hooks or {}).values())
    if not hooks or not array.requires_grad:
        return array
    made = array.view_as(array)
    for hook in hooks:
        made.register_hook(hook)
    return made


# ===----------------------------------------------------------------------=== #
# The module while it is traced
# ===----------------------------------------------------------------------=== #


@contextlib.contextmanager
def _layers(module: torch.nn.Module) -> Iterator[None]:
    """Records the path of the called submodule on each node, by which policies name layers."""
    paths: list[tuple[str, type]] = []

    def note() -> None:
        traceback.current_meta["nn_module_stack"] = {path: (path, kind) for path, kind in paths}

    def enter(path: str, part: torch.nn.Module, _: Any) -> None:
        paths.append((path, type(part)))
        note()

    def leave(*_: Any) -> None:
        paths.pop()
        note()

    handles = []
    for path, part in module.named_modules():
        if path and not isinstance(part, torch.jit.ScriptModule):
            handles.append(part.register_forward_pre_hook(functools.partial(enter, path), prepend=True))
            handles.append(part.register_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _dropouts(module: torch.nn.Module, wanted: Mapping[str, float]) -> Iterator[None]:
    """Overrides probabilities of dropouts, and inserts dropouts after other submodules."""
    parts = {path.replace(".", "/"): part for path, part in module.named_modules() if path}
    kept, handles = [], []

    def drop(probability: float, part: torch.nn.Module, _: Any, result: Any) -> Any:
        return _F.dropout(result, probability, part.training)

    try:
        for name, probability in wanted.items():
            part = parts.get(name.replace(".", "/"))
            if part is None:
                raise InvalidArgument("dropout", f"'{name}' is not a submodule of {type(module).__name__}; it has "
                                      f"{', '.join(parts)}")
            if not 0 <= probability < 1:
                raise InvalidArgument("dropout", f"'{name}={probability}' is not a probability in [0, 1)")
            if isinstance(part, torch.nn.modules.dropout._DropoutNd):
                kept.append((part, part.p))
                part.p = probability
            else:
                handles.append(part.register_forward_hook(functools.partial(drop, probability)))
        yield
    finally:
        for handle in handles:
            handle.remove()
        for part, probability in kept:
            part.p = probability


@contextlib.contextmanager
def _averages(module: torch.nn.Module) -> Iterator[None]:
    """Makes batch norms with momentum None traceable: replaces the Python number that PyTorch reads from its
    counter by a tensor."""
    def forward(norm: Any, x: torch.Tensor) -> torch.Tensor:
        norm._check_input_dim(x)
        norm.num_batches_tracked.add_(1)
        mean, variance = torch.zeros_like(norm.running_mean), torch.zeros_like(norm.running_var)
        result = _F.batch_norm(x, mean, variance, norm.weight, norm.bias, True, 1.0, norm.eps)
        share = 1 / norm.num_batches_tracked.to(mean.dtype)
        with torch.no_grad():
            norm.running_mean.copy_(norm.running_mean * (1 - share) + mean * share)
            norm.running_var.copy_(norm.running_var * (1 - share) + variance * share)
        return result

    changed = [part for part in module.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)
               and part.momentum is None and part.training and part.track_running_stats]
    try:
        for part in changed:
            part.forward = functools.partial(forward, part)  # type: ignore[method-assign]
        yield
    finally:
        for part in changed:
            del part.forward


@contextlib.contextmanager
def _recurrent_steps() -> Iterator[None]:
    """Decomposes recurrent layers into steps: oneDNN's op has a private workspace for its gradient."""
    enabled = torch._C._get_mkldnn_enabled()
    try:
        torch._C._set_mkldnn_enabled(False)
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def modes_that_differ(module: torch.nn.Module) -> list[str]:
    """Parts that behave differently in training, of a module in inference mode."""
    if module.training:
        return []
    kinds = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase)
    return [path or type(part).__name__ for path, part in module.named_modules()
            if not part.training and isinstance(part, kinds)]


# ===----------------------------------------------------------------------=== #
# Random numbers
# ===----------------------------------------------------------------------=== #


class _Draws:
    """Lowers random ops to mpc's generator: one stream each, with its state as an argument."""

    state = Value("%rng", Type((2,), "i64"))

    def __init__(self, b: Builder):
        self._b = b
        self.count = 0
        # Probability and stream of each dropout, for regeneration in the gradient.
        self._dropouts: dict[Node, tuple[float, int]] = {}
        self._rules: dict[Any, Callable[..., Any]] = {
            _aten.native_dropout.default: self._dropout, _aten.native_dropout_backward.default: self._dropout_backward,
            _aten.bernoulli.p: self._bernoulli, _aten.bernoulli.default: self._bernoulli,
            _aten.rand.default: self._uniform, _aten.rand_like.default: self._uniform,
            _aten.randn.default: self._normal, _aten.randn_like.default: self._normal,
            _aten.uniform.default: self._between, _aten.normal_functional.default: self._around,
            _aten.exponential.default: self._exponential}

    def rule(self, node: Node) -> Callable[..., Any] | None:
        return self._rules.get(node.target)

    def _stream(self) -> int:
        self.count += 1
        return self.count - 1

    def _bits(self, shape: Sequence[int], stream: int) -> Value:
        return self._b.emit("random_bits", [self.state], [Type(tuple(shape), "i32")], "arrow", f"stream({stream})")[0]

    def _unit(self, shape: Sequence[int]) -> Value:
        """Uniform in [0, 1), multiples of 2^-24, in f64."""
        b = self._b
        bits = b.cast(self._bits(shape, self._stream()), "f64")
        steps = b.unary("floor", b.mul(b.add(bits, b.scalar(2.0 ** 31, "f64")), b.scalar(2.0 ** -8, "f64")))
        return b.mul(steps, b.scalar(2.0 ** -24, "f64"))

    def _dropped(self, x: Value, probability: float, stream: int) -> Value:
        if probability >= 1:
            return self._b.full(0, x.shape, x.element)
        return self._b.emit("dropout", [x, self.state], [x.type],
                            after=f"probability({float(probability)!r}) stream({stream})")[0]

    def _dropout(self, node: Node, x: Value, probability: float, training: bool | None) -> tuple[Value, Value]:
        b = self._b
        if training is False:
            return x, b.full(True, x.shape, "i1")
        stream = self._stream()
        self._dropouts[node] = probability, stream
        # If only the gradient reads the mask, it is regenerated there.
        mask = Value("%none", Type(x.shape, "i1"))
        if any(reader.target is not _aten.native_dropout_backward.default
               for user in node.users if user.args[1] == 1 for reader in user.users):
            # The same comparison as the op's, of unsigned numbers.
            limit = min(round(probability * 2 ** 32), 2 ** 32 - 1) - 2 ** 31
            turned = b.binary("xor", self._bits(x.shape, stream), b.scalar(-2 ** 31, "i32"))
            mask = b.compare("ge", turned, b.scalar(limit, "i32"))
            if probability >= 1:
                mask = b.full(False, x.shape, "i1")
        return self._dropped(x, probability, stream), mask

    def _dropout_backward(self, node: Node, gradient: Value, mask: Value, scale: float) -> Value:
        source = node.args[1]
        if isinstance(source, Node) and source.target is operator.getitem and source.args[0] in self._dropouts:
            return self._dropped(gradient, *self._dropouts[source.args[0]])
        b = self._b
        return b.mul(b.mul(gradient, b.cast(mask, gradient.element)), b.scalar(scale, gradient.element))

    def _bernoulli(self, node: Node, x: Value, chance: float | None = None, **_: Any) -> Value:
        b, kind = self._b, self._b.results[0]
        limit = b.cast(x, "f64") if chance is None else b.scalar(chance, "f64")
        return b.cast(b.compare("lt", self._unit(kind.shape), limit), kind.element)

    def _between(self, node: Node, x: Value, low: float = 0.0, high: float = 1.0, **_: Any) -> Value:
        b, kind = self._b, self._b.results[0]
        return b.cast(self._moved(self._unit(kind.shape), low, high - low), kind.element)

    def _around(self, node: Node, x: Value, mean: float = 0.0, deviation: float = 1.0, **_: Any) -> Value:
        """Box-Muller transform (1958)."""
        b, kind = self._b, self._b.results[0]
        radius = b.unary("sqrt", b.mul(self._logs(kind.shape), b.scalar(-2.0, "f64")))
        turn = b.unary("cos", b.mul(self._unit(kind.shape), b.scalar(2 * math.pi, "f64")))
        return b.cast(self._moved(b.mul(radius, turn), mean, deviation), kind.element)

    def _exponential(self, node: Node, x: Value, rate: float = 1.0, **_: Any) -> Value:
        b, kind = self._b, self._b.results[0]
        return b.cast(self._moved(self._logs(kind.shape), 0.0, -1 / rate), kind.element)

    def _uniform(self, node: Node, *_: Any, **__: Any) -> Value:
        return self._between(node, self.state)

    def _normal(self, node: Node, *_: Any, **__: Any) -> Value:
        return self._around(node, self.state)

    def _logs(self, shape: Sequence[int]) -> Value:
        """Logarithms of uniform numbers in the open interval (0, 1)."""
        return self._b.unary("log", self._b.add(self._unit(shape), self._b.scalar(2.0 ** -25, "f64")))

    def _moved(self, x: Value, offset: float, factor: float) -> Value:
        b = self._b
        x = x if factor == 1 else b.mul(x, b.scalar(factor, "f64"))
        return x if offset == 0 else b.add(x, b.scalar(offset, "f64"))


# ===----------------------------------------------------------------------=== #
# Text
# ===----------------------------------------------------------------------=== #


class _Writer:
    """Emits a joint graph as a function with roles."""

    def __init__(self, flat: _Flat, graph: GraphModule, inputs: Sequence[str], statistics: Sequence[str]):
        self._flat, self._graph, self._inputs = flat, graph, inputs
        self._device = _place(graph.graph)
        self._b = Builder(self._device)
        self._draws = _Draws(self._b)
        self._statistics = list(statistics)
        self._signature: list[str] = []
        self._env: dict[Node, Any] = {}

    def write(self, training: bool) -> Joint:
        graph = self._graph.graph
        output = next(reversed(graph.nodes))
        parts = list(zip(output.args[0], output.meta["desc"]))
        names = list(self._flat.tensors)
        roles: dict[str, Any] = {"judged": None, "writes": {}, "gradients": {}}
        for value, what in parts:
            kind = type(what).__name__
            if kind == "PlainAOTOutput":
                roles["judged"] = value
            elif kind == "InputMutationAOTOutput" and what.mutated_input.idx < len(names):
                roles["writes"][names[what.mutated_input.idx]] = value
            elif kind == "GradAOTOutput" and value is not None and what.grad_of.idx < len(names):
                roles["gradients"][names[what.grad_of.idx]] = value
        if not training:
            roles["writes"], roles["gradients"] = {}, {}
        kept = [roles["judged"], *roles["writes"].values(), *roles["gradients"].values()]
        output.args = (kept,)
        output.meta = {}
        graph.eliminate_dead_code()
        _forget_results(self._graph)
        graph.eliminate_dead_code()
        for name in roles["writes"]:
            if self._flat.tensors[name].requires_grad:
                raise InvalidArgument(f"parameter '{name}'", "is changed by the module's forward pass (max_norm of an "
                                      "embedding?), which a compiled step does not do")
        self._statistics += roles["writes"]
        return self._text(roles, training)

    def _text(self, roles: dict[str, Any], training: bool) -> Joint:
        b, names = self._b, list(self._flat.tensors)
        places = self._arguments(names)
        for node in self._graph.graph.nodes:
            if node.op == "call_function":
                self._env[node] = self._lower(node)
            elif node.op == "get_attr":
                self._env[node] = self._constant(operator.attrgetter(node.target)(self._graph))
        b.place = b.layer = ""
        returned = [(self._value(roles["judged"]), "output", self._flat.output, None)]
        for name, value in roles["writes"].items():
            returned.append((self._value(value), "statistics", name, places[name]))
        joint = Joint("", self._flat.output, {}, self._statistics)
        for i, (name, value) in enumerate(roles["gradients"].items()):
            joint.gradients[name] = f"gradient{i}"
            returned.append((self._value(value), "output", f"gradient{i}", None))
        if self._draws.count:
            place = len(self._signature)
            self._argument(self._draws.state, "rng_state", "rng")
            if training:
                one = b.constant("[0, 1]", (2,), "i64")
                returned.append((b.add(self._draws.state, one), "rng_state", "rng", place))
        if training:
            made = self._value(roles["judged"])
            self._argument(Value("%cotangent", made.type), "input", COTANGENT)
        results = [f"{v.type} {attributes(role, name, place)}" for v, role, name, place in returned]
        joint.text = "\n".join([f"func.func @main({', '.join(self._signature)}) -> ({', '.join(results)}) {{",
                                *b.lines, f"  return {', '.join(v.name for v, *_ in returned)} : "
                                f"{', '.join(str(v.type) for v, *_ in returned)}", "}", ""])
        return joint

    def _argument(self, value: Value, role: str, name: str) -> None:
        self._signature.append(f"{value.name}: {value.type} {attributes(role, name)}")

    def _arguments(self, names: Sequence[str]) -> dict[str, int]:
        """All tensors and inputs, whether or not they are used."""
        places = {}
        for node in self._graph.graph.nodes:
            if node.op != "placeholder":
                continue
            what = node.meta["desc"]
            if type(what).__name__ == "TangentAOTInput":
                self._env[node] = Value("%cotangent", type_of(node.meta["val"], self._device))
                continue
            name = names[what.idx] if what.idx < len(names) else self._inputs[what.idx - len(names)]
            value = node.meta["val"]
            try:
                made = Value(f"%a{what.idx}", Type(tuple(value.shape), type_of(value, value.device).element))
            except Unsupported as reason:
                if node.users:
                    raise InvalidArgument(f"'{name}'", f"cannot be trained with: {reason}") from None
                continue
            places[name] = len(self._signature)
            self._argument(made, "statistics" if name in self._statistics else "input", name)
            self._env[node] = made
        return places

    def _constant(self, tensor: torch.Tensor) -> Value:
        """Constants of the forward pass."""
        kind = type_of(tensor, tensor.device)

        def text(part: Any) -> str:
            return f"[{', '.join(map(text, part))}]" if isinstance(part, list) else number(part, kind.element)

        return self._b.constant(text(tensor.tolist()), kind.shape, kind.element)

    def _value(self, node: Any) -> Value:
        return self._env[node]

    def _lower(self, node: Node) -> Any:
        value = node.meta.get("val")
        if not isinstance(value, (torch.Tensor, tuple, list)):
            return value
        try:
            rule = self._draws.rule(node)
            return lower_node(self._b, node, lambda other: other.meta.get("val"), self._env.__getitem__,
                              functools.partial(self._drawn, rule, node) if rule else None)
        except Unsupported as reason:
            layer = layer_of(node)
            where = f"layer '{layer}'" if layer else f"module {type(self._flat._of[0]).__name__}"
            raise InvalidArgument(where, f"needs {node.target} in a step of training: {reason}; torch.compile(module, "
                                  'backend="mpc") leaves such ops to eager mode') from None

    @staticmethod
    def _drawn(rule: Callable[..., Any], node: Node, b: Builder, *arguments: Any, **named: Any) -> Any:
        return rule(node, *arguments, **named)
