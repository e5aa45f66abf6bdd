//===- DeclaredTypes.cpp - declared types of values -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Wrong element types are errors. Wrong shapes are common in files processed by
// optimizers, and ONNX Runtime uses its inferred ones; the importer does the
// same, with a warning.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"
#include "NarrowStorageType.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

LogicalResult Importer::checkDeclaredType(const ValueInfo &info, Value value,
                                          Location location, StringRef what) {
  if (info.kind != "tensor")
    return success();
  auto type = cast<RankedTensorType>(value.getType());
  Type element = storageTypeOf(info.dataType, context);
  int32_t small = smallTypeOf(info.dataType) ? info.dataType : 0;
  int32_t actual = smallTypes.lookup(value);
  if (info.dataType != 0 &&
      (element != type.getElementType() || small != actual)) {
    InFlightDiagnostic diagnostic =
        emitError(location)
        << what << " '" << info.name << "' is declared with elements of "
        << dataTypeName(info.dataType) << ", but is ";
    return actual ? diagnostic << "of " << dataTypeName(actual)
                  : diagnostic << type;
  }
  return success();
}

bool mpc::onnx::hasDeclaredShape(const ValueInfo &info, Type type) {
  return info.kind != "tensor" || !info.dims ||
         llvm::equal(*info.dims, cast<ShapedType>(type).getShape(),
                     [](const Dimension &declared, int64_t extent) {
                       return declared.extent.value_or(extent) == extent;
                     });
}

InFlightDiagnostic
DeclaredShape::describe(InFlightDiagnostic diagnostic) const {
  diagnostic << "'" << declared->name << "' is declared as [";
  llvm::interleaveComma(
      *declared->dims, diagnostic, [&](const Dimension &dimension) {
        if (dimension.extent)
          diagnostic << *dimension.extent;
        else
          diagnostic << (dimension.symbol.empty() ? "?" : dimension.symbol);
      });
  diagnostic << "], but is " << actual;
  return diagnostic;
}

void Importer::noteDeclaredShape(const ValueInfo &info, Value value,
                                 Location location) {
  // Declared with the old batch size, which the caller replaced.
  if (oldBatch != newBatch || hasDeclaredShape(info, value.getType()))
    return;
  if (wrongShapes++ == 0)
    wrongShape.emplace(DeclaredShape{&info, value.getType(), location});
}

void Importer::warnShapeMismatch() {
  if (!wrongShape)
    return;
  InFlightDiagnostic warning =
      wrongShape->describe(emitWarning(wrongShape->location) << "value ");
  warning << "; the declared shape is ignored";
  if (wrongShapes > 1)
    warning << ", as " << (wrongShapes == 2 ? "is " : "are ") << wrongShapes - 1
            << " more";
}
