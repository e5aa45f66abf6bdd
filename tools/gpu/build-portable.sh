#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the programs in the pack: the runtime's mpc, answers, prelude-check and
# product-check, with libraries that another machine may lack. They depend only on its C
# library, version GLIBC or later, and libgcc_s. usage: build-portable.sh PACK [BUILD]
#
# Writes PACK/bin and PACK/lib; fails if a program or library needs a newer C library.
set -euo pipefail
cd "$(dirname "$0")/../.."
pack=$1
build=${2:-build-gpu/portable}
newest=2.34
mkdir -p "$build" "$pack/bin" "$pack/lib"
launcher=()
if command -v ccache > /dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S . -B "$build" -G Ninja -DMPC_RUNTIME_ONLY=ON -DMPC_PORTABLE=ON -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER=g++ -DCMAKE_SKIP_RPATH=ON \
  "${launcher[@]}" > "$build.log"
ninja -C "$build" >> "$build.log" || {
  tail -20 "$build.log" >&2
  exit 1
}
for program in mpc answers prelude-check product-check; do
  cp "$build/bin/$program" "$pack/bin/"
  strip "$pack/bin/$program"
  # The loader, the C library and the unwinder are the machine's own.
  ldd "$pack/bin/$program" | awk '/=> \// && !/\/(libc|libm|libdl|libpthread|librt|libgcc_s)\.so/ {print $3}' |
    while read -r library; do
      cp -L "$library" "$pack/lib/"
    done
done
status=0
for file in "$pack"/bin/* "$pack"/lib/*; do
  while read -r version; do
    if [ "$(printf '%s\n' "$version" "$newest" | sort -V | tail -1)" != "$newest" ]; then
      echo "$file needs GLIBC_$version, newer than $newest" >&2
      status=1
    fi
  done < <(objdump -T "$file" | grep -o 'GLIBC_2\.[0-9.]*' | sort -u | sed 's/GLIBC_//')
  if objdump -p "$file" | grep -q 'NEEDED.*libstdc++'; then
    echo "$file needs libstdc++" >&2
    status=1
  fi
done
exit $status
