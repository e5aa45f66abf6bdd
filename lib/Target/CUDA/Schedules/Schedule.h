//===- Schedule.h - schedules and kernel families ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel family is a code generator for one kind of kernel. It first chooses
// a schedule for a kernel on tensors (mpc-schedule-kernels), then generates the
// kernel's body from the schedule (mpc-lower-kernels-to-gpu).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_SCHEDULE_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_SCHEDULE_H

#include "Target/Kernel/KernelFunction.h"

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
class ElementEmitter;
} // namespace mpc

namespace mpc::cuda {

/// Threads of a warp.
inline constexpr int64_t kWarp = 32;
/// Threads per multiprocessor for full utilization.
inline constexpr int64_t kThreadsPerProcessor = 1024;
/// Bytes of the widest access to memory.
inline constexpr int64_t kVectorBytes = 16;

/// Launch configuration and tiling of one kernel.
struct Schedule {
  /// Name of the kernel family.
  std::string family;
  std::array<int64_t, 3> blocks = {1, 1, 1};
  int64_t threads = 128;
  /// Dynamic shared memory per block, and the scratch buffer in global memory,
  /// in bytes (CudaKernelInfo).
  int64_t sharedBytes = 0, scratchBytes = 0;
  /// For families that generate tile programs: mapping of work items to
  /// threads.
  tile::ThreadMappingAttr team;
  /// Family-specific parameters by name: tile sizes, vector widths, stages.
  std::map<std::string, int64_t> parameters;

  /// Converts to the attribute exe::kScheduleAttr.
  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
  /// Parses the schedule of `kernel`; a missing or malformed one is an error.
  static mlir::FailureOr<Schedule> of(mlir::func::FuncOp kernel);

  int64_t operator[](llvm::StringRef name) const {
    return parameters.at(name.str());
  }
  /// Parameter of kernels with a grid barrier (CudaKernelInfo); absent in
  /// others.
  static constexpr const char *kCooperative = "cooperative";
  bool isCooperative() const { return parameters.count(kCooperative); }
};

/// The body of a GPU kernel under construction.
struct GpuBody {
  mlir::gpu::GPUFuncOp function;
  mlir::OpBuilder builder;
  mlir::Location loc;
  /// Scratch buffer; null if there is none.
  mlir::Value scratch;
  /// In a horizontally fused kernel: first block of this part.
  int64_t firstBlock = 0;

  /// Number of blocks along x.
  int64_t blocks() { return (*function.getKnownGridSize())[0]; }
  /// Index of this thread in its block, of this block in the grid.
  mlir::Value thread();
  mlir::Value block(mlir::gpu::Dimension dimension = mlir::gpu::Dimension::x);
  /// Allocates an array in static shared memory.
  mlir::Value shared(llvm::ArrayRef<int64_t> shape, mlir::Type type,
                     llvm::StringRef name);
  /// Allocates a thread-private array.
  mlir::Value local(llvm::ArrayRef<int64_t> shape, mlir::Type type,
                    llvm::StringRef name);
  void barrier();
  /// Emits `body` under `condition` (null: always).
  void within(mlir::Value condition, llvm::function_ref<void()> body);
  /// Yields `body()` under `condition` (null: always), else `other()` or zeros
  /// of `type`.
  mlir::Value orElse(mlir::Value condition, mlir::Type type,
                     llvm::function_ref<mlir::Value()> body,
                     llvm::function_ref<mlir::Value()> other = nullptr);
  /// Names `value` in the printed kernel and returns it.
  mlir::Value named(mlir::Value value, llvm::StringRef name);
};

/// Returns the scratch buffer among a kernel's arguments, or null.
mlir::Value scratchOf(mlir::gpu::GPUFuncOp function);

/// A kernel under construction by its family. `function` is empty except for
/// the terminator, the initial insertion point.
struct GpuKernel : GpuBody {
  /// The kernel on tensors; not modified.
  mlir::func::FuncOp kernel;
  const CudaTarget &target;
  const Schedule &schedule;
  /// Memrefs of the kernel's arguments and results (memoryType).
  llvm::SmallVector<mlir::Value> inputs, outputs;

