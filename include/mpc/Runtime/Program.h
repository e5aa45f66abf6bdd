//===- Program.h - compiled programs ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers and a sequence of launches, as a device executes them. Built by the
// JIT and the file loader, not by hosts.
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
#include <string_view>
#include <vector>

namespace mpc {

/// Signature of compiled CPU kernels. `buffers` are the launch's buffers in
/// order (inputs, then outputs), followed by the launch's shared memory if it
/// has some; `[begin, end)` are the work items to compute; `scratch` is private
/// memory of this call, of the launch's scratch size.
using KernelFunction = void (*)(void *const *buffers, int64_t begin,
                                int64_t end, void *scratch);

/// An argument or result of a program.
struct ProgramValue {
  std::string name;
  TensorType type;
  /// Role: "input", "label", "parameter", "parameter_copy", "statistics",
  /// "optimizer_state", "optimizer_step", "loss_scale_state", "scaling_state",
  /// "rng_state", "output" or "loss"; empty if the model does not specify one.
  std::string role = {};
  /// For an argument with indices: exclusive upper bound of its integers, whose
  /// lower bound is 0; 0 if unknown.
  int64_t integerBound = 0;
  /// Field of a loss_scale_state: "scale", "good_steps", ...; else empty.
  std::string field = {};
  /// For a result that updates an argument's buffer in place: index of that
  /// argument, which has the same type; -1: a separate buffer.
  int64_t alias = -1;
  /// For an argument: initial value, of initialType(), aligned to
  /// kBufferAlignment; null if the model has none. Shared and immutable.
  std::shared_ptr<const void> initial = {};
  /// For the field "overflow" of a loss-scale state: the gradients, in the
  /// order of its first number's count, each with the op that computed it. For
  /// a scaling_state: the quantized operands, by column.
  std::vector<std::string> labels = {};
  /// For an argument that is a rank's shard of a tensor: the tensor's shape.
  /// Shards are equal slices of the flattened tensor, zero-padded.
  std::optional<std::vector<int64_t>> shardOf = {};

  /// Returns true for state that the compiler added to a training step, which
  /// callers need not pass: it starts from its initial value.
  bool isCompilerState() const {
    return initial && (role == "loss_scale_state" || role == "scaling_state" ||
                       role == "rng_state");
  }

  /// Type of the unsharded tensor.
  TensorType initialType() const {
    return shardOf ? TensorType{type.element, *shardOf} : type;
  }
};

/// A constant's bytes, aligned to kBufferAlignment. Shared and immutable.
struct ProgramConstant {
  std::string name;
  TensorType type;
  std::shared_ptr<const void> data;
  int64_t bytes = 0;
  /// Identifies the bytes in the compile cache's store of weights, which need
  /// not have them; empty if unknown.
  std::string key = {};
};

/// Bits of a set of non-finite values.
struct NonFinite {
  static constexpr uint8_t kNan = 1, kPositiveInfinity = 2,
                           kNegativeInfinity = 4, kAll = 7;
};

/// A condition that kernels check at run time. Each has a 64-bit status word
/// (BufferRef::Kind::Checks) that is zero before a run and after a run without
/// violations.
struct RunCheck {
  enum class Kind {
    /// Indices of a gather or scatter must be in [-number, number). The status
    /// word receives an offending index, and the run fails.
    IndexInRange,
    /// Lengths and positions, which do not count from the end, must be in
    /// [0, number). Reported like indices.
    LengthInRange,
    /// Result `number` should be finite, except for `exempt` values. The status
    /// word is set to 1 if a CPU kernel may have stored other non-finite
    /// values; RunOptions::nonFinite reports them.
    FiniteResult,
  };
  Kind kind = Kind::IndexInRange;
  /// Name of the op with the indices or lengths in the model; empty for a
  /// result.
  std::string op = {};
  /// Extent of the indexed axis, or index of the result.
  int64_t number = 0;
  /// Index of the argument that contains the indices or lengths; -1 if the
  /// model computes them.
  int64_t argument = -1;
  /// For a result: NonFinite values that the model's own constants produce.
  uint8_t exempt = 0;

