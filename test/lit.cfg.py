# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# FileCheck tests. Features name requirements beyond the tree: `shared-models` (the folder of model
# cases next to the project), `shared-recordings` (recordings of other systems, next to the project),
# `avx512`.
import ctypes
import os
import pathlib
import shutil

import lit.formats
import lit.llvm

lit.llvm.initialize(lit_config, config)

config.name = "mpc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "lib", "CMakeLists.txt"]
# Tests that take minutes: check-mpc-long runs them and nothing else.
if not lit_config.params.get("long"):
    config.excludes.append("Long")
config.test_source_root = os.path.join(config.mpc_source_dir, "test")

tools = ["mpc", "mpc-opt", "mpc-translate", "mpc-lsp-server", "mpc-reduce", "mpc-smith", "mpc-replay", "product-check", "FileCheck", "not", "count",
         "split-file"]
lit.llvm.llvm_config.add_tool_substitutions(
    tools, [os.path.join(config.mpc_build_dir, "bin"), config.llvm_tools_dir])
# Scripts of tests call the programs by name.
lit.llvm.llvm_config.with_environment("PATH", os.path.join(config.mpc_build_dir, "bin"), append_path=True)
lit.llvm.llvm_config.with_environment("FILECHECK_OPTS", "-enable-var-scope")
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        lit.llvm.llvm_config.with_environment(name, os.environ[name])

config.substitutions.append(("%python", config.python))
config.substitutions.append(("%mpc_src", config.mpc_source_dir))
config.substitutions.append(("%mpc_build", config.mpc_build_dir))
# A program that links sanitized libraries must be sanitized itself; else any compiler will do.
host = f"-DCMAKE_CXX_COMPILER={config.cxx} -DCMAKE_CXX_FLAGS='{config.cxx_flags}'"
config.substitutions.append(("%host_settings", host if "-fsanitize" in config.cxx_flags else ""))
c_host = f"-DCMAKE_C_COMPILER={config.cc} -DCMAKE_C_FLAGS='{config.cxx_flags}'"
config.substitutions.append(("%c_host_settings", c_host if "-fsanitize" in config.cxx_flags else ""))
config.substitutions.append(("%cc", f"{config.cc} {config.cxx_flags}" if "-fsanitize" in config.cxx_flags else "cc"))
if "-fsanitize" in config.cxx_flags:
    config.available_features.add("sanitized")
config.substitutions.append(("%recordings", os.path.join(config.mpc_build_dir, "test", "Replay", "Recordings")))
config.substitutions.append(("%inputs", os.path.join(config.mpc_source_dir, "test", "Inputs")))

models = pathlib.Path(config.mpc_source_dir).parent / "shared" / "models"
if models.is_dir():
    config.available_features.add("shared-models")
    config.substitutions.append(("%shared_models", str(models)))
recordings = models.parent / "fixtures"
if (recordings / "autocast").is_dir():
    config.available_features.add("shared-recordings")
    config.substitutions.append(("%shared_recordings", str(recordings)))
if shutil.which("rustc"):
    config.available_features.add("rustc")
if shutil.which("mpirun"):
    config.available_features.add("mpirun")
if shutil.which("valgrind"):
    config.available_features.add("valgrind")
if shutil.which("dot"):
    config.available_features.add("graphviz")
# A browser, and PyPI's playwright, which drives it, in a virtual environment (docs/HowTo/Testing.md).
browser = pathlib.Path(config.mpc_source_dir) / ".venv" / "browser"
if shutil.which("chromium") and any(browser.glob("lib/python3*/site-packages/playwright")):
    config.available_features.add("browser")
    config.substitutions.append(("%browser_python", str(browser / "bin" / "python")))
if pathlib.Path("/usr/share/libonnx-testdata/data/node").is_dir():
    config.available_features.add("onnx-testdata")
# ONNX's node tests of PyPI's onnx 1.22.0 in a virtual environment (docs/Reference/Conformance.md).
node_tests = sorted(pathlib.Path(config.mpc_source_dir).glob(
    ".venv/onnx-tests/lib/python3*/site-packages/onnx/backend/test/data/node"))
