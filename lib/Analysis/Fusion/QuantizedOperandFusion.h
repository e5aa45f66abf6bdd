//===- QuantizedOperandFusion.h - fusion of quantized operands --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Horizontal fusion of the kernels that convert operands to 8-bit floats, and
// of those that compute the scales.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_ANALYSIS_FUSION_QUANTIZEDOPERANDFUSION_H
#define MPC_LIB_ANALYSIS_FUSION_QUANTIZEDOPERANDFUSION_H

#include "FusionRules.h"

namespace mpc {

/// Fuses a transposed copy of a converted tensor into the kernel that converts
/// it. GEMMs of 8-bit floats read operands along the contracted dimension, so
/// those of a training step read a tensor along both; the tensor is then read
/// and converted once.
void fuseTransposedCopies(FusionGraph &graph, const FusionRules &rules);

/// Fuses the largest magnitude of a tensor, from which the scale of a quantized
/// operand follows, into the kernel that computes the tensor. Only scalars
/// follow from it in that kernel, whose last block computes them.
void fuseLargestMagnitudes(FusionGraph &graph, const FusionRules &rules);

} // namespace mpc

#endif // MPC_LIB_ANALYSIS_FUSION_QUANTIZEDOPERANDFUSION_H
