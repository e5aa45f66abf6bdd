# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ATen graphs as text of the mpc dialect, and as compiled functions.

Sizes are those of a call: a graph with symbolic sizes is propagated again for each set of sizes.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook

from . import _mpc
from ._aten import ELEMENT, EMPTY, TABLE, Builder, Memory, Type, Unsupported, Value, dense_order
from ._aten.builder import number
from ._function import release_at_exit
from ._source import digest

HOST = torch.device("cpu")
# Arguments about storage, which mpc determines itself.
_PLACEMENT = ("layout", "device", "pin_memory", "memory_format", "non_blocking")
# Dynamo starts a path with the variable of the model.
_ROOT = re.compile(r"^L(__self___|\['\w+'\])")


@contextlib.contextmanager
def module_mode(module: torch.nn.Module, training: bool) -> Iterator[None]:
    """A module in its parts' modes, or in inference mode; restores the modes of all parts."""
    modes = {part: part.training for part in module.modules()}
    try:
        if not training:
            module.eval()
        yield
    finally:
        for part, is_training in modes.items():
            part.training = is_training


# ===----------------------------------------------------------------------=== #
# Weights
# ===----------------------------------------------------------------------=== #


def bytes_of(tensor: torch.Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy()


def digest_of(tensor: torch.Tensor) -> str:
    """A name for the elements of a row-major tensor in host memory."""
    return digest(str(tensor.dtype), bytes_of(tensor))


def external(b: Builder, name: str, kind: Type) -> Value:
    """A constant whose elements the compiler reads from the weights of its source."""
    made = Value(f"%w{len(b.lines)}", kind)
    b.lines.append(f"  {made.name} = mpc.constant dense<{number(0, kind.element)}> : {kind} "
                   f'{{mpc.external = "{name}"}}')
    return made


# Steps of fused optimizers, which do not raise PyTorch's version counters, by the address of the storage.
_fused_steps: collections.Counter[int] = collections.Counter()


def _count_fused_step(optimizer: torch.optim.Optimizer, _arguments: Any, _named: Any) -> None:
    for group in optimizer.param_groups:
        if group.get("fused"):
            _fused_steps.update(tensor.untyped_storage().data_ptr() for tensor in group["params"])


register_optimizer_step_post_hook(_count_fused_step)


class Weights:
    """Tensors that are constants of compiled functions, `made` by sizes, as long as they do not change."""

    def __init__(self, tensors: Sequence[torch.Tensor]):
        # Also keep their memory, so that no other tensor gets its address.
        self.tensors = [tensor.detach() for tensor in tensors]
        self._marks = self._marks_of(tensors)
        self._samples = _mpc.MemorySamples([(t.data_ptr(), self._extent(t)) for t in self.tensors])
        self.calls = 0
        self.made: dict[Any, Callable[[Sequence[Any]], list[Any]]] = {}

    @staticmethod
    def _marks_of(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int, int]]:
        return [(tensor.data_ptr(), tensor._version, _fused_steps[tensor.untyped_storage().data_ptr()])
                for tensor in tensors]

    @staticmethod
    def _extent(tensor: torch.Tensor) -> int:
        last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
        return (last + 1) * tensor.element_size() if tensor.numel() else 0

    def are(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether these are the same tensors, unchanged. PyTorch's version counters miss writes through `.data`,
        NumPy and DLPack; of these all are found in tensors of up to 4 KiB, in larger ones those that change the tensor
        as a whole, by samples."""
        return self._marks == self._marks_of(tensors) and not self._samples.changed()


# ===----------------------------------------------------------------------=== #
# Nodes
# ===----------------------------------------------------------------------=== #


def size_of(extent: Any) -> int:
    """An extent; for a symbolic one the hint it was traced with."""
    if isinstance(extent, int):
        return extent
    hint = extent.node.hint
    if hint is None:
        raise Unsupported("a size that depends on data")
    return int(hint)


def type_of(value: Any, device: torch.device = HOST) -> Type:
    """The type of a tensor on `device`; raises Unsupported if mpc has none."""
    if not isinstance(value, torch.Tensor):
        raise Unsupported("a value that is not a tensor")
    if value.dtype not in ELEMENT or value.layout is not torch.strided:
        raise Unsupported(f"tensors of {value.dtype}")
    if value.device != device and value.device.type != "meta":
        raise Unsupported(f"tensors on {value.device}")
    kind = Type(tuple(size_of(e) for e in value.shape), ELEMENT[value.dtype])
    if 0 in kind.shape:
        raise Unsupported("an empty tensor")
    return kind


def _read_type(value: Any, device: torch.device) -> Type:
    """The type of an operand: scalars may be in host memory."""
    return type_of(value, HOST if value.dim() == 0 and value.device == HOST else device)


def _optional_type(value: Any, used: bool, device: torch.device) -> Type | None:
    """The type of one of several results, which may be absent or an empty placeholder."""
    if not isinstance(value, torch.Tensor) or not (used or value.dtype in ELEMENT):
        return None
    shape = tuple(size_of(e) for e in value.shape)
    return Type(shape, ELEMENT[value.dtype]) if 0 in shape else type_of(value, device)


def _uses(node: Node, count: int) -> list[bool]:
    """Which results of a node are used."""
    used = [False] * count
    for user in node.users:
        if user.target is not operator.getitem:
            return [True] * count
        used[user.args[1]] = used[user.args[1]] or bool(user.users)
    return used


def lower_node(b: Builder, node: Node, fake: Callable[[Node], Any], read: Callable[[Node], Any],
               lowering: Callable[..., Any] | None = None) -> Any:
    """Lowers one node: `fake` returns results of nodes as fake tensors, `read` the values of other nodes;
    `lowering`, if given, overrides the table's."""
    value = fake(node)
    if node.target is operator.getitem:
        if isinstance(value, torch.Tensor) and value.dtype not in ELEMENT:
            raise Unsupported(f"tensors of {value.dtype}")
        return read(node.args[0])[node.args[1]]
    lowering = lowering or TABLE.get(node.target)
    if lowering is None:
        raise Unsupported("no lowering")
    several = isinstance(value, (tuple, list))
    b.used = _uses(node, len(value) if several else 1)
    b.results = ([_optional_type(v, used, b.device) for v, used in zip(value, b.used)] if several
                 else [type_of(value, b.device)])
    layer = layer_of(node)
    b.layer = f' {{mpc.layer = "{layer}"}}' if layer else ""
    b.place = f' loc("{node.name}")'
    b.memory = lambda: _memory(b, node.args[0], fake, read)

    def convert(argument: Any) -> Any:
        if isinstance(argument, Node):
            return read(argument)
        if isinstance(argument, (list, tuple)):
            return [convert(part) for part in argument]
        return argument

    named = {key: convert(part) for key, part in node.kwargs.items() if key not in _PLACEMENT}
    made = lowering(b, *convert(node.args), **named, **node.meta.get("mpc_extra", {}))
    if not several:
        assert made.type == b.results[0], f"{node.target} gives {made.type}, not {b.results[0]}"
        return made
    for part, kind, used in zip(made, b.results, b.used):
        assert not used or part is None or part.type == kind, f"{node.target} gives {part.type}, not {kind}"
        if used and part is None and kind is not None and 0 not in kind.shape:
            raise Unsupported("this result, which is used")
    return made


def layer_of(node: Node) -> str:
    """Module path of a node, joined by slashes."""
    # In a backward pass that of the forward op.
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path = _ROOT.sub("", str(list(stack.values())[-1][0]))
    return "/".join(re.findall(r"\w+", path))


def _traced(node: Node) -> Any:
    return node.meta.get("val")


def why_not(node: Node, device: torch.device = HOST, fake: Callable[[Node], Any] = _traced) -> str | None:
    """The reason why a node cannot be lowered on `device`; None if it can. `fake` as for lower_node()."""
    def read(other: Node) -> Any:
        value = fake(other)
        # Tensors of a module are moved once.
        place = value.device if other.op == "get_attr" and isinstance(value, torch.Tensor) else device
        if isinstance(value, (tuple, list)):
            # Results of unsupported type are reported by their getitem.
            return [None if isinstance(v, torch.Tensor) and v.dtype not in ELEMENT else _stand_in(v, place)
                    for v in value]
        return _stand_in(value, place)

    try:
        lower_node(Builder(device), node, fake, read)
    except Unsupported as reason:
        return str(reason)
    return None


def _stand_in(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        if 0 in value.shape:
            return Value(EMPTY, Type(tuple(value.shape), "f32"))
        return Value("%x", _read_type(value, device))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        if value.node.hint is None:
            raise Unsupported("a size that depends on data")
        return value.node.hint
    return value


# ===----------------------------------------------------------------------=== #
# Graphs
# ===----------------------------------------------------------------------=== #


def is_symbolic(graph: torch.fx.Graph) -> bool:
    def symbolic(value: Any) -> bool:
        if isinstance(value, (tuple, list)):
            return any(map(symbolic, value))
        if isinstance(value, torch.Tensor):
            return any(not isinstance(e, int) for e in value.shape)
        return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))

    return any(symbolic(node.meta.get("val")) for node in graph.nodes)


