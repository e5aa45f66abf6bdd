//===- CodeObject.cpp - loading machine code for the CPU ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeObject.h"

#include "../MemoryObject.h"

#include "mpc/Runtime/TilePermission.h"

#include <cpuid.h>

#include <vector>

using namespace mpc;

Status detail::loadCode(std::span<const std::byte> code,
                        const std::string &where, Program &program) {
  Result<std::shared_ptr<MemoryObject>> object =
      MemoryObject::load(code, where);
  if (!object.ok())
    return object.status();
  for (Launch &launch : program.launches) {
    if (launch.collective)
      continue;
    void *address = (*object)->find(launch.kernel);
    if (!address)
      return Status(StatusCode::InvalidArgument, where,
                    "its code lacks kernel '" + launch.kernel + "'");
    launch.function = reinterpret_cast<KernelFunction>(address);
  }
  program.code = std::move(*object);
  return {};
}

/// AMX-FP16, which g++ 12 cannot query by name: CPUID leaf 7.1, EAX bit 21
/// (Intel, Architecture Instruction Set Extensions).
static bool hasTilesOfHalf() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 21 & 1);
}

std::span<const std::string_view> detail::cpuLevels() {
  // Requirements of each level, equal to CpuTarget::available().
  static const std::vector<std::string_view> levels = [] {
    std::vector<std::string_view> found;
    bool hasAvx512 = __builtin_cpu_supports("x86-64-v4");
    bool hasDots = hasAvx512 && __builtin_cpu_supports("avx512bf16") &&
                   __builtin_cpu_supports("avx512vnni");
    if (hasDots && __builtin_cpu_supports("amx-bf16") &&
        __builtin_cpu_supports("amx-int8") && permitTiles()) {
      if (hasTilesOfHalf())
        found.push_back("amxfp16");
      found.push_back("amx");
    }
    // On other vendors' cores bf16 GEMMs are faster in f32.
    bool dotsFirst = hasDots && __builtin_cpu_is("amd");
    if (dotsFirst)
      found.push_back("avx512bf16");
    if (hasAvx512 && __builtin_cpu_supports("avx512vnni"))
      found.push_back("avx512vnni");
    if (hasAvx512)
      found.push_back("avx512");
    if (hasDots && !dotsFirst)
      found.push_back("avx512bf16");
    if (__builtin_cpu_supports("x86-64-v3")) {
      if (__builtin_cpu_supports("avxvnni"))
        found.push_back("avxvnni");
      found.push_back("avx2");
      for (std::string_view level :
           {"avxvnni-emulated", "avx512-emulated", "avx512vnni-emulated",
            "avx512bf16-emulated", "amx-emulated", "amxfp16-emulated"})
        found.push_back(level);
    }
    return found;
  }();
  return levels;
}
