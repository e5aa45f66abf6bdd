# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Precision policies as objects, and the default policy."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import json
import logging
import os
import pathlib
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union

from . import _mpc
from ._errors import InvalidArgument, NotFound

PolicyLike = Union[str, "os.PathLike[str]", Mapping[str, Any], "Policy"]

_lock = threading.Lock()
_folder: tempfile.TemporaryDirectory[str] | None = None


@dataclass(frozen=True)
class _Summary:
    """The types of a policy. A plain Python object, since it may outlive the extension."""
    compute: str
    variable: str
    store: str
    accumulate: str
    output: str

    @classmethod
    def of(cls, found: _mpc.PolicySummary) -> _Summary:
        return cls(found.compute, found.variable, found.store, found.accumulate, found.output)


class Policy:
    """Precision policy: the compute type of each op. Immutable and thread-safe.

    `policy` is a built-in policy's name ("mixed_float16", ...; `Policy.names()` lists them), "auto" for
    the best of the device, a path that ends in .json, or the fields of such a file (docs/Reference/Policies.md) as
    a mapping. `overrides` assign types to ops, layers or names (`{"layer:encoder/.*": "float32",
    "op:softmax": "bfloat16"}`), `layers` policies to layers (`{"head": "float32"}`); both are added to
    the policy's own.

    Accepted wherever a policy's name is. Raises `mpc.InvalidArgument` if the policy does not exist or a
    field is invalid, `mpc.NotFound` if the file is missing.
    """

    __slots__ = ("_builtin", "_fields", "_summary")

    def __init__(self, policy: PolicyLike, *, overrides: Mapping[str, str] | None = None,
                 layers: Mapping[str, Any] | None = None, name: str | None = None):
        self._builtin: str | None = None
        self._fields: dict[str, Any] = {}
        self._summary: _Summary | None = None
        if isinstance(policy, Policy):
            self._builtin, self._fields = policy._builtin, dict(policy._fields)
        elif isinstance(policy, Mapping):
            self._fields = json.loads(json.dumps(dict(policy)))
        elif os.fspath(policy).endswith(".json"):
            self._fields = _read(os.fspath(policy))
        else:
            self._builtin = os.fspath(policy)
        if set(self._fields) == {"extends"}:
            self._builtin, self._fields = str(self._fields["extends"]), {}
        self._change(overrides, layers, name)
        self._check()

    def _change(self, overrides: Mapping[str, str] | None, layers: Mapping[str, Any] | None,
                name: str | None) -> None:
        if not overrides and not layers and name is None:
            return
        if self._builtin == "auto":
            raise InvalidArgument("policy 'auto'", "is an alias and cannot be changed; use the policy that it selects")
        if self._builtin is not None:
            self._fields = {"name": f"{self._builtin}_changed", "extends": self._builtin}
            self._builtin = None
        if name is not None:
            self._fields["name"] = name
        for field, more in (("overrides", overrides), ("layers", layers)):
            if more:
                self._fields[field] = {**self._fields.get(field, {}), **more}

    def _check(self) -> None:
        if self._builtin is None:
            self._fields.setdefault("name", "policy")
            self._summary = _Summary.of(_mpc.parse_policy(self.to_json(), str(self._fields["name"])))
        elif self._builtin != "auto":
            self._summary = _Summary.of(_mpc.read_policy(self._builtin))

    @staticmethod
    def names() -> list[str]:
        """The built-in policies."""
        return _mpc.builtin_policies()

    @classmethod
    def from_json(cls, text: str) -> Policy:
        """Parses the text of a policy file. `from_json(p.to_json()) == p`."""
        try:
            fields = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidArgument("policy", f"is not valid JSON: {error}") from None
        if not isinstance(fields, dict):
            raise InvalidArgument("policy", f"is a JSON {type(fields).__name__}, not an object")
        return cls(fields)

    def to_json(self, indent: int | None = None) -> str:
        """The text of a policy file, also for `mpc --policy FILE.json`."""
        fields = self._fields if self._builtin is None else {"extends": self._builtin}
        return json.dumps(fields, indent=indent)

    def _known(self) -> _Summary:
        return self._summary or _Summary.of(_mpc.read_policy(_mpc.best_policy("")[0]))

    @property
    def name(self) -> str:
        return self._builtin or str(self._fields["name"])

    @property
    def compute_dtype(self) -> str:
        """Compute type of contractions: "float16", ...; for "auto" that of this machine's CPU."""
        return self._known().compute

    @property
    def variable_dtype(self) -> str:
        """Storage type of parameters."""
        return self._known().variable

    @property
    def store_dtype(self) -> str:
        """Type of values between kernels."""
        return self._known().store

    @property
    def accumulate_dtype(self) -> str:
        """Accumulator type of contractions."""
        return self._known().accumulate

    @property
    def output_dtype(self) -> str:
        """Type that outputs and losses are rounded to."""
        return self._known().output

    @property
    def overrides(self) -> dict[str, str]:
        """Types of ops, layers and names, as in the constructor."""
        return dict(self._fields.get("overrides", {}))

    @property
    def layers(self) -> dict[str, Any]:
        """Policies of layers, as in the constructor."""
        return dict(self._fields.get("layers", {}))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self._builtin == other
        return isinstance(other, Policy) and (self._builtin, self._fields) == (other._builtin, other._fields)

    def __hash__(self) -> int:
        return hash(self._builtin or json.dumps(self._fields, sort_keys=True))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<mpc.Policy {self.name!r}: computes in {self.compute_dtype}, variables in {self.variable_dtype}>"

    def for_compiler(self) -> str:
        """A name or a file path, which is valid for the life of the process."""
        return self._builtin if self._builtin is not None else _write(self.name, self.to_json())


