//===- AttentionParts.h - what attention operators share --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heads, masks, scores written out and rotation, for the operators of ONNX and
// of ONNX Runtime. All functions give null after an error.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_ATTENTIONPARTS_H
#define MPC_LIB_IMPORT_ONNX_ATTENTIONPARTS_H

#include "NodeImport.h"

namespace mpc::onnx {

/// [batch, length, heads * size] as [batch, heads, length, size]; 4-D stays.
mlir::Value splitHeads(NodeImport &n, mlir::Value x, int64_t heads,
                       llvm::StringRef headsAttribute);
/// The same, with the number of heads that the attribute gives.
mlir::Value splitHeads(NodeImport &n, mlir::Value x,
                       llvm::StringRef headsAttribute);
/// The inverse of splitHeads.
mlir::Value joinHeads(NodeImport &n, mlir::Value x);
/// Repeats key or value heads so that there are `heads` of them.
mlir::Value repeatHeads(NodeImport &n, mlir::Value x, int64_t heads);

/// Joins a mask, which may be null, with positions that are kept.
mlir::Value keepOnly(NodeImport &n, mlir::Value mask, mlir::Value keep);
/// Adds "position t is at most s + offset" to a mask, which may be null.
mlir::Value addCausalMask(NodeImport &n, mlir::Value mask, int64_t queries,
                          int64_t keys, int64_t offset);

/// Attention as single ops, for what the composite does not say.
struct SpelledAttention {
  mlir::Value query, key, value; ///< [batch, heads, length, size]
  mlir::Value mask;              ///< null: none; else of type i1, or added
  mlir::Value sink; ///< null, or a score [1, heads, 1, 1] beside those of keys
  double scale = 1;
  double softcap = 0; ///< 0: scores are not capped

  // What build() makes: the result, and the scores at each step, in f32 (f64).
  mlir::Value result, scaled, capped, masked, weights;
  void build(NodeImport &n);
};

/// How positions turn pairs of a head's elements (Su et al., RoFormer, 2021).
struct Rotation {
  mlir::Value cosine, sine; ///< [batch, length, pairs], batch may be 1
  bool interleaved = false; ///< pairs lie side by side, else half a head apart

  /// x [batch, heads, length, size], its first 2 * pairs elements turned.
  mlir::Value apply(NodeImport &n, mlir::Value x) const;
};

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_ATTENTIONPARTS_H
