//===- Plugin.cpp - entry points of the ONNX Runtime plugin ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostThreads.h"
#include "Provider.h"

#include <map>
#include <memory>
#include <string>

using namespace mpc;
using namespace mpc::ort;

namespace {

/// Creates execution providers for sessions.
class Factory : public OrtEpFactory {
public:
  explicit Factory(const HostApi &api) : host(api) {
    getName = [](const OrtEpFactory *) { return kProviderName; };
    getVendor = [](const OrtEpFactory *) { return "mpc"; };
    getVendorId = [](const OrtEpFactory *) { return uint32_t(0); };
    getVersion = [](const OrtEpFactory *) { return MPC_VERSION; };
    getSupportedDevices =
        [](OrtEpFactory *factory, const OrtHardwareDevice *const *devices,
           size_t count, OrtEpDevice **made, size_t most, size_t *madeCount) {
          return static_cast<Factory *>(factory)->listDevices(
              {devices, count}, {made, most}, *madeCount);
        };
    createEp = [](OrtEpFactory *factory, const OrtHardwareDevice *const *,
                  const OrtKeyValuePairs *const *, size_t,
                  const OrtSessionOptions *options, const OrtLogger *logger,
                  OrtEp **made) {
      auto *self = static_cast<Factory *>(factory);
      return self->host.give(self->create(options, logger, *made));
    };
    releaseEp = [](OrtEpFactory *, OrtEp *ep) {
      delete static_cast<Provider *>(ep);
    };
    // Tensors are in ONNX Runtime's own memory.
    createAllocator = [](OrtEpFactory *, const OrtMemoryInfo *,
                         const OrtKeyValuePairs *,
                         OrtAllocator **made) -> OrtStatus * {
      *made = nullptr;
      return nullptr;
    };
    releaseAllocator = [](OrtEpFactory *, OrtAllocator *) {};
    createDataTransfer = [](OrtEpFactory *, void **made) -> OrtStatus * {
      *made = nullptr;
      return nullptr;
    };
    isStreamAware = [](const OrtEpFactory *) { return false; };
  }

private:
  OrtStatus *listDevices(std::span<const OrtHardwareDevice *const> devices,
                         std::span<OrtEpDevice *> made, size_t &count) {
    count = 0;
    for (const OrtHardwareDevice *device : devices) {
      if (host(api::hardwareType)(device) != kHardwareCpu ||
          count == made.size())
        continue;
      if (OrtStatus *status = host.ep(epApi::createEpDevice)(
              this, device, nullptr, nullptr, &made[count]))
        return status;
      ++count;
    }
    return nullptr;
  }

  Status create(const OrtSessionOptions *options, const OrtLogger *logger,
                OrtEp *&made) {
    made = nullptr;
    OrtKeyValuePairs *pairs = nullptr;
    if (Status status = host.take(host(api::getConfigEntries)(options, &pairs));
        !status.ok())
      return status;
    const char *const *keys = nullptr, *const *values = nullptr;
    size_t count = 0;
    host(api::getKeyValuePairs)(pairs, &keys, &values, &count);
    std::map<std::string, std::string> entries;
    for (size_t i = 0; i < count; ++i)
      entries[keys[i]] = values[i];
    host(api::releaseKeyValuePairs)(pairs);
    Result<ProviderOptions> parsed = ProviderOptions::parse(entries);
    if (!parsed.ok())
      return parsed.status();
    Result<Device> device =
        parsed->threads ? Device::cpu({.threads = *parsed->threads})
                        : Device::cpu({.parallelFor = hostThreads(host)});
    if (!device.ok())
      return device.status();
    made = new Provider(host, logger, std::move(*parsed), std::move(*device));
    return {};
  }

  const HostApi host;
};

} // namespace

// ONNX Runtime looks for these names.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

/// Called by ONNX Runtime when the library is registered.
OrtStatus *CreateEpFactories(const char *, const OrtApiBase *base,
                             const OrtLogger *, OrtEpFactory **factories,
                             size_t most, size_t *count) {
  HostApi api;
  *count = 0;
  if (Status status = api.load(*base); !status.ok())
    return api.give(status);
  if (most < 1)
    return api.give(Status(StatusCode::InvalidArgument, "onnxruntime",
                           "has no room for a factory"));
  factories[0] = new Factory(api);
  *count = 1;
  return nullptr;
}

/// Called by ONNX Runtime when the library is unregistered.
OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
  delete static_cast<Factory *>(factory);
  return nullptr;
}

} // extern "C"
// NOLINTEND(readability-identifier-naming)