class Propagate(Interpreter):
    """Runs a graph on fake tensors and records the result of every node."""

    def __init__(self, module: GraphModule):
        super().__init__(module)
        self.values: dict[Node, Any] = {}

    def run_node(self, node: Node) -> Any:
        self.values[node] = super().run_node(node)
        return self.values[node]


def values_of(module: GraphModule, arguments: Sequence[Any]) -> dict[Node, Any]:
    """Results of every node for arguments of these sizes."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake = [mode.from_tensor(a, static_shapes=True) if isinstance(a, torch.Tensor) else a for a in arguments]
        runner = Propagate(module)
        runner.run(*fake)
    return runner.values


class Substitution:
    """Tensors of symbolic sizes with numbers in place of the symbols."""

    def __init__(self, symbols: Mapping[Any, int]):
        self._symbols = dict(symbols)
        self._numbers: dict[Any, int] = {}
        self._storages: dict[StorageWeakRef, torch.UntypedStorage] = {}

    def of(self, value: Any) -> Any:
        """Raises Unsupported if a size is no polynomial of the symbols: a quotient may have a remainder."""
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.of, value))
        if isinstance(value, torch.SymInt):
            return self._number(value)
        if not isinstance(value, torch.Tensor):
            if isinstance(value, (torch.SymFloat, torch.SymBool)):
                raise Unsupported("a number that follows from sizes")
            return value
        if value.layout is not torch.strided:
            raise Unsupported("tensors without strides")
        # Views keep sharing memory.
        storage = value.untyped_storage()
        key = StorageWeakRef(storage)
        if key not in self._storages:
            self._storages[key] = torch.UntypedStorage(self._number(storage.nbytes()), device="meta")
        return torch.empty(0, dtype=value.dtype, device="meta").set_(
            self._storages[key], self._number(value.storage_offset()), tuple(map(self._number, value.shape)),
            tuple(map(self._number, value.stride())))

    def _number(self, extent: Any) -> int:
        if isinstance(extent, int):
            return extent
        expression = extent.node.expr
        if expression not in self._numbers:
            number = expression.subs(self._symbols)
            if not expression.is_polynomial() or not number.is_Integer:
                raise Unsupported("a size that is no polynomial of the inputs' sizes")
            self._numbers[expression] = int(number)
        return self._numbers[expression]


@dataclass
class Result:
    """Origin of a graph's result: an output of the function (`index`), an argument or a plain value;
    `stride` if it is a view, or if the framework expects other strides."""
    source: str
    index: int = 0
    value: Any = None
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] | None = None
    offset: int = 0

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.stride is None:
            return tensor
        return tensor.as_strided(self.size, self.stride, tensor.storage_offset() + self.offset)


@dataclass
class Text:
    """A graph as text: its weights by name, the arguments it reads, with their storage order if that is not
    row-major, the constants, the results, and the storage offsets of arguments, by index, on which the text
    depends, since no framework guard checks these."""
    text: str
    weights: dict[str, torch.Tensor]
    arguments: list[tuple[int, list[int] | None]]
    constants: list[torch.Tensor]
    results: list[Result]
    outputs: int
    starts: dict[int, int]


def _memory_order(value: torch.Tensor) -> list[int] | None:
    """Dimensions in storage order, if dense but not row-major."""
    if value.is_contiguous() or 0 in value.shape:
        return None
    return dense_order(value.shape, value.stride())


def base_of(node: Node, fake: Callable[[Node], Any]) -> Node:
    """The base of a node's chain of views: results that share memory must keep sharing it."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        source = node.args[0]
        if node.target is operator.getitem and source.args and isinstance(source.args[0], Node):
            source = source.args[0]
        if not _same_memory(fake(node), fake(source)):
            break
        node = source
    return node


