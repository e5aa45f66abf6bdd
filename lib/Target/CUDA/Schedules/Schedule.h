//===- Schedule.h - how kernels run on a GPU --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The families of kernels. A family first chooses a schedule for a kernel on
// tensors (mpc-schedule-kernels), then writes the kernel's body by it
// (mpc-lower-kernels-to-gpu).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_SCHEDULE_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_SCHEDULE_H

#include "Target/Kernel/KernelForm.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"
#include "mpc/Target/CUDA/CudaTarget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace mpc {

/// What mpc-schedule-kernels decides about one kernel.
struct Schedule {
  /// The family's name.
  std::string family;
  std::array<int64_t, 3> blocks = {1, 1, 1};
  int64_t threads = 128;
  /// Bytes of a block's dynamic shared memory, and of the scratch buffer in
  /// global memory (CudaKernelInfo).
  int64_t sharedBytes = 0, scratchBytes = 0;
  /// Of families that are programs over tiles: how their items are spread.
  tile::TeamAttr team;
  /// The family's own numbers by name: tile extents, vector widths, stages.
  std::map<std::string, int64_t> parameters;

  /// As exe::kScheduleAttr.
  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
  /// Fails, with a diagnostic, where `kernel` has no well-formed schedule.
  static mlir::FailureOr<Schedule> of(mlir::func::FuncOp kernel);

  int64_t operator[](llvm::StringRef name) const {
    return parameters.at(name.str());
  }
  /// Whether blocks wait for each other (CudaKernelInfo): among the parameters
  /// only where they do.
  static constexpr const char *kCooperative = "cooperative";
  bool isCooperative() const { return parameters.count(kCooperative); }
};

/// The body of a GPU kernel while it is written.
struct GpuBody {
  mlir::gpu::GPUFuncOp function;
  mlir::OpBuilder builder;
  mlir::Location loc;
  /// The scratch buffer; null where there is none.
  mlir::Value scratch;
  /// Where the code is a part of a larger kernel: the first of its blocks.
  int64_t firstBlock = 0;

  /// Blocks of the grid along x.
  int64_t blocks() { return (*function.getKnownGridSize())[0]; }
  /// The index of this thread in its block, of this block in the grid.
  mlir::Value thread();
  mlir::Value block(mlir::gpu::Dimension dimension = mlir::gpu::Dimension::x);
  /// A shared array of the block, in static shared memory.
  mlir::Value shared(llvm::ArrayRef<int64_t> shape, mlir::Type type,
                     llvm::StringRef name);
  /// A private array of the thread.
  mlir::Value local(llvm::ArrayRef<int64_t> shape, mlir::Type type,
                    llvm::StringRef name);
  void barrier();
  /// `body` where `condition` (null: always) holds.
  void within(mlir::Value condition, llvm::function_ref<void()> body);
  /// `value` shown under `name` in the printed kernel.
  mlir::Value named(mlir::Value value, llvm::StringRef name);
};

/// The scratch buffer among a kernel's arguments, or null.
mlir::Value scratchOf(mlir::gpu::GPUFuncOp function);

/// One kernel while its family writes it. `function` is empty but for the
/// terminator, before which the builder stands.
struct GpuKernel : GpuBody {
  /// The kernel on tensors; left alone.
  mlir::func::FuncOp kernel;
  const CudaTarget &target;
  const Schedule &schedule;
  /// Memory of the kernel's arguments and results (memoryType).
  llvm::SmallVector<mlir::Value> inputs, outputs;
};

/// A function on the memory of a kernel, beside its module, that code is
/// written into to be measured.
struct MemoryTrial {
  explicit MemoryTrial(mlir::func::FuncOp kernel);

  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  KernelMemory memory;
  /// A position of which nothing is known.
  mlir::Value item;
};

/// The architecture that `module` is for; a diagnostic at it where no kernels
/// are generated for its target.
mlir::FailureOr<CudaTarget> cudaTargetOf(mlir::Operation *module);

/// Element code for GPU kernels: the prelude's functions, 16-bit types.
ElementTarget cudaElementTarget();

/// Marks a loop whose iterations are printed as `#pragma unroll`.
inline constexpr llvm::StringLiteral kUnrollAttr = "mpc.unroll";

class KernelFamily {
public:
  virtual ~KernelFamily() = default;
  virtual llvm::StringRef name() const = 0;
  /// How `kernel` would run; nullopt where this family does not generate it.
  virtual std::optional<Schedule> schedule(mlir::func::FuncOp kernel,
                                           const CudaTarget &target) const = 0;
  /// What a schedule by hand has to be: the same with as many numbers of
  /// `given` as the kernel can be written by, and all that follow from them.
  virtual std::optional<Schedule> scheduleAs(mlir::func::FuncOp kernel,
                                             const CudaTarget &target,
                                             const Schedule &given) const {
    return schedule(kernel, target);
  }
  /// Writes the body that the schedule describes. Diagnostics go to the op that
  /// cannot be generated.
  virtual mlir::LogicalResult emit(GpuKernel &kernel) const = 0;
};

/// All families in the order in which they are asked, the most specific first.
llvm::ArrayRef<std::unique_ptr<KernelFamily>> kernelFamilies();
/// The one that `schedule` names; a diagnostic at its kernel where none is.
mlir::FailureOr<const KernelFamily *> familyOf(mlir::func::FuncOp kernel,
                                               const Schedule &schedule);
/// Whether `kernel` can be written by its schedule, which may be given by hand;
/// a diagnostic otherwise.
mlir::LogicalResult checkSchedule(mlir::func::FuncOp kernel,
                                  const CudaTarget &target);
/// `chosen` on the grid of `given` where that has as many threads. Of families
/// whose threads take an item each.
Schedule onGridOf(const Schedule &given, Schedule chosen);
/// `chosen` with the team of `given` and the launch and memory for it, which
/// are compared with what is written for teams then.
Schedule withTeamOf(const Schedule &given, Schedule chosen);

// Contractions (Gemm*.cpp), convolutions (Convolution*.cpp), attention
// (Attention*.cpp).
std::unique_ptr<KernelFamily> createGemmFamily();
std::unique_ptr<KernelFamily> createConvolutionFamily();
std::unique_ptr<KernelFamily> createAttentionFamily();
/// Its gradient (AttentionGradient*.cpp).
std::unique_ptr<KernelFamily> createAttentionGradientFamily();
/// All steps of a recurrent layer (Recurrence*.cpp).
std::unique_ptr<KernelFamily> createRecurrenceFamily();
/// Gradients of convolution filters (FilterGradient.cpp).
std::unique_ptr<KernelFamily> createFilterFamily();
/// Rows in registers or shared memory: softmax, norms, reductions (Row*.cpp).
std::unique_ptr<KernelFamily> createRowFamily();
/// Reductions over other than the last dimension, and over few long rows
/// (Reduction*.cpp).
std::unique_ptr<KernelFamily> createReductionFamily();
/// Transposes through shared memory (Transpose*.cpp).
std::unique_ptr<KernelFamily> createTransposeFamily();
/// Parameters and states of a training step, of any shapes (Update*.cpp).
std::unique_ptr<KernelFamily> createUpdateFamily();
/// Whether gradients are finite, and their norm (Check*.cpp).
std::unique_ptr<KernelFamily> createCheckFamily();
/// Elementwise, movement, gathers, pools: a vector per thread (Map*.cpp).
std::unique_ptr<KernelFamily> createMapFamily();
/// What is left: items of the loop kernels, one per thread (Loop*.cpp).
std::unique_ptr<KernelFamily> createLoopFamily();

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_SCHEDULE_H
