//===- GpuArrays.h - Python arrays on a GPU ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PyTorch, CuPy, JAX and everything else with DLPack or
// __cuda_array_interface__. Zero-copy in both directions; asynchronous, ordered
// by streams.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_GPUARRAYS_H
#define MPC_LIB_BINDINGS_PYTHON_GPUARRAYS_H

#include "ArrayConversion.h"

#include "mpc/Runtime/Stream.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mpc::python {

/// DLPack device types: CUDA memory and CUDA managed memory.
inline constexpr int kCuda = 2, kCudaManaged = 13;
/// The default stream in DLPack's numbering, where 0 means none.
inline constexpr uintptr_t kDefaultStream = 1;

/// Returns a stream's number in DLPack.
uintptr_t numberOf(const Stream &stream);
/// "cuda:0".
std::string gpuName(int ordinal);

/// Location of an array.
struct ArrayLocation {
  bool onGpu = false;
  /// Index of the GPU; -1 if the array does not specify it.
  int ordinal = -1;
};

/// Returns the location of an array; host memory for other objects. Needs the
/// GIL.
ArrayLocation placeOf(nanobind::handle object);

/// A result of a GPU call, and its array if that was allocated before the call.
struct GpuResult {
  Buffer buffer;
  nanobind::object array;
};

/// A GPU as used by Python calls. Thread-safe; members that take or return
/// objects need the GIL.
class Gpu {
public:
  explicit Gpu(Device device);
  /// Waits for work that still reads buffers.
  ~Gpu();

  const Device &device() const { return on; }
  int ordinal() const { return number; }
  /// Stream for frameworks that do not expose theirs.
  const Stream &own() const { return queue; }
  /// Returns the calling thread's current stream of `framework`.
  Stream streamOf(Framework framework) const;

  /// Returns a buffer over the bytes of `object` for work on `stream`, in a
  /// call with arrays of `framework`; copies numbers and 0-d host arrays.
  /// `input` names it in errors. Adds buffers that must outlive the work to
  /// `held`.
  Buffer take(nanobind::handle object, const std::string &input,
              Framework framework, const Stream &stream,
              std::vector<Buffer> &held) const;
  /// Allocates memory for a result of work on `stream`: the framework's if it
  /// is stream-ordered, else mpc's.
  GpuResult allocate(const TensorType &type, Framework framework,
                     const Stream &stream) const;

  /// Keeps `held` alive until the current work on `stream` is done.
  void keep(const Stream &stream, std::vector<Buffer> held);

private:
  struct Held {
    std::shared_ptr<std::atomic<bool>> done;
    std::vector<Buffer> buffers;
  };

  Device on;
  int number;
  Stream queue;
  std::mutex lock;
  /// Guarded by `lock`.
  std::vector<Held> pending;
};

/// A GPU result exported by protocol. Its computation is ordered by the GPU's
/// own stream.
struct GpuArray {
  SharedResult result;

  nanobind::object dlpack(nanobind::handle stream,
                          const nanobind::kwargs &wishes) const;
  nanobind::dict interface() const;
  /// Returns a host copy. Synchronizes.
  Buffer toHost() const;
};

/// Returns an array of `framework` over a buffer of `result.gpu`.
nanobind::object toGpuArray(const SharedResult &result, Framework framework);

/// Adds Gpu and GpuArray to the extension.
void addGpuArrays(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_GPUARRAYS_H
