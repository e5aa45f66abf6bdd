//===- Comparison.cpp - comparisons, logic, selection ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

template <ComparePredicate predicate>
static LogicalResult convertCompare(NodeImport &n) {
  return n.result(n.compare(predicate, n.in(0), n.in(1)));
}

/// ONNX's logical operators take booleans only; the dialect's are also bitwise
/// on integers.
static bool allBoolean(NodeImport &n) {
  for (Value value : n.ins()) {
    if (n.failed())
      return false;
    if (!n.element(value).isInteger(1)) {
      n.error() << "an operand is " << value.getType() << ", expected booleans";
      return false;
    }
  }
  return !n.failed();
}

template <typename OpTy> static LogicalResult convertLogic(NodeImport &n) {
  return allBoolean(n) ? n.result(n.op<OpTy>(n.ins())) : failure();
}

static LogicalResult convertWhere(NodeImport &n) {
  return n.result(n.select(n.in(0), n.in(1), n.in(2)));
}

static LogicalResult convertIsInf(NodeImport &n) {
  Builder &b = n.builder;
  return n.result(n.op<IsInfOp>(
      n.in(0),
      {n.attr("positive", b.getBoolAttr(n.flag("detect_positive", true))),
       n.attr("negative", b.getBoolAttr(n.flag("detect_negative", true)))}));
}

static LogicalResult convertIsNan(NodeImport &n) {
  return n.result(n.op<IsNanOp>(n.in(0)));
}

OpFamily mpc::onnx::comparisonOps() {
  static const OpEntry entries[] = {
      {"And 7 2", convertLogic<AndOp>},
      {"Equal 7,11,13,19 2", convertCompare<ComparePredicate::eq>},
      {"Greater 7,9,13 2", convertCompare<ComparePredicate::gt>},
      {"GreaterOrEqual 12,16 2", convertCompare<ComparePredicate::ge>},
      {"IsInf 10,20 1 detect_negative detect_positive", convertIsInf},
      {"IsNaN 9,13,20 1", convertIsNan},
      {"Less 7,9,13 2", convertCompare<ComparePredicate::lt>},
      {"LessOrEqual 12,16 2", convertCompare<ComparePredicate::le>},
      {"Not 1 1", convertLogic<NotOp>},
      {"Or 7 2", convertLogic<OrOp>},
      {"Where 9,16 3", convertWhere},
      {"Xor 7 2", convertLogic<XorOp>},
  };
  return entries;
}
