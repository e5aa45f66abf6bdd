//===- MpcDialect.cpp - dialect, attributes, common helpers ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers the dialect and verifies its discardable attributes.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mpc;

#include "mpc/Dialect/Mpc/IR/MpcDialect.cpp.inc"
#include "mpc/Dialect/Mpc/IR/MpcEnums.cpp.inc"
#include "mpc/Dialect/Mpc/IR/MpcInterfaces.cpp.inc"
#include "mpc/Dialect/Mpc/IR/MpcTrainingInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "mpc/Dialect/Mpc/IR/MpcAttributes.cpp.inc"

namespace mpc {
/// Registers all op families (CMakeLists.txt).
void registerAllOps(MpcDialect &dialect);
/// Adds the table of derived constants (ConstantData.cpp).
void registerConstantTable(MpcDialect &dialect);
} // namespace mpc

void MpcDialect::initialize() {
  registerAllOps(*this);
  registerConstantTable(*this);
  addAttributes<
#define GET_ATTRDEF_LIST
#include "mpc/Dialect/Mpc/IR/MpcAttributes.cpp.inc"
      >();
}

LogicalResult
PackedAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   int64_t columns, int64_t interleave, int64_t depth) {
  if (columns <= 0 || (interleave != 1 && interleave != 2) || depth <= 0 ||
      !llvm::isPowerOf2_64(depth) || (interleave != 1 && depth != 1))
    return emitError() << "needs positive columns, an interleave of 1 or 2 and "
                          "as depth a power of two, one of both 1, found "
                       << columns << ", " << interleave << " and " << depth;
  return success();
}

int64_t PackedAttr::getSteps(int64_t size, int64_t run) const {
  return run ? size / run * llvm::divideCeil(run, getDepth()) : 0;
}

Operation *MpcDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                           Type type, Location loc) {
  ElementsAttr elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

//===----------------------------------------------------------------------===//
// Discardable attributes
//===----------------------------------------------------------------------===//

LogicalResult MpcDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attr) {
  if (attr.getName() == kDecisionAttr && !isa<DecisionAttr>(attr.getValue()))
    return op->emitError() << "'" << kDecisionAttr
                           << "' must be a #mpc.decision, found "
                           << attr.getValue();
  if (attr.getName() == kLayerAttr && !isa<StringAttr>(attr.getValue()))
    return op->emitError() << "'" << kLayerAttr << "' must be a string, found "
                           << attr.getValue();
  return success();
}

/// Verifies attributes shared by arguments and results: roles and names.
static LogicalResult verifyInterfaceAttribute(Operation *op,
                                              NamedAttribute attr,
                                              StringRef where, unsigned index) {
  if (attr.getName() == MpcDialect::kRoleAttr) {
    RoleAttr role = dyn_cast<RoleAttr>(attr.getValue());
    if (!role)
      return op->emitError()
             << where << " " << index << ": '" << MpcDialect::kRoleAttr
             << "' must be a #mpc.role, found " << attr.getValue();
    if (role.getField() && role.getKind() != RoleKind::loss_scale_state)
      return op->emitError() << where << " " << index << ": role '"
                             << stringifyRoleKind(role.getKind())
                             << "' takes no field, found " << role.getField();
  }
  if (attr.getName() == MpcDialect::kNameAttr &&
      !isa<StringAttr>(attr.getValue()))
    return op->emitError() << where << " " << index << ": '"
                           << MpcDialect::kNameAttr
                           << "' must be a string, found " << attr.getValue();
  return success();
}

LogicalResult MpcDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                   unsigned argIndex,
                                                   NamedAttribute attr) {
  if (attr.getName() == kShardAttr && !isa<DenseI64ArrayAttr>(attr.getValue()))
    return op->emitError() << "argument " << argIndex << ": '" << kShardAttr
                           << "' must be the shape of a tensor, array<i64: "
                              "...>, found "
                           << attr.getValue();
  return verifyInterfaceAttribute(op, attr, "argument", argIndex);
}

LogicalResult MpcDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                      unsigned resultIndex,
                                                      NamedAttribute attr) {
  if (attr.getName() == kAliasAttr) {
    IntegerAttr alias = dyn_cast<IntegerAttr>(attr.getValue());
    FunctionOpInterface func = dyn_cast<FunctionOpInterface>(op);
    if (!alias || !func)
      return op->emitError()
             << "'" << kAliasAttr << "' must be an argument's number, found "
             << attr.getValue();
    int64_t argument = alias.getInt();
    if (argument < 0 || argument >= int64_t(func.getNumArguments()))
      return op->emitError()
             << "result " << resultIndex << " replaces argument " << argument
             << ", but there are " << func.getNumArguments() << " arguments";
    if (func.getArgumentTypes()[argument] != func.getResultTypes()[resultIndex])
      return op->emitError()
             << "result " << resultIndex << " of type "
             << func.getResultTypes()[resultIndex]
             << " cannot replace argument " << argument << " of type "
             << func.getArgumentTypes()[argument];
  }
  return verifyInterfaceAttribute(op, attr, "result", resultIndex);
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t mpc::productOf(ArrayRef<int64_t> values) {
  int64_t product = 1;
  for (int64_t value : values) {
    if (value == 0)
      return 0;
    if (value < 0)
      return 0;
    if (__builtin_mul_overflow(product, value, &product))
      product = std::numeric_limits<int64_t>::max();
  }
  return product;
}

FusionClass mpc::fusionClassOf(Operation *op) {
  auto fusible = dyn_cast<FusionOpInterface>(op);
  return fusible ? fusible.getFusionClass() : FusionClass::Opaque;
}

bool mpc::isUnaryMovement(Operation *op) {
  return op->getNumOperands() == 1 && isa<MovementOpInterface>(op);
}

std::optional<Access> mpc::accessOf(Operation *op) {
  auto movement = dyn_cast_if_present<MovementOpInterface>(op);
  return movement ? movement.getAccess() : std::nullopt;
}

bool mpc::isSingularAtZero(Operation *op, unsigned index) {
  auto pole = dyn_cast<SingularOpInterface>(op);
  return pole && pole.isSingularAtZero(index);
}

bool mpc::isFloatTensor(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value));
}

int64_t mpc::elementCount(Type type) {
  RankedTensorType tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return 0;
  return productOf(tensor.getShape());
}

int64_t mpc::elementCount(Value value) { return elementCount(value.getType()); }

int64_t mpc::bytesPerElement(Type elementType) {
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t mpc::byteCount(Type type) {
  RankedTensorType tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return 0;
  return productOf(
      {elementCount(type), bytesPerElement(tensor.getElementType())});
}

int64_t mpc::operandAndResultBytes(Operation *op) {
  int64_t bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += byteCount(type);
  for (Type type : op->getResultTypes())
    bytes += byteCount(type);
  return bytes;
}
