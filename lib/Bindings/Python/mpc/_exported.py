# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules traced by torch.export: their text is written anew for the shapes of each compile."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import difflib
import inspect
import io
import logging
import operator
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.fx import Node
from torch.utils import _pytree as pytree

from . import _function, _mpc
from ._aten import ELEMENT, TABLE, Builder, Type, Unsupported, Value
from ._aten.builder import number
from ._errors import InvalidArgument, ModelWarning, Unavailable
from ._graph import (HOST, Propagate, Substitution, attributes, bytes_of, digest_of, external, layer_of, lower_node,
                     module_mode, type_of, why_not)
from .torch import decompositions

_TRANSPOSES = (torch.ops.aten.t, torch.ops.aten.transpose, torch.ops.aten.permute)
_INSTEAD = 'torch.compile(module, backend="mpc")'

# ===----------------------------------------------------------------------=== #
# Results
# ===----------------------------------------------------------------------=== #

# Converts the next tensors of an iterator to (a part of) a module's result.
Rebuild = Callable[[Iterator[Any]], Any]


def take_apart(result: Any, path: tuple[str, ...], found: list[tuple[str, Any]]) -> Rebuild:
    """Appends the tensors of a module's result with their names to `found`; returns the inverse."""
    if isinstance(result, torch.Tensor):
        found.append((".".join(path) or "output", result))
        return next
    if result is None or isinstance(result, (bool, int, float, complex, str, bytes)):
        return lambda _: result
    if isinstance(result, (torch.SymInt, torch.SymFloat)):
        # A number that follows from sizes, which the compiled function returns as an array.
        found.append((".".join(path) or "output", result))
        return lambda tensors: next(tensors).item()
    kind = type(result)
    if dataclasses.is_dataclass(result):
        given = {part.name: getattr(result, part.name) for part in dataclasses.fields(result)}
        return _named(given, path, found, lambda parts: kind(**parts))
    if isinstance(result, Mapping):
        return _named(result, path, found, kind)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return _named(result._asdict(), path, found, lambda parts: kind(**parts))
    if isinstance(result, (tuple, list)):
        made = tuple if isinstance(result, tuple) else list
        return _named(dict(enumerate(result)), path, found, lambda parts: made(parts.values()))
    if kind in pytree.SUPPORTED_NODES:
        parts, context = pytree.SUPPORTED_NODES[kind].flatten_fn(result)
        back = pytree.SUPPORTED_NODES[kind].unflatten_fn
        return _named(dict(enumerate(parts)), path, found, lambda made: back(list(made.values()), context))
    raise InvalidArgument(f"output '{'.'.join(path)}'", f"is a {kind.__name__}, none of a tensor, a number, a tuple, a "
                          "list, a dictionary and a dataclass; an argument such as use_cache=False may leave it out")


def _named(parts: Mapping[Any, Any], path: tuple[str, ...], found: list[tuple[str, Any]],
           made: Callable[[dict[Any, Any]], Any]) -> Rebuild:
    rebuilt = {key: take_apart(part, (*path, str(key)), found) for key, part in parts.items()}
    return lambda tensors: made({key: part(tensors) for key, part in rebuilt.items()})


# ===----------------------------------------------------------------------=== #
# Tracing
# ===----------------------------------------------------------------------=== #


def trace(module: torch.nn.Module, example: Sequence[Any], named: Mapping[str, Any], dynamic_shapes: Any) -> Exported:
    """Exports the module in inference mode, with an open batch by default."""
    where = f"module {type(module).__name__}"
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*example, **named)
    except TypeError as error:
        options = inspect.signature(_function.compile).parameters.values()
        known = [*signature.parameters, *(one.name for one in options if one.kind is one.KEYWORD_ONLY)]
        near = [(name, match) for name in named if name not in known
                for match in difflib.get_close_matches(name, known, 1)]
        hint = f"; did you mean '{near[0][1]}' instead of '{near[0][0]}'?" if near else ""
        raise InvalidArgument(where, f"cannot be called so: forward() has {error}{hint}") from None
    # By position where forward() allows it, so that calls by position and by name mean the same.
    found = _export((bound.args, bound.kwargs), module, dynamic_shapes, where)
    return Exported(f"{type(module).__name__}.mlir", found.program, found.outputs, found.rebuild, found.dims, bound)


