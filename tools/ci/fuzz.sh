#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs every libFuzzer program of test/fuzz for SECONDS; findings are stored in
# build-fuzz/found/NAME. Seeds are the tests' input files; the corpus is stored
# in build-fuzz/corpus/NAME. usage: fuzz.sh [SECONDS] [NAME...]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-60}
shift || true
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(onnx text arrays idx tensors executable policy config gguf)
tools/install-deps.sh
tools/ci/build.sh fuzz "${names[@]/#/fuzz-}"

# Seed files of a program, by name: the tests' inputs. A missing directory (the
# tests' script sets up ONNX's own) is not a failure.
seeds() {
  case $1 in
  onnx) find test/Inputs /usr/share/libonnx-testdata/data/node .venv/onnx-tests/lib \
    -name '*.onnx' -size -8k 2>/dev/null || true ;;
  text) find build-fuzz/texts -name '*.mlir' ;;
  arrays) find test/Inputs build-fuzz/compiled \( -name '*.npz' -o -name '*.npy' \) -size -64k ;;
  idx) find build-fuzz/compiled -name '*-ubyte*' ;;
  tensors) find build-fuzz/compiled -name '*.safetensors' ;;
  executable) find build-fuzz/compiled -name '*.mpcx' ;;
  gguf) find test/Inputs -name '*.gguf' ;;
  config) find build-fuzz/configs -name '*.json' ;;
  policy) find lib/Policy/data test/Dialect test/Inputs -name '*.json' ;;
  esac
}

mkdir -p build-fuzz/texts build-fuzz/compiled build-fuzz/configs
# Each section of a test file is a separate model.
python3 - <<'PYTHON'
import pathlib
for file in sorted(pathlib.Path("test").rglob("*.mlir")):
    for number, part in enumerate(file.read_text().split("// -----")):
        lines = [line for line in part.splitlines() if not line.lstrip().startswith("//")]
        if 0 < sum(map(len, lines)) < 8000:
            name = "-".join(file.parts[1:])[:-len(".mlir")]
            pathlib.Path(f"build-fuzz/texts/{name}-{number}.mlir").write_text("\n".join(lines) + "\n")
PYTHON
# Compiled models and arrays need the compiler of the default build, if present.
if [ -x build/bin/mpc ]; then
  for model in small-cnn half-matmul; do
    for target in avx2 avx512; do
      build/bin/mpc compile "test/Inputs/onnx/$model.onnx" --target "cpu:$target" --quiet \
        -o "build-fuzz/compiled/$model-$target.mpcx" >/dev/null || true
    done
  done
fi
python3 - <<'PYTHON'
# Configurations of Hugging Face models, one for each architecture in the table.
import json
import pathlib
import re

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 97,
         "n_embd": 32, "n_layer": 2, "n_head": 4, "eos_token_id": [1, 2]}
MORE = {"Llama": {"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}},
        "Qwen2": {"rope_parameters": {"rope_type": "yarn", "factor": 4, "rope_theta": 1e6}},
        "Phi3": {"rope_scaling": {"type": "longrope", "short_factor": [1, 1, 1, 2], "long_factor": [2] * 4}},
        "Gemma3": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 16}}
table = pathlib.Path("lib/Import/Checkpoint/Families.cpp").read_text()
for name in re.findall(r'\{"(\w+)"', table):
    if any(part in name for part in ("For", "Head", "Model")):
        family = next((key for key in MORE if name.startswith(key)), None)
        text = json.dumps({"architectures": [name], **SIZES, **MORE.get(family, {})})
        pathlib.Path(f"build-fuzz/configs/{name}.json").write_text(text)
PYTHON
python3 - <<'PYTHON'
# Small NumPy arrays of several types, stored and deflated;
# idx files, plain and gzipped; safetensors files with and without metadata.
import gzip
import json
import struct
import zipfile


