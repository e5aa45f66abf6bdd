//===- Schedule.h - launch, tiling and body of a kernel ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule holds all decisions on how a kernel runs. mpc-schedule-kernels
// chooses it and stores it as an attribute; mpc-lower-kernels-to-gpu generates
// the kernel's body from it.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_PLAN_SCHEDULE_H
#define MPC_LIB_TARGET_CUDA_PLAN_SCHEDULE_H

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
#include <type_traits>

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
  /// Parameters of the family (a parameter struct) by name: numbers, or lists
  /// of them.
  std::map<std::string, llvm::SmallVector<int64_t, 1>> parameters;

  /// Converts to the attribute exe::kScheduleAttr.
  mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context) const;
  /// Parses the schedule of `kernel`; a missing or malformed one is an error.
  static mlir::FailureOr<Schedule> of(mlir::func::FuncOp kernel);

  /// Converts to and from a parameter struct `T`: tile sizes, vector widths,
  /// stages of one family. `T::map(parameters, field)` calls `field(name,
  /// member)` for every member, a number, flag or SmallVector of numbers, and
  /// `field(name, member, omitted)` for members that are not stored if they
  /// have the value `omitted`.
  template <typename T> void set(const T &typed);
  template <typename T> T get() const;
  /// Whether the parameter `name` is stored.
  bool has(llvm::StringRef name) const { return parameters.count(name.str()); }

  /// Parameter of kernels with a grid barrier (CudaKernelInfo); absent in
  /// others.
  static constexpr const char *kCooperative = "cooperative";
  bool isCooperative() const { return has(kCooperative); }
};

template <typename T> void Schedule::set(const T &typed) {
  auto store = [&](llvm::StringRef name, const auto &member) {
    auto &values = parameters[name.str()];
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(member)>>)
      values.assign(1, member);
    else
      values.assign(member.begin(), member.end());
  };
  T::map(typed, [&](llvm::StringRef name, const auto &member, auto... omitted) {
    if (!((member == omitted) || ...))
      store(name, member);
  });
}

template <typename T> T Schedule::get() const {
  T typed;
  T::map(typed, [&](llvm::StringRef name, auto &member, auto...) {
    auto found = parameters.find(name.str());
    if (found == parameters.end())
      return;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(member)>>)
      member = found->second.empty() ? 0 : found->second.front();
    else
      member.assign(found->second.begin(), found->second.end());
  });
  return typed;
}

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
  /// Moves the insertion point into a new `if` with `condition`.
  void enter(mlir::Value condition);
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

} // namespace mpc::cuda

#endif // MPC_LIB_TARGET_CUDA_PLAN_SCHEDULE_H
