//===- CpuDevice.h - CPU device ---------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CPU_CPUDEVICE_H
#define MPC_LIB_RUNTIME_CPU_CPUDEVICE_H

#include "../DeviceImpl.h"

#include <memory>

namespace mpc::detail {

/// Maximum thread count; larger numbers are taken for typing errors.
inline constexpr int kMostCpuThreads = 1024;

/// Creates a device that calls each launch's function with its items split over
/// up to `threads` threads, at least 1, of `parallelFor` or, if that is null,
/// of the process's ThreadPool.
std::shared_ptr<DeviceImpl> createCpuDevice(int threads,
                                            ParallelFor parallelFor = nullptr);

/// Range of `items` for task `task` of `tasks`; ranges are contiguous, disjoint
/// and complete, and start at multiples of `grain`.
struct ItemRange {
  int64_t begin, end;
};
ItemRange splitItems(int64_t items, int64_t grain, int64_t tasks, int64_t task);

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CPU_CPUDEVICE_H
