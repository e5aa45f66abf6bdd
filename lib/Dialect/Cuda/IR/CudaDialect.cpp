//===- CudaDialect.cpp - the cuda dialect ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

#include "mpc/Dialect/Cuda/IR/CudaDialect.cpp.inc"

void CudaDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "mpc/Dialect/Cuda/IR/CudaOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// Returns the number of words of a fragment, or -1 if the memref is not one.
static int64_t wordsOf(Value fragment, Type element) {
  auto type = cast<MemRefType>(fragment.getType());
  if (type.getRank() != 1 || !type.hasStaticShape() ||
      type.getElementType() != element)
    return -1;
  return type.getDimSize(0);
}

static LogicalResult verifyShared(Operation *op, Value shared,
                                  OperandRange indices) {
  auto type = cast<MemRefType>(shared.getType());
  auto space =
      dyn_cast_if_present<gpu::AddressSpaceAttr>(type.getMemorySpace());
  if (!space || space.getValue() != gpu::AddressSpace::Workgroup)
    return op->emitOpError()
           << "needs a buffer in workgroup memory, found " << type;
  if (static_cast<int64_t>(indices.size()) != type.getRank())
    return op->emitOpError()
           << "has " << indices.size() << " indices for a buffer of rank "
           << type.getRank();
  return success();
}

LogicalResult MmaOp::verify() {
  Type f32 = Float32Type::get(getContext());
  Type i32 = IntegerType::get(getContext(), 32);
  // C1
  if (wordsOf(getSums(), f32) != 4)
    return emitOpError() << "needs accumulators of type memref<4xf32>, found "
                         << getSums().getType();
  if (!isa<FloatType>(getType()) || wordsOf(getA(), i32) != 4 ||
      wordsOf(getB(), i32) != 2)
    return emitOpError() << "has no instruction for " << getType()
                         << " fragments of " << getA().getType() << " and "
                         << getB().getType();
  return success();
}

LogicalResult WarpgroupMmaOp::verify() {
  // C1
  auto sums = cast<MemRefType>(getSums().getType());
  bool fits = sums.getRank() == 2 && sums.getElementType().isF32() &&
              sums.getDimSize(1) == 4 && sums.getDimSize(0) % 8 == 0 &&
              sums.getDimSize(0) >= 8 && sums.getDimSize(0) <= 32;
  if (!fits)
    return emitOpError()
           << "needs accumulators of 8, 16, 24 or 32 blocks of 4 f32, found "
           << sums;
  auto isFloat8 = [](Type type) {
    return isa<Float8E4M3FNType, Float8E5M2Type>(type);
  };
  bool isBytes =
      isFloat8(getType()) && isFloat8(getRhsType().value_or(getType()));
  if (isBytes && (getATransposed() || getBTransposed()))
    return emitOpError() << "has no instruction for transposed " << getType();
  if (!getType().isF16() && !getType().isBF16() && !isBytes)
    return emitOpError() << "multiplies f16, bf16 or 8-bit floats, found "
                         << getType();
  if (failed(verifyShared(*this, getA(), getAIndices())))
    return failure();
  return verifyShared(*this, getB(), getBIndices());
}

LogicalResult LoadMatrixOp::verify() {
  int64_t words = wordsOf(getTiles(), IntegerType::get(getContext(), 32));
  // C1
  if (words != 1 && words != 2 && words != 4)
    return emitOpError() << "loads 1, 2 or 4 tiles into words of i32, found "
                         << getTiles().getType();
  return verifyShared(*this, getShared(), getIndices());
}

LogicalResult CopyAsyncOp::verify() {
  // C1
  if (int64_t bytes = getBytes(); bytes != 4 && bytes != 8 && bytes != 16)
    return emitOpError() << "copies 4, 8 or 16 bytes, found " << bytes;
  auto global = cast<MemRefType>(getGlobal().getType());
  if (static_cast<int64_t>(getGlobalIndices().size()) != global.getRank())
    return emitOpError() << "has " << getGlobalIndices().size()
                         << " indices for a buffer of rank "
                         << global.getRank();
  return verifyShared(*this, getShared(), getSharedIndices());
}

LogicalResult GridBarrierOp::verify() {
  // C1
  if (getBlocks() < 2)
    return emitOpError() << "synchronizes 2 or more blocks, found "
                         << getBlocks();
  return success();
}

#define GET_OP_CLASSES
#include "mpc/Dialect/Cuda/IR/CudaOps.cpp.inc"
