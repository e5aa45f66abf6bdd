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

#include "mpc/Runtime/Program.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

#include <cmath>

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
/// finite, without those that are only NonFinite values of `exempt`.
static Value notFinite(ValueMath &math, Value value, FloatType element,
                       uint8_t exempt) {
  bool hasNan = !(exempt & NonFinite::kNan),
       hasPositive = !(exempt & NonFinite::kPositiveInfinity),
       hasNegative = !(exempt & NonFinite::kNegativeInfinity);
  if (element.getWidth() > 16) {
    if (!hasPositive && !hasNegative)
      return math.compare(arith::CmpFPredicate::UNO, value, value);
    return math.compare(hasNan ? arith::CmpFPredicate::UEQ
                               : arith::CmpFPredicate::OEQ,
                        hasPositive && hasNegative ? math.abs(value) : value,
                        hasPositive ? INFINITY : -INFINITY);
  }
  constexpr int64_t kSign = 0x8000;
  int64_t infinity = element.isF16() ? 0x7c00 : 0x7f80;
  if (isa<FloatType>(getElementTypeOrSelf(value.getType())))
    value = math.bits(value);
  auto constant = [&](int64_t bits) {
    return math.integer(value.getType(), bits);
  };
  using Predicate = arith::CmpIPredicate;
  if (hasPositive == hasNegative)
    return math.compare(!hasPositive ? Predicate::ugt
                        : hasNan     ? Predicate::uge
                                     : Predicate::eq,
                        math.bitAnd(value, kSign - 1), constant(infinity));
  if (!hasNan)
    return math.compare(Predicate::eq, value,
                        constant(hasPositive ? infinity : infinity | kSign));
  // As signed integers, values above infinity are positive NaNs; as unsigned
  // ones, those above -infinity are negative NaNs.
  return math.bitOr(math.compare(hasPositive ? Predicate::sge : Predicate::sgt,
                                 value, constant(infinity)),
                    math.compare(hasNegative ? Predicate::uge : Predicate::ugt,
                                 value, constant(infinity | kSign)));
}

void cpu::instrumentNonFiniteStores(func::FuncOp impl) {
  auto watched = impl->getAttrOfType<DenseI64ArrayAttr>(kCheckedResultsAttr);
  if (!watched)
    return;
  ArrayRef<int64_t> places =
      impl->getAttrOfType<DenseI64ArrayAttr>(kCheckedArgumentsAttr)
          .asArrayRef();
  ArrayRef<int64_t> exempt =
      impl->getAttrOfType<DenseI64ArrayAttr>(kExemptValuesAttr).asArrayRef();
  llvm::DenseMap<Value, unsigned> numbers;
  for (auto [i, result] : llvm::enumerate(watched.asArrayRef()))
    numbers[impl.getArgument(unsigned(places[0] + result))] = unsigned(i);
  SmallVector<Operation *> stores;
  impl.walk([&](Operation *op) {
    FiniteCheckedStore store(op);
    if (store.memory && numbers.contains(argumentBehind(store.memory)))
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
    unsigned number = numbers.lookup(result);
    Value bad = notFinite(math, store.value, element, uint8_t(exempt[number]));
    if (store.mask)
      bad = math.bitAnd(bad, store.mask);
    if (auto vector = dyn_cast<VectorType>(bad.getType());
        vector && vector.getRank() != 1)
      bad = vector::ShapeCastOp::create(
          b, loc, VectorType::get({vector.getNumElements()}, b.getI1Type()),
          bad);
    IndexMath index{b, loc};
    index.branch(math.any(bad), [&] {
      index.store(math.integer(b.getI64Type(), 1),
                  impl.getArgument(unsigned(places[1]) + number),
                  index.constant(0));
    });
  }
}
