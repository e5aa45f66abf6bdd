#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Unpacks the output of pack.sh; if its programs do not run, builds the runtime with the
# packages in it.
# usage: build-runtime.sh [PACK=build-gpu/pack.tar.xz] [FOLDER=build-gpu-run]
# Afterwards FOLDER/pack is the pack and FOLDER/mpc the driver.
set -euo pipefail
cd "$(dirname "$0")/../.."
archive=${1:-build-gpu/pack.tar.xz}
folder=${2:-build-gpu-run}
if [ ! -f "$archive" ]; then
  echo "there is no $archive; make it with tools/gpu/pack.sh" >&2
  exit 1
fi
mkdir -p "$folder"
[ "$folder/pack" -nt "$archive" ] || { tar -C "$folder" -xf "$archive" && touch "$folder/pack"; }

# Use the prebuilt programs if they run.
bin=$(realpath "$folder")/pack/bin lib=$(realpath "$folder")/pack/lib
if LD_LIBRARY_PATH="$lib:${LD_LIBRARY_PATH:-}" "$bin/mpc" --help > /dev/null 2>&1; then
  cat > "$folder/mpc" << END
#!/usr/bin/env bash
LD_LIBRARY_PATH="$lib:\${LD_LIBRARY_PATH:-}" exec "$bin/mpc" "\$@"
END
  chmod +x "$folder/mpc"
  exit 0
fi

root=$(realpath "$folder")/pack/sysroot
libraries=$root/usr/lib/x86_64-linux-gnu
export PATH=$root/usr/bin:$PATH LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-}
export PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
cmake -S . -B "$folder/build" -G Ninja -DMPC_RUNTIME_ONLY=ON -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER=g++ -DCMAKE_PREFIX_PATH="$root/usr" > "$folder/build.log" || {
  tail -20 "$folder/build.log" >&2
  exit 1
}
ninja -C "$folder/build" >> "$folder/build.log" || {
  tail -20 "$folder/build.log" >&2
  exit 1
}
# A wrapper that finds the pack's libraries from any directory.
driver=$(find "$(realpath "$folder")/build" -name mpc -type f -perm -u+x | head -1)
cat > "$folder/mpc" <<END
#!/usr/bin/env bash
LD_LIBRARY_PATH="$libraries:\${LD_LIBRARY_PATH:-}" exec "$driver" "\$@"
END
chmod +x "$folder/mpc"
