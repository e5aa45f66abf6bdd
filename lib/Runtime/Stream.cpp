//===- Stream.cpp - in-order queues of a device ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Stream.h"

#include "DeviceImpl.h"

using namespace mpc;
using namespace mpc::detail;

Result<Stream> Stream::create(const Device &device) {
  Result<std::shared_ptr<StreamImpl>> impl =
      DeviceAccess::impl(device)->createStream();
  if (!impl.ok())
    return impl.status();
  return Stream(device, std::move(*impl));
}

Result<Stream> Stream::fromHandle(const Device &device, void *handle) {
  Result<std::shared_ptr<StreamImpl>> impl =
      DeviceAccess::impl(device)->wrapStream(handle);
  if (!impl.ok())
    return impl.status();
  return Stream(device, std::move(*impl));
}

void *Stream::handle() const { return impl->handle(); }
Status Stream::synchronize() const { return impl->synchronize(); }
Result<bool> Stream::finished() const { return impl->finished(); }
Status Stream::waitFor(void *event) const { return impl->waitFor(event); }
Status Stream::record(void *event) const { return impl->record(event); }
Status Stream::waitFor(const Stream &other) const {
  return impl->follow(*other.impl);
}

Status Stream::then(std::function<void(const Status &)> function) const {
  if (!function)
    return Status(StatusCode::InvalidArgument, "stream",
                  "no callback was given");
  return impl->then(std::move(function));
}
