//===- CpuTarget.cpp - what the CPU backend may use -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Target/CPU/CpuTarget.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/TargetParser/Host.h"

using namespace mpc;

llvm::StringRef CpuTarget::name() const {
  return isa == CpuIsa::Avx512 ? "avx512" : "avx2";
}

std::string CpuTarget::llvmCpu() const {
  return isa == CpuIsa::Avx512 ? "x86-64-v4" : "x86-64-v3";
}

std::string CpuTarget::llvmFeatures() const {
  // The bf16 instructions flush subnormals, so no level has them.
  return isa == CpuIsa::Avx512 ? "-prefer-256-bit,-avx512bf16" : "";
}

llvm::SmallVector<CpuIsa> CpuTarget::available() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto has = [&](llvm::ArrayRef<llvm::StringRef> names) {
    return llvm::all_of(
        names, [&](llvm::StringRef name) { return features.lookup(name); });
  };
  llvm::SmallVector<CpuIsa> levels;
  if (!has({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}))
    return levels;
  levels.push_back(CpuIsa::Avx2);
  if (has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}))
    levels.push_back(CpuIsa::Avx512);
  return levels;
}

std::optional<CpuTarget> CpuTarget::host() {
  llvm::SmallVector<CpuIsa> levels = available();
  if (levels.empty())
    return std::nullopt;
  return CpuTarget{levels.back()};
}

std::optional<CpuTarget> CpuTarget::parse(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<CpuTarget>>(name)
      .Case("avx2", CpuTarget{CpuIsa::Avx2})
      .Case("avx512", CpuTarget{CpuIsa::Avx512})
      .Default(std::nullopt);
}
