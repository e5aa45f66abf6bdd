//===- CudaContext.h - a GPU and what lives on it ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The primary context of one GPU, its memory, and owners of the driver's
// objects. Everything here keeps the context; nothing leaves it current.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDACONTEXT_H
#define MPC_LIB_RUNTIME_CUDA_CUDACONTEXT_H

#include "../DeviceImpl.h"
#include "CudaDriver.h"

#include <bit>
#include <memory>
#include <string>
#include <utility>

namespace mpc::detail {

/// One GPU. All members may be called from any thread.
class CudaContext : public std::enable_shared_from_this<CudaContext> {
public:
  /// Retains the primary context of GPU `ordinal`.
  static Result<std::shared_ptr<CudaContext>> create(const CudaDriver &driver,
                                                     int ordinal);
  ~CudaContext();

  const CudaDriver &driver() const { return cu; }
  const GpuInfo &gpu() const { return info; }
  /// Most bytes of shared memory that a block may ask for.
  int64_t mostSharedBytes() const { return sharedBytes; }
  int64_t mostThreads() const { return threads; }
  int64_t multiprocessors() const { return processors; }
  int64_t mostBlocks(int dimension) const { return blocks[dimension]; }

  /// Success, or that `call` of the driver failed at `where`.
  Status check(CuResult error, const char *call,
               const std::string &where) const {
    return toStatus(cu, error, call, where);
  }

  /// The stream in whose order programs get and give back their memory, which
  /// does nothing else but fill it. Memory goes from a stream to itself for
  /// certain, to another only where the driver knows that it was given back:
  /// were each program to use a stream of its own, the pool would grow with
  /// them.
  CuHandle memoryQueue() const { return queue; }

  /// At least one byte, in the order of `stream`, to be given back in its order
  /// too. `keep` lives as long as the memory. The context must be current.
  Result<std::shared_ptr<void>> allocate(size_t bytes, CuHandle stream,
                                         std::shared_ptr<void> keep,
                                         const std::string &where);
  /// At least one byte of page-locked host memory, which kernels reach at the
  /// same address. The context must be current.
  Result<std::shared_ptr<void>> allocatePinned(size_t bytes,
                                               const std::string &where);

private:
  friend class CudaScope;
  explicit CudaContext(const CudaDriver &driver) : cu(driver) {}

  const CudaDriver cu;
  GpuInfo info;
  CuDevice device = 0;
  CuHandle context = nullptr;
  /// Null where the device has no memory in the order of streams.
  CuHandle pool = nullptr;
  CuHandle queue = nullptr;
  int64_t sharedBytes = 0, threads = 0, processors = 0, blocks[3] = {};
};

/// Makes a context current on this thread for its own lifetime.
class CudaScope {
public:
  explicit CudaScope(const CudaContext &context);
  ~CudaScope();
  CudaScope(const CudaScope &) = delete;
  CudaScope &operator=(const CudaScope &) = delete;

  bool ok() const { return outcome.ok(); }
  const Status &status() const { return outcome; }

private:
  const CudaDriver &driver;
  Status outcome;
};

/// Owns one object of the driver, which `Destroy` ends. May be empty.
template <CuResult (*CudaDriver::*Destroy)(CuHandle)> class CudaOwned {
public:
  CudaOwned() = default;
  CudaOwned(std::shared_ptr<const CudaContext> context, CuHandle handle)
      : context(std::move(context)), handle(handle) {}
  CudaOwned(CudaOwned &&other) noexcept
      : context(std::move(other.context)),
        handle(std::exchange(other.handle, nullptr)) {}
  CudaOwned &operator=(CudaOwned &&other) noexcept {
    std::swap(context, other.context);
    std::swap(handle, other.handle);
    return *this;
  }
  ~CudaOwned() {
    if (!handle)
      return;
    // A failure here is one of earlier work, which was or will be reported.
    // Most objects can be ended without their context, if it comes to that.
    CudaScope scope(*context);
    (void)(context->driver().*Destroy)(handle);
  }

  CuHandle get() const { return handle; }
  explicit operator bool() const { return handle != nullptr; }

private:
  std::shared_ptr<const CudaContext> context;
  CuHandle handle = nullptr;
};

using CudaModule = CudaOwned<&CudaDriver::moduleUnload>;
using CudaEvent = CudaOwned<&CudaDriver::eventDestroy>;
using CudaGraph = CudaOwned<&CudaDriver::graphDestroy>;
using CudaGraphExec = CudaOwned<&CudaDriver::graphExecDestroy>;
using CudaOwnedStream = CudaOwned<&CudaDriver::streamDestroy>;

/// A stream of mpc's or of the host program's.
class CudaStream : public StreamImpl {
public:
  /// A new stream.
  static Result<std::shared_ptr<CudaStream>>
  create(const std::shared_ptr<CudaContext> &context);
  /// The host program's stream `handle`.
  CudaStream(std::shared_ptr<CudaContext> context, CuHandle handle)
      : context(std::move(context)), queue(handle) {}

  void *handle() const override { return queue; }
  Status synchronize() override;
  Result<bool> finished() override;
  Status waitFor(void *event) override;
  Status record(void *event) override;
  Status follow(StreamImpl &other) override;
  Status then(std::function<void(const Status &)> function) override;

private:
  std::shared_ptr<CudaContext> context;
  CudaOwnedStream owned;
  CuHandle queue;
};

inline CuAddress toCuAddress(const void *address) {
  return static_cast<CuAddress>(reinterpret_cast<uintptr_t>(address));
}
/// Its inverse, for libraries that take addresses on the device as pointers.
inline void *toPointer(CuAddress address) {
  return std::bit_cast<void *>(static_cast<uintptr_t>(address));
}

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDACONTEXT_H
