//===- AttentionSubgraphs.h - blocks of attention operators -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heads, masks, decomposed attention and rotary embedding, for the operators of
// ONNX and ONNX Runtime. All functions return null after an error.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_ATTENTIONSUBGRAPHS_H
#define MPC_LIB_IMPORT_ONNX_ATTENTIONSUBGRAPHS_H

#include "NodeImport.h"

namespace mpc::onnx {

/// Reshapes [batch, length, heads * size] to [batch, heads, length, size];
/// returns 4-D inputs unchanged.
mlir::Value splitHeads(NodeImport &n, mlir::Value x, int64_t heads,
                       llvm::StringRef headsAttribute);
/// The same, with the number of heads from the attribute.
mlir::Value splitHeads(NodeImport &n, mlir::Value x,
                       llvm::StringRef headsAttribute);
/// Inverse of splitHeads.
mlir::Value joinHeads(NodeImport &n, mlir::Value x);
/// Repeats key or value heads to a total of `heads` (grouped-query attention).
mlir::Value repeatHeads(NodeImport &n, mlir::Value x, int64_t heads);

/// Combines a mask, which may be null, with a boolean mask of visible
/// positions.
mlir::Value combineMasks(NodeImport &n, mlir::Value mask, mlir::Value keep);
/// Adds the causal condition t <= s + offset to a mask, which may be null.
mlir::Value addCausalMask(NodeImport &n, mlir::Value mask, int64_t queries,
                          int64_t keys, int64_t offset);

/// Attention decomposed into single ops, for variants that the composite op
/// does not support.
struct DecomposedAttention {
  mlir::Value query, key, value; ///< [batch, heads, length, size]
  mlir::Value mask;              ///< null: none; else of type i1, or additive
  mlir::Value
      sink; ///< attention sink: null, or an extra score [1, heads, 1, 1]
  double scale = 1;
  double softcap = 0; ///< 0: no cap

  // Results of build(): the output, and the scores after each step, in f32
  // (f64).
  mlir::Value result, scaled, capped, masked, weights;
  void build(NodeImport &n);
};

/// Rotary position embedding (Su et al., RoFormer, 2021).
struct Rotation {
  mlir::Value cosine, sine; ///< [batch, length, pairs], batch may be 1
  bool interleaved = false; ///< pairs are adjacent, else half a head apart

  /// Rotates the first 2 * pairs elements of x [batch, heads, length, size].
  mlir::Value apply(NodeImport &n, mlir::Value x) const;
};

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_ATTENTIONSUBGRAPHS_H
