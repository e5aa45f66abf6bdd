//===- HostKernel.h - CUDA kernels on the host ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles the text of emitted kernels with a host compiler and runs them on
// the CPU, thread by thread, so that their numbers and their synchronisation
// are checked on machines without a GPU. Slow; for tests and tools.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_HOST_HOSTKERNEL_H
#define MPC_TARGET_CUDA_HOST_HOSTKERNEL_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mpc {

/// The prelude for the host or for a GPU as one text without includes, to stand
/// in front of kernels.
enum class PreludeSide { Host, Device };
std::string preludeText(PreludeSide side);

struct HostKernelOptions {
  /// A C++20 compiler, clang or gcc: a path or a name on the search path;
  /// empty: the first on the search path that takes the prelude.
  std::string compiler = {};
  /// Compiled kernels are kept here under a hash of text, compiler and flags,
  /// where no other user can write the folder; empty: nothing is kept.
  std::string cacheFolder;
  /// Checks bounds, order and initialisation of every access: about twice the
  /// time.
  bool checks = true;
};

/// The order in which blocks and the threads of a block run.
enum class ThreadOrder { Ascending, Descending, Shuffled };

struct HostLaunch {
  /// Names the kernel in messages; filled in by HostModule::launch.
  std::string kernel;
  int grid[3] = {1, 1, 1};
  int block[3] = {1, 1, 1};
  size_t dynamicSharedBytes = 0;
  /// Whether all blocks run at once, as those have to that wait for each other.
  bool cooperative = false;
  ThreadOrder order = ThreadOrder::Ascending;
  /// For the order Shuffled.
  unsigned seed = 1;
};

/// A parameter of a kernel. Does not own what it points at.
struct HostArgument {
  enum class Kind { Scalar, Input, Output, InOut };
  Kind kind;
  std::string name;
  void *data;
  size_t bytes, elementBytes;

  template <typename T> static HostArgument scalar(T &value) {
    return {Kind::Scalar, {}, &value, sizeof(T), sizeof(T)};
  }
  /// An array that the kernel only reads.
  template <typename T>
  static HostArgument input(std::string name, const std::vector<T> &values) {
    return {Kind::Input, std::move(name), const_cast<T *>(values.data()),
            values.size() * sizeof(T), sizeof(T)};
  }
  /// An array that holds nothing before the launch, and every element of which
  /// the kernel has to write before it reads it.
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

/// Kernels compiled for the host. Move only; one launch at a time per object,
/// objects are independent.
class HostModule {
public:
  /// Compiles `text`, which uses the prelude and defines `kernels`. Costs a
  /// run of the compiler (0.1 to 0.5 s), nothing where the cache has it. The
  /// status holds the compiler's messages.
  static Result<HostModule> compile(const std::string &text,
                                    const std::vector<std::string> &kernels,
                                    const HostKernelOptions &options = {});
  ~HostModule();
  HostModule(HostModule &&) noexcept;
  HostModule &operator=(HostModule &&) noexcept;

  /// Runs one kernel on copies of its arrays that lie apart with guards around
  /// them; arguments with the same data share one copy. Inputs stay as they
  /// are; the others are written back, also after a failure. A failure names
  /// the kernel, the block and the thread, and the line where it is known.
  Status launch(const std::string &kernel, HostLaunch launch,
                const std::vector<HostArgument> &arguments) const;

private:
  HostModule();
  struct Loaded;
  std::unique_ptr<Loaded> loaded;
};

} // namespace mpc

#endif // MPC_TARGET_CUDA_HOST_HOSTKERNEL_H
