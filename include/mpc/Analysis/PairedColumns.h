//===- PairedColumns.h - two products in one ---------------------*- C++
//-*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product whose columns come in blocks, those of one matrix and those of
// another in turn, so that a tile of sums holds both halves of each pair. What
// mpc-pair-contractions makes, the fuser groups and kernels read is described
// here.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PAIREDCOLUMNS_H
#define MPC_ANALYSIS_PAIREDCOLUMNS_H

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Target/TargetInfo.h"

#include <array>
#include <optional>

namespace mpc {

struct PairedColumns {
  /// How `product` hands out its columns: reshaped to blocks of each half in
  /// turn, `[..., n, 2, block]`, of which a slice and a reshape to
  /// `[..., n * block]` make each half, and nothing else reads what lies
  /// between. nullopt where it does something else, or for a product that
  /// `hasTypes` refuses.
  static std::optional<PairedColumns> of(mlir::Operation *product);

  /// Columns of a block that targets of this kind want: half of what is one
  /// panel, or a vector of 16-bit floats that is stored at once. 0: kernels
  /// store nothing but sums in order.
  static int64_t blockFor(const KernelModel &kernels);

  /// Whether the product is of f32 and 16-bit floats, with sums in f32.
  static bool hasTypes(MatmulOp product);

  /// Where column `column` of a half stands among those of the product.
  int64_t placeOf(int64_t column, int64_t half) const {
    return (column / block * 2 + half) * block + column % block;
  }

  int64_t block = 0;
  /// The values that epilogues begin with.
  std::array<mlir::Value, 2> halves;
  /// The reshape, the slices and the reshapes of these, each behind what it
  /// reads.
  llvm::SmallVector<mlir::Operation *, 5> views;
};

} // namespace mpc

#endif // MPC_ANALYSIS_PAIREDCOLUMNS_H
