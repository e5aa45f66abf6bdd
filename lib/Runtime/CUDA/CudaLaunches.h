//===- CudaLaunches.h - kernels and constants on a GPU ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Modules, functions and constants of one program: immutable, shared by all its
// runs.
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

/// Addresses of one run.
struct RunMemory {
  std::vector<CuAddress> arguments, results;
  CuAddress arena = 0, scratch = 0, workspace = 0;
  /// Status words of Program::checks, in page-locked host memory.
  CuAddress checks = 0;
};

/// Rounds `bytes` up to the alignment of device memory slices.
constexpr int64_t alignOnDevice(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// Vector load and store width of kernels, in bytes: the alignment that they
/// need of every buffer.
inline constexpr uintptr_t kDeviceLoadBytes = 16;

class CudaLaunches {
public:
  /// Checks the launches against the device's limits, loads the machine code,
  /// which `services` compile if the program has none, and uploads the
  /// constants.
  static Result<std::unique_ptr<CudaLaunches>>
  create(std::shared_ptr<CudaContext> context,
         std::shared_ptr<const Program> program, const CudaServices &services,
         GemmLibrary *library, CollectiveBackend *messages = nullptr);

  size_t count() const { return steps.size(); }
  /// Size of the launches' private buffers, in bytes, which are zero before and
  /// between runs.
  int64_t scratchBytes() const { return scratch; }
  /// Returns true if the launch is a collective.
  bool isMessage(size_t index) const {
    return program->launches[index].collective.has_value();
  }
  /// Workspace of library calls, in bytes: GEMMs, followed by collectives,
  /// which run concurrently.
  int64_t workspaceBytes() const { return workspace + messageWorkspace; }

  /// Enqueues one launch. The context must be current. With `early`, uses
  /// programmatic dependent launch (sm_90) if this and the previous launch are
  /// generated kernels: the kernel starts while the previous one ends and waits
  /// for it itself.
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
  /// Marks the launches that may start while the previous one ends.
  void planOverlaps();
  Status prepareProducts(GemmLibrary *library);
  Status uploadConstants();

  /// A prepared launch: a kernel function, a GEMM, or empty.
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
  /// Communication library; null without collectives.
  CollectiveBackend *messages = nullptr;
  int64_t scratch = 0, workspace = 0, messageWorkspace = 0;
  std::shared_ptr<void> constantMemory;
  std::vector<CuAddress> constants;
};

} // namespace mpc::detail

#endif // MPC_LIB_RUNTIME_CUDA_CUDALAUNCHES_H
