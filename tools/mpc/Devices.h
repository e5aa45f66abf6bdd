//===- Devices.h - the devices of this machine ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What mpc devices reports: facts of the processor and of each GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_DEVICES_H
#define MPC_TOOLS_MPC_DEVICES_H

#include "Ceilings.h"
#include "FastPath.h"
#include "Reporter.h"

#include "mpc/Runtime/Gpus.h"
#include "mpc/Target/TargetInfo.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

/// An instruction set level of the processor.
struct IsaLevel {
  std::string name;
  /// Whether this machine has its instructions.
  bool available = false;
  /// Whether this version of mpc generates code for it.
  bool generated = false;
  /// Whether --emulate-units takes it.
  bool emulated = false;
};

/// The processor.
struct CpuReport {
  std::string name;
  int cores = 0;
  std::vector<IsaLevel> levels;
  /// Of the features that matter to kernels those that the machine has.
  std::vector<std::string> features;
  /// The best level that code is generated for; nullopt below all of them.
  std::optional<TargetInfo> target;
  /// Measured with all cores; nullopt where that was not asked for.
  std::optional<Ceilings> ceilings;
  /// Measured; 0 where the target has no unit for bf16.
  double bf16FlopsPerSecond = 0;
};

/// A GPU and what is known of its architecture.
struct GpuReport {
  GpuInfo gpu;
  /// Nullopt for an architecture that mpc knows nothing of.
  std::optional<TargetInfo> target;
};

/// Everything that `mpc devices` shows.
struct DeviceReport {
  CpuReport cpu;
  std::vector<GpuReport> gpus;
  /// Why there are no GPUs; empty where there are.
  std::string whyNoGpu;
};

/// Describes the processor; `measure` takes some tenths of a second.
CpuReport describeCpu(bool measure);

/// Adds what is known to what the driver says.
void describeGpus(const Result<std::vector<GpuInfo>> &found,
                  DeviceReport &report);

/// The document of cli.md.
Json devicesToJson(const DeviceReport &report);

/// The report for people, at most 100 columns wide.
std::string devicesToText(const DeviceReport &report);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_DEVICES_H