def _memory(b: Builder, node: Node, fake: Callable[[Node], Any], read: Callable[[Node], Any]) -> Memory:
    """The storage of a node's tensor, of which the base's elements are known."""
    base = base_of(node, fake)
    value, whole, made = fake(node), fake(base), read(base)
    if not isinstance(value, torch.Tensor) or not isinstance(made, Value) or EMPTY in (made.name, read(node).name):
        raise Unsupported("the storage of a tensor without elements")
    strides = [size_of(stride) for stride in whole.stride()]
    for axis, stride in enumerate(strides):
        if stride == 0:  # An expanded dimension has one element in memory.
            made = b.slice_axis(made, axis, 0, 1)
    order = dense_order(made.shape, strides)
    if order is None:
        raise Unsupported("the storage of a non-contiguous tensor")
    made = b.transpose(made, order)
    start, offset = size_of(whole.storage_offset()), size_of(value.storage_offset())
    if base.op == "placeholder":
        b.starts[base] = start
    return Memory(b.reshape(made, (math.prod(made.shape),)), start, tuple(size_of(s) for s in value.stride()), offset)


def attributes(role: str, name: str, alias: int | None = None) -> str:
    """Attributes of an argument, or of a result that may alias one."""
    replaced = "" if alias is None else f", mpc.alias = {alias} : i64"
    return f"{{mpc.role = #mpc.role<{role}>, mpc.name = {json.dumps(name)}{replaced}}}"


