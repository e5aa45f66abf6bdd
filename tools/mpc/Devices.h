//===- Devices.h - the devices of this machine ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Report of `mpc devices`: properties of the CPU and of each GPU.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_DEVICES_H
#define MPC_TOOLS_MPC_DEVICES_H

#include "MatrixUnitReport.h"
#include "PeakRates.h"
#include "Reporter.h"

#include "mpc/Runtime/Gpus.h"
#include "mpc/Target/TargetInfo.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::tool {

/// An instruction-set level of the CPU.
struct IsaLevel {
  std::string name;
  /// True if this machine supports it.
  bool available = false;
  /// True if this version of mpc generates code for it.
  bool generated = false;
  /// True if --emulate-units supports it.
  bool emulated = false;
};

/// The CPU.
struct CpuReport {
  std::string name;
  int cores = 0;
  std::vector<IsaLevel> levels;
  /// CPU features relevant to kernels.
  std::vector<std::string> features;
  /// Best level with code generation; nullopt if there is none.
  std::optional<TargetInfo> target;
  /// Measured with all cores; nullopt if not requested.
  std::optional<PeakRates> ceilings;
  /// Measured bf16 peak; 0 if the target has no bf16 unit.
  double bf16FlopsPerSecond = 0;
};

/// A GPU and its architecture.
struct GpuReport {
  GpuInfo gpu;
  /// Nullopt for an unknown architecture.
  std::optional<TargetInfo> target;
};

/// Complete report of `mpc devices`.
struct DeviceReport {
  CpuReport cpu;
  std::vector<GpuReport> gpus;
  /// Reason why there are no GPUs; empty if there are.
  std::string whyNoGpu;
};

/// Describes the CPU; `measure` takes some tenths of a second.
CpuReport describeCpu(bool measure);

/// Adds architecture facts to the driver's properties.
void describeGpus(const Result<std::vector<GpuInfo>> &found,
                  DeviceReport &report);

/// Returns the JSON document of cli.md.
Json devicesToJson(const DeviceReport &report);

/// Returns the text report, at most 100 columns wide.
std::string devicesToText(const DeviceReport &report);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_DEVICES_H
