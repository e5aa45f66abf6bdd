//===- Device.cpp - where programs run ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Device.h"

#include "CPU/CpuDevice.h"
#include "DeviceImpl.h"
#include "Null/NullDevice.h"

#include <sched.h>

using namespace mpc;

void *detail::Addresses::resolve(const BufferRef &ref) const {
  void *base = arena;
  switch (ref.kind) {
  case BufferRef::Kind::Argument:
    base = arguments[ref.index];
    break;
  case BufferRef::Kind::Result:
    base = results[ref.index];
    break;
  case BufferRef::Kind::Constant:
    base = constants[ref.index];
    break;
  case BufferRef::Kind::Arena:
    break;
  }
  return static_cast<char *>(base) + ref.offset;
}

int mpc::availableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  int cores = CPU_COUNT(&set);
  return cores > 0 ? cores : 1;
}

Result<Device> Device::cpu(const CpuDeviceOptions &options) {
  if (options.threads < 0 || options.threads > detail::kMostCpuThreads)
    return Status(StatusCode::InvalidArgument, "threads",
                  "must lie between 0 and " +
                      std::to_string(detail::kMostCpuThreads) + ", but is " +
                      std::to_string(options.threads));
  int threads = options.threads ? options.threads : availableCores();
  return Device(detail::createCpuDevice(threads));
}

Device Device::null() { return Device(detail::createNullDevice()); }

const std::string &Device::name() const { return impl->name(); }
int Device::threads() const { return impl->threads(); }
bool Device::needsCode() const { return impl->needsCode(); }
