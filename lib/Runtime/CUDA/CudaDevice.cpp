//===- CudaDevice.cpp - CUDA device ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include "CubinSelection.h"
#include "CudaProgram.h"

#include <algorithm>
#include <cstring>
#include <mutex>

using namespace mpc;
using namespace mpc::detail;

namespace {

class CudaDevice : public DeviceImpl {
public:
  CudaDevice(std::shared_ptr<CudaContext> context,
             const CudaDeviceOptions &options, CudaServices services)
      : context(std::move(context)), services(std::move(services)),
        deviceName(options.ordinal ? "cuda:" + std::to_string(options.ordinal)
                                   : "cuda"),
        architectureName(nativeArchitecture(this->context->gpu())),
        checked(options.checkLaunches) {}

  const std::string &name() const override { return deviceName; }
  int threads() const override { return 1; }
  bool needsCode() const override { return true; }
  bool needsFunctions() const override { return false; }
  const std::string &architecture() const override { return architectureName; }
  bool hasOwnMemory() const override { return true; }
  int64_t ranks() const override { return services.ranks; }

  Result<std::shared_ptr<LoadedProgram>>
  load(std::shared_ptr<DeviceImpl> self,
       std::shared_ptr<const Program> program) override;
  Result<std::shared_ptr<StreamImpl>> createStream() override;
  Result<std::shared_ptr<StreamImpl>> wrapStream(void *handle) override {
    return std::shared_ptr<StreamImpl>(
        std::make_shared<CudaStream>(context, handle));
  }
  Result<std::shared_ptr<void>>
  allocate(size_t bytes, std::shared_ptr<StreamImpl> stream) override;
  Result<std::shared_ptr<void>> allocatePinned(size_t bytes) override;
  Status copy(void *to, bool toDevice, const void *from, bool fromDevice,
              size_t bytes, StreamImpl &stream) override;
  Status fetch(void *to, const void *from, bool fromDevice, size_t bytes,
               StreamImpl &stream) override;

private:
  Result<std::shared_ptr<GemmLibrary>> gemmLibrary();
  /// Returns the communication library of `program`; null if it has no
  /// collectives.
  Result<std::shared_ptr<CollectiveBackend>>
  rankLibrary(const Program &program);

  std::shared_ptr<CudaContext> context;
  CudaServices services;
  std::string deviceName, architectureName;
  bool checked;
  std::mutex mutex;
  /// Opened by the first program that needs it.
  std::shared_ptr<GemmLibrary> library;
  /// Communication library, opened on demand as well.
  std::shared_ptr<CollectiveBackend> rankMessages;
};

} // namespace

Result<std::shared_ptr<GemmLibrary>> CudaDevice::gemmLibrary() {
  std::lock_guard<std::mutex> lock(mutex);
  if (library || !services.openGemmLibrary)
    return library;
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  Result<std::shared_ptr<GemmLibrary>> opened =
      services.openGemmLibrary(context);
  if (opened.ok())
    library = *opened;
  return opened;
}

Result<std::shared_ptr<CollectiveBackend>>
CudaDevice::rankLibrary(const Program &program) {
  auto message =
      std::find_if(program.launches.begin(), program.launches.end(),
                   [](const Launch &launch) { return launch.collective; });
  if (message == program.launches.end())
    return std::shared_ptr<CollectiveBackend>();
  if (!services.joinRanks)
    return Status(
        StatusCode::Unavailable, program.name,
        "has collective '" + message->kernel +
            "', but this device was made for one rank; use cudaForRanks()");
  if (message->collective->ranks != services.ranks)
    return Status(StatusCode::InvalidArgument, program.name,
                  "was compiled for " +
                      std::to_string(message->collective->ranks) +
                      " ranks, but device '" + deviceName + "' has " +
                      std::to_string(services.ranks));
  std::lock_guard<std::mutex> lock(mutex);
  if (rankMessages)
    return rankMessages;
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  Result<std::shared_ptr<CollectiveBackend>> joined =
      services.joinRanks(context);
  if (joined.ok())
    rankMessages = *joined;
  return joined;
}

Result<std::shared_ptr<LoadedProgram>>
CudaDevice::load(std::shared_ptr<DeviceImpl> self,
                 std::shared_ptr<const Program> program) {
  Result<std::shared_ptr<CollectiveBackend>> messages = rankLibrary(*program);
  if (!messages.ok())
    return messages.status();
  bool products =
      std::any_of(program->launches.begin(), program->launches.end(),
                  [](const Launch &launch) { return launch.gemm.has_value(); });
  std::shared_ptr<GemmLibrary> needed;
  if (products) {
    Result<std::shared_ptr<GemmLibrary>> opened = gemmLibrary();
    if (!opened.ok())
      return opened.status();
    needed = *opened;
  }
  return CudaProgram::create(context, program, services, needed, *messages,
                             checked);
}

Result<std::shared_ptr<StreamImpl>> CudaDevice::createStream() {
  Result<std::shared_ptr<CudaStream>> stream = CudaStream::create(context);
  if (!stream.ok())
    return stream.status();
  return std::shared_ptr<StreamImpl>(std::move(*stream));
}

Result<std::shared_ptr<void>>
CudaDevice::allocate(size_t bytes, std::shared_ptr<StreamImpl> stream) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  void *queue = stream->handle();
  return context->allocate(bytes, queue, std::move(stream), "buffer");
}

Result<std::shared_ptr<void>> CudaDevice::allocatePinned(size_t bytes) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  return context->allocatePinned(bytes, "buffer");
}

Status CudaDevice::copy(void *to, bool toDevice, const void *from,
                        bool fromDevice, size_t bytes, StreamImpl &stream) {
  if (bytes == 0)
    return {};
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  const CudaDriver &cu = context->driver();
  CuHandle queue = stream.handle();
  if (toDevice && fromDevice)
    return context->check(
        cu.memcpyDtoDAsync(toCuAddress(to), toCuAddress(from), bytes, queue),
        "cuMemcpyDtoDAsync", "copy");
  if (toDevice)
    return context->check(
        cu.memcpyHtoDAsync(toCuAddress(to), from, bytes, queue),
        "cuMemcpyHtoDAsync", "copy");
  if (fromDevice)
    return context->check(
        cu.memcpyDtoHAsync(to, toCuAddress(from), bytes, queue),
        "cuMemcpyDtoHAsync", "copy");
  return Status(StatusCode::InvalidArgument, "copy",
                "neither buffer is on device '" + deviceName + "'");
}

Status CudaDevice::fetch(void *to, const void *from, bool fromDevice,
                         size_t bytes, StreamImpl &stream) {
  // One scope, so that enqueued work can be synchronized.
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  const CudaDriver &cu = context->driver();
  CuHandle queue = stream.handle();
  Status status;
  if (fromDevice && bytes)
    status =
        context->check(cu.memcpyDtoHAsync(to, toCuAddress(from), bytes, queue),
                       "cuMemcpyDtoHAsync", "copy");
  Status done = context->check(cu.streamSynchronize(queue),
                               "cuStreamSynchronize", "copy");
  if (!fromDevice && bytes)
    std::memcpy(to, from, bytes);
  return status.ok() ? done : status;
}

Result<std::shared_ptr<DeviceImpl>>
detail::createCudaDevice(const CudaDriver &driver,
                         const CudaDeviceOptions &options,
                         CudaServices services) {
  Result<std::shared_ptr<CudaContext>> context =
      CudaContext::create(driver, options.ordinal);
  if (!context.ok())
    return context.status();
  return std::shared_ptr<DeviceImpl>(std::make_shared<CudaDevice>(
      std::move(*context), options, std::move(services)));
}
