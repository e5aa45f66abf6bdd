//===- NullDevice.cpp - device that executes nothing ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NullDevice.h"

#include <cstring>

using namespace mpc;
using namespace mpc::detail;

namespace {

class NullDevice : public DeviceImpl {
public:
  const std::string &name() const override { return deviceName; }
  int threads() const override { return 1; }
  bool needsCode() const override { return false; }

  /// Zeroes the results, so that stale values are not mistaken for results.
  Status execute(const Program &program, const Addresses &addresses,
                 CollectiveThread *, std::span<double> milliseconds) override {
    for (size_t i = 0; i < program.results.size(); ++i)
      std::memset(addresses.results[i], 0,
                  *program.results[i].type.byteCount());
    for (double &entry : milliseconds)
      entry = 0;
    return {};
  }

private:
  std::string deviceName = "null";
};

} // namespace

std::shared_ptr<DeviceImpl> detail::createNullDevice() {
  return std::make_shared<NullDevice>();
}
