//===- TargetInfo.cpp - facts about targets -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One row per CPU level and per CUDA architecture. Figures are dense rates in
// 1e12 operations per second and 1e9 bytes per second; 0: no such unit, or not
// known.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/TargetInfo.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/TargetParser/Host.h"

using namespace mpc;
using llvm::StringRef;

namespace {

struct Row {
  StringRef name;
  int computeCapability;
  double f64, f32, tf32, bf16, f16, f8, i8;
  double bandwidth;
};

} // namespace

// CPUs: one core of a Granite-Rapids-class server, measured: f32 FMA on zmm
// 0.214, AMX bf16 on random data 2.52, DRAM copy 13.8.
// ymm is half of zmm and double half of single by lane count; int8
// tiles hold twice the elements of bf16 ones. A bf16 or f16 product without
// tiles is widened to f32 first: vdpbf16ps reached 0.107, half of the FMA rate,
// and is not used.
//
// GPUs: NVIDIA's data sheets, the part named beside the row; dense figures,
// which are half of those printed "with sparsity".
static const Row kRows[] = {
    {"cpu:avx2", 0, 0.0535, 0.107, 0, 0, 0, 0, 0, 13.8},
    {"cpu:avx512", 0, 0.107, 0.214, 0, 0, 0, 0, 0, 13.8},
    {"cpu:avx512bf16", 0, 0.107, 0.214, 0, 0, 0, 0, 0, 13.8},
    {"cpu:amx", 0, 0.107, 0.214, 0, 2.52, 0, 0, 5.04, 13.8},
    // P100 SXM2 and P40: no tensor cores. The P100's packed halves are left
    // out, since no kernel here multiplies in them.
    {"cuda:sm_60", 60, 5.3, 10.6, 0, 0, 0, 0, 0, 732},
    {"cuda:sm_61", 61, 0.367, 11.76, 0, 0, 0, 0, 0, 346},
    // V100 SXM2.
    {"cuda:sm_70", 70, 7.8, 15.7, 0, 0, 125, 0, 0, 900},
    // Jetson AGX Xavier: capability known, rates not looked up.
    {"cuda:sm_72", 72, 0, 0, 0, 0, 0, 0, 0, 0},
    // T4.
    {"cuda:sm_75", 75, 0.253, 8.1, 0, 0, 65, 0, 130, 320},
    // A100 SXM, 40 GB: f64 on tensor cores.
    {"cuda:sm_80", 80, 19.5, 19.5, 156, 312, 312, 0, 624, 1555},
    // A10.
    {"cuda:sm_86", 86, 0.488, 31.2, 62.5, 125, 125, 0, 250, 600},
    {"cuda:sm_87", 87, 0, 0, 0, 0, 0, 0, 0, 0},
    {"cuda:sm_88", 88, 0, 0, 0, 0, 0, 0, 0, 0},
    // L40S.
    {"cuda:sm_89", 89, 1.43, 91.6, 183, 362, 362, 733, 733, 864},
    // H200: bf16 788 and copy 4300 measured on random data; tf32 and f8 are the
    // data sheet's 495 and 1979 in the same proportion, f32 and f64 the sheet.
    {"cuda:sm_90", 90, 67, 67, 394, 788, 788, 1576, 1576, 4300},
    // B200 and B300, an eighth of the HGX data sheet; int8 of B300 not looked
    // up.
    {"cuda:sm_100", 100, 37, 75, 1125, 2250, 2250, 4500, 4500, 8000},
    {"cuda:sm_103", 103, 1.25, 75, 1125, 2250, 2250, 4500, 0, 8000},
    {"cuda:sm_110", 110, 0, 0, 0, 0, 0, 0, 0, 0},
    // RTX 5090, f32 accumulation.
    {"cuda:sm_120", 120, 1.64, 104.8, 104.8, 209.5, 209.5, 419, 838, 1792},
    {"cuda:sm_121", 121, 0, 0, 0, 0, 0, 0, 0, 0},
};

