//===- RuntimeTypes.cpp - types of MLIR and of the runtime ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/RuntimeTypes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpc;

std::optional<ElementType> mpc::runtimeElement(Type element) {
  if (element.isF16())
    return ElementType::F16;
  if (element.isBF16())
    return ElementType::BF16;
  if (element.isF32())
    return ElementType::F32;
  if (element.isF64())
    return ElementType::F64;
  if (isa<Float8E4M3FNType>(element))
    return ElementType::F8E4M3FN;
  if (isa<Float8E5M2Type>(element))
    return ElementType::F8E5M2;
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer)
    return std::nullopt;
  return parseElementType((integer.isUnsigned() ? "ui" : "i") +
                          std::to_string(integer.getWidth()));
}

mpc::TensorType mpc::runtimeType(RankedTensorType type) {
  std::optional<ElementType> element = runtimeElement(type.getElementType());
  assert(element && "the import lets no other type in");
  mpc::TensorType result;
  result.element = element.value_or(ElementType::I64);
  result.shape.assign(type.getShape().begin(), type.getShape().end());
  return result;
}

RankedTensorType mpc::compilerType(const mpc::TensorType &type,
                                   MLIRContext &context) {
  Builder builder(&context);
  Type element;
  switch (type.element) {
  case ElementType::F16:
    element = builder.getF16Type();
    break;
  case ElementType::BF16:
    element = builder.getBF16Type();
    break;
  case ElementType::F32:
    element = builder.getF32Type();
    break;
  case ElementType::F64:
    element = builder.getF64Type();
    break;
  default: {
    unsigned width =
        type.element == ElementType::I1 ? 1 : 8 * elementBytes(type.element);
    bool isUnsigned =
        type.element >= ElementType::UI8 && type.element <= ElementType::UI64;
    element = builder.getIntegerType(width);
    if (isUnsigned)
      element = builder.getIntegerType(width, /*isSigned=*/false);
    break;
  }
  }
  return RankedTensorType::get(type.shape, element);
}
