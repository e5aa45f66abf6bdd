//===- Collective.h - launches that all ranks do together -------*- C++ -*-===//
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

/// One message among the ranks of a program. The buffers of its launch are n
/// inputs, then n outputs; what is said of a tensor holds for each pair.
struct Collective {
  enum class Kind : uint8_t {
    /// Every rank's output is the reduction of all ranks' inputs.
    AllReduce,
    /// The input, read as one row and filled up with zeros, is cut into one
    /// piece of equal length per rank; rank r's output is the reduction of all
    /// ranks' pieces r.
    ReduceScatter,
    /// The output is all ranks' inputs one behind the other, in their order.
    AllGather,
    /// The output is the input of rank `root`.
    Broadcast,
  };
  enum class Reduction : uint8_t { Sum, Mean, Min, Max };

  Kind kind = Kind::AllReduce;
  /// Of AllReduce and ReduceScatter. Terms are added in the order of ranks,
  /// each widened to `accumulate`, in which sums stay; a mean divides the sum
  /// by the number of ranks; the result is rounded once to `element`, to the
  /// nearest and ties to even. A NaN of any rank makes a NaN, also of Min and
  /// Max, always the same one. Sums of integers wrap around. Every rank has the
  /// same bits. Where there is one rank, the result is a copy.
  Reduction reduction = Reduction::Sum;
  /// Of all tensors, and on the wire. Reductions are of f16, bf16, f32, f64,
  /// i32 and i64; what is only moved has any type.
  ElementType element = ElementType::F32;
  /// `element` or a wider type of its kind: f32 or f64, i64.
  ElementType accumulate = ElementType::F32;
  /// How many ranks the program was compiled for.
  int64_t ranks = 1;
  /// Of Broadcast.
  int64_t root = 0;

  bool reduces() const {
    return kind == Kind::AllReduce || kind == Kind::ReduceScatter;
  }
  /// Elements of the output for an input of `elements`; nullopt where 63 bits
  /// hold no such number.
  std::optional<int64_t> outputElements(int64_t elements) const;
  /// Why there is no such message, as the end of "message ...": "" where there
  /// is one.
  std::string obstacle() const;
  /// "all_reduce of f16 by mean in f32 over 4 ranks": names it in messages.
  std::string toString() const;

  bool operator==(const Collective &other) const = default;
};

} // namespace mpc

#endif // MPC_RUNTIME_COLLECTIVE_H
