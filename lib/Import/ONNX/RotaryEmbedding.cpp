//===- RotaryEmbedding.cpp - RotaryEmbedding operators --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"

#include "AttentionSubgraphs.h"
#include "CheckedIndices.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Rotates the first 'rotary_embedding_dim' elements of `x` by `rotation`,
/// whose tables are [batch, length, pairs], after checking the shapes.
static LogicalResult rotate(NodeImport &n, Value x, bool flat,
                            const Rotation &rotation) {
  if (n.failed())
    return failure();
  if (n.rank(x) != 4)
    return n.error() << "input " << x.getType()
                     << " has neither 3 nor 4 dimensions";
  int64_t batch = n.dim(x, 0), length = n.dim(x, 2), size = n.dim(x, 3);
  int64_t rotated = n.intAttr("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? size : rotated;
  if (n.failed())
    return failure();
  if (rotated < 2 || rotated > size || rotated % 2 != 0)
    return n.error() << "attribute 'rotary_embedding_dim' is " << rotated
                     << ", expected an even number up to " << size;
  for (Value table : {rotation.cosine, rotation.sine}) {
    bool fits = n.rank(table) == 3 && n.dim(table, 2) == rotated / 2 &&
                n.dim(table, 1) == length &&
                (n.dim(table, 0) == batch || n.dim(table, 0) == 1);
    if (!fits)
      return n.error() << "a cache gives " << table.getType() << ", expected ["
                       << batch << ", " << length << ", " << rotated / 2 << "]";
  }
  Value turned = rotation.apply(n, x);
  return n.result(flat ? joinHeads(n, turned) : turned);
}

static LogicalResult convertRotaryEmbedding(NodeImport &n) {
  Value x = n.in(0);
  Rotation rotation = {n.in(1), n.in(2), n.flag("interleaved")};
  bool flat = n.rank(x) == 3;
  x = splitHeads(n, x, "num_heads");
  if (n.has(3)) {
    Value positions = n.in(3);
    rotation.cosine =
        checkIndicesOf(n, n.gather(rotation.cosine, positions, 0));
    rotation.sine = checkIndicesOf(n, n.gather(rotation.sine, positions, 0));
  }
  return rotate(n, x, flat, rotation);
}

/// ONNX Runtime's operator: positions are input 1, one per element or the first
/// of each row, and the head size may be derived from the caches.
static LogicalResult convertMicrosoftRotaryEmbedding(NodeImport &n) {
  Value x = n.in(0), positions = n.in(1), cosine = n.in(2), sine = n.in(3);
  bool interleaved = n.flag("interleaved"), flat = n.rank(x) == 3,
       packed = n.flag("is_packed_batching");
  double scale = n.floatAttr("scale", 1);
  int64_t heads = n.intAttr("num_heads", 0);
  if (n.failed())
    return failure();
  if (packed || scale != 1)
    return n.error() << "samples of several lengths in one row, and a 'scale' "
                        "other than 1, are not supported";
  if (n.rank(cosine) != 2 || n.shape(cosine) != n.shape(sine))
    return n.error() << "caches " << cosine.getType() << " and "
                     << sine.getType() << " are not two [positions, pairs]";
  if (flat && heads == 0 && n.intAttr("rotary_embedding_dim", 0) == 0) {
    int64_t size = 2 * n.dim(cosine, 1);
    heads = size > 0 && n.dim(x, 2) % size == 0 ? n.dim(x, 2) / size : 0;
  }
  x = splitHeads(n, x, heads, "num_heads");
  if (n.failed())
    return failure();
  int64_t length = n.dim(x, 2);
  if (elementCount(positions) == 1 && n.rank(positions) < 2) {
    Type type = n.element(positions);
    positions =
        n.op<AddOp>({n.iota(length, 1, 2, type), n.reshape(positions, {1, 1})});
  } else if (n.rank(positions) != 2) {
    return n.error() << "positions " << positions.getType()
                     << " are neither one number nor [batch, length]";
  }
  return rotate(n, x, flat,
                {checkIndicesOf(n, n.gather(cosine, positions, 0)),
                 checkIndicesOf(n, n.gather(sine, positions, 0)), interleaved});
}

OpFamily mpc::onnx::rotaryEmbeddingOps() {
  static const OpEntry entries[] = {
      {"RotaryEmbedding 23 3-4 interleaved num_heads rotary_embedding_dim",
       convertRotaryEmbedding},
      {"com.microsoft:RotaryEmbedding 1 4 interleaved is_packed_batching "
       "num_heads rotary_embedding_dim scale",
       convertMicrosoftRotaryEmbedding},
  };
  return entries;
}
