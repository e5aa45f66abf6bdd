# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizers by name, and their state in the format of `torch.optim`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _mpc
from ._errors import InvalidArgument

# Hyperparameters: mpc's name, the key in torch's parameter group, and the default. Decay and Adam's betas are
# handled separately.
_NUMBERS: dict[str, list[tuple[str, str, Any]]] = {
    "sgd": [("momentum", "momentum", 0), ("dampening", "dampening", 0), ("nesterov", "nesterov", False)],
    "adam": [("epsilon", "eps", 1e-8), ("amsgrad", "amsgrad", False)],
    "rmsprop": [("alpha", "alpha", 0.99), ("epsilon", "eps", 1e-8), ("momentum", "momentum", 0),
                ("centered", "centered", False)],
    "adagrad": [("learning_rate_decay", "lr_decay", 0), ("epsilon", "eps", 1e-10)],
}
_NUMBERS["adamw"] = _NUMBERS["adam"]
# Optimizer state of a parameter: torch's key and the suffix of mpc's name.
_STATES = {"sgd": {"momentum_buffer": "momentum"},
           "adam": {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq", "max_exp_avg_sq": "max_exp_avg_sq"},
           "rmsprop": {"square_avg": "square_avg", "momentum_buffer": "momentum_buffer", "grad_avg": "grad_avg"},
           "adagrad": {"sum": "sum"}}
_STATES["adamw"] = _STATES["adam"]
# Implementation options in torch's groups, with torch's defaults.
_MANNER: dict[str, dict[str, Any]] = {
    "sgd": {"foreach": None, "differentiable": False, "fused": None},
    "adam": {"foreach": None, "capturable": False, "differentiable": False, "fused": None},
    "rmsprop": {"capturable": False, "foreach": None, "differentiable": False},
    "adagrad": {"foreach": None, "differentiable": False, "fused": None, "initial_accumulator_value": 0},
}
_MANNER["adamw"] = _MANNER["adam"]


def split_kind(text: str, what: str) -> tuple[str, dict[str, str]]:
    """Parses "KIND,field=value,..." as in `mpc train`."""
    if not isinstance(text, str):
        raise InvalidArgument(what, f"is {text!r}, not text such as 'KIND,FIELD=VALUE'")
    kind, *parts = text.split(",")
    fields = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidArgument(what, f"'{part}' is not FIELD=VALUE")
        fields[key] = value
    return kind, fields


def number(what: str, key: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidArgument(what, f"'{value}' is not a number for {key}") from None


def choose_optimizer(options: _mpc.OptimizerOptions, text: str, numbers: Mapping[str, Any]) -> None:
    """Sets the kind and its hyperparameters, whose values the compiler checks."""
    kind, fields = split_kind(text, "optimizer")
    if kind not in _STATES:
        raise InvalidArgument("optimizer", f"is '{kind}', none of {', '.join(sorted(_STATES))}")
    options.kind = kind
    found = {**fields, **numbers}
    options.form = found.pop("form", options.form)
    options.numbers = {key: number("optimizer", key, value) for key, value in found.items()}


def param_group(options: _mpc.OptimizerOptions, rate: float, parameters: Sequence[str]) -> dict[str, Any]:
    """A parameter group as in `torch.optim.Optimizer.state_dict()`."""
    kind, numbers = options.kind, options.numbers
    group: dict[str, Any] = {"lr": rate, "weight_decay": _decay(options)}
    for key, name, default in _NUMBERS[kind]:
        value = numbers.get(key, default)
        group[name] = bool(value) if isinstance(default, bool) else value
    if kind in ("adam", "adamw"):
        group["betas"] = (numbers.get("beta1", 0.9), numbers.get("beta2", 0.999))
        group["decoupled_weight_decay"] = kind == "adamw"
    group["maximize"] = bool(numbers.get("maximize", 0))
    return {**group, **_MANNER[kind], "params": list(range(len(parameters)))}


def _decay(options: _mpc.OptimizerOptions) -> float:
    if options.weight_decay is not None:
        return options.weight_decay
    return 0.01 if options.kind == "adamw" else 0


def state_names(options: _mpc.OptimizerOptions, parameters: Sequence[str]) -> set[str]:
    """Names of possible optimizer state, in mpc's form."""
    return {f"{name}.{end}" for name in parameters for end in _STATES[options.kind].values()}


def to_torch(options: _mpc.OptimizerOptions, rate: float, parameters: Sequence[str], state: Mapping[str, Any],
             step: Any) -> dict[str, Any]:
    """The equivalent state of a torch optimizer: `state` is mpc's, by name; `step` creates a parameter's
    step counter."""
    if options.form != "torch":
        raise InvalidArgument("optimizer", f"has the form '{options.form}', whose state has no torch names")
    entries: dict[int, dict[str, Any]] = {}
    for index, name in enumerate(parameters):
        entry = {key: state[f"{name}.{end}"] for key, end in _STATES[options.kind].items() if f"{name}.{end}" in state}
        if entry:
            entries[index] = entry if options.kind == "sgd" else {"step": step(), **entry}
    return {"state": entries, "param_groups": [param_group(options, rate, parameters)]}


def from_torch(options: _mpc.OptimizerOptions, parameters: Sequence[str], state: Mapping[str, Any],
               given: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Returns (arrays by mpc's names, number of updates) of a state that torch or `to_torch` wrote. Without
    a counter, the number is at least one if there is any state, since a first step reinitializes buffers.

    Hyperparameters are compiled into the step and must be equal, except the learning rate, which follows
    the schedule.
    """
    if not {"param_groups", "state"} <= set(given):
        raise InvalidArgument("optimizer", "is not a torch state, which has param_groups and state")
    groups = given["param_groups"]
    indices = [index for group in groups for index in group["params"]]
    if len(indices) != len(parameters):
        raise InvalidArgument("optimizer", f"has the state of {len(indices)} parameters, but {len(parameters)} are "
                              "trained")
    wanted = param_group(options, 0, parameters)
    # Keys that torch's schedulers add to a group are ignored.
    others = {key for kind in _NUMBERS for _, key, _ in _NUMBERS[kind]} | {"betas"}
    for group in groups:
        if foreign := sorted((others - set(wanted)).intersection(group)):
            raise InvalidArgument("optimizer", f"has {foreign[0]} in its state, which {options.kind} has not: it is of "
                                  "another optimizer")
        for key, value in wanted.items():
            held: Any = group.get(key, value)
            same = tuple(held) == value if key == "betas" else held == value
            if key not in ("lr", "params", *_MANNER[options.kind]) and not same:
                raise InvalidArgument("optimizer", f"has {key} {held} in its state, but {value} in the compiled step; "
                                      "make the trainer with that")
    arrays: dict[str, Any] = {}
    steps: set[int] = set()
    for index, name in zip(indices, parameters):
        entry = given["state"].get(index, {})
        steps.update(int(entry[key]) for key in ("step",) if key in entry)
        for key, end in _STATES[options.kind].items():
            if f"{name}.{end}" in state and entry.get(key) is not None:
                arrays[f"{name}.{end}"] = entry[key]
            elif f"{name}.{end}" in state and given["state"]:
                raise InvalidArgument("optimizer", f"has no {key} of parameter {index} ('{name}')")
    if len(steps) > 1:
        raise InvalidArgument("optimizer", f"has parameters of {sorted(steps)} steps; they have one count here")
    return arrays, next(iter(steps), max(1, int(state["step"])) if arrays else None)
