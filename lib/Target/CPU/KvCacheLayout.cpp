//===- KvCacheLayout.cpp - in-place layout of keys and values -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KvCacheLayout.h"

#include "../Kernel/ElementMemory.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

std::optional<InPlaceRow> InPlaceRow::of(Value tensor) {
  ArrayRef<int64_t> shape = shapeOf(tensor);
  int64_t rank = shape.size();
  // Position of each dimension of `tensor` in the stored value.
  SmallVector<int64_t> places = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  while (Operation *from = tensor.getDefiningOp()) {
    if (auto transpose = dyn_cast<TransposeOp>(from)) {
      SmallVector<int64_t> moved;
      for (int64_t place : places)
        moved.push_back(transpose.getPermutation()[place]);
      places = moved;
    } else if (!isa<ElementwiseOpInterface>(from) ||
               shapeOf(from->getOperand(0)) != shapeOf(tensor)) {
      return std::nullopt;
    }
    tensor = from->getOperand(0);
  }
  bool isWhole = rank >= 3 && places.end()[-2] < rank - 2 &&
                 places.end()[-3] == rank - 2 && places.back() == rank - 1;
  if (!isWhole)
    return std::nullopt;
  InPlaceRow row;
  row.argument = tensor;
  row.dimension = places.end()[-2];
  for (int64_t dim = 0; dim < rank - 3; ++dim)
    row.batch.push_back({dim, places[dim]});
  row.elements = productOf(shapeOf(tensor).take_back(2));
  row.heads = shape[rank - 3];
  row.positions = shape[rank - 2];
  return row;
}

static int64_t bytesOfElement(Value tensor) {
  return bytesPerElement(
      memoryElementType(getElementTypeOrSelf(tensor.getType())));
}

int64_t InPlaceRow::bytes() const {
  return elements * bytesOfElement(argument);
}

bool InPlaceRow::paysWhole() const {
  // Hardware prefetchers handle few or short pieces, and short caches, of all
  // layers together, stay in L2.
  constexpr int64_t kFewParts = 2, kFewBytes = 256, kNearBytes = 1 << 18;
  return heads > kFewParts && bytes() > kFewBytes &&
         bytes() * positions >= kNearBytes;
}

int64_t cpu::storedKeyBytes(AttentionOp attention) {
  Value key = attention.getKey();
  while (Operation *from = key.getDefiningOp()) {
    if (!isa<TransposeOp, ReshapeOp, ElementwiseOpInterface>(from))
      break;
    key = from->getOperand(0);
  }
  return shapeOf(attention.getKey()).back() * bytesOfElement(key);
}

bool cpu::readsKeysInPlace(const Contraction &attention) {
  constexpr int64_t kMostRows = 4;
  auto op = cast<AttentionOp>(attention.op);
  ArrayRef<int64_t> query = shapeOf(op.getQuery());
  int64_t depth = query.back(), width = shapeOf(op.getValue()).back();
  return query.end()[-2] <= kMostRows && depth % attention.lanes == 0 &&
         width % attention.lanes == 0 && depth > 0 && width > 0;
}

bool cpu::readsWholeRows(AttentionOp op) {
  constexpr int64_t kMostHeads = 16;
  std::optional<InPlaceRow> key = InPlaceRow::of(op.getKey()),
                            value = InPlaceRow::of(op.getValue());
  return key && value && shapeOf(op.getQuery()).end()[-3] <= kMostHeads &&
         (key->paysWhole() || value->paysWhole());
}

double cpu::cyclesInPlace(const Contraction &attention) {
  auto op = cast<AttentionOp>(attention.op);
  ArrayRef<int64_t> query = shapeOf(op.getQuery());
  // Three instructions per vector: load, upconvert and add; and a score's share
  // of the remainder.
  int64_t numbers = query.back() + shapeOf(op.getValue()).back();
  return (3.0 * double(numbers) / double(attention.lanes) + 8) *
         double(query.end()[-2]);
}