  /// Binds the kernel's arguments to their memory.
  void bindInputs(ElementEmitter &emitter) const;
};

/// A function on the memory of a kernel, in a separate module, into which code
/// is generated to measure it.
struct TrialCodegen {
  explicit TrialCodegen(mlir::func::FuncOp kernel);

  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  KernelMemory memory;
  /// An opaque work item index.
  mlir::Value item;
};

/// Returns the architecture that `module` is compiled for. Reports an error if
/// no kernels are generated for its target.
mlir::FailureOr<CudaTarget> cudaTargetOf(mlir::Operation *module);

/// Elementwise codegen for GPU kernels: prelude functions, 16-bit types.
ElementTarget cudaElementTarget();

/// Marks a loop to be printed with `#pragma unroll`.
inline constexpr llvm::StringLiteral kUnrollAttr = "mpc.unroll";

class KernelFamily {
public:
  virtual ~KernelFamily() = default;
  virtual llvm::StringRef name() const = 0;
  /// Chooses a schedule for `kernel`; nullopt if the family does not support
  /// it.
  virtual std::optional<Schedule> schedule(mlir::func::FuncOp kernel,
                                           const CudaTarget &target) const = 0;
  /// Validates a user-provided schedule: returns the chosen schedule with those
  /// parameters of `given` that the kernel can use, and all that depend on
  /// them.
  virtual std::optional<Schedule> scheduleAs(mlir::func::FuncOp kernel,
                                             const CudaTarget &target,
                                             const Schedule &given) const {
    return schedule(kernel, target);
  }
  /// Generates the scheduled body. Diagnostics refer to the unsupported op.
  virtual mlir::LogicalResult emit(GpuKernel &kernel) const = 0;
};

/// Returns all families in order of preference, the most specific first.
llvm::ArrayRef<std::unique_ptr<KernelFamily>> kernelFamilies();
/// Returns the family that `schedule` names; reports an error if unknown.
mlir::FailureOr<const KernelFamily *> familyOf(mlir::func::FuncOp kernel,
                                               const Schedule &schedule);
/// Verifies that `kernel` can be generated with its schedule, which may be
/// user-provided.
mlir::LogicalResult checkSchedule(mlir::func::FuncOp kernel,
                                  const CudaTarget &target);
/// Returns `chosen` with the grid of `given` if that has as many threads. For
/// families with one work item per thread.
Schedule onGridOf(const Schedule &given, Schedule chosen);
/// Returns `chosen` with the thread group of `given` and the launch and memory
/// that follow from it, to be checked against the generated code.
Schedule withTeamOf(const Schedule &given, Schedule chosen);

std::unique_ptr<KernelFamily> createGemmFamily();
std::unique_ptr<KernelFamily> createConvolutionFamily();
std::unique_ptr<KernelFamily> createAttentionFamily();
/// Attention gradient.
std::unique_ptr<KernelFamily> createAttentionGradientFamily();
/// All time steps of a recurrent layer.
std::unique_ptr<KernelFamily> createRecurrenceFamily();
/// Filter gradients of convolutions.
std::unique_ptr<KernelFamily> createFilterFamily();
/// Row reductions in registers or shared memory: softmax, norms.
std::unique_ptr<KernelFamily> createRowFamily();
/// Reductions over other dimensions than the last, and over few long rows.
std::unique_ptr<KernelFamily> createReductionFamily();
/// Transposes through shared memory.
std::unique_ptr<KernelFamily> createTransposeFamily();
/// Optimizer updates: parameters and states of any shapes.
std::unique_ptr<KernelFamily> createUpdateFamily();
/// Finiteness and norm of gradients.
std::unique_ptr<KernelFamily> createCheckFamily();
/// Elementwise, data movement, gather, pooling: a vector per thread.
std::unique_ptr<KernelFamily> createMapFamily();
/// Fallback: one work item of a loop kernel per thread.
std::unique_ptr<KernelFamily> createLoopFamily();

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_SCHEDULE_H