def _in_memory(tensor: torch.Tensor, order: list[int] | None) -> torch.Tensor:
    return tensor if order is None else tensor.permute(order)


def write(module: GraphModule, values: dict[Node, Any], device: torch.device = HOST,
          fixed: Mapping[int, torch.Tensor] | None = None,
          name_of: Callable[[torch.Tensor], str] = digest_of) -> Text:
    """The text of a graph on `device` whose nodes have `values` and whose arguments `fixed`, by index, are
    constants; raises Unsupported if there is none."""
    b, env, constants, signature = Builder(device), {}, [], []
    weights: dict[str, torch.Tensor] = {}
    arguments: list[tuple[int, list[int] | None]] = []
    places: dict[Node, int] = {}

    def take(node: Node, value: torch.Tensor) -> list[int] | None:
        name, order = f"a{len(signature)}", _memory_order(value)
        kind = _read_type(value, device)
        if order is not None:
            kind = Type(tuple(kind.shape[i] for i in order), kind.element)
        env[node] = Value("%" + name, kind)
        signature.append(f"%{name}: {kind} {attributes('input', name)}")
        if order is not None:
            env[node] = b.transpose(env[node], [order.index(i) for i in range(len(order))])
        return order

    tensors = [node for node in module.graph.nodes if node.op == "get_attr"]
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        places[node] = len(places)
        if not isinstance(values.get(node), torch.Tensor):
            env[node] = values.get(node)
        elif 0 in values[node].shape:
            env[node] = _stand_in(values[node], device)
        elif any(user.op != "output" for user in node.users):
            if fixed and places[node] in fixed:
                weight = fixed[places[node]].contiguous()
                name = name_of(weight)
                weights[name] = weight
                env[node] = external(b, name, type_of(weight))
            else:
                arguments.append((places[node], take(node, values[node])))
    for node in tensors:
        constant = operator.attrgetter(node.target)(module).to(device)
        constants.append(_in_memory(constant, take(node, constant)))
    for node in module.graph.nodes:
        if node.op == "call_function":
            value = values[node]
            plain = not isinstance(value, (torch.Tensor, tuple, list))
            env[node] = value if plain else lower_node(b, node, values.get, env.__getitem__)
    b.place = b.layer = ""
    returned: list[Value] = []
    results = [_result(b, part, values, env, places, returned) for part in _outputs(module)]
    if not arguments and not constants and returned:
        raise Unsupported("a graph without tensor inputs")
    types = ", ".join(f"{v.type} {attributes('output', f'r{i}')}" for i, v in enumerate(returned))
    text = "\n".join([f"func.func @main({', '.join(signature)}) -> ({types}) {{", *b.lines,
                      f"  return {', '.join(v.name for v in returned)} : {', '.join(str(v.type) for v in returned)}",
                      "}", ""])
    starts = {places[node]: start for node, start in b.starts.items()}
    return Text(text, weights, arguments, constants, results, len(returned), starts)