def npy(descr, shape, data, order="False", version=1):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    size = 2 if version == 1 else 4
    header += b" " * (-(8 + size + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(size, "little") + header + data


arrays = {"f4": npy("<f4", (2, 3), struct.pack("<6f", *range(6))),
          "i8": npy("<i8", (4,), struct.pack("<4q", *range(4)), version=2),
          "turned": npy("<f8", (2, 2), struct.pack("<4d", *range(4)), order="True"),
          "scalar": npy("|b1", (), b"\1"), "half": npy("<f2", (0, 3), b""), "bf16": npy("<V2", (2,), bytes(4))}
for name, data in arrays.items():
    with open(f"build-fuzz/compiled/{name}.npy", "wb") as file:
        file.write(data)
for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(f"build-fuzz/compiled/arrays-{kind}.npz", "w", kind) as archive:
        for name, data in arrays.items():
            archive.writestr(name + ".npy", data)

for kind, (code, letter) in enumerate({8: "B", 9: "b", 11: "h", 12: "i", 13: "f", 14: "d"}.items()):
    extents = (3, 2, 2)[:1 + kind % 3]
    count = 3 * 2 ** (len(extents) - 1)
    data = bytes([0, 0, code, len(extents)]) + struct.pack(f">{len(extents)}I", *extents)
    data += struct.pack(f">{count}{letter}", *range(count))
    with open(f"build-fuzz/compiled/type{code}-ubyte", "wb") as file:
        file.write(data)
    with open(f"build-fuzz/compiled/type{code}-ubyte.gz", "wb") as file:
        file.write(gzip.compress(data, mtime=0))

sizes = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
for name, kinds, metadata in (("one", ["F32"], None), ("all", sizes, {"format": "pt"}), ("none", [], {"step": "3"})):
    header, end = ({"__metadata__": metadata} if metadata else {}), 0
    for number, kind in enumerate(kinds):
        shape = [(), (2,), (2, 3), (0, 4)][(number + 1) % 4]
        begin, count = end, 1
        for extent in shape:
            count *= extent
        end += count * sizes[kind]
        header[f"layer/{kind}"] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with open(f"build-fuzz/compiled/{name}.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + bytes(end))
PYTHON

# As in asan.sh; LLVM's process-lifetime allocations are not findings.
export ASAN_OPTIONS=allocator_may_return_null=1:allow_user_poisoning=0:detect_stack_use_after_return=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
# Runs one program and prints a summary.
fuzz() {
  local name=$1 first=build-fuzz/seeds/$1 status=0
  rm -rf "$first"
  mkdir -p "$first" "build-fuzz/corpus/$name" "build-fuzz/found/$name"
  # Names are not unique across directories.
  seeds "$name" | while read -r file; do
    cp "$file" "$first/$(sha256sum <"$file" | cut -c1-16)"
  done
  build-fuzz/bin/fuzz-"$name" "build-fuzz/corpus/$name" "$first" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 -print_final_stats=1 -verbosity=1 \
    -artifact_prefix="build-fuzz/found/$name/" 2>"build-fuzz/$name.log" >&2 || status=1
  echo "$name: $(find "$first" -type f | wc -l) files to start from, $(grep -oE "number_of_executed_units: +[0-9]+" \
    "build-fuzz/$name.log" | grep -oE "[0-9]+$") inputs, $([ "$status" = 0 ] && echo clean || echo FAILED)"
  [ "$status" = 0 ] || grep -E "ERROR|SUMMARY|runtime error" "build-fuzz/$name.log" | head -5
  return "$status"
}

# One per core.
status=0 running=0
for name in "${names[@]}"; do
  fuzz "$name" &
  running=$((running + 1))
  [ "$running" -lt "$(nproc)" ] || { wait -n || status=1; running=$((running - 1)); }
done
while [ "$running" -gt 0 ]; do
  wait -n || status=1
  running=$((running - 1))
done
exit "$status"
