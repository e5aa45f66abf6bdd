//===- CpuBackend.h - code generation for CPU kernels -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_CPUBACKEND_H
#define MPC_LIB_JIT_CPUBACKEND_H

#include "Backend.h"

#include "mpc/Target/CPU/Codegen.h"

namespace mpc {

/// Generates machine code with LLVM for a CPU level.
class CpuBackend : public Backend {
public:
  CpuBackend(const TargetInfo &target, BackendOptions options,
             const cpu::CpuTarget &level)
      : Backend(target, std::move(options)), level(level) {}

  mlir::LogicalResult lower(mlir::ModuleOp kernels) override;
  llvm::SmallVector<mlir::Attribute>
  neighbours(mlir::func::FuncOp kernel, mlir::Attribute around) override;
  Status generate(mlir::ModuleOp lowered, Program &program) override;
  Result<std::vector<std::byte>> generateFile(mlir::ModuleOp lowered,
                                              Program &program) override;

protected:
  const cpu::CpuTarget level;

private:
  /// Sets the work-item counts of each launch from its kernel's code.
  Status completeLaunches(Program &program) const;

  /// Work-item counts and other facts of the lowered kernels.
  llvm::SmallVector<cpu::KernelInfo> infos;
};

} // namespace mpc

#endif // MPC_LIB_JIT_CPUBACKEND_H