if node_tests:
    config.available_features.add("onnx-node-tests")
    config.substitutions.append(("%onnx_node_tests", str(node_tests[0])))
# JAX with Flax and Equinox, the same (docs/Reference/StableHLO.md).
jax = pathlib.Path(config.mpc_source_dir) / ".venv" / "jax" / "bin" / "python"
if jax.exists():
    config.available_features.add("jax")
    config.substitutions.append(("%jax_python", str(jax)))
# The Python package, where the build found nanobind, and interpreters that have pytest: the one of
# the build, and those with JAX and PyTorch.
package = next(pathlib.Path(config.mpc_build_dir, "python", "mpc").glob("_mpc*.so"), None)
for feature, folder, name in (("python-package", "python", "package"), ("python-package-jax", "jax", "jax"),
                              ("python-package-torch", "bench", "torch")):
    scripts = pathlib.Path(config.mpc_source_dir) / ".venv" / folder / "bin"
    if package and (scripts / "pytest").exists():
        config.available_features.add(feature)
        if name != "jax":
            config.substitutions.append((f"%{name}_python", str(scripts / "python")))
# The same interpreter has ONNX Runtime; the plugin for it is next to the package.
bench = pathlib.Path(config.mpc_source_dir) / ".venv" / "bench"
if ("python-package-torch" in config.available_features and any(bench.glob("lib/python3*/site-packages/onnxruntime"))
        and any(pathlib.Path(config.mpc_build_dir, "python", "onnxruntime_ep_mpc").glob("*.so"))):
    config.available_features.add("python-package-onnxruntime")
    config.substitutions.append(("%onnxruntime_python", str(bench / "bin" / "python")))
# An interpreter without a lock, for which the test builds the extension itself.
free_threaded = pathlib.Path(config.mpc_source_dir, ".venv", "free-threaded", "bin", "python")
if package and free_threaded.exists():
    config.available_features.add("python-free-threaded")
    config.substitutions.append(("%free_threaded_python", str(free_threaded)))
# Python with the packages onnx and onnxruntime (tools/mpc-smith/onnx_graphs.py).
onnx_smith = pathlib.Path(config.mpc_source_dir, ".venv", "onnx-smith", "bin", "python3")
if onnx_smith.exists():
    config.available_features.add("onnx-smith")
    config.substitutions.append(("%onnx_smith_python", str(onnx_smith)))
cpu = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
if " avx512f " in cpu and " avx512bw " in cpu and " avx512vl " in cpu and " avx512dq " in cpu:
    config.available_features.add("avx512")

# NVRTC makes code for GPUs without one; nvdisasm is PyPI's nvidia-cuda-nvdisasm in a virtual
# environment (docs/HowTo/Testing.md).
try:
    ctypes.CDLL("libnvrtc.so.13")
    config.available_features.add("nvrtc")
except OSError:
    pass
nvdisasm = sorted(pathlib.Path(config.mpc_source_dir).glob(".venv/*/lib/python3*/site-packages/nvidia/*/bin/nvdisasm"))
if nvdisasm:
    config.available_features.add("nvdisasm")
    config.substitutions.append(("%nvdisasm_root", str(nvdisasm[0].parents[1])))
    config.substitutions.append(("%nvdisasm", str(nvdisasm[0])))
# The caches of compiles stay inside the build.
lit.llvm.llvm_config.with_environment("MPC_CACHE_DIR", os.path.join(config.mpc_build_dir, "test", "cache"))
# A driver that needs no GPU, for programs that find it by LD_LIBRARY_PATH, and the toolkit's
# header for those that have CUDA of their own.
config.substitutions.append(("%recording_driver", os.path.join(config.mpc_build_dir, "test", "recording")))
if any(os.path.exists(os.path.join(folder, "cuda.h"))
       for folder in ("/usr/include", "/usr/local/include", "/usr/local/cuda/include")):
    config.available_features.add("cuda-header")
