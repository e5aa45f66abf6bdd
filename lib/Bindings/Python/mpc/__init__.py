# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mpc, a mixed-precision graph compiler: models as fast functions of arrays.

    import mpc
    f = mpc.compile("model.onnx", policy="mixed_bfloat16")
    y = f(x)
"""

from typing import Any as _Any

from . import _interpreter  # First: it refuses where the extension would break others.
from ._communicator import Communicator
from ._decoder import Decoder
from ._errors import Error, Internal, InvalidArgument, ModelWarning, NotFound, ResourceExhausted, Unavailable
from ._function import Function, compile, load
from ._policy import Policy, global_policy, policy, set_global_policy
from ._reports import CheckReport, Explanation
from ._trainer import Trainer

__all__ = ["CheckReport", "Communicator", "Decoder", "Error", "Explanation", "Function", "Internal",
           "InvalidArgument", "ModelWarning", "NotFound", "Policy", "ResourceExhausted", "Trainer", "Unavailable",
           "compile", "global_policy", "load", "policy", "set_global_policy"]


def __getattr__(name: str) -> _Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("mpc-compiler")
    raise AttributeError(f"module 'mpc' has no attribute '{name}'")