def write_onnx(module: torch.nn.Module, example: Sequence[Any], path: str) -> None:
    """Writes the module in inference mode as ONNX, with an open dimension "batch"."""
    where = f"module {type(module).__name__}"
    found = _export((tuple(map(torch.as_tensor, example)), {}), module, None, where)
    leading = {name: extent if isinstance(extent, int) else str(extent) for name, extent in found.leading().items()}
    batch = next((extent for extent in leading.values() if isinstance(extent, str)), None)
    axes = {name: {0: "batch"} if batch and extent == batch else None for name, extent in leading.items()}
    try:
        with _quiet(), contextlib.redirect_stdout(io.StringIO()):
            torch.onnx.export(found.program, f=path, dynamo=True, external_data=False, verbose=False,
                              input_names=list(axes), output_names=found.outputs, dynamic_shapes=axes)
    except ModuleNotFoundError as error:
        raise Unavailable(path, f"is written by torch.onnx.export, which needs the package {error.name}: pip install "
                          "onnxscript") from error
    except torch.onnx.OnnxExporterError as error:
        raise InvalidArgument(where, f"cannot be exported by torch.onnx.export ({_first_line(error.__cause__ or error)}"
                              ")") from error


@dataclasses.dataclass
class _Export:
    """A program of torch.export, its outputs' names, and how its result is made of them."""
    program: ExportedProgram
    outputs: list[str]
    rebuild: Rebuild
    # The caller's names of dimensions, by input and axis.
    dims: dict[tuple[str, int], str]

    def leading(self) -> dict[str, Any]:
        """First extents of inputs, by name; a number is fixed."""
        nodes = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        values = {name: nodes[name].meta["val"] for name in self.program.graph_signature.user_inputs
                  if isinstance(name, str)}
        return {name: value.shape[0] if value.dim() else 0 for name, value in values.items()
                if isinstance(value, torch.Tensor)}


def _export(given: Any, module: torch.nn.Module, dynamic_shapes: Any, where: str) -> _Export:
    """Exports a module with an open batch, also for an example with a batch of one."""
    doubled = _doubled(given)
    if doubled is not given:
        try:
            found = _export_once(module, doubled, dynamic_shapes, where)
            if 2 not in [extent for extent in found.leading().values() if isinstance(extent, int)]:
                return found
        except InvalidArgument:
            pass
    return _export_once(module, given, dynamic_shapes, where)


def _doubled(given: Any) -> Any:
    """A batch of one as a batch of two: torch.export regards an extent of one as fixed."""
    def is_one(leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == 1

    first = next((leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)), None)
    if not is_one(first):
        return given
    return pytree.tree_map(lambda leaf: torch.cat([leaf, leaf]) if is_one(leaf) else leaf, given)


def _export_once(module: torch.nn.Module, given: Any, dynamic_shapes: Any, where: str) -> _Export:
    # Row-major, as the arguments of calls will be.
    example, named = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().contiguous(), given)
    results: list[tuple[str, Any]] = []
    rebuild: list[Rebuild] = []

    def flatten(_: Any, __: Any, result: Any) -> Any:
        results.clear()
        rebuild[:] = [take_apart(result, (), results)]
        return tuple(tensor for _, tensor in results)

    bound = inspect.signature(module.forward).bind(*example, **named).arguments
    shapes = _open_batch(bound, dynamic_shapes)
    hook = module.register_forward_hook(flatten)
    try:
        with module_mode(module, training=False), torch.no_grad(), _quiet():
            program = torch.export.export(module, example, named, dynamic_shapes=shapes)
    except InvalidArgument:
        raise
    except Exception as error:  # pylint: disable=broad-exception-caught
        raise InvalidArgument(where, _why(error)) from error
    finally:
        hook.remove()
    return _Export(program, [name for name, _ in results], rebuild[0], _dimension_names(bound, shapes))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without PyTorch's warnings, logs and printed graphs: an error is one sentence."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


