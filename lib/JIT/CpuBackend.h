//===- CpuBackend.h - kernels of a program for CPUs -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_CPUBACKEND_H
#define MPC_LIB_JIT_CPUBACKEND_H

#include "Backend.h"

#include "mpc/Target/CPU/Codegen.h"

namespace mpc {

/// Machine code by LLVM for a level of CPU.
class CpuBackend : public Backend {
public:
  CpuBackend(const TargetInfo &target, BackendOptions options,
             const CpuTarget &level)
      : Backend(target, std::move(options)), level(level) {}

  mlir::LogicalResult lower(mlir::ModuleOp kernels) override;
  llvm::SmallVector<mlir::Attribute>
  neighbours(mlir::func::FuncOp kernel, mlir::Attribute around) override;
  Status generate(mlir::ModuleOp lowered, Program &program) override;
  Result<std::vector<std::byte>> generateFile(mlir::ModuleOp lowered,
                                              Program &program) override;

protected:
  const CpuTarget level;

private:
  /// Gives each launch the work that its kernel's code has.
  Status completeLaunches(Program &program) const;

  /// Of the kernels that were lowered.
  llvm::SmallVector<KernelInfo> infos;
};

} // namespace mpc

#endif // MPC_LIB_JIT_CPUBACKEND_H
