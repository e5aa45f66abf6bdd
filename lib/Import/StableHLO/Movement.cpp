//===- Movement.cpp - data movement ops and constants ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpImport.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

static LogicalResult convertConstant(OpImport &op) {
  ElementsAttr value = cast<stablehlo::ConstantOp>(op.op).getValue();
  auto type = dyn_cast<RankedTensorType>(value.getShapedType());
  if (!type || elementCount(type) == 0)
    return op.result(op.constant(value));
  // A splat constant becomes a broadcast scalar.
  if (auto dense = dyn_cast<DenseElementsAttr>(value);
      dense && dense.isSplat() && type.getRank() > 0)
    return op.result(op.broadcast(
        op.constant(
            dense.reshape(dense.getType().clone(ArrayRef<int64_t>()))
                .resizeSplat(RankedTensorType::get({}, type.getElementType()))),
        type.getShape()));
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(value);
  if (failed(bytes)) {
    op.error() << "has no data in the file, or data that is not dense";
    return failure();
  }
  return op.result(op.constant(makeConstant(type, bytes->bytes())));
}

static LogicalResult convertIota(OpImport &op) {
  auto iota = cast<stablehlo::IotaOp>(op.op);
  auto axis = int64_t(iota.getIotaDimension());
  ArrayRef<int64_t> shape = OpImport::shape(iota.getOutput());
  Value line = op.iota(shape[axis], axis, int64_t(shape.size()),
                       OpImport::element(iota.getOutput()));
  return op.result(op.broadcast(line, shape));
}

