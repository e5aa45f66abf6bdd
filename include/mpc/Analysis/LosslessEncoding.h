//===- LosslessEncoding.h - lossless compression of weights -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the smallest lossless encoding of panels of f32 constants: bf16, f16,
// int16, 8-bit floats, int8 or int4 with scales, for weights that a policy
// rounded or that a model stores quantized.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_LOSSLESSENCODING_H
#define MPC_ANALYSIS_LOSSLESSENCODING_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mpc {

/// Numbers of the form scale * integer, each rounded to f32.
struct IntegerGrid {
  float scale = 1;
  /// Smallest and largest integer.
  int64_t least = 0, most = 0;
};

/// Returns the coarsest grid of fewer than `levels` steps that contains zero
/// and all of `values`, or one in which `likely` (0: unknown) is the integer
/// of the largest magnitude; nullopt if there is none.
std::optional<IntegerGrid> findGrid(llvm::ArrayRef<float> values,
                                    int64_t levels, int64_t likely = 0);

/// The same without rounding: every product of scale and integer is an f32, as
/// for 16-bit values. Takes the same time for any number of levels.
std::optional<IntegerGrid> findExactGrid(llvm::ArrayRef<float> values,
                                         int64_t levels);

/// Numbers of the form scale * integer + offset, each rounded once to f32, with
/// integers from 0 on.
struct OffsetGrid {
  float scale = 1, offset = 0;
  /// Largest integer.
  int64_t most = 0;
};

/// Returns a grid of fewer than `levels` steps that contains all of `values`
/// and whose scale and offset have at most `bits` significant bits (up to 24),
/// as quantizers with a minimum per block make it; nullopt if none is found.
/// `likely` (0: unknown): steps between the smallest and the largest value.
std::optional<OffsetGrid> findOffsetGrid(llvm::ArrayRef<float> values,
                                         int64_t levels, int bits,
                                         int64_t likely = 0);

/// Returns the scale under which all of `values`, in f32, are 8-bit floats;
/// nullopt if there is none.
std::optional<float> findFloat8Scale(llvm::ArrayRef<float> values);

/// Returns the bits of `number` as f16 or bf16; nullopt if it is not exact.
std::optional<uint16_t> exactHalf(float number);
std::optional<uint16_t> exactBFloat(float number);

/// Scales as 8-bit integers times factors that several groups share.
struct SharedScales {
  /// Scales of a column per factor.
  int64_t group = 0;
  /// In the layout of scales.
  std::vector<uint8_t> values;
  /// `[count][scales / group][columns]`
  std::vector<float> factors;
};

/// The scale of a group of integers.
struct GroupScale {
  float scale = 0;
  /// Greatest common divisor and largest magnitude of the integers; 0 if all
  /// are zero, so that any scale will do.
  int64_t divisor = 0, largest = 0;

  /// Scale of the same numbers if the integers had no common divisor.
  double coarsest() const { return double(scale) * double(divisor); }
};

/// Returns `scales`, `[count][groups][columns]`, as integers times a factor for
/// every `shared` groups, as GGUF's K formats have them, or scales of the same
/// numbers with other integers of at most `most` in magnitude; nullopt if there
/// are none.
std::optional<SharedScales> findSharedScales(llvm::ArrayRef<GroupScale> scales,
                                             int64_t count, int64_t groups,
                                             int64_t columns, int64_t shared,
                                             int64_t most);

/// Panels `[count][depth][columns]` of encoded numbers, as mpc.dequantize reads
/// them.
struct LosslessPanels {
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
  /// Positions per scale, and positions interleaved per column.
  int64_t group = 0, depth = 1;
  /// Little endian; two int4 positions per byte.
  std::vector<char> values;
  /// Scales of integers and 8-bit floats: `[count][depth / group][columns]`.
  /// Exact in f16 if possible; of integers also negative.
  std::vector<float> scales;
  /// Zero points, in the same layout; empty if all equal `commonZero`.
  std::vector<uint8_t> zeros;
  int64_t commonZero = 0;
  /// Offsets instead of zero points, in the layout of scales; empty if there
  /// are none. Numbers are `scale * integer + offset`, rounded once.
  std::vector<float> offsets;
  /// The same scales, if they are stored so.
  std::optional<SharedScales> shared;

  bool isScaled() const { return kind >= Kind::Int16; }
};

/// Returns the encoding of panels that takes the fewest bytes and reproduces
/// every number; nullopt if that is f32. `run`: positions that a kernel reads
/// consecutively; a column consists of several runs, and no group smaller than
/// a column and no byte of two positions crosses a run. `together`: number of
/// interleaved positions for unsigned integers with groups that are multiples
/// of 16; otherwise positions are not interleaved. `onlyBytes`: 16-bit formats
/// are not considered.
std::optional<LosslessPanels> findLosslessEncoding(llvm::ArrayRef<float> panels,
                                                   int64_t count, int64_t depth,
                                                   int64_t columns, int64_t run,
                                                   int64_t together = 1,
                                                   bool onlyBytes = false);

} // namespace mpc

#endif // MPC_ANALYSIS_LOSSLESSENCODING_H