/// How much of a rate is left where rows start at addresses that are no
/// multiple of 16 bytes. An estimate, on the careful side: such a kernel loads
/// single elements where the aligned one loads eight at once and copies them
/// asynchronously, and matrix units wait for it. Reports of real cases lie
/// between a factor of 1.3 and more than 10 (pytorch#90425, pytorch#146817).
static constexpr double kUnalignedRate = 0.5;

/// A node of a CUDA graph costs 1 to 1.5 microseconds; an estimate.
static constexpr double kGraphNodeSeconds = 1.25e-6;

static const Row *findRow(StringRef name) {
  for (const Row &row : kRows)
    if (row.name == name)
      return &row;
  return nullptr;
}

/// The best level of this machine; every one that the compiler runs on has at
/// least AVX2, or is refused later, by name.
static StringRef nativeName() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  if (features.lookup("amx-bf16"))
    return "cpu:amx";
  if (features.lookup("avx512bf16"))
    return "cpu:avx512bf16";
  return features.lookup("avx512f") ? "cpu:avx512" : "cpu:avx2";
}

MathType mpc::mathTypeOf(PolicyType type) {
  switch (type) {
  case PolicyType::Float64:
    return MathType::Float64;
  case PolicyType::Float32:
    return MathType::Float32;
  case PolicyType::TensorFloat32:
    return MathType::TensorFloat32;
  case PolicyType::BFloat16:
  case PolicyType::BFloat16x2:
  case PolicyType::BFloat16x3:
    return MathType::BFloat16;
  case PolicyType::Float16:
    return MathType::Float16;
  case PolicyType::Float8E4M3FN:
  case PolicyType::Float8E5M2:
    return MathType::Float8;
  }
  return MathType::Float32;
}

std::optional<TargetInfo> TargetInfo::parse(StringRef text) {
  std::string name =
      text == "cpu" || text == "cpu:native" ? nativeName().str() : text.str();
  // sm_90a and sm_100f are sm_90 and sm_100 with more instructions.
  if (StringRef(name).starts_with("cuda:") &&
      (name.back() == 'a' || name.back() == 'f'))
    name.pop_back();
  const Row *row = findRow(name);
  if (!row)
    return std::nullopt;
  TargetInfo info;
  info.kind = row->computeCapability ? Kind::Cuda : Kind::Cpu;
  info.name = name;
  info.computeCapability = row->computeCapability;
  return info;
}

llvm::SmallVector<StringRef> TargetInfo::names() {
  llvm::SmallVector<StringRef> all;
  for (const Row &row : kRows)
    all.push_back(row.name);
  return all;
}

/// Whether an architecture has matrix units for a type (CUDA C++ Programming
/// Guide, table of tensor core types by compute capability).
static bool hasTensorCores(int capability, MathType type) {
  switch (type) {
  case MathType::Float16:
    return capability >= 70;
  case MathType::Int8:
    return capability >= 72;
  case MathType::BFloat16:
  case MathType::TensorFloat32:
    return capability >= 80;
  case MathType::Float64:
    return capability == 80 || capability == 90 || capability == 100;
  case MathType::Float8:
    return capability >= 89;
  case MathType::Float32:
    return false;
  }
  return false;
}

/// Products of the narrow type that one product of this type takes.
static double productsOf(PolicyType type) {
  if (type == PolicyType::BFloat16x2)
    return 3;
  return type == PolicyType::BFloat16x3 ? 6 : 1;
}

bool TargetInfo::hasFastPath(PolicyType type) const {
  if (type == PolicyType::Float32)
    return true;
  if (type == PolicyType::Float64 && hasCeilings())
    return 2 * flopsPerSecond(type, /*aligned=*/true) >=
           flopsPerSecond(MathType::Float32, /*aligned=*/true);
  if (kind == Kind::Cuda)
    return hasTensorCores(computeCapability, mathTypeOf(type));
  return flopsPerSecond(type, /*aligned=*/true) >
         flopsPerSecond(MathType::Float32, /*aligned=*/true);
}

