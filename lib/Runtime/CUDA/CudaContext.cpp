//===- CudaContext.cpp - CUDA context, memory and streams -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaContext.h"

using namespace mpc;
using namespace mpc::detail;

//===----------------------------------------------------------------------===//
// Context and memory
//===----------------------------------------------------------------------===//

Result<std::shared_ptr<CudaContext>>
CudaContext::create(const CudaDriver &driver, int ordinal) {
  Result<std::vector<GpuInfo>> gpus = listGpus(driver);
  if (!gpus.ok())
    return gpus.status();
  std::string where = "cuda:" + std::to_string(ordinal);
  if (ordinal < 0 || size_t(ordinal) >= gpus->size())
    return Status(StatusCode::Unavailable, where,
                  "the driver finds " + std::to_string(gpus->size()) +
                      " GPUs on this machine, numbered from 0");
  // The destructor handles partly created contexts.
  std::shared_ptr<CudaContext> made(new CudaContext(driver));
  made->info = std::move((*gpus)[ordinal]);
  if (Status status = made->check(driver.deviceGet(&made->device, ordinal),
                                  "cuDeviceGet", where);
      !status.ok())
    return status;
  Status failed;
  auto ask = [&](CuAttribute attribute) {
    int value = 0;
    Status status =
        made->check(driver.deviceGetAttribute(&value, attribute, made->device),
                    "cuDeviceGetAttribute", where);
    if (failed.ok())
      failed = status;
    return value;
  };
  made->sharedBytes = ask(kCuMaxSharedMemoryOptin);
  made->threads = ask(kCuMaxThreadsPerBlock);
  made->processors = ask(kCuMultiprocessorCount);
  made->blocks[0] = ask(kCuMaxGridX);
  made->blocks[1] = ask(kCuMaxGridY);
  made->blocks[2] = ask(kCuMaxGridZ);
  bool pools = ask(kCuMemoryPoolsSupported) != 0;
  if (!failed.ok())
    return failed;
  if (Status status = made->check(
          driver.devicePrimaryCtxRetain(&made->context, made->device),
          "cuDevicePrimaryCtxRetain", where);
      !status.ok())
    return status;
  CudaScope scope(*made);
  if (!scope.ok())
    return scope.status();
  // Non-blocking: does not synchronize with the default stream.
  if (Status status =
          made->check(driver.streamCreate(&made->queue, kCuStreamNonBlocking),
                      "cuStreamCreate", where);
      !status.ok())
    return status;
  if (!pools)
    return made;
  // A private memory pool that retains freed memory: other users of the
  // device's default pool are not affected.
  CuPoolProps props;
  props.locationId = made->device;
  if (Status status = made->check(driver.memPoolCreate(&made->pool, &props),
                                  "cuMemPoolCreate", where);
      !status.ok())
    return status;
  uint64_t everything = UINT64_MAX;
  if (Status status =
          made->check(driver.memPoolSetAttribute(
                          made->pool, kCuPoolReleaseThreshold, &everything),
                      "cuMemPoolSetAttribute", where);
      !status.ok())
    return status;
  return made;
}

CudaContext::~CudaContext() {
  if (queue) {
    CudaScope scope(*this);
    (void)cu.streamDestroy(queue);
  }
  // Destroying a pool does not block: allocations in use are freed later.
  if (pool)
    (void)cu.memPoolDestroy(pool);
  if (context)
    (void)cu.devicePrimaryCtxRelease(device);
}

CudaScope::CudaScope(const CudaContext &context)
    : driver(context.cu),
      outcome(context.check(driver.ctxPushCurrent(context.context),
                            "cuCtxPushCurrent", "cuda")) {}

CudaScope::~CudaScope() {
  CuHandle popped = nullptr;
  if (outcome.ok())
    (void)driver.ctxPopCurrent(&popped);
}

