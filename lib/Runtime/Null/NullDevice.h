//===- NullDevice.h - device that executes nothing --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_NULL_NULLDEVICE_H
#define MPC_LIB_RUNTIME_NULL_NULLDEVICE_H

#include "../DeviceImpl.h"

#include <memory>

namespace mpc::detail {

std::shared_ptr<DeviceImpl> createNullDevice();

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_NULL_NULLDEVICE_H
