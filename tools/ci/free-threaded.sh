#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the Python package's extension for a free-threaded interpreter, in addition to that of
# the existing build, and runs the package's tests there.
# usage: free-threaded.sh PYTHON, which has nanobind, NumPy, ml_dtypes and pytest
set -euo pipefail
cd "$(dirname "$0")/../.."

python=$1
read -r suffix headers nanobind < <("$python" - <<'END'
import sysconfig, nanobind
if not sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise SystemExit("free-threaded.sh: this interpreter has a lock")
print(sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_path("include"), nanobind.include_dir())
END
)
[ -n "${nanobind:-}" ] || exit 1
module=build/python/mpc/_mpc$suffix
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c++20 -O2 -g0 -DNDEBUG -DNB_FREE_THREADED -fPIC -fvisibility=hidden -fno-strict-aliasing -w
       -Iinclude -Ibuild/include -isystem "$headers" -isystem "$nanobind"
       -isystem "$nanobind/../ext/robin_map/include")
# shellcheck disable=SC2016  # what xargs starts expands them
for source in lib/Bindings/Python/*.cpp "$nanobind/../src/nb_combined.cpp"; do
  [[ $source == */RuntimeOnly.cpp ]] || echo "$source"
done | xargs -P "$(nproc)" -I{} sh -c \
  'exec ccache clang++-22 "$@" -c "{}" -o "$0/$(basename "{}" .cpp).o"' "$work" "${flags[@]}"
clang++-22 -shared -fuse-ld=lld -o "$module" "$work"/*.o -Lbuild/lib -lmpc_jit -lmpc_runtime \
  -Wl,-rpath,"$PWD/build/lib" -Wl,-rpath-link,/usr/lib/llvm-22/lib
PYTHONPATH=build/python "$python" -m pytest -q -p no:cacheprovider test/Python
