//===- GraphDigest.cpp - hash that identifies a model ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/GraphDigest.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

using namespace mlir;
using namespace mpc;

std::string mpc::graphDigest(func::FuncOp function) {
  llvm::BLAKE3 hash;
  auto put = [&](StringRef text) {
    // Length prefixes separate adjacent strings.
    hash.update((llvm::Twine(text.size()) + ":").str());
    hash.update(text);
  };
  llvm::DenseMap<Value, unsigned> numbers;
  Block &body = function.getBody().front();
  for (BlockArgument argument : body.getArguments())
    numbers[argument] = numbers.size();
  for (Operation &op : body) {
    put(op.getName().getStringRef());
    for (StringRef name : opNames(&op))
      put(name);
    for (Value operand : op.getOperands())
      put(std::to_string(numbers.lookup(operand)));
    for (Value result : op.getResults())
      numbers[result] = numbers.size();
    auto constant = dyn_cast<mpc::ConstantOp>(op);
    if (!constant || !isa<FloatType>(getElementTypeOrSelf(constant.getType())))
      continue;
    // A splat is independent of the shape.
    auto elements = dyn_cast<ElementsAttr>(constant.getValue());
    if (std::optional<double> splat = splatValue(constant.getValue()))
      put(std::to_string(*splat));
    else if (FailureOr<ConstantBytes> bytes = ConstantBytes::get(elements);
             elements && succeeded(bytes))
      put(StringRef(bytes->bytes().data(), bytes->bytes().size()));
  }
  constexpr size_t kBytes = 16;
  return llvm::toHex(llvm::ArrayRef(hash.final()).take_front(kBytes),
                     /*LowerCase=*/true);
}
