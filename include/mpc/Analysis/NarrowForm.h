//===- NarrowForm.h - narrower numbers that hold the same -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the narrowest form in which panels of f32 constants lose nothing, be it
// that a policy rounded them or that a model holds them so.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_NARROWFORM_H
#define MPC_ANALYSIS_NARROWFORM_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mpc {

/// Numbers that are scale * integer, each rounded to f32.
struct IntegerGrid {
  float scale = 1;
  /// Of the integers.
  int64_t least = 0, most = 0;
};

/// The coarsest grid of less than `levels` steps on which zero and all of
/// `values` lie; nullopt where there is none.
std::optional<IntegerGrid> findGrid(llvm::ArrayRef<float> values,
                                    int64_t levels);

/// The same without a rounding: every product of scale and integer is a number
/// of f32, as those of 16 bits are. Found at once, however many the levels.
std::optional<IntegerGrid> findExactGrid(llvm::ArrayRef<float> values,
                                         int64_t levels);

/// The scale under which all of `values`, in f32, are 8-bit floats; nullopt
/// where there is none.
std::optional<float> findFloat8Scale(llvm::ArrayRef<float> values);

/// Panels `[count][depth][columns]` of narrow numbers, as mpc.dequantize reads
/// them.
struct NarrowForm {
  enum class Kind {
    BFloat16,
    Float16,
    Int16,
    Float8,
    Int8,
    UnsignedInt8,
    Nibbles
  };

  Kind kind = Kind::BFloat16;
  /// Positions that share a scale, and that stand side by side.
  int64_t group = 0, depth = 1;
  /// Little endian; of nibbles two positions in a byte.
  std::vector<char> values;
  /// Of integers and 8-bit floats: `[count][depth / group][columns]`.
  std::vector<float> scales;
  /// Alike; empty where `commonZero` is that of all.
  std::vector<uint8_t> zeros;
  int64_t commonZero = 0;

  bool isScaled() const { return kind >= Kind::Int16; }
};

/// The form of panels that takes the fewest bytes and gives back every number;
/// nullopt where that is f32. `run`: positions that kernels walk at a stretch,
/// of which a column has some; no group that is less than a column, and no byte
/// of two positions, reaches from one into the next. `together`: how many
/// positions of integers without a sign stand side by side where groups are
/// multiples of 16; else each stands alone.
std::optional<NarrowForm> findNarrowForm(llvm::ArrayRef<float> panels,
                                         int64_t count, int64_t depth,
                                         int64_t columns, int64_t run,
                                         int64_t together = 1);

} // namespace mpc

#endif // MPC_ANALYSIS_NARROWFORM_H
