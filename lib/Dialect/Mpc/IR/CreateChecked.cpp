//===- CreateChecked.cpp - op creation with diagnostics -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/CreateChecked.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

using namespace mlir;

namespace {
/// Properties of an op before its creation.
class ScopedProperties {
public:
  explicit ScopedProperties(OperationName name)
      : name(name), storage(name.getOpPropertyByteSize()) {
    if (!storage.empty())
      name.initOpProperties(get(), /*init=*/nullptr);
  }
  ~ScopedProperties() {
    if (!storage.empty())
      name.destroyOpProperties(get());
  }
  ScopedProperties(const ScopedProperties &) = delete;
  ScopedProperties &operator=(const ScopedProperties &) = delete;

  OpaqueProperties get() { return storage.empty() ? nullptr : storage.data(); }

private:
  OperationName name;
  llvm::SmallVector<char, 256> storage;
};
} // namespace

LogicalResult mpc::inferResultTypes(Location loc, StringRef name,
                                    ValueRange operands,
                                    ArrayRef<NamedAttribute> attributes,
                                    SmallVectorImpl<Type> &types) {
  MLIRContext *context = loc.getContext();
  OperationName opName(name, context);
  std::optional<RegisteredOperationName> info = opName.getRegisteredInfo();
  InferTypeOpInterface::Concept *infer =
      info ? info->getInterface<InferTypeOpInterface>() : nullptr;
  if (!infer)
    return emitError(loc) << "'" << name << "' cannot infer its result types";
  DictionaryAttr dictionary = DictionaryAttr::get(context, attributes);
  ScopedProperties properties(opName);
  if (opName.getOpPropertyByteSize() > 0 &&
      failed(opName.setOpPropertiesFromAttribute(
          opName, properties.get(), dictionary,
          [&] { return emitError(loc); })))
    return failure();
  return infer->inferReturnTypes(context, loc, operands, dictionary,
                                 properties.get(), {}, types);
}

FailureOr<Operation *> mpc::createChecked(OpBuilder &builder, Location loc,
                                          StringRef name, TypeRange resultTypes,
                                          ValueRange operands,
                                          ArrayRef<NamedAttribute> attributes) {
  OperationState state(loc, name, operands, resultTypes, attributes);
  Operation *op = builder.create(state);
  if (failed(verify(op))) {
    op->erase();
    return failure();
  }
  return op;
}
