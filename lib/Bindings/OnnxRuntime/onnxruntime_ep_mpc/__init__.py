# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugin execution provider of ONNX Runtime that compiles subgraphs with mpc.

    import onnxruntime, onnxruntime_ep_mpc
    onnxruntime.register_execution_provider_library("mpc", onnxruntime_ep_mpc.get_library_path())
"""
import pathlib

__all__ = ["get_ep_name", "get_ep_names", "get_library_path"]


def get_library_path():
    """Returns the path of the shared library for register_execution_provider_library()."""
    return str(pathlib.Path(__file__).absolute().parent / "libonnxruntime_ep_mpc.so")


def get_ep_name():
    """Returns the name of the execution provider, which devices and sessions show."""
    return "MpcExecutionProvider"


def get_ep_names():
    """Returns the names of all execution providers of the library."""
    return [get_ep_name()]