def _open_batch(bound: Mapping[str, Any], dynamic_shapes: Any) -> dict[str, Any]:
    """The dynamic shapes given by the caller, with the first dimension of every tensor open by default."""
    if isinstance(dynamic_shapes, (tuple, list)):
        dynamic_shapes = dict(zip(bound, dynamic_shapes))
    wanted = dict(dynamic_shapes or {})
    if unknown := sorted(set(wanted) - set(bound)):
        raise InvalidArgument("dynamic_shapes", f"has '{unknown[0]}', which is not an argument of the example; it has "
                              f"{', '.join(bound)}")

    def opened(spec: Any, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if isinstance(spec, (tuple, list)) or value.dim() == 0:
                return spec
            return {0: Dim.AUTO, **(spec or {})}
        if isinstance(value, Mapping):
            return {key: opened((spec or {}).get(key), part) for key, part in value.items()}
        if isinstance(value, (tuple, list)):
            specs = spec or [None] * len(value)
            return type(value)([opened(part, each) for part, each in zip(specs, value)])
        return spec

    return {name: opened(wanted.get(name), value) for name, value in bound.items()}


def _dimension_names(bound: Mapping[str, Any], shapes: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """Names of the caller's dimensions, by input and axis."""
    found = {}
    for name, spec in shapes.items():
        axes = dict(enumerate(spec)) if isinstance(spec, (tuple, list)) else spec
        if isinstance(bound[name], torch.Tensor) and isinstance(axes, Mapping):
            for axis, dim in axes.items():
                if isinstance(getattr(dim, "__name__", None), str):
                    found[name, axis] = dim.__name__
    return found


def _why(error: Exception) -> str:
    return (f"cannot be exported by torch.export, which compiles one graph ({_first_line(error)}); {_INSTEAD} splits a "
            "module there")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    # torch.export's cure of dynamic shapes that a module does not allow.
    if "Suggested fixes:" in lines:
        first = f"{first.split(' For more')[0]} Suggested: {', '.join(lines[lines.index('Suggested fixes:') + 1:])}"
    return f"{type(error).__name__}: {first}"


# ===----------------------------------------------------------------------=== #
# Programs
# ===----------------------------------------------------------------------=== #


class Exported:
    """A program of torch.export: a function of its tensors that is compiled for any shapes it takes."""

    is_file = False

    def __init__(self, name: str, program: ExportedProgram, outputs: Sequence[str] = (), rebuild: Rebuild | None = None,
                 dims: Mapping[tuple[str, int], str] | None = None, example: inspect.BoundArguments | None = None):
        self.name, self._signature = name, example.signature if example else None
        self._given = list(example.arguments) if example else []
        self._lock = threading.Lock()
        self._texts: dict[Any, bytes] = {}
        # Code that checks the arguments of a call, which fails for **kwargs; mpc has checks of its own.
        program = copy.copy(program)
        program._guards_code = []
        with torch.no_grad(), _quiet():
            program = program.run_decompositions(_table())
        self._program, self._module = program, program.graph_module
        signature = program.graph_signature
        nodes = [node for node in self._module.graph.nodes if node.op == "placeholder"]
        self._outputs = self._find_outputs(signature)
        # Weights by node, and by the digest of their bytes.
        self._digests: dict[Node, str] = {}
        self.weights: dict[str, torch.Tensor] = {}
        self._live = self._find_live()
        self._inputs: dict[str, Node] = {}
        self._constants: dict[str, Any] = {}
        leaves: list[str | None] = []
        for node, spec in zip(nodes, signature.input_specs):
            if spec.kind is not InputKind.USER_INPUT:
                self._add_weight(node, spec)
            elif isinstance(spec.arg, TensorArgument):
                self._inputs[node.name] = node
                leaves.append(node.name)
            elif isinstance(spec.arg, ConstantArgument):
                self._constants[spec.arg.name] = spec.arg.value
                leaves.append(None)
            else:
                raise InvalidArgument(f"input '{spec.arg.name}'", "is a number that may change; give it as a tensor")
        self._lay_out()
        tensors = [node.meta["val"] for node in self._inputs.values()]
        self._device = next((value.device for value in (*tensors, *(node.meta["val"] for node in self._digests))), HOST)
        self._symbols = self._find_symbols(dims or {})
        self._leaves, self._structure = leaves, program.call_spec.in_spec
        self._is_flat = self._structure is not None and self._structure.num_leaves == len(leaves) and all(
            child.is_leaf() for part in self._structure.children() for child in part.children())
        if rebuild is None:
            rebuild, outputs = self._structure_of(program)
        self.outputs, self._rebuild = list(outputs), rebuild
        self._is_single = rebuild is next
        # The number of inputs if these are forward()'s first arguments; a call with others is bound to its signature.
        parts = self._signature.parameters.values() if self._signature else ()
        places = [part.name for part in parts if part.kind in (part.POSITIONAL_ONLY, part.POSITIONAL_OR_KEYWORD)]
        self._leading = len(self._inputs) if places[:len(self._inputs)] == list(self._inputs) else -1

    def source(self) -> _mpc.ModelSource:
        """The program for the compiler."""
        declared = []
        for name, node in self._inputs.items():
            value = node.meta["val"]
            if value.dtype not in ELEMENT:
                raise InvalidArgument(f"input '{name}'", f"has elements of {value.dtype}, which mpc lacks")
            symbols = [self._symbols.get((name, axis), "") for axis in range(value.dim())]
            shape = [-1 if symbol else int(extent) for symbol, extent in zip(symbols, value.shape)]
            declared.append((name, ELEMENT[value.dtype], shape, symbols))

        def write(shapes: dict[str, list[int]]) -> Any:
            try:
                return self.text(shapes)
            except InvalidArgument as error:
                return f"{error.where}: {error.text}" if error.where else error.text

        return _mpc.source_shaped(self.name, declared, write, self.weights)

    # Calls

    def arguments(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The tensors of a call, without the arguments that were fixed by the export."""
        if self._is_flat and not self._constants and self._is_plain(arrays, named):
            return arrays, named
        if self._is_flat and self._signature is None and not any(name in self._constants for name in named) \
                and len(arrays) <= len(self._inputs) and None not in self._leaves[:len(arrays)]:
            return arrays, named
        if self._signature is not None:
            arrays, named = self._bind(self._signature, arrays, named)
        order = self._structure.children()[1].context if self._structure.children()[1].children() else []
        fixed = {name: value for name, value in self._constants.items() if name in order}
        named = dict(sorted({**fixed, **named}.items(),
                            key=lambda item: order.index(item[0]) if item[0] in order else len(order)))
        leaves, structure = pytree.tree_flatten((tuple(arrays), named))
        if structure != self._structure:
            parts = [len(part.children()) for part in self._structure.children()]
            raise InvalidArgument(self.name, f"was exported for {parts[0]} arguments by position and {parts[1]} by "
                                  f"name, but {len(arrays)} and {len(named)} of another structure are given; compile "
                                  "it again")
        found = []
        constants = iter(self._constants.items())
        for leaf, name in zip(leaves, self._leaves):
            if name is not None:
                found.append(leaf)
                continue
            name, value = next(constants)
            if leaf is not value and leaf != value:
                raise InvalidArgument(self.name, f"was compiled for {name}={value!r}, not {leaf!r}; compile it again")
        return found, {}

    def _is_plain(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether a call without fixed arguments names the inputs, or has them all in forward()'s order."""
        if self._signature is None or not arrays and not named:
            return True
        return len(arrays) == self._leading if not named else not arrays and named.keys() == self._inputs.keys()

    def _bind(self, signature: inspect.Signature, arrays: Sequence[Any],
              named: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments of a call as the export had them, with those that it fixed."""
        try:
            bound = signature.bind_partial(*arrays, **named)
        except TypeError as error:
            raise InvalidArgument(self.name, f"cannot be called so: forward() has {error}") from None
        # Defaults that the example left out may be given.
        given = {name: value for name, value in bound.arguments.items()
                 if name in self._given or value is not signature.parameters[name].default}
        known = {**{name: value for name, value in self._constants.items() if name in signature.parameters}, **given}
        bound.arguments = {name: known[name] for name in signature.parameters if name in known}
        return bound.args, bound.kwargs

    def result(self, found: Any) -> Any:
        """The module's own result: a tensor, a tuple, a dictionary, ..."""
        if self._is_single:
            return found
        return self._rebuild(iter(found if isinstance(found, tuple) else (found,)))

    # Text

    def text(self, shapes: Mapping[str, Sequence[int]]) -> bytes:
        """Text for inputs of these shapes, with weights as external data."""
        key = tuple((name, tuple(shapes[name])) for name in self._inputs)
        with self._lock:
            if key not in self._texts:
                self._check(shapes)
                while len(self._texts) >= 8:
                    self._texts.pop(next(iter(self._texts)))
                self._texts[key] = self._write(shapes).encode()
            return self._texts[key]

    def whole_text(self, shapes: Mapping[str, Sequence[int]]) -> bytes:
        """The same as one file that contains the weights."""
        used: list[str] = []

        def resource(match: re.Match[bytes]) -> bytes:
            digest = match[2].decode()
            used.append(digest)
            return b"dense_resource<w" + match[2] + b"> : " + match[1]

        text = re.sub(rb'dense<[^<>]*> : (\S+) \{mpc\.external = "(\w+)"\}', resource, self.text(shapes))
        parts = [text, b"{-#\n  dialect_resources: {\n    builtin: {\n"]
        for i, digest in enumerate(sorted(set(used))):
            # The blob begins with its alignment.
            parts += [b",\n" if i else b"", f'      w{digest}: "0x40000000'.encode(),
                      bytes_of(self.weights[digest]).tobytes().hex().encode(), b'"']
        return b"".join([*parts, b"\n    }\n  }\n#-}\n"]) if used else text

    def _write(self, shapes: Mapping[str, Sequence[int]]) -> str:
        values = self._values(shapes)
        b, env, signature = Builder(self._device), {}, []
        try:
            for name, node in self._inputs.items():
                kind = type_of(values[node], self._device)
                env[node] = Value(f"%a{len(signature)}", kind)
                signature.append(f"{env[node].name}: {kind} {attributes('input', name)}")
            for node in self._module.graph.nodes:
                if node not in self._live or node in self._inputs.values():
                    continue
                if node in self._digests:
                    env[node] = external(b, self._digests[node], type_of(values[node], values[node].device))
                elif node.op == "call_function":
                    value = values[node]
                    plain = not isinstance(value, (torch.Tensor, tuple, list))
                    env[node] = value if plain else lower_node(b, node, values.get, env.__getitem__)
                elif node.op != "output":
                    env[node] = values.get(node)
        except Unsupported as reason:
            raise InvalidArgument(*self._missing(node, str(reason), values)) from None
        b.place = b.layer = ""
        returned: list[Value] = []
        for part in self._outputs:
            made = env[part] if isinstance(part, Node) else part
            if not isinstance(made, Value):
                # A number that follows from sizes.
                made = b.full(made, (), "f32" if isinstance(made, float) else "i64")
            returned.append(made)
        results = [f"{value.type} {attributes('output', name)}" for value, name in zip(returned, self.outputs)]
        types = ", ".join(str(value.type) for value in returned)
        return "\n".join([f"func.func @main({', '.join(signature)}) -> ({', '.join(results)}) {{", *b.lines,
                          f"  return {', '.join(value.name for value in returned)} : {types}", "}", ""])

    def _values(self, shapes: Mapping[str, Sequence[int]]) -> dict[Node, Any]:
        """Results of every node as tensors of concrete sizes, without elements."""
        symbols = {extent.node.expr: found for name, node in self._inputs.items()
                   for extent, found in zip(node.meta["val"].shape, shapes[name])
                   if not isinstance(extent, int) and extent.node.expr.is_Symbol}
        substitution = Substitution(symbols)
        try:
            return {node: substitution.of(node.meta.get("val")) for node in self._module.graph.nodes}
        except Unsupported:
            return self._propagated(shapes)

    def _propagated(self, shapes: Mapping[str, Sequence[int]]) -> dict[Node, Any]:
        """The same by running the graph, which takes most of the time of a compile for other shapes."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        constants = iter(self._constants.values())
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = []
            for node in self._module.graph.nodes:
                if node.op != "placeholder":
                    continue
                value = node.meta["val"]
                if isinstance(value, torch.Tensor):
                    shape = shapes.get(node.name, value.shape)
                    given.append(torch.empty(shape, dtype=value.dtype, device=value.device))
                else:
                    given.append(next(constants))
            runner = Propagate(self._module)
            try:
                runner.run(*given)
            except Exception as error:  # pylint: disable=broad-exception-caught
                line = next(iter(str(error).splitlines()), "")
                said = ", ".join(f"'{name}' {list(shape)}" for name, shape in shapes.items())
                raise InvalidArgument("", f"does not take inputs of these shapes, {said}: {line}") from error
        return runner.values

    def _missing(self, node: Node, reason: str, values: Mapping[Node, Any]) -> tuple[str, str]:
        """Place and sentence of what mpc lacks."""
        if node.op == "placeholder":
            return f"input '{node.name}'", f"cannot be compiled: {reason}"
        lines = {}
        for other in self._live:
            if other.op == "call_function" and isinstance(values.get(other), (torch.Tensor, tuple, list)) \
                    and other.target is not operator.getitem and (why := why_not(other, self._device, values.get)):
                lines[str(other.target)] = why
        lines = lines or {str(node.target): reason}
        layer = layer_of(node)
        said = ", ".join(f"{name} ({why})" for name, why in sorted(lines.items()))
        return (f"layer '{layer}'" if layer else "",
                f"needs {said}, which mpc lacks; {_INSTEAD} leaves such ops to eager mode")

    # Set-up

    def _find_outputs(self, signature: Any) -> list[Any]:
        results = next(reversed(self._module.graph.nodes)).args[0]
        found = []
        for result, spec in zip(results, signature.output_specs):
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
                if isinstance(result, Node) or isinstance(result, (int, float)):
                    found.append(result)
            elif spec.kind is not OutputKind.TOKEN:
                warnings.warn(f"{self.name}: changes '{spec.target}' in its forward pass, which stays as it was "
                              "exported", ModelWarning, stacklevel=6)
        return found

    def _find_live(self) -> set[Node]:
        live, todo = set(), [part for part in self._outputs if isinstance(part, Node)]
        while todo:
            node = todo.pop()
            if node not in live:
                live.add(node)
                if node not in self._digests:
                    todo.extend(node.all_input_nodes)
        return live

    def _add_weight(self, node: Node, spec: Any) -> None:
        if node not in self._live:
            return
        known = self._program.constants if spec.target in self._program.constants else self._program.state_dict
        tensor = known[spec.target]
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in ELEMENT:
            kind = getattr(tensor, "dtype", type(tensor).__name__)
            raise InvalidArgument(f"'{spec.target}'", f"is a weight of type {kind}, which mpc lacks")
        # A copy: the module may change.
        self._keep(node, tensor.detach().to(HOST, copy=True).contiguous())

    def _keep(self, node: Node, tensor: torch.Tensor) -> None:
        self._digests[node] = digest_of(tensor)
        self.weights.setdefault(self._digests[node], tensor)

    def _lay_out(self) -> None:
        """Transposes weights once, instead of in each compile."""
        for node in self._module.graph.nodes:
            if node in self._live and getattr(node.target, "overloadpacket", None) in _TRANSPOSES \
                    and node.args[0] in self._digests:
                weight = self.weights[self._digests[node.args[0]]].view(node.args[0].meta["val"].shape)
                self._keep(node, node.target(weight, *node.args[1:]).contiguous())
        self._live = self._find_live()
        used = {digest for node, digest in self._digests.items() if node in self._live}
        self.weights = {digest: weight for digest, weight in self.weights.items() if digest in used}

    def _find_symbols(self, dims: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], str]:
        """Names of the dynamic dimensions: the caller's; "batch" for the first dimensions that are equal in the
        example, also if inputs of a batch of one could be broadcast; else the first input and axis."""
        names: dict[str, str] = {}
        places = [(name, axis, extent) for name, node in self._inputs.items()
                  for axis, extent in enumerate(node.meta["val"].shape) if not isinstance(extent, int)]
        for name, axis, extent in places:
            if (name, axis) in dims:
                names.setdefault(str(extent.node.expr), dims[name, axis])
        batch = None
        for name, axis, extent in places:
            if axis == 0 and str(extent.node.expr) not in names:
                batch = batch or extent.node.hint
                names[str(extent.node.expr)] = "batch" if batch == extent.node.hint else f"{name}.0"
        for name, axis, extent in places:
            names.setdefault(str(extent.node.expr), f"{name}.{axis}")
        return {(name, axis): names[str(extent.node.expr)] for name, axis, extent in places}

    def _check(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Raises if the export fixed other extents."""
        bound: dict[Any, tuple[int, str]] = {}
        derived = []
        for name, node in self._inputs.items():
            wanted, given = node.meta["val"].shape, list(shapes[name])
            if len(wanted) != len(given):
                raise InvalidArgument("", f"input '{name}' has {len(wanted)} dimensions, but {len(given)} are given")
            for axis, (extent, found) in enumerate(zip(wanted, given)):
                place = f"dimension {axis} of input '{name}'"
                if isinstance(extent, int):
                    if extent != found:
                        raise InvalidArgument("", f"input '{name}' has extent {extent} in dimension {axis}, but {found} "
                                              f"is given: torch.export fixed it; dynamic_shapes={{'{name}': {{{axis}: "
                                              "torch.export.Dim.DYNAMIC}} opens it, or names what fixes it")
                    continue
                expression = extent.node.expr
                if not expression.is_Symbol:
                    derived.append((expression, found, place))
                elif expression in bound and bound[expression][0] != found:
                    raise InvalidArgument("", f"{place} is {found}, but {bound[expression][1]}, which must be equal, "
                                          f"is {bound[expression][0]}")
                else:
                    bound.setdefault(expression, (found, place))
        for symbol, (found, place) in bound.items():
            allowed = self._program.range_constraints.get(symbol)
            # As in torch.export a lower bound of two only says that the example was no special case.
            if allowed is not None and not (allowed.lower <= max(found, 2) and found <= allowed.upper):
                raise InvalidArgument("", f"{place} is {found}, but the exported program takes {allowed.lower} to "
                                      f"{allowed.upper}; dynamic_shapes gives another range")
        for expression, found, place in derived:
            if (wanted := int(expression.subs({symbol: value for symbol, (value, _) in bound.items()}))) != found:
                raise InvalidArgument("", f"{place} is {found}, but must be {wanted}")

    def _structure_of(self, program: ExportedProgram) -> tuple[Rebuild, list[str]]:
        """The structure of the result of a program that was not traced here."""
        spec = program.call_spec.out_spec
        marks = [torch.empty(()) for _ in range(spec.num_leaves)]
        whole = pytree.tree_unflatten(marks, spec)
        fixed = {i: part.arg.value for i, part in enumerate(
            part for part in program.graph_signature.output_specs if part.kind is OutputKind.USER_OUTPUT)
            if isinstance(part.arg, ConstantArgument)}
        names = [".".join(re.findall(r"\w+", pytree.keystr(path))) or "output"
                 for path, _ in pytree.tree_flatten_with_path(whole)[0]]
        if not fixed and spec.is_leaf():
            return next, names

        def rebuild(tensors: Iterator[Any]) -> Any:
            return pytree.tree_unflatten([fixed[i] if i in fixed else next(tensors) for i in range(len(names))], spec)

        return rebuild, [name for i, name in enumerate(names) if i not in fixed]


def _table() -> dict[Any, Any]:
    """PyTorch's decompositions, of all ops that mpc does not lower."""
    table = torch.export.default_decompositions()
    table.update(decompositions())
    for op in TABLE:
        table.pop(op, None)
    return table

