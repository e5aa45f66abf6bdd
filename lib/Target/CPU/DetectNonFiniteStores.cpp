//===- DetectNonFiniteStores.cpp - detection of non-finite stores ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A store to a watched result is preceded by a test of the vector and a branch
// that is never taken while the numbers are finite.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitters.h"

#include "../Kernel/IndexMath.h"
#include "../Kernel/MathExpansion.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

/// The value and target of a store; null values for other ops.
struct FiniteCheckedStore {
  explicit FiniteCheckedStore(Operation *op) {
    if (auto store = dyn_cast<memref::StoreOp>(op)) {
      value = store.getValueToStore();
      memory = store.getMemRef();
    } else if (auto store = dyn_cast<vector::StoreOp>(op)) {
      value = store.getValueToStore();
      memory = store.getBase();
    } else if (auto store = dyn_cast<vector::MaskedStoreOp>(op)) {
      value = store.getValueToStore();
      memory = store.getBase();
      mask = store.getMask();
    }
  }
  Value value, memory, mask;
};

/// Returns the argument that `memory` is a view of, or null.
static BlockArgument argumentBehind(Value memory) {
  while (Operation *op = memory.getDefiningOp()) {
    if (auto view = dyn_cast<ViewLikeOpInterface>(op))
      memory = view.getViewSource();
    else if (isa<UnrealizedConversionCastOp>(op))
      memory = op->getOperand(0);
    else
      return {};
  }
  return cast<BlockArgument>(memory);
}

/// Returns the lanes of `value`, of type `element` or its bits, that are not
/// finite.
static Value notFinite(ValueMath &math, Value value, FloatType element) {
  if (element.getWidth() > 16) {
    // 0, except for infinities and NaNs, which give NaN.
    Value zero = math.sub(value, value);
    return math.compare(arith::CmpFPredicate::UNO, zero, zero);
  }
  int64_t exponent = element.isF16() ? 0x7c00 : 0x7f80;
  if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
    value = arith::BitcastOp::create(
        math.getBuilder(), math.getLoc(),
        ValueMath::withElement(value.getType(), math.getBuilder().getI16Type()),
        value);
  return math.compare(arith::CmpIPredicate::eq, math.bitAnd(value, exponent),
                      math.integer(value.getType(), exponent));
}

void cpu::instrumentNonFiniteStores(func::FuncOp impl) {
  auto watched = impl->getAttrOfType<DenseI64ArrayAttr>(kCheckedResultsAttr);
  if (!watched)
    return;
  ArrayRef<int64_t> places =
      impl->getAttrOfType<DenseI64ArrayAttr>(kCheckedArgumentsAttr)
          .asArrayRef();
  llvm::DenseMap<Value, Value> words;
  for (auto [i, result] : llvm::enumerate(watched.asArrayRef()))
    words[impl.getArgument(unsigned(places[0] + result))] =
        impl.getArgument(unsigned(places[1]) + unsigned(i));
  SmallVector<Operation *> stores;
  impl.walk([&](Operation *op) {
    FiniteCheckedStore store(op);
    if (store.memory && words.contains(argumentBehind(store.memory)))
      stores.push_back(op);
  });
  for (Operation *op : stores) {
    FiniteCheckedStore store(op);
    BlockArgument result = argumentBehind(store.memory);
    OpBuilder b(op);
    Location loc = op->getLoc();
    ValueMath math(b, loc);
    auto element =
        cast<FloatType>(cast<MemRefType>(result.getType()).getElementType());
    Value bad = notFinite(math, store.value, element);
    if (store.mask)
      bad = math.bitAnd(bad, store.mask);
    if (auto vector = dyn_cast<VectorType>(bad.getType())) {
      if (vector.getRank() != 1)
        bad = vector::ShapeCastOp::create(
            b, loc, VectorType::get({vector.getNumElements()}, b.getI1Type()),
            bad);
      bad = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, bad);
    }
    auto branch = scf::IfOp::create(b, loc, bad);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    Value one = arith::ConstantIntOp::create(b, loc, b.getI64Type(), 1);
    memref::StoreOp::create(b, loc, one, words.lookup(result),
                            IndexMath{b, loc}.constant(0));
  }
}