Result<std::shared_ptr<void>> CudaContext::allocate(size_t bytes,
                                                    CuHandle stream,
                                                    std::shared_ptr<void> keep,
                                                    const std::string &where) {
  CuAddress address = 0;
  size_t size = bytes ? bytes : 1;
  CuResult error = pool ? cu.memAllocFromPoolAsync(&address, size, pool, stream)
                        : cu.memAlloc(&address, size);
  if (Status status =
          check(error, pool ? "cuMemAllocFromPoolAsync" : "cuMemAlloc", where);
      !status.ok())
    return status.withNote("asked for " + std::to_string(size) + " bytes on " +
                           info.name);
  auto release = [self = shared_from_this(), keep = std::move(keep),
                  stream](void *memory) {
    CudaScope scope(*self);
    if (!scope.ok())
      return;
    if (self->pool)
      (void)self->cu.memFreeAsync(toCuAddress(memory), stream);
    else
      (void)self->cu.memFree(toCuAddress(memory));
  };
  return std::shared_ptr<void>(toPointer(address), std::move(release));
}

Result<std::shared_ptr<void>>
CudaContext::allocatePinned(size_t bytes, const std::string &where) {
  void *memory = nullptr;
  if (Status status = check(cu.memHostAlloc(&memory, bytes ? bytes : 1, 0),
                            "cuMemHostAlloc", where);
      !status.ok())
    return status;
  return std::shared_ptr<void>(memory,
                               [self = shared_from_this()](void *memory) {
                                 CudaScope scope(*self);
                                 if (scope.ok())
                                   (void)self->cu.memFreeHost(memory);
                               });
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

static constexpr const char *kStream = "stream";

Result<std::shared_ptr<CudaStream>>
CudaStream::create(const std::shared_ptr<CudaContext> &context) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  CuHandle handle = nullptr;
  // Non-blocking: does not synchronize with the default stream.
  if (Status status = context->check(
          context->driver().streamCreate(&handle, kCuStreamNonBlocking),
          "cuStreamCreate", kStream);
      !status.ok())
    return status;
  auto stream = std::make_shared<CudaStream>(context, handle);
  stream->owned = CudaOwnedStream(context, handle);
  return stream;
}

Status CudaStream::synchronize() {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  return context->check(context->driver().streamSynchronize(queue),
                        "cuStreamSynchronize", kStream);
}

Result<bool> CudaStream::finished() {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  CuResult error = context->driver().streamQuery(queue);
  if (error == kCuNotReady)
    return false;
  if (Status status = context->check(error, "cuStreamQuery", kStream);
      !status.ok())
    return status;
  return true;
}

Status CudaStream::waitFor(void *event) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  return context->check(context->driver().streamWaitEvent(queue, event, 0),
                        "cuStreamWaitEvent", kStream);
}

Status CudaStream::record(void *event) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  return context->check(context->driver().eventRecord(event, queue),
                        "cuEventRecord", kStream);
}

Status CudaStream::follow(StreamImpl &other) {
  if (other.handle() == queue)
    return {};
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  const CudaDriver &cu = context->driver();
  CuHandle handle = nullptr;
  if (Status status =
          context->check(cu.eventCreate(&handle, kCuEventDisableTiming),
                         "cuEventCreate", kStream);
      !status.ok())
    return status;
  // The driver keeps the event alive until the wait is done.
  CudaEvent event(context, handle);
  if (Status status = context->check(cu.eventRecord(handle, other.handle()),
                                     "cuEventRecord", kStream);
      !status.ok())
    return status;
  return context->check(cu.streamWaitEvent(queue, handle, /*flags=*/0),
                        "cuStreamWaitEvent", kStream);
}

namespace {

/// Argument of a driver callback. It must not call the driver, not even for the
/// name of an error.
struct Callback {
  std::function<void(const Status &)> function;

  static void call(CuHandle, CuResult result, void *data) {
    std::unique_ptr<Callback> callback(static_cast<Callback *>(data));
    callback->function(
        toStatus(CudaDriver(), result, "the work on the stream", kStream));
  }
};

} // namespace

Status CudaStream::then(std::function<void(const Status &)> function) {
  CudaScope scope(*context);
  if (!scope.ok())
    return scope.status();
  auto callback = std::make_unique<Callback>(Callback{std::move(function)});
  Status status = context->check(
      context->driver().streamAddCallback(queue, Callback::call, callback.get(),
                                          /*flags=*/0),
      "cuStreamAddCallback", kStream);
  // The driver owns the callback now.
  if (status.ok()) [[maybe_unused]]
    Callback *handed = callback.release();
  return status;
}
