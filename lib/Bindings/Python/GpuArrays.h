//===- GpuArrays.h - arrays of Python on a GPU ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PyTorch, CuPy, JAX and whatever else speaks DLPack or
// __cuda_array_interface__. Bytes are shared in both directions; work is
// ordered by streams and nothing waits for it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_GPUARRAYS_H
#define MPC_LIB_BINDINGS_PYTHON_GPUARRAYS_H

#include "Arrays.h"

#include "mpc/Runtime/Stream.h"

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mpc::python {

/// DLPack's numbers of a GPU's memory, and of memory that host and GPU share.
inline constexpr int kCuda = 2, kCudaManaged = 13;
/// The default stream as DLPack counts streams, where 0 stands for none.
inline constexpr uintptr_t kDefaultStream = 1;

/// A stream as DLPack counts them.
uintptr_t numberOf(const Stream &stream);
/// "cuda:0".
std::string gpuName(int ordinal);

/// Where an array lies.
struct ArrayPlace {
  bool onGpu = false;
  /// The GPU's number; -1 where the array does not tell it.
  int ordinal = -1;
};

/// Of what is no array: host memory. With the interpreter's lock.
ArrayPlace placeOf(nanobind::handle object);

/// A result of a call on a GPU and the array over it, where that was made
/// before the call.
struct GpuResult {
  Buffer buffer;
  nanobind::object array;
};

/// A GPU as calls from Python use it. Members may be called from several
/// threads at once; those that take or give objects need the interpreter's
/// lock.
class Gpu {
public:
  explicit Gpu(Device device);
  /// Waits for what work still reads.
  ~Gpu();

  const Device &device() const { return on; }
  int ordinal() const { return number; }
  /// The stream of frameworks that do not tell theirs.
  const Stream &own() const { return queue; }
  /// The stream on which the calling thread works with `framework`.
  Stream streamOf(Framework framework) const;

  /// A buffer over the bytes of `object`, for work on `stream`, that is of a
  /// call with arrays of `framework`; of a number or an array of no dimension
  /// in host memory a copy. `input` names it in errors. What must live until
  /// the work is done joins `held`.
  Buffer take(nanobind::handle object, const std::string &input,
              Framework framework, const Stream &stream,
              std::vector<Buffer> &held) const;
  /// Memory for a result of work on `stream`: the framework's own where it
  /// orders memory by streams, else mpc's.
  GpuResult allocate(const TensorType &type, Framework framework,
                     const Stream &stream) const;

  /// Lets `held` live until what `stream` has now is done.
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

/// A result on a GPU for whoever speaks a protocol. The work that makes it lies
/// behind the GPU's own stream.
struct GpuArray {
  SharedResult result;

  nanobind::object dlpack(nanobind::handle stream,
                          const nanobind::kwargs &wishes) const;
  nanobind::dict interface() const;
  /// A copy in host memory. Waits for it.
  Buffer toHost() const;
};

/// An array of `framework` over a buffer of `result.gpu`.
nanobind::object toGpuArray(const SharedResult &result, Framework framework);

/// Adds Gpu and GpuArray to the extension.
void addGpuArrays(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_GPUARRAYS_H
