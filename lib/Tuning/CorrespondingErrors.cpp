//===- CorrespondingErrors.cpp - errors measured at other shapes ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Tuning/CorrespondingErrors.h"

#include "mpc/Analysis/OpNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

/// Returns the named ops by kind and first name. Texts, since each import has
/// its own context.
static llvm::StringMap<SmallVector<Operation *, 1>>
opsByName(func::FuncOp function) {
  llvm::StringMap<SmallVector<Operation *, 1>> found;
  for (Operation &op : function.getBody().front())
    if (SmallVector<StringRef> names = opNames(&op); !names.empty())
      found[(op.getName().getStringRef() + "\n" + names.front()).str()]
          .push_back(&op);
  return found;
}

CorrespondingOps::CorrespondingOps(func::FuncOp from, func::FuncOp to) {
  llvm::StringMap<SmallVector<Operation *, 1>> others = opsByName(to);
  for (auto &[key, list] : opsByName(from)) {
    auto other = others.find(key);
    if (other == others.end() || other->second.size() != list.size())
      continue;
    for (auto [op, counterpart] : llvm::zip_equal(list, other->second))
      if (op->getNumOperands() == counterpart->getNumOperands() &&
          op->getNumResults() == counterpart->getNumResults())
        ops[op] = counterpart;
  }
}

/// Returns `type` in the context of `op`.
static FloatType typeIn(Operation *op, FloatType type) {
  MLIRContext *context = op->getContext();
  if (type.isF16())
    return Float16Type::get(context);
  if (type.isBF16())
    return BFloat16Type::get(context);
  return type.isTF32() ? FloatType(FloatTF32Type::get(context))
                       : FloatType(Float32Type::get(context));
}

/// The error of rounding to `type` where it is unknown.
static double unknown(FloatType type) { return type.isF32() ? 0 : INFINITY; }

double CorrespondingErrors::ofValue(Value value, FloatType type) const {
  auto result = dyn_cast<OpResult>(value);
  Operation *other = result ? ops.lookup(result.getOwner()) : nullptr;
  if (!other)
    return unknown(type);
  return errors.ofValue(other->getResult(result.getResultNumber()),
                        typeIn(other, type));
}

double CorrespondingErrors::ofUse(OpOperand &use, FloatType type) const {
  Operation *other = ops.lookup(use.getOwner());
  if (!other)
    return unknown(type);
  return errors.ofUse(other->getOpOperand(use.getOperandNumber()),
                      typeIn(other, type));
}

double CorrespondingErrors::ofWeights(Operation *op, const WeightFormat &format,
                                      int bits) const {
  Operation *other = ops.lookup(op);
  return other ? errors.ofWeights(other, format, bits) : INFINITY;
}

double CorrespondingErrors::ofOperands(Operation *op) const {
  Operation *other = ops.lookup(op);
  return other ? errors.ofOperands(other) : INFINITY;
}
