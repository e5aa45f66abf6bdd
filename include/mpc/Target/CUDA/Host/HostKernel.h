//===- HostKernel.h - emulation of CUDA kernels on the CPU ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles the text of generated kernels with a host compiler and runs them on
// the CPU, thread by thread, to check results and synchronization on machines
// without a GPU. Slow; for tests and tools.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_HOST_HOSTKERNEL_H
#define MPC_TARGET_CUDA_HOST_HOSTKERNEL_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mpc {

/// Returns the prelude for the host or for a GPU as one text without includes,
/// to be prepended to kernels.
enum class PreludeSide { Host, Device };
std::string preludeText(PreludeSide side);

struct HostKernelOptions {
  /// Path or name of a C++20 compiler, clang or gcc; empty: the first on the
  /// search path that compiles the prelude.
  std::string compiler = {};
  /// Cache for compiled kernels, keyed by a hash of text, compiler and flags;
  /// not used if other users can write to the folder. Empty: no cache.
  std::string cacheFolder;
  /// Whether to check bounds, races and initialization of every access; doubles
  /// the run time.
  bool checks = true;
};

/// The order in which blocks and the threads of a block run.
enum class ThreadOrder { Ascending, Descending, Shuffled };

struct HostLaunch {
  /// Name of the kernel in messages; set by HostModule::launch.
  std::string kernel;
  int grid[3] = {1, 1, 1};
  int block[3] = {1, 1, 1};
  size_t dynamicSharedBytes = 0;
  /// Compute capability of the emulated GPU, 75 or more: the arithmetic of its
  /// tensor cores (TensorCoreModel.h).
  int capability = 80;
  /// Whether all blocks run concurrently, as a grid barrier needs.
  bool cooperative = false;
  ThreadOrder order = ThreadOrder::Ascending;
  /// Seed for ThreadOrder::Shuffled.
  unsigned seed = 1;
};

/// A kernel parameter. Does not own its data.
struct HostArgument {
  enum class Kind { Scalar, Input, Output, InOut };
  Kind kind;
  std::string name;
  void *data;
  size_t bytes, elementBytes;

  template <typename T> static HostArgument scalar(T &value) {
    return {Kind::Scalar, {}, &value, sizeof(T), sizeof(T)};
  }
  /// A read-only array.
  template <typename T>
  static HostArgument input(std::string name, const std::vector<T> &values) {
    return {Kind::Input, std::move(name), const_cast<T *>(values.data()),
            values.size() * sizeof(T), sizeof(T)};
  }
  /// An array that is uninitialized before the launch: every element has to be
  /// written before it is read.
  template <typename T>
  static HostArgument output(std::string name, std::vector<T> &values) {
    return {Kind::Output, std::move(name), values.data(),
            values.size() * sizeof(T), sizeof(T)};
  }
  template <typename T>
  static HostArgument inOut(std::string name, std::vector<T> &values) {
    return {Kind::InOut, std::move(name), values.data(),
            values.size() * sizeof(T), sizeof(T)};
  }
};

/// Kernels compiled for the host. Move only. One launch at a time per object;
/// objects are independent.
class HostModule {
public:
  /// Compiles `text`, which uses the prelude and defines `kernels`. Runs the
  /// compiler (0.1 to 0.5 s) unless cached. The status holds the compiler's
  /// messages.
  static Result<HostModule> compile(const std::string &text,
                                    const std::vector<std::string> &kernels,
                                    const HostKernelOptions &options = {});
  ~HostModule();
  HostModule(HostModule &&) noexcept;
  HostModule &operator=(HostModule &&) noexcept;

  /// Runs one kernel on separate copies of its arrays, surrounded by guard
  /// zones; arguments with the same data share one copy. Copies all but inputs
  /// back, also after a failure. A failure names the kernel, block, thread and,
  /// if known, line.
  Status launch(const std::string &kernel, HostLaunch launch,
                const std::vector<HostArgument> &arguments) const;

private:
  HostModule();
  struct Loaded;
  std::unique_ptr<Loaded> loaded;
};

} // namespace mpc

#endif // MPC_TARGET_CUDA_HOST_HOSTKERNEL_H
