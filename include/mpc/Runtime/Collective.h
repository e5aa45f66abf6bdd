//===- Collective.h - collective operations among ranks ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_COLLECTIVE_H
#define MPC_RUNTIME_COLLECTIVE_H

#include "mpc/Runtime/TensorType.h"

#include <cstdint>
#include <optional>
#include <string>

namespace mpc {

/// One collective operation of a program (as in MPI or NCCL). The buffers of
/// its launch are n inputs, then n outputs; each pair is one tensor.
struct Collective {
  enum class Kind : uint8_t {
    /// Each rank's output is the reduction of all ranks' inputs.
    AllReduce,
    /// The flattened input, zero-padded, is split into one shard of equal
    /// length per rank; rank r's output is the reduction of all ranks' shards
    /// r.
    ReduceScatter,
    /// The output is the concatenation of all ranks' inputs, in rank order.
    AllGather,
    /// The output is the input of rank `root`.
    Broadcast,
  };
  enum class Reduction : uint8_t { Sum, Mean, Min, Max };

  Kind kind = Kind::AllReduce;
  /// Reduction of AllReduce and ReduceScatter. Deterministic: terms are added
  /// neighboring ranks first, in type `accumulate`; a mean divides the sum by
  /// the number of ranks; the result is rounded once to `element`, to nearest
  /// even. A NaN of any rank gives the same quiet NaN, also for Min and Max.
  /// Integer sums wrap around. All ranks get the same bits. With one rank the
  /// result is a copy.
  Reduction reduction = Reduction::Sum;
  /// Type of all tensors and of the communication. Reductions support f16,
  /// bf16, f32, f64, i32 and i64; other collectives any type.
  ElementType element = ElementType::F32;
  /// Accumulator type: `element` or a wider type of its kind, f32 or f64, or
  /// i64.
  ElementType accumulate = ElementType::F32;
  /// Number of ranks the program was compiled for.
  int64_t ranks = 1;
  /// Source rank of Broadcast.
  int64_t root = 0;

  bool reduces() const {
    return kind == Kind::AllReduce || kind == Kind::ReduceScatter;
  }
  /// Returns the elements of the output for an input of `elements`; nullopt on
  /// overflow.
  std::optional<int64_t> outputElements(int64_t elements) const;
  /// Returns why the collective is unsupported, as the end of "message ...";
  /// empty if it is supported.
  std::string obstacle() const;
  /// "all_reduce of f16 by mean in f32 over 4 ranks": name in messages.
  std::string toString() const;

  bool operator==(const Collective &other) const = default;
};

} // namespace mpc

#endif // MPC_RUNTIME_COLLECTIVE_H
