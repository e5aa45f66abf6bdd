//===- CpuDevice.h - the processor ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CPU_CPUDEVICE_H
#define MPC_LIB_RUNTIME_CPU_CPUDEVICE_H

#include "../DeviceImpl.h"

#include <memory>

namespace mpc::detail {

/// More threads than this are a typing error.
inline constexpr int kMostCpuThreads = 1024;

/// A device that calls each launch's function, its items split over up to
/// `threads` OpenMP threads.
std::shared_ptr<DeviceImpl> createCpuDevice(int threads);

/// The part of `items` that task `task` of `tasks` does; parts are contiguous,
/// cover everything once and begin at multiples of `grain`.
struct ItemRange {
  int64_t begin, end;
};
ItemRange splitItems(int64_t items, int64_t grain, int64_t tasks, int64_t task);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CPU_CPUDEVICE_H