  bool operator==(const RunCheck &) const = default;
};

/// Location of a launch's buffer.
struct BufferRef {
  enum class Kind { Argument, Result, Constant, Arena, Checks };
  Kind kind = Kind::Arena;
  /// Index of the argument, result or constant; 0 for the arena and for the
  /// status words of Program::checks.
  int64_t index = 0;
  /// Offset, in bytes.
  int64_t offset = 0;
  int64_t bytes = 0;
  /// True if the launch writes it.
  bool written = false;
};

/// CUDA launch configuration: a 3-D grid of blocks of `threads` threads in one
/// dimension.
struct LaunchGrid {
  std::array<int64_t, 3> blocks = {1, 1, 1};
  int64_t threads = 1;
  /// Dynamic shared memory per block, in bytes.
  int64_t sharedBytes = 0;
  /// True for a cooperative launch: blocks synchronize through a grid barrier
  /// and must be co-resident.
  bool cooperative = false;
};

/// One kernel launch, library GEMM, or collective.
struct Launch {
  /// Name of the kernel, shared by launches of the same code; name of the GEMM
  /// or collective if `gemm` or `collective` is set.
  std::string kernel;
  /// "elementwise", "row", "contraction", ... as `mpc explain` lists them.
  std::string kind;
  /// Names of the model's ops that the kernel fuses.
  std::vector<std::string> ops;
  /// Code of a CPU kernel; null in a program for a device that executes
  /// nothing.
  KernelFunction function = nullptr;
  std::vector<BufferRef> buffers;
  /// Number of work items, which are independent and may run in parallel.
  int64_t items = 1;
  /// Minimum number of items per thread.
  int64_t grain = 1;
  /// Number of trailing items that start only after all others have finished.
  int64_t laterItems = 0;
  /// Private scratch memory in bytes: on a CPU per call; on a GPU one
  /// additional last buffer of the launch, zero before the first run.
  int64_t scratchBytes = 0;
  /// Memory that all calls of one CPU launch share, in bytes, for data passed
  /// from earlier to later items.
  int64_t sharedBytes = 0;
  /// Launch configuration on a GPU, instead of items and grain.
  LaunchGrid grid;
  /// Set if a library computes the launch; its buffers are the GEMM's.
  std::optional<GemmProblem> gemm;
  /// Set if the launch is a collective. Asynchronous: it is synchronized before
  /// the first later launch with a RAW, WAR or WAW dependence; other launches
  /// run concurrently.
  std::optional<Collective> collective;
  int64_t flops = 0;
  /// Bytes read and written: if a kernel reads only part of a buffer (an
  /// embedding's rows), only that part.
  int64_t bytes = 0;
};

/// Kernels of a program for NVIDIA GPUs.
struct CudaCode {
  struct Kernel {
    std::string name;
    /// CUDA C++ that uses the prelude (mpc/Target/CUDA/Host/HostKernel.h).
    std::string source;
  };
  /// Source text prepended to every kernel when it is compiled for a GPU.
  std::string prelude;
  /// Kernels, without duplicates.
  std::vector<Kernel> kernels;
  /// Machine code for one architecture ("sm_90a"): a cubin and the names of its
  /// kernels.
  struct Binary {
    std::string architecture;
    std::vector<std::string> kernels;
    std::vector<std::byte> cubin;
  };
  std::vector<Binary> binaries;
};

/// Suffix of targets whose programs compute reproducible results:
/// "cpu:avx2-reproducible".
inline constexpr std::string_view kReproducibleSuffix = "-reproducible";

/// Returns the bit class of a program for `target`, "vector" or "amx": all
/// programs of a class that are compiled from one model under one policy
/// compute the same bits. Empty if its results depend on the machine.
std::string_view bitClassOf(std::string_view target);

/// Returns the instruction-set level of a CPU target, "avx2", or the
/// architecture of a GPU.
std::string_view levelOf(std::string_view target);

/// A program for one device. Immutable once an Executable uses it.
struct Program {
  std::string name;
  /// Compilation target: "cpu:avx512".
  std::string target;
  std::vector<ProgramValue> arguments;
  std::vector<ProgramValue> results;
  std::vector<ProgramConstant> constants;
  int64_t arenaBytes = 0;
  std::vector<Launch> launches;
  /// Layers of the model in op order, without duplicates; empty if unknown.
  /// Read by findLayer().
  std::vector<LayerTypes> layers;
  /// Owner of the kernels' code.
  std::shared_ptr<void> code;
  /// Kernels of a program for NVIDIA GPUs; else null.
  std::shared_ptr<const CudaCode> cuda;
  /// Run-time checks, in the order of their status words.
  std::vector<RunCheck> checks;

  int64_t constantBytes() const;
  /// Returns the bytes of constants, of one run's arena, of arguments and of
  /// non-aliasing results; saturates on overflow.
  int64_t neededBytes() const;
  int64_t bytesMoved() const;
  int64_t flops() const;
  /// Returns the maximum of live arena bytes over all launches, a lower bound
  /// of the arena size for this launch order.
  int64_t liveArenaBytes() const;
  /// Size of the status words of `checks`, in bytes.
  int64_t checkBytes() const {
    return int64_t(sizeof(int64_t) * checks.size());
  }
};

/// Validates the program: references are in range; nothing writes an argument
/// (except through an aliasing result) or a constant; an argument is aliased by
/// at most one result of its type; buffer sizes match types; counts are
/// positive; GEMMs and collectives are supported; checks refer to existing
/// extents, arguments and results; layers are unique. With `needsCode` every
/// launch except collectives needs a function.
Status validate(const Program &program, bool needsCode);

} // namespace mpc

#endif // MPC_RUNTIME_PROGRAM_H
