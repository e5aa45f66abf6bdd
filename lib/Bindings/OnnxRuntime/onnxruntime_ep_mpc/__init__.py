# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugin execution provider of ONNX Runtime that compiles subgraphs with mpc.

    import onnxruntime, onnxruntime_ep_mpc
    onnxruntime.register_execution_provider_library("mpc", onnxruntime_ep_mpc.get_library_path())
"""
import importlib.metadata
import pathlib

__all__ = ["get_ep_name", "get_ep_names", "get_library_path"]


def get_library_path():
    """Returns the path of the shared library for register_execution_provider_library().

    Raises ImportError if the installed mpc-compiler, whose libraries it loads, has another version.
    """
    try:
        own = importlib.metadata.version("onnxruntime-ep-mpc")
    except importlib.metadata.PackageNotFoundError:  # a build folder, with libraries of one build
        own = None
    try:
        compiler = importlib.metadata.version("mpc-compiler")
    except importlib.metadata.PackageNotFoundError:
        compiler = "none"
    if own and compiler != own:
        raise ImportError(f"onnxruntime-ep-mpc {own} needs mpc-compiler {own}, but {compiler} is installed; "
                          f"run pip install mpc-compiler=={own}")
    return str(pathlib.Path(__file__).absolute().parent / "libonnxruntime_ep_mpc.so")


def get_ep_name():
    """Returns the name of the execution provider, which devices and sessions show."""
    return "MpcExecutionProvider"


def get_ep_names():
    """Returns the names of all execution providers of the library."""
    return [get_ep_name()]
