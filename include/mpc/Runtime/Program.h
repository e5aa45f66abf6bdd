//===- Program.h - the compiled program -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers and launches in order: what a device executes. Hosts do not build one
// by hand; the JIT and the loader do.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_PROGRAM_H
#define MPC_RUNTIME_PROGRAM_H

#include "mpc/Runtime/Collective.h"
#include "mpc/Runtime/Gemm.h"
#include "mpc/Runtime/Layers.h"
#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// The one signature of compiled CPU code. `buffers` are the launch's buffers
/// in order (inputs, then outputs), behind them the launch's shared memory
/// where it has some, `[begin, end)` the work items to do, `scratch` memory of
/// the launch's scratch size for this call alone.
using KernelFunction = void (*)(void *const *buffers, int64_t begin,
                                int64_t end, void *scratch);

/// An argument or a result of a program.
struct ProgramValue {
  std::string name;
  TensorType type;
  /// What it is: "input", "label", "parameter", "parameter_copy", "statistics",
  /// "optimizer_state", "optimizer_step", "loss_scale_state", "rng_state",
  /// "output" or "loss"; empty where the model does not say.
  std::string role = {};
  /// Of role loss_scale_state: "scale", "good_steps", ...; else empty.
  std::string field = {};
  /// Of a result that is the new contents of an argument's buffer: the number
  /// of that argument, which has the same type. -1 for a buffer of its own.
  int64_t alias = -1;
  /// Of an argument: the value to begin with, of initialType() and aligned to
  /// kBufferAlignment; null where the model gives none. Shared, never written.
  std::shared_ptr<const void> initial = {};
  /// Of the field "overflow" of a loss scale's state: the gradients in the
  /// order that its first number counts, each with the op that made it.
  std::vector<std::string> labels = {};
  /// Of an argument that is a rank's piece of a tensor: the tensor's shape. The
  /// piece is one row of the tensor's elements, as many on each rank; behind
  /// the last element are zeros.
  std::optional<std::vector<int64_t>> shardOf = {};

  /// The type of the whole tensor.
  TensorType initialType() const {
    return shardOf ? TensorType{type.element, *shardOf} : type;
  }
};

/// A constant's bytes, aligned to kBufferAlignment. Shared, never written.
struct ProgramConstant {
  std::string name;
  TensorType type;
  std::shared_ptr<const void> data;
  int64_t bytes = 0;
};

/// A condition that kernels check while they run. Each has a 64-bit word
/// (BufferRef::Kind::Checks) that is zero before a run and after a run that
/// violates nothing.
struct RunCheck {
  enum class Kind {
    /// A gather or scatter must read indices in [-number, number). Its word
    /// receives one that is not. A run that reads such an index fails.
    IndexInRange,
    /// Result `number` should hold finite numbers. Its word is 1 where a kernel
    /// for a CPU may have stored others; RunOptions::nonFinite reports them.
    FiniteResult,
  };
  Kind kind = Kind::IndexInRange;
  /// Name of the gather's or scatter's op in the model; empty for a result.
  std::string op = {};
  /// Extent of the indexed axis, or number of the result.
  int64_t number = 0;
  /// Number of the argument whose elements are the indices; -1 where the model
  /// computes them.
  int64_t argument = -1;

  bool operator==(const RunCheck &) const = default;
};

/// Where a launch finds one of its buffers.
struct BufferRef {
  enum class Kind { Argument, Result, Constant, Arena, Checks };
  Kind kind = Kind::Arena;
  /// Number of the argument, result or constant; 0 for the arena and for the
  /// words of Program::checks.
  int64_t index = 0;
  /// Bytes from the start of that thing.
  int64_t offset = 0;
  int64_t bytes = 0;
  /// Whether the launch writes it.
  bool written = false;
};

/// How a CUDA kernel is launched: blocks of `threads` in one dimension.
struct LaunchGrid {
  std::array<int64_t, 3> blocks = {1, 1, 1};
  int64_t threads = 1;
  /// Dynamic shared memory of a block, in bytes.
  int64_t sharedBytes = 0;
  /// Whether blocks wait for each other, so that all have to run at once.
  bool cooperative = false;
};

