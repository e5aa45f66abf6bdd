//===- InstrumentOps.cpp - all op results as outputs ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InstrumentOps.h"

#include "JIT/Compiler.h"
#include "JIT/OpTrace.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::tool;
using mpc::reference::Tensor;

std::vector<InstrumentedOp> tool::exposeOps(func::FuncOp function) {
  std::vector<InstrumentedOp> ops;
  Block &body = function.getBody().front();
  Operation *terminator = body.getTerminator();
  SmallVector<Value> results(terminator->getOperands());
  SmallVector<Type> types(function.getResultTypes());
  Builder builder(function.getContext());
  SmallVector<Value> exposed;
  for (Operation &op : body.without_terminator()) {
    int64_t number = numberOf(&op);
    if (number < 0)
      continue;
    clearNumber(&op);
    ops.push_back(
        {number, results.size(), opName(&op), opKind(&op), opLayer(&op)});
    results.push_back(op.getResult(0));
    types.push_back(op.getResult(0).getType());
  }
  SmallVector<DictionaryAttr> attributes;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    attributes.push_back(function.getResultAttrDict(i));
  for (const InstrumentedOp &op : ops) {
    // Op names may repeat or be invalid as output names; numbers are unique.
    NamedAttribute role(
        MpcDialect::kRoleAttr,
        RoleAttr::get(function.getContext(), RoleKind::output, StringAttr()));
    NamedAttribute name(
        MpcDialect::kNameAttr,
        builder.getStringAttr("mpc.op." + std::to_string(op.number)));
    attributes.push_back(builder.getDictionaryAttr({role, name}));
  }
  terminator->setOperands(results);
  function.setType(FunctionType::get(function.getContext(),
                                     function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
  return ops;
}

double tool::rms(const Tensor &tensor) {
  double sum = 0;
  for (double value : tensor.floats())
    sum += value * value;
  for (int64_t value : tensor.ints())
    sum += double(value) * double(value);
  return tensor.size() ? std::sqrt(sum / double(tensor.size())) : 0;
}

std::string tool::opName(Operation *op) {
  SmallVector<StringRef> names = locationNames(op->getLoc());
  return names.empty() ? op->getName().stripDialect().str()
                       : names.front().str();
}

std::string tool::opKind(Operation *op) {
  if (auto precision = dyn_cast<PrecisionOpInterface>(op))
    return precision.getPrecisionKind().str();
  return op->getName().stripDialect().str();
}

std::string tool::opLayer(Operation *op) {
  auto layer = dyn_cast_if_present<StringAttr>(
      op->getDiscardableAttr(MpcDialect::kLayerAttr));
  return layer ? layer.getValue().str() : "";
}
