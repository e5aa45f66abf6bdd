//===- CubinSelection.cpp - selection of cubins for a GPU -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CubinSelection.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

using namespace mpc;
using namespace mpc::detail;

namespace {

/// Parsed "sm_90a"; major is -1 if invalid.
struct Architecture {
  int major = -1, minor = 0;
  bool specific = false;
};

} // namespace

static Architecture parseArchitecture(const std::string &name) {
  int number = 0;
  if (name.rfind("sm_", 0) != 0)
    return {};
  const char *begin = name.data() + 3, *end = name.data() + name.size();
  auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || number < 10 || end - rest > 1)
    return {};
  return {number / 10, number % 10, rest != end};
}

bool detail::runsOn(const std::string &architecture, const GpuInfo &gpu) {
  Architecture parsed = parseArchitecture(architecture);
  if (parsed.major != gpu.major)
    return false;
  return parsed.specific ? parsed.minor == gpu.minor
                         : parsed.minor <= gpu.minor;
}

std::string detail::nativeArchitecture(const GpuInfo &gpu) {
  // From 9.0 on some instructions (wgmma) need the suffix.
  return gpu.architecture() + (gpu.major >= 9 ? "a" : "");
}

std::vector<const CudaCode::Binary *> detail::selectCubins(const CudaCode &code,
                                                           const GpuInfo &gpu) {
  std::map<std::string, std::vector<const CudaCode::Binary *>> usable;
  for (const CudaCode::Binary &binary : code.binaries)
    if (runsOn(binary.architecture, gpu))
      usable[binary.architecture].push_back(&binary);
  std::vector<const CudaCode::Binary *> best;
  std::tuple<int, bool> rank = {-1, false};
  for (auto &[name, binaries] : usable) {
    std::set<std::string> held;
    for (const CudaCode::Binary *binary : binaries)
      held.insert(binary->kernels.begin(), binary->kernels.end());
    bool complete = std::all_of(code.kernels.begin(), code.kernels.end(),
                                [&](const CudaCode::Kernel &kernel) {
                                  return held.count(kernel.name) != 0;
                                });
    Architecture parsed = parseArchitecture(name);
    std::tuple<int, bool> its = {parsed.minor, parsed.specific};
    if (!complete || its <= rank)
      continue;
    rank = its;
    best = std::move(binaries);
  }
  return best;
}