/// One kernel call, one product that a library computes, or one message among
/// ranks.
struct Launch {
  /// The kernel's name; launches of the same code share it. The product's or
  /// the message's name where `gemm` or `collective` is set.
  std::string kernel;
  /// "elementwise", "row", "contraction", ... as `mpc explain` lists them.
  std::string kind;
  /// Names of the model's ops that the kernel computes.
  std::vector<std::string> ops;
  /// Null in a program for a device that runs nothing.
  KernelFunction function = nullptr;
  std::vector<BufferRef> buffers;
  /// Work items; they may be done in any order and by several threads at once.
  int64_t items = 1;
  /// Fewest items that are worth a thread of their own.
  int64_t grain = 1;
  /// So many of the items, the last ones, begin when all others have ended.
  int64_t laterItems = 0;
  /// On a CPU private memory of each call; on a GPU one buffer of the launch's
  /// own behind its other buffers, zero before the first run.
  int64_t scratchBytes = 0;
  /// Memory that all calls of one launch on a CPU share, in which items leave
  /// what later ones read.
  int64_t sharedBytes = 0;
  /// On a GPU, in place of items and grain.
  LaunchGrid grid;
  /// Set where a library computes the launch; its buffers are the problem's.
  std::optional<GemmProblem> gemm;
  /// Set where ranks exchange what the buffers hold. The launch ends when the
  /// first one behind it begins that reads or writes what it writes, or writes
  /// what it reads; until then others run beside it.
  std::optional<Collective> collective;
  int64_t flops = 0;
  /// Bytes that the launch reads and writes: where a kernel reads only a part
  /// of a buffer (an embedding's rows), that part.
  int64_t bytes = 0;
};

/// The kernels of a program for NVIDIA GPUs.
struct CudaCode {
  struct Kernel {
    std::string name;
    /// CUDA C++ in terms of the prelude (mpc/Target/CUDA/Host/HostKernel.h).
    std::string source;
  };
  /// The text in front of every kernel when it is compiled for a GPU.
  std::string prelude;
  /// Each kernel once.
  std::vector<Kernel> kernels;
  /// Machine code for one architecture ("sm_90a"): cubins with the kernels they
  /// hold.
  struct Binary {
    std::string architecture;
    std::vector<std::string> kernels;
    std::vector<std::byte> cubin;
  };
  std::vector<Binary> binaries;
};

/// A program for one device. Immutable once an Executable holds it.
struct Program {
  std::string name;
  /// What it was compiled for: "cpu:avx512".
  std::string target;
  std::vector<ProgramValue> arguments;
  std::vector<ProgramValue> results;
  std::vector<ProgramConstant> constants;
  int64_t arenaBytes = 0;
  std::vector<Launch> launches;
  /// The model's layers in the order of its ops, each once; empty where nothing
  /// is known of them. findLayer() reads them.
  std::vector<LayerTypes> layers;
  /// Keeps the memory that holds the kernels' code.
  std::shared_ptr<void> code;
  /// Of a program for NVIDIA GPUs; else null.
  std::shared_ptr<const CudaCode> cuda;
  /// Conditions that the launches check, in the order of their words.
  std::vector<RunCheck> checks;

  int64_t constantBytes() const;
  /// Bytes of constants, of the arena of one run, of arguments and of results
  /// that replace none; the largest number where no number holds them.
  int64_t neededBytes() const;
  int64_t bytesMoved() const;
  int64_t flops() const;
  /// The most bytes of the arena that hold values at one launch: written there
  /// or before, and read there or later. No plan of these launches in this
  /// order needs a smaller arena.
  int64_t liveArenaBytes() const;
  /// Bytes of the words of `checks`.
  int64_t checkBytes() const {
    return int64_t(sizeof(int64_t) * checks.size());
  }
};

/// Checks that every reference lies inside what it refers to, that nothing
/// writes an argument (but as the result that replaces it) or a constant, that
/// an argument is replaced by at most one result, of its type, that results'
/// and constants' sizes fit their types, that counts are positive, that
/// products and messages exist, that checks are of extents, arguments and
/// results that exist, and that layers appear once.
/// `needsCode` asks for a function in every launch but messages.
Status validate(const Program &program, bool needsCode);

} // namespace mpc

#endif // MPC_RUNTIME_PROGRAM_H