def _outputs(module: GraphModule) -> Sequence[Any]:
    output = next(reversed(module.graph.nodes)).args[0]
    return output if isinstance(output, (tuple, list)) else [output]


def _same_memory(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return False
    return StorageWeakRef(first.untyped_storage()) == StorageWeakRef(second.untyped_storage())


def _result(b: Builder, part: Any, values: dict[Node, Any], env: dict[Any, Any], places: dict[Node, int],
            returned: list[Value]) -> Result:
    if not isinstance(part, Node):
        return Result("value", value=part)
    value = values.get(part)
    if part in places:
        return Result("argument", places[part])
    if isinstance(value, torch.Tensor) and 0 in value.shape:
        return Result("value", value=torch.empty(tuple(value.shape), dtype=value.dtype, device=value.device))
    made = env[part]
    if not isinstance(made, Value):
        return Result("value", value=made)
    base = base_of(part, values.get)
    whole = values[base]
    view = Result("output", size=tuple(value.shape))
    if base is not part:
        view.stride, view.offset = tuple(value.stride()), value.storage_offset() - whole.storage_offset()
        if base in places:
            view.source, view.index = "argument", places[base]
            return view
    order = _memory_order(whole)
    if order is None and not whole.is_contiguous():
        # Elements with gaps are compacted.
        base, view.stride, view.offset = part, None, 0
    made = env[base]
    if order is not None:
        # Once per tensor, so that its views share one result.
        made = env[base, "in memory"] = env.get((base, "in memory")) or b.transpose(made, order)
        view.stride = view.stride or tuple(value.stride())
    if made not in returned:
        returned.append(made)
    view.index = returned.index(made)
    return view


# ===----------------------------------------------------------------------=== #
# Calls
# ===----------------------------------------------------------------------=== #


# Constants that were used in fewer calls before they changed did not pay for their compile.
_FEW_CALLS = 32
_MOST_PATIENCE = 1000


class Graph:
    """A graph as a function of lists of arguments, compiled on demand for each set of sizes.

    `compiler` converts text to a function, with constants that may have changed before (`is_refresh`); sizes
    without a lowering run in eager mode, with the reason passed to `tell`.

    `parameters`, by index, are constants of the compiled functions, which are compiled anew after a change: so
    their low-precision packed copies are made once, and not in every call. If they change often they are
    arguments, until they stayed the same for a number of calls.
    """

    def __init__(self, module: GraphModule, compiler: Callable[[Text, bool], Callable[..., Any]],
                 tell: Callable[[str], None], device: torch.device = HOST, parameters: Sequence[int] = ()):
        self._module, self._compiler, self._tell, self._device = module, compiler, tell, device
        self._symbolic = is_symbolic(module.graph)
        self._made: dict[Any, Callable[[Sequence[Any]], list[Any]]] = {}
        self._parameters = list(parameters)
        self._weights: Weights | None = None
        self._patience = 0  # Calls with the same parameters before these become constants.
        self._refreshes = 0
        release_at_exit(self)

    def _release(self) -> None:
        """Frees compiled code; a later call would compile again."""
        self._weights = None
        self._made.clear()

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        weights = self._constants(arguments) if self._parameters else None
        key = None
        if self._symbolic:
            key = tuple((a.shape, a.stride()) if isinstance(a, torch.Tensor) else a for a in arguments)
        made = self._made if weights is None else weights.made
        run = made.get(key)
        if run is None:
            run = made[key] = self._make(arguments, weights)
        return run(arguments)

    def _constants(self, arguments: Sequence[Any]) -> Weights | None:
        """The parameters as constants, or None if they are arguments of this call."""
        tensors = [arguments[i] for i in self._parameters]
        weights = self._weights
        if weights is None or not weights.are(tensors):
            if any(tensor.is_inference() for tensor in tensors):
                self._parameters = []  # PyTorch does not count their versions.
                return None
            if weights is not None and weights.made:
                if self._refreshes > 0:
                    used = weights.calls - self._patience
                    self._patience = 0 if used >= _FEW_CALLS else min(2 * self._patience + 1, _MOST_PATIENCE)
                self._refreshes += 1
            weights = self._weights = Weights(tensors)
        weights.calls += 1
        return weights if weights.calls > self._patience else None

    def _make(self, arguments: Sequence[Any], weights: Weights | None) -> Callable[[Sequence[Any]], list[Any]]:
        module = self._module
        if self._symbolic:
            values = values_of(module, arguments)
        else:
            values = {node: node.meta.get("val") for node in module.graph.nodes}
        is_refresh = weights is not None and self._refreshes > 0
        fixed = dict(zip(self._parameters, weights.tensors)) if weights else None
        # Without the compile cache names need not depend on the elements.
        numbers = itertools.count()
        name_of = (lambda _: f"parameter{next(numbers)}") if is_refresh else digest_of
        try:
            text = write(module, values, self._device, fixed, name_of)
        except Unsupported as reason:
            self._tell(str(reason))
            return lambda given: list(module(*given))
        run = _runner(text, self._compiler(text, is_refresh) if text.outputs else None)
        if not text.starts:
            return run
        starts = list(text.starts.items())

        def checked(given: Sequence[Any]) -> list[Any]:
            if all(given[i].storage_offset() == start for i, start in starts):
                return run(given)
            return list(module(*given))

        return checked


def _runner(text: Text, function: Callable[..., Any] | None) -> Callable[[Sequence[Any]], list[Any]]:
    constants, results = text.constants, text.results
    picked = [i for i, _ in text.arguments]
    turned = [(k, order) for k, (_, order) in enumerate(text.arguments) if order is not None]
    plain = all(r.source == "output" and r.stride is None for r in results)
    straight = plain and [r.index for r in results] == list(range(text.outputs)) and not constants

    def outputs(given: Sequence[Any]) -> Sequence[Any]:
        if function is None:
            return ()
        taken = [given[i] for i in picked]
        for k, order in turned:
            taken[k] = taken[k].permute(order)
        found = function(*taken, *constants)
        return found if isinstance(found, tuple) else (found,)

    if straight:
        return lambda given: list(outputs(given))

    def run(given: Sequence[Any]) -> list[Any]:
        found, made = outputs(given), []
        for r in results:
            if r.source == "output":
                made.append(r.of(found[r.index]))
            else:
                made.append(r.of(given[r.index]) if r.source == "argument" else r.value)
        return made

    return run
