//===- CpuTarget.cpp - the levels of CPUs ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One row per level, as one core of a Granite-Rapids-class server was measured:
// f32 FMA on zmm 0.214, AMX bf16 on random data 2.52, DRAM copy 13.8. ymm is
// half of zmm and double half of single by lane count; int8 tiles hold twice
// the elements of bf16 ones. A bf16 or f16 product without tiles is widened to
// f32 first: vdpbf16ps reached 0.107, half of the FMA rate, and is not used.
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CPU/CpuTarget.h"

#include "mpc/Target/TargetFamily.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace mpc;
using llvm::StringRef;

StringRef CpuTarget::name() const {
  return isa == CpuIsa::Avx512 ? "avx512" : "avx2";
}

std::string CpuTarget::llvmCpu() const {
  return isa == CpuIsa::Avx512 ? "x86-64-v4" : "x86-64-v3";
}

std::string CpuTarget::llvmFeatures() const {
  // The bf16 instructions flush subnormals, so no level has them.
  return isa == CpuIsa::Avx512 ? "-prefer-256-bit,-avx512bf16" : "";
}

TargetInfo CpuTarget::info() const {
  return *TargetInfo::parse(("cpu:" + name()).str());
}

std::optional<CpuTarget> CpuTarget::of(const TargetInfo &target) {
  if (target.family() != "cpu" || !target.facts().isGenerated)
    return std::nullopt;
  return CpuTarget{target.facts().lanes == 16 ? CpuIsa::Avx512 : CpuIsa::Avx2};
}

llvm::SmallVector<CpuIsa> CpuTarget::available() {
  llvm::SmallVector<CpuIsa> levels;
  for (const TargetInfo &target : TargetInfo::runnable())
    if (std::optional<CpuTarget> level = of(target))
      levels.push_back(level->isa);
  return levels;
}

//===----------------------------------------------------------------------===//
// The family
//===----------------------------------------------------------------------===//

/// A level without matrix units.
static TargetFacts level(StringRef name, int64_t lanes, bool isGenerated) {
  TargetFacts facts;
  facts.name = "cpu:" + name.str();
  facts.isGenerated = isGenerated;
  facts.lanes = lanes;
  facts.registers = 2 * lanes;
  // The least of such servers: half of what that core has.
  facts.cacheBytes = 1 << 20;
  // Two ports, four cycles.
  facts.multiplyAddsInFlight = 8;
  facts.float32Rate = lanes == 16 ? 0.214 : 0.107;
  facts.float64Rate = facts.float32Rate / 2;
  facts.bandwidth = 13.8;
  // Vector kernels have blocks of one register's columns.
  facts.plainMultiple = lanes;
  facts.kernels.panelColumns = 2 * lanes;
  return facts;
}

static std::vector<TargetFacts> describeLevels() {
  TargetFacts amx = level("amx", 16, /*isGenerated=*/false);
  // A tile has 16 rows of 64 bytes.
  amx.units = {{MathType::BFloat16, 32, 2.52, "AMX tiles"},
               {MathType::Int8, 64, 5.04, "AMX tiles"}};
  return {level("avx2", 8, true), level("avx512", 16, true),
          level("avx512bf16", 16, false), amx};
}

static bool hasLevel(const TargetFacts &facts) {
  static const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto has = [](std::initializer_list<StringRef> names) {
    return llvm::all_of(names,
                        [](StringRef name) { return features.lookup(name); });
  };
  // What code of a level may use: the runtime's CodeObject.cpp asks for the
  // same.
  if (!has({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}))
    return false;
  if (facts.lanes == 16 &&
      !has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    return false;
  if (facts.name == "cpu:avx512bf16")
    return has({"avx512bf16"});
  return facts.name != "cpu:amx" || has({"amx-bf16"});
}

TargetFamily mpc::cpuFamily() {
  return {"cpu", describeLevels,
          [](StringRef member) { return "cpu:" + member.str(); }, hasLevel};
}
