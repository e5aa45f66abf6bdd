//===- CudaLaunches.h - a program's code on a GPU ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Modules, functions and constants of one program: what all of its runs share
// and none writes.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CUDA_CUDALAUNCHES_H
#define MPC_LIB_RUNTIME_CUDA_CUDALAUNCHES_H

#include "CudaContext.h"
#include "CudaDevice.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc::detail {

/// Addresses of what one run works on.
struct RunMemory {
  std::vector<CuAddress> arguments, results;
  CuAddress arena = 0, scratch = 0, workspace = 0;
  /// Words of Program::checks, in page-locked host memory.
  CuAddress checks = 0;
};

/// `bytes` rounded up to the alignment of all pieces of device memory.
constexpr int64_t alignOnDevice(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// What kernels load and store at once: the alignment that they need of every
/// buffer.
inline constexpr uintptr_t kDeviceLoadBytes = 16;

class CudaLaunches {
public:
  /// Checks the launches against the device, loads the machine code, which
  /// `services` compile where the program has none, and uploads the constants.
  static Result<std::unique_ptr<CudaLaunches>>
  create(std::shared_ptr<CudaContext> context,
         std::shared_ptr<const Program> program, const CudaServices &services,
         GemmLibrary *library, RankLibrary *messages = nullptr);

  size_t count() const { return steps.size(); }
  /// Bytes of private buffers of the launches, which are zero at first and
  /// between runs.
  int64_t scratchBytes() const { return scratch; }
  /// Whether a launch is a message among ranks.
  bool isMessage(size_t index) const {
    return program->launches[index].collective.has_value();
  }
  /// Bytes that library calls need while they run: products, and behind them
  /// messages, which run beside.
  int64_t workspaceBytes() const { return workspace + messageWorkspace; }

  /// Enqueues one launch. The context must be current. With `early` it may
  /// begin while the launch before it on the stream ends, where both are
  /// kernels of ours on a GPU that knows how to (sm_90): each begins with a
  /// wait for that.
  Status launch(size_t index, const RunMemory &memory, CuHandle stream,
                bool early = false) const;
  /// "main: kernel 'fc_relu' (fc/MatMul, relu)".
  std::string describe(size_t index) const;

private:
  CudaLaunches(std::shared_ptr<CudaContext> context,
               std::shared_ptr<const Program> program)
      : context(std::move(context)), program(std::move(program)) {}
  Status checkLimits() const;
  Status loadModules(const CudaServices &services);
  Status findFunctions(const std::map<std::string, CuHandle> &functions);
  Status checkResidency() const;
  /// Finds the launches that may begin while the ones before them end.
  void planOverlaps();
  Status prepareProducts(GemmLibrary *library);
  Status uploadConstants();

  /// What a launch becomes: a function, a product, or nothing.
  struct Step {
    CuHandle function = nullptr;
    bool overlaps = false;
    std::shared_ptr<PreparedGemm> product;
    int64_t scratchOffset = 0;
  };

  std::shared_ptr<CudaContext> context;
  std::shared_ptr<const Program> program;
  std::vector<CudaModule> modules;
  std::vector<Step> steps;
  /// What sends the messages; null where there are none.
  RankLibrary *messages = nullptr;
  int64_t scratch = 0, workspace = 0, messageWorkspace = 0;
  std::shared_ptr<void> constantMemory;
  std::vector<CuAddress> constants;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDALAUNCHES_H