llvm::SmallVector<PolicyType> TargetInfo::fastTypes() const {
  llvm::SmallVector<PolicyType> types;
  for (PolicyType type :
       {PolicyType::Float64, PolicyType::Float32, PolicyType::TensorFloat32,
        PolicyType::BFloat16x3, PolicyType::BFloat16x2, PolicyType::BFloat16,
        PolicyType::Float16, PolicyType::Float8E4M3FN, PolicyType::Float8E5M2})
    if (hasFastPath(type))
      types.push_back(type);
  return types;
}

int64_t TargetInfo::multiple(PolicyType type) const {
  return multiple(mathTypeOf(type));
}

int64_t TargetInfo::multiple(MathType type) const {
  if (kind == Kind::Cpu) {
    // A tile of AMX has 16 rows of 64 bytes; vector kernels have blocks of one
    // register's columns.
    if (name == "cpu:amx" && type == MathType::BFloat16)
      return 32;
    if (name == "cpu:amx" && type == MathType::Int8)
      return 64;
    return name == "cpu:avx2" ? 8 : 16;
  }
  if (!hasTensorCores(computeCapability, type))
    return 1;
  // 16 bytes: the alignment that cuBLAS and cuDNN name for tensor cores in
  // NVIDIA's matrix multiplication guide, and that ldmatrix and 16-byte
  // cp.async need. cuBLASLt refuses fp8 without it.
  switch (type) {
  case MathType::Float64:
    return 2;
  case MathType::Float32:
    return 1;
  case MathType::TensorFloat32:
    return 4;
  case MathType::BFloat16:
  case MathType::Float16:
    return 8;
  case MathType::Float8:
  case MathType::Int8:
    return 16;
  }
  return 1;
}

bool TargetInfo::hasCeilings() const { return bytesPerSecond() > 0; }

double TargetInfo::flopsPerSecond(PolicyType type, bool aligned) const {
  return flopsPerSecond(mathTypeOf(type), aligned) / productsOf(type);
}

double TargetInfo::flopsPerSecond(MathType type, bool aligned) const {
  const Row *row = findRow(name);
  if (!row)
    return 0;
  double rate = 0;
  switch (type) {
  case MathType::Float64:
    rate = row->f64;
    break;
  case MathType::Float32:
    rate = row->f32;
    break;
  case MathType::TensorFloat32:
    rate = row->tf32;
    break;
  case MathType::BFloat16:
    rate = row->bf16;
    break;
  case MathType::Float16:
    rate = row->f16;
    break;
  case MathType::Float8:
    rate = row->f8;
    break;
  case MathType::Int8:
    rate = row->i8;
    break;
  }
  // Without a unit of its own a type is widened to f32. The edge kernels of the
  // CPU mask what is missing and lose nothing else.
  if (rate == 0)
    return row->f32 * 1e12;
  // fp8 off its multiples is no product of cuBLASLt's: half of f16 is left.
  if (type == MathType::Float8 && !aligned)
    return flopsPerSecond(MathType::Float16, aligned);
  bool loses = !aligned && multiple(type) > 1 && kind == Kind::Cuda;
  return rate * 1e12 * (loses ? kUnalignedRate : 1);
}

double TargetInfo::bytesPerSecond(bool aligned) const {
  const Row *row = findRow(name);
  double rate = row ? row->bandwidth * 1e9 : 0;
  return aligned || kind == Kind::Cpu ? rate : rate * kUnalignedRate;
}

double TargetInfo::launchSeconds() const {
  // A kernel of the CPU is a function call inside one parallel region.
  return kind == Kind::Cuda ? kGraphNodeSeconds : 0;
}
