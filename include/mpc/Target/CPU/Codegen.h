//===- Codegen.h - kernel functions to the LLVM dialect ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entry point of the CPU code generator.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CPU_CODEGEN_H
#define MPC_TARGET_CPU_CODEGEN_H

#include "mpc/Target/CPU/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mpc::cpu {

/// On a kernel, arrays of i64: indices of the floating-point results (16 to 64
/// bits) whose stores are checked for infinities and NaNs, and for each the
/// NonFinite values that are exempt.
inline constexpr llvm::StringLiteral kCheckedResultsAttr =
                                         "mpc.checked_results",
                                     kExemptValuesAttr = "mpc.exempt_values";

/// Call interface of a generated kernel. The kernel's symbol is `name`:
///   void name(void *const *buffers, int64_t begin, int64_t end, void *scratch)
/// `buffers` holds inputs, outputs, one int64_t flag per watched result, and
/// the memory shared by all calls, if any. Outputs are complete once all work
/// items `[0, items)` have run, in any split and order, also concurrently,
/// except that the last `laterItems` start after all others have finished.
/// Outputs do not overlap inputs, except those of `exe.in_place`: an output may
/// alias such an input exactly.
struct KernelInfo {
  std::string name;
  /// Number of independent work items.
  int64_t items = 1;
  /// Minimum number of work items per task.
  int64_t grain = 1;
  /// Private scratch memory per call, in bytes, 64-byte aligned; may be 0.
  int64_t scratchBytes = 0;
  /// Number of final work items, which run after all others, and bytes of
  /// 64-byte-aligned memory through which they receive their inputs.
  int64_t laterItems = 0, sharedBytes = 0;
  /// Watched results (kCheckedResultsAttr), in the order of their flags. A flag
  /// is set to 1 when an infinity or NaN is stored that is not exempt.
  llvm::SmallVector<int64_t> watched = {};
};

/// Registers the dialects that lowerKernels creates and their translations.
void registerCodegenDialects(mlir::DialectRegistry &registry);

/// Lowers every kernel in `kernels` (functions on tensors with an attribute
/// `mpc.kernel_kind`) to the LLVM dialect with the C interface above, for the
/// module's target. Runs mpc-schedule-cpu-kernels, mpc-emit-cpu-kernels and
/// mpc-lower-tiles; calls `after` with the stage's name after each:
/// "scheduled", "tiles", "vectors". On failure the diagnostic names the kernel
/// and the module is left in an unspecified state.
mlir::FailureOr<llvm::SmallVector<KernelInfo>> lowerKernels(
    mlir::ModuleOp kernels,
    llvm::function_ref<mlir::LogicalResult(llvm::StringRef)> after = {});
/// The same for `target` instead of the module's target.
mlir::FailureOr<llvm::SmallVector<KernelInfo>>
lowerKernels(mlir::ModuleOp kernels, const CpuTarget &target);

/// Returns the valid schedules (exe::kScheduleAttr) of `kernel` that differ
/// from `around` in one parameter, by a factor of two or to the next legal
/// value; for a null `around`, the cost model's choice. Empty if the kernel has
/// no schedule. Neither changes `kernel` nor emits diagnostics.
llvm::SmallVector<mlir::Attribute>
neighbouringSchedules(mlir::func::FuncOp kernel, const CpuTarget &target,
                      mlir::Attribute around);

} // namespace mpc::cpu

#endif // MPC_TARGET_CPU_CODEGEN_H
