#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Deploys the Python package to a machine with a GPU, g++, Python's headers and PyTorch, but
# without LLVM or a network, and checks GPU arrays there (python_arrays.py).
# usage: python.sh pack [FOLDER=build-gpu/python]    where the package is built
#        python.sh check [FOLDER=build-gpu/python]   there; needs only FOLDER and this tree
set -euo pipefail
cd "$(dirname "$0")/../.."
step=${1:-}
folder=${2:-build-gpu/python}

case $step in
pack)
  build="build-gpu/python-build"
  python=.venv/python/bin/python
  rm -rf "$folder"
  mkdir -p "$folder/lib" "$build"
  launcher=()
  if command -v ccache > /dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -S . -B "$build" -G Ninja -DMPC_RUNTIME_ONLY=ON -DMPC_PYTHON=ON -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER=g++ -DPython_EXECUTABLE="$PWD/$python" "${launcher[@]}" > "$build.log"
  ninja -C "$build" MpcRuntime >> "$build.log" || { tail -20 "$build.log" >&2; exit 1; }
  library=$(objdump -p "$build/lib/libmpc_runtime.so" | awk '/SONAME/ {print $2}')
  cp -L "$build/lib/$library" "$folder/lib/"
  strip "$folder/lib/$library"
  # Libraries it may lack, except the C and C++ libraries.
  ldd "$folder/lib/$library" | awk '/nettle/ {print $3}' | xargs -I{} cp -L {} "$folder/lib/"
  cp -r "$("$python" -c 'import nanobind, os; print(os.path.dirname(nanobind.__file__))')" "$folder/nanobind"
  PYTHONPATH=build/python "$python" tools/gpu/python_arrays.py make "$folder/models"
  du -sh "$folder"
  ;;
check)
  python=${PYTHON:-python3}
  package=$(realpath "$folder")/package
  lib=$(realpath "$folder")/lib
  nanobind=$(realpath "$folder")/nanobind
  mkdir -p "$package"
  cp -r lib/Bindings/Python/mpc "$package/"
  read -r suffix headers < <("$python" -c \
    'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_path("include"))')
  flags=(-std=c++20 -O2 -DNDEBUG -fPIC -fvisibility=hidden -fno-strict-aliasing -w -Iinclude
         -isystem "$headers" -isystem "$nanobind/include" -isystem "$nanobind/ext/robin_map/include")
  # shellcheck disable=SC2016  # what xargs starts expands them
  for source in lib/Bindings/Python/*.cpp "$nanobind/src/nb_combined.cpp"; do
    case $source in
    */Compiler.cpp | */CompiledFunction.cpp | */Decoding.cpp | */Training.cpp) ;;
    *) echo "$source" ;;
    esac
  done | xargs -P "$(nproc)" -I{} sh -c \
    'exec g++ "$@" -c "{}" -o "$0/$(basename "{}" .cpp).o"' "$package" "${flags[@]}"
  g++ -shared -o "$package/mpc/_mpc$suffix" "$package"/*.o "$lib"/libmpc_runtime.so.* -Wl,-rpath,"$lib"
  # The package's libraries find each other by rpath.
  LD_LIBRARY_PATH="$lib:${LD_LIBRARY_PATH:-}" PYTHONPATH=$package "$python" tools/gpu/python_arrays.py check \
    "$folder/models"
  ;;
*)
  sed -n '3,8p' "$0"
  exit 2
  ;;
esac
