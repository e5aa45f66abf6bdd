//===- Collective.h - launches that all ranks do together -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_COLLECTIVE_H
#define MPC_RUNTIME_COLLECTIVE_H

#include "mpc/Runtime/TensorType.h"

#include <cstdint>

namespace mpc {

/// One message among the ranks of a program. The buffers of its launch are n
/// inputs, then n outputs; what is said of a tensor holds for each pair.
struct Collective {
  enum class Kind {
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
  enum class Reduction { Sum, Mean, Min, Max };

  Kind kind = Kind::AllReduce;
  /// Of AllReduce and ReduceScatter. Terms are added in the order of ranks,
  /// each widened to `accumulate`, in which sums stay; a mean divides the sum
  /// by the number of ranks; the result is rounded once to `element`. A NaN of
  /// any rank makes a NaN, also of Min and Max. Every rank has the same bits.
  Reduction reduction = Reduction::Sum;
  /// Of all tensors, and on the wire.
  ElementType element = ElementType::F32;
  ElementType accumulate = ElementType::F32;
  /// How many ranks the program was compiled for.
  int64_t ranks = 1;
  /// Of Broadcast.
  int64_t root = 0;
};

} // namespace mpc

#endif // MPC_RUNTIME_COLLECTIVE_H
