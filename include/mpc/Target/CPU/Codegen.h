//===- Codegen.h - outlined kernels to LLVM dialect -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU backend's one entry.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CPU_CODEGEN_H
#define MPC_TARGET_CPU_CODEGEN_H

#include "mpc/Target/CPU/CpuTarget.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace mpc {

/// On a kernel, array of i64: the numbers of results, floats of 16 to 64 bits,
/// in which infinities and NaNs are noticed where they are stored.
inline constexpr llvm::StringLiteral kWatchedResultsAttr = "mpc.watched";

/// What a caller of a kernel has to know. The kernel's symbol is `name`:
///   void name(void *const *buffers, int64_t begin, int64_t end, void *scratch)
/// `buffers` holds inputs, then outputs, then an int64_t for each watched
/// result, then the memory that all calls share where there is some; every
/// output element is written once all of
/// `[0, items)` has been run, in any split and order, also concurrently, but
/// that the last `laterItems` begin when all others have ended.
/// Outputs are apart from inputs, but for inputs that the kernel's
/// `exe.in_place` names: an output may lie exactly over those.
struct KernelInfo {
  std::string name;
  /// Number of independent work items.
  int64_t items = 1;
  /// Fewest items that are worth a task of their own.
  int64_t grain = 1;
  /// Private memory that each call needs, 64-byte aligned; may be 0.
  int64_t scratchBytes = 0;
  /// Items that begin when all others have ended, and the memory, 64-byte
  /// aligned, in which these leave what they read.
  int64_t laterItems = 0, sharedBytes = 0;
  /// Results that are watched (kWatchedResultsAttr), in the order of their
  /// words. A word becomes 1 where an infinity or NaN is stored.
  llvm::SmallVector<int64_t> watched = {};
};

/// Registers the dialects that lowerKernels creates, and their translations.
void registerCodegenDialects(mlir::DialectRegistry &registry);

/// Replaces every kernel of `kernels` (functions on tensors with an attribute
/// `mpc.kernel_kind`) by LLVM dialect with the C interface above, for the
/// module's target. Runs mpc-schedule-cpu-kernels, mpc-emit-cpu-kernels and
/// mpc-lower-tiles; `after` is called with what each has made: "scheduled",
/// "tiles", "vectors". On failure the diagnostic names the kernel and the
/// module is left in an unspecified state.
mlir::FailureOr<llvm::SmallVector<KernelInfo>> lowerKernels(
    mlir::ModuleOp kernels,
    llvm::function_ref<mlir::LogicalResult(llvm::StringRef)> after = {});
/// The same for `target`, whatever the module says.
mlir::FailureOr<llvm::SmallVector<KernelInfo>>
lowerKernels(mlir::ModuleOp kernels, const CpuTarget &target);

/// The schedules (exe::kScheduleAttr) of `kernel`, a function as above, that
/// differ from `around` in one number, by a factor of two or the next that
/// fits, and for which there is code; with a null `around`, what the cost model
/// chooses. Empty where the kernel has nothing to be cut. `kernel` stays as it
/// is, and nothing is reported.
llvm::SmallVector<mlir::Attribute>
neighbouringSchedules(mlir::func::FuncOp kernel, const CpuTarget &target,
                      mlir::Attribute around);

} // namespace mpc

#endif // MPC_TARGET_CPU_CODEGEN_H
