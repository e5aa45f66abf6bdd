//===- CudaContext.h - CUDA context, memory and streams ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The primary context of one GPU, its memory pool, and RAII owners of driver
// objects. All of them keep the context alive; none leaves it current.
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

/// One GPU. Thread-safe.
class CudaContext : public std::enable_shared_from_this<CudaContext> {
public:
  /// Retains the primary context of GPU `ordinal`.
  static Result<std::shared_ptr<CudaContext>> create(const CudaDriver &driver,
                                                     int ordinal);
  ~CudaContext();

  const CudaDriver &driver() const { return cu; }
  const GpuInfo &gpu() const { return info; }
  /// Maximum dynamic shared memory per block, in bytes.
  int64_t mostSharedBytes() const { return sharedBytes; }
  int64_t mostThreads() const { return threads; }
  int64_t multiprocessors() const { return processors; }
  int64_t mostBlocks(int dimension) const { return blocks[dimension]; }

  /// Returns success, or that driver function `call` failed at `where`.
  Status check(CuResult error, const char *call,
               const std::string &where) const {
    return toStatus(cu, error, call, where);
  }

  /// Stream in whose order programs allocate and free memory, used only to fill
  /// it otherwise. Reuse within a stream is certain, across streams only once
  /// the driver has seen the free: with one stream per program, the pool would
  /// grow with their number.
  CuHandle memoryQueue() const { return queue; }

  /// Allocates at least one byte, in stream order of `stream`, and frees it in
  /// its order. `keep` lives as long as the memory. The context must be
  /// current.
  Result<std::shared_ptr<void>> allocate(size_t bytes, CuHandle stream,
                                         std::shared_ptr<void> keep,
                                         const std::string &where);
  /// Allocates at least one byte of page-locked host memory, mapped at the same
  /// address on the device. The context must be current.
  Result<std::shared_ptr<void>> allocatePinned(size_t bytes,
                                               const std::string &where);

private:
  friend class CudaScope;
  explicit CudaContext(const CudaDriver &driver) : cu(driver) {}

  const CudaDriver cu;
  GpuInfo info;
  CuDevice device = 0;
  CuHandle context = nullptr;
  /// Null if the device has no stream-ordered memory allocation.
  CuHandle pool = nullptr;
  CuHandle queue = nullptr;
  int64_t sharedBytes = 0, threads = 0, processors = 0, blocks[3] = {};
};

/// RAII: makes a context current on this thread.
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

/// Owns one driver object, destroyed by `Destroy`. May be empty.
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
    // A failure here is one of earlier work, reported elsewhere. Most objects
    // can be destroyed even without a current context.
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
  /// Creates a stream.
  static Result<std::shared_ptr<CudaStream>>
  create(const std::shared_ptr<CudaContext> &context);
  /// Wraps the host program's stream `handle`.
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
/// Inverse of toCuAddress(), for libraries that take device addresses as
/// pointers.
inline void *toPointer(CuAddress address) {
  return std::bit_cast<void *>(static_cast<uintptr_t>(address));
}

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDACONTEXT_H