def _read(path: str) -> dict[str, Any]:
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise NotFound(path, f"cannot be read: {error.strerror}") from None
    _mpc.parse_policy(text, path)
    fields: dict[str, Any] = json.loads(text)
    fields.setdefault("name", pathlib.Path(path).stem)
    return fields


def _write(name: str, text: str) -> str:
    """Path of a file with that text, written once, since every compile reads it."""
    global _folder
    with _lock:
        if _folder is None:
            _folder = tempfile.TemporaryDirectory(prefix="mpc-policies-")
        folder = pathlib.Path(_folder.name, hashlib.sha256(text.encode()).hexdigest()[:16])
        path = folder / (re.sub(r"[^\w.-]", "_", name) + ".json")
        if not path.exists():
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return str(path)


# ===----------------------------------------------------------------------=== #
# Default policy
# ===----------------------------------------------------------------------=== #

_DEFAULT = Policy("float32")
_global = _DEFAULT
# Targets for which the default was commented on.
_advised: set[str] = set()
_scoped: contextvars.ContextVar[Policy | None] = contextvars.ContextVar("mpc_policy", default=None)


def as_policy(policy: PolicyLike | None) -> Policy:
    """Returns `policy`, or if None that of the innermost `with mpc.policy(...)`, else the global one."""
    if policy is None:
        return _scoped.get() or _global
    return policy if isinstance(policy, Policy) else Policy(policy)


def for_target(policy: Policy, target: str) -> Policy:
    """Resolves "auto" for `target`; returns other policies unchanged."""
    return Policy(_mpc.best_policy(target)[0]) if policy == "auto" else policy


def advise(policy: Policy, target: str) -> None:
    """Logs once per target what "auto" would select there, if nothing has chosen the policy."""
    if policy is not _DEFAULT or target in _advised:
        return
    _advised.add(target)
    best, reason = _mpc.best_policy(target)
    if best != policy.name:
        logging.getLogger("mpc").warning('the policy is %s, the default; policy="auto" is %s: %s', policy, best, reason)


def set_global_policy(policy: PolicyLike) -> None:
    """Sets the default policy of functions compiled from now on, in all threads. Initially "float32"."""
    global _global
    _global = Policy(policy)


def global_policy() -> Policy:
    """The default policy at this point."""
    return as_policy(None)


@contextlib.contextmanager
def policy(policy: PolicyLike) -> Iterator[Policy]:
    """Context manager that sets the default policy in this thread or task:

        with mpc.policy("mixed_bfloat16"):
            f = mpc.compile("model.onnx")
    """
    chosen = Policy(policy)
    token = _scoped.set(chosen)
    try:
        yield chosen
    finally:
        _scoped.reset(token)