/// Broadcasts `value`, whose axes become `dims` of `shape`.
static Value broadcastTo(OpImport &op, Value value, ArrayRef<int64_t> dims,
                         ArrayRef<int64_t> shape) {
  if (!value)
    return {};
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(dims.size()));
  llvm::sort(order, [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
  value = op.transpose(value, order);
  // Trailing dimensions broadcast implicitly. Added extents of 1 are a reshape,
  // so that reductions with kept axes are recognized.
  bool repeats = productOf(shape) != elementCount(value.getType());
  auto offset = int64_t(shape.size() - dims.size());
  bool isTrailing = llvm::all_of(llvm::enumerate(order), [&](auto entry) {
    return dims[entry.value()] == offset + int64_t(entry.index());
  });
  if (isTrailing && (repeats || dims.empty()))
    return op.broadcast(value, shape);
  SmallVector<int64_t> spread(shape.size(), 1);
  for (auto [place, i] : llvm::enumerate(order))
    spread[dims[i]] = OpImport::shape(value)[place];
  return op.broadcast(op.reshape(value, spread), shape);
}

static LogicalResult convertBroadcastInDim(OpImport &op) {
  auto broadcast = cast<stablehlo::BroadcastInDimOp>(op.op);
  Value value = op.in(0);
  ArrayRef<int64_t> shape = OpImport::shape(broadcast.getResult());
  if (op.isSpread())
    return op.result(value);
  // Merge broadcasts of a scalar.
  if (auto inner = value ? value.getDefiningOp<BroadcastOp>() : BroadcastOp();
      inner && OpImport::rank(inner.getInput()) == 0)
    return op.result(op.broadcast(inner.getInput(), shape));
  return op.result(
      broadcastTo(op, value, broadcast.getBroadcastDimensions(), shape));
}

static LogicalResult convertBroadcast(OpImport &op) {
  return op.result(
      op.broadcast(op.in(0), OpImport::shape(op.op->getResult(0))));
}

static LogicalResult convertReshape(OpImport &op) {
  Value value = op.in(0);
  ArrayRef<int64_t> shape = OpImport::shape(op.op->getResult(0));
  if (op.isSpread())
    return op.result(value);
  if (auto inner = value ? value.getDefiningOp<BroadcastOp>() : BroadcastOp();
      inner && OpImport::rank(inner.getInput()) == 0)
    return op.result(op.broadcast(inner.getInput(), shape));
  return op.result(op.reshape(value, shape));
}

/// (AB)^T = B^T A^T: if the permutation swaps rows and columns, folds the swap
/// into the matmul and leaves the remainder in `permutation`. Returns null if
/// it does not.
static Value foldTransposeIntoMatmul(OpImport &op, Value value,
                                     MutableArrayRef<int64_t> permutation) {
  auto rank = int64_t(permutation.size());
  auto cast = value.getDefiningOp<CastOp>();
  auto matmul = (cast ? cast.getInput() : value).getDefiningOp<MatmulOp>();
  if (!matmul || rank < 3)
    return {};
  auto *rows = llvm::find(permutation, rank - 2);
  auto *columns = llvm::find(permutation, rank - 1);
  if (rows < columns)
    return {};
  std::swap(*rows, *columns);
  SmallVector<NamedAttribute> attributes;
  if (!matmul.getTransposeRhs())
    attributes.push_back(op.unit("transpose_lhs"));
  if (!matmul.getTransposeLhs())
    attributes.push_back(op.unit("transpose_rhs"));
  if (matmul.getCompute() != ComputeMode::native)
    attributes.push_back(op.attr("compute", matmul.getComputeAttr()));
  Value product = op.widened(MatmulOp::getOperationName(),
                             {matmul.getRhs(), matmul.getLhs()}, attributes);
  return op.cast(product, OpImport::element(value));
}

static LogicalResult convertTranspose(OpImport &op) {
  auto transpose = cast<stablehlo::TransposeOp>(op.op);
  Value value = op.in(0);
  SmallVector<int64_t> permutation(transpose.getPermutation());
  if (Value product =
          value ? foldTransposeIntoMatmul(op, value, permutation) : Value())
    value = product;
  return op.result(op.transpose(value, permutation));
}

static LogicalResult convertConcatenate(OpImport &op) {
  auto join = cast<stablehlo::ConcatenateOp>(op.op);
  return op.result(
      op.concat(op.of(join.getInputs()), int64_t(join.getDimension())));
}

static LogicalResult convertSlice(OpImport &op) {
  auto slice = cast<stablehlo::SliceOp>(op.op);
  return op.result(op.slice(op.in(0), slice.getStartIndices(),
                            OpImport::shape(slice.getResult()),
                            slice.getStrides()));
}

static LogicalResult convertPad(OpImport &op) {
  auto pad = cast<stablehlo::PadOp>(op.op);
  return op.result(op.pad(op.in(0), op.in(1), pad.getEdgePaddingLow(),
                          pad.getEdgePaddingHigh(), pad.getInteriorPadding()));
}

static LogicalResult convertReverse(OpImport &op) {
  auto reverse = cast<stablehlo::ReverseOp>(op.op);
  SmallVector<int64_t> axes(reverse.getDimensions());
  llvm::sort(axes);
  Value value = op.in(0);
  if (axes.empty())
    return op.result(value);
  return op.result(op.makeTyped<mpc::ReverseOp>(OpImport::shape(value),
                                                OpImport::element(value), value,
                                                op.attr("axes", axes)));
}

//===----------------------------------------------------------------------===//
// Slices at dynamic offsets
//===----------------------------------------------------------------------===//

/// Clamps `start` so that `size` of `extent` elements are inside, as a scalar
/// i32 or i64.
static Value clampedStart(OpImport &op, Value start, int64_t size,
                          int64_t extent) {
  if (!start)
    return {};
  Type type = OpImport::element(start);
  // Indices are signed; unsigned values beyond i64 are out of range anyway.
  Type wide = op.builder.getI64Type();
  bool isIndex = type.isSignlessInteger(32) || type.isSignlessInteger(64);
  Value signedStart = isIndex ? start : op.cast(start, wide);
  Type index = OpImport::element(signedStart);
  return op.map<mpc::ClampOp>({signedStart, op.scalar(0, index),
                               op.scalar(double(extent - size), index)});
}

static LogicalResult convertDynamicSlice(OpImport &op) {
  auto slice = cast<stablehlo::DynamicSliceOp>(op.op);
  Value value = op.in(0);
  for (auto [i, source] : llvm::enumerate(slice.getStartIndices())) {
    if (!value)
      return failure();
    auto axis = int64_t(i);
    int64_t size = slice.getSliceSizes()[i], extent = OpImport::shape(value)[i];
    if (size == extent)
      continue;
    // An empty slice.
    if (size == 0) {
      value = op.sliceAxis(value, axis, 0, 0);
      continue;
    }
    Value start = clampedStart(op, op.of(source), size, extent);
    if (std::optional<int64_t> known = OpImport::constantScalar(start)) {
      value = op.sliceAxis(value, axis, *known, size);
      continue;
    }
    Value indices = op.reshape(start, {1});
    if (size > 1)
      indices = op.map<mpc::AddOp>(
          {indices, op.iota(size, 0, 1, OpImport::element(start))});
    value = op.make<mpc::GatherOp>({value, indices}, op.attr("axis", axis));
  }
  return op.result(value);
}

/// Returns an update at a known start as a concatenation with the surrounding
/// operand. Null if the update is smaller than the operand along several axes
/// or along one with an unknown start.
static Value joinedUpdate(OpImport &op, Value operand, Value update,
                          ArrayRef<Value> starts) {
  std::optional<int64_t> only;
  for (auto [i, size] : llvm::enumerate(OpImport::shape(update))) {
    if (size == OpImport::shape(operand)[i])
      continue;
    if (only || !OpImport::constantScalar(starts[i]))
      return {};
    only = int64_t(i);
  }
  if (!only)
    return update;
  int64_t start = *OpImport::constantScalar(starts[*only]);
  int64_t end = start + OpImport::shape(update)[*only];
  int64_t extent = OpImport::shape(operand)[*only];
  SmallVector<Value> parts;
  if (start > 0)
    parts.push_back(op.sliceAxis(operand, *only, 0, start));
  parts.push_back(update);
  if (end < extent)
    parts.push_back(op.sliceAxis(operand, *only, end, extent - end));
  return op.concat(parts, *only);
}

/// Selects operand or update by position, axis by axis, instead of writing, so
/// that the op can be fused with others.
static LogicalResult convertDynamicUpdateSlice(OpImport &op) {
  auto write = cast<stablehlo::DynamicUpdateSliceOp>(op.op);
  Value operand = op.in(0), update = op.in(1);
  if (!operand || !update)
    return failure();
  ArrayRef<int64_t> shape = OpImport::shape(operand);
  auto rank = int64_t(shape.size());
  SmallVector<Value> starts;
  for (auto [i, source] : llvm::enumerate(write.getStartIndices()))
    starts.push_back(
        clampedStart(op, op.of(source), OpImport::shape(update)[i], shape[i]));
  if (llvm::is_contained(starts, Value()))
    return failure();
  if (Value joined = joinedUpdate(op, operand, update, starts))
    return op.result(joined);
  Value inside;
  for (int64_t axis = 0; axis < rank; ++axis) {
    int64_t size = OpImport::shape(update)[axis], extent = shape[axis];
    if (size == extent)
      continue;
    Type index = OpImport::element(starts[axis]);
    Value place = op.map<mpc::SubOp>(
        {op.iota(extent, axis, rank, index),
         op.reshape(starts[axis], SmallVector<int64_t>(rank, 1))});
    Value zero = op.scalar(0, index);
    Value isHere = op.compare(
        size == 1 ? ComparePredicate::eq : ComparePredicate::ge, place, zero);
    if (size > 1) {
      Value isBelow = op.compare(ComparePredicate::lt, place,
                                 op.scalar(double(size), index));
      isHere = op.map<mpc::AndOp>({isHere, isBelow});
      Value from = op.map<mpc::ClampOp>({op.reshape(place, {extent}), zero,
                                         op.scalar(double(size - 1), index)});
      update = op.make<mpc::GatherOp>({update, from}, op.attr("axis", axis));
    }
    inside = inside ? op.map<mpc::AndOp>({inside, isHere}) : isHere;
  }
  return op.result(op.select(inside, update, operand));
}

OpFamily hlo::movementOps() {
  static const OpEntry entries[] = {
      {"stablehlo.broadcast", convertBroadcast},
      {"stablehlo.broadcast_in_dim", convertBroadcastInDim},
      {"stablehlo.concatenate", convertConcatenate},
      {"stablehlo.constant", convertConstant},
      {"stablehlo.dynamic_slice", convertDynamicSlice},
      {"stablehlo.dynamic_update_slice", convertDynamicUpdateSlice},
      {"stablehlo.iota", convertIota},
      {"stablehlo.pad", convertPad},
      {"stablehlo.reshape", convertReshape},
      {"stablehlo.reverse", convertReverse},
      {"stablehlo.slice", convertSlice},
      {"stablehlo.transpose", convertTranspose},
  };
  return entries;
}
