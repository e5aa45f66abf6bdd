//===- MpcTensor.cpp - shape rules of data movement -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks axes, offsets and indices.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "MpcShapes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::shapes;

LogicalResult ReshapeOp::verify() {
  RankedTensorType from = tensor(getInput()), to = tensor(getResult());
  if (from.hasStaticShape() && to.hasStaticShape() &&
      elementCount(from) != elementCount(to)) // C1
    return emitOpError() << "changes " << elementCount(from) << " elements of "
                         << from << " to " << elementCount(to) << " of " << to;
  return success();
}

LogicalResult BroadcastOp::verify() {
  ArrayRef<int64_t> from = tensor(getInput()).getShape(),
                    to = tensor(getResult()).getShape();
  std::optional<Shape> joined = broadcast(from, to);
  if (!joined || ArrayRef<int64_t>(*joined) != to) // C1
    return emitOpError() << "cannot broadcast " << getInput().getType()
                         << " to " << getResult().getType();
  return success();
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensor(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  Shape sorted(permutation);
  llvm::sort(sorted);
  bool valid = int64_t(permutation.size()) == input.getRank();
  for (auto [i, axis] : llvm::enumerate(sorted))
    valid &= axis == int64_t(i);
  if (!valid) // C1
    return fail(loc, getOperationName(), toString(permutation),
                " does not permute the dimensions of ", input);
  Shape shape;
  for (int64_t axis : permutation)
    shape.push_back(input.getShape()[axis]);
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  if (adaptor.getInputs().empty()) // C1
    return fail(loc, name, "needs at least one operand");
  if (failed(requireStatic(loc, name, adaptor.getInputs())) ||
      failed(requireSameElementType(loc, name, adaptor.getInputs())))
    return failure();
  RankedTensorType first = tensor(adaptor.getInputs().front());
  int64_t axis = adaptor.getAxis();
  if (failed(requireAxis(loc, name, axis, first.getRank())))
    return failure();
  Shape shape(first.getShape());
  for (Value value : adaptor.getInputs().drop_front()) {
    Shape other(tensor(value).getShape());
    int64_t extent = other.size() == shape.size() ? other[axis] : 0;
    if (other.size() == shape.size())
      other[axis] = shape[axis];
    if (other != shape) // C2
      return fail(loc, name, "cannot join ", first, " and ", value.getType(),
                  " along axis ", axis);
    if (__builtin_add_overflow(shape[axis], extent, &shape[axis]))
      return fail(loc, name, "the joined extent overflows");
  }
  types.push_back(RankedTensorType::get(shape, first.getElementType()));
  return success();
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput());
  ArrayRef<int64_t> offsets = adaptor.getOffsets(), sizes = adaptor.getSizes();
  Shape strides(input.getRank(), 1);
  if (adaptor.getStrides())
    strides.assign(adaptor.getStrides()->begin(), adaptor.getStrides()->end());
  size_t rank = input.getRank();
  if (offsets.size() != rank || sizes.size() != rank ||
      strides.size() != rank) // C1
    return fail(loc, name, "needs ", rank,
                " offsets, sizes and strides, found ", toString(offsets), ", ",
                toString(sizes), " and ", toString(strides));
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = input.getShape()[i], reach = 0, last = 0;
    if (strides[i] <= 0 || sizes[i] < 0 || offsets[i] < 0) // C1
      return fail(loc, name, "offset ", offsets[i], ", size ", sizes[i],
                  " and stride ", strides[i], " of dimension ", i,
                  " are not a slice");
    bool overflows =
        sizes[i] > 0 &&
        (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
         __builtin_add_overflow(reach, offsets[i], &last));
    if (sizes[i] > 0 &&
        (overflows || (!ShapedType::isDynamic(extent) && last >= extent))) // C2
      return fail(loc, name, "reads beyond extent ", extent, " of dimension ",
                  i, ": offset ", offsets[i], ", size ", sizes[i], ", stride ",
                  strides[i]);
  }
  types.push_back(RankedTensorType::get(sizes, input.getElementType()));
  return success();
}

SmallVector<int64_t> SliceOp::getStrideValues() {
  if (std::optional<ArrayRef<int64_t>> strides = getStrides())
    return SmallVector<int64_t>(*strides);
  return SmallVector<int64_t>(getOffsets().size(), 1);
}

LogicalResult PadOp::inferReturnTypes(MLIRContext *,
                                      std::optional<Location> loc,
                                      Adaptor adaptor,
                                      SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput()),
                   value = tensor(adaptor.getValue());
  if (failed(requireStatic(loc, name, adaptor.getOperands())) ||
      failed(requireSameElementType(loc, name, adaptor.getOperands())))
    return failure();
  if (elementCount(value) != 1 || value.getRank() != 0) // C2
    return fail(loc, name, "value must be a scalar tensor, found ", value);
  size_t rank = input.getRank();
  Shape interior(rank, 0);
  if (adaptor.getInterior())
    interior.assign(adaptor.getInterior()->begin(),
                    adaptor.getInterior()->end());
  ArrayRef<int64_t> low = adaptor.getLow(), high = adaptor.getHigh();
  if (low.size() != rank || high.size() != rank ||
      interior.size() != rank) // C1
    return fail(loc, name, "needs ", rank,
                " entries of low, high and interior, found ", toString(low),
                ", ", toString(high), " and ", toString(interior));
  Shape shape(rank);
  PadMode mode = adaptor.getMode();
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = input.getShape()[i], spread = 0;
    constexpr int64_t kLargest = int64_t(1) << 40;
    if (interior[i] < 0 || std::abs(low[i]) > kLargest ||
        std::abs(high[i]) > kLargest ||
        __builtin_mul_overflow(std::max<int64_t>(extent - 1, 0), interior[i],
                               &spread) ||
        spread > kLargest) // C1
      return fail(loc, name, "pads dimension ", i, " of extent ", extent,
                  " by ", low[i], ", ", high[i], " and ", interior[i],
                  " inside");
    if (mode != PadMode::constant && interior[i] != 0)
      return fail(loc, name, "interior padding needs mode constant");
    shape[i] = extent + spread + low[i] + high[i];
    bool tooFar =
        mode == PadMode::reflect && (low[i] >= extent || high[i] >= extent);
    bool nothing = mode != PadMode::constant && extent == 0 && shape[i] > 0;
    if (shape[i] < 0 || ((tooFar || nothing) && shape[i] > 0)) // C3
      return fail(loc, name, "cannot pad dimension ", i, " of extent ", extent,
                  " by ", low[i], " and ", high[i]);
  }
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult ReverseOp::verify() {
  return requireAxes(getLoc(), getOperationName(), getAxes(),
                     tensor(getInput()).getRank());
}

//===----------------------------------------------------------------------===//
// Gather and scatter
//===----------------------------------------------------------------------===//

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensor(adaptor.getInput());
  int64_t axis = adaptor.getAxis();
  if (failed(requireAxis(loc, getOperationName(), axis, input.getRank()))) // C1
    return failure();
  Shape shape(input.getShape().take_front(axis));
  llvm::append_range(shape, tensor(adaptor.getIndices()).getShape());
  llvm::append_range(shape, input.getShape().drop_front(axis + 1));
  if (input.getShape()[axis] == 0 && productOf(shape) != 0)
    return fail(loc, getOperationName(), "takes elements from extent 0 of ",
                input);
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *,
                                                 std::optional<Location> loc,
                                                 Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput()),
                   indices = tensor(adaptor.getIndices());
  int64_t axis = adaptor.getAxis();
  if (failed(requireAxis(loc, name, axis, input.getRank())))
    return failure();
  if (indices.getRank() != input.getRank()) // C1
    return fail(loc, name, "needs indices of rank ", input.getRank(),
                ", found ", indices);
  for (int64_t i = 0; i < input.getRank(); ++i)
    if (i != axis && indices.getShape()[i] > input.getShape()[i]) // C2
      return fail(loc, name, "indices ", indices, " exceed dimension ", i,
                  " of ", input);
  if (input.getShape()[axis] == 0 && elementCount(indices) != 0)
    return fail(loc, name, "takes elements from extent 0 of ", input);
  types.push_back(
      RankedTensorType::get(indices.getShape(), input.getElementType()));
  return success();
}

LogicalResult GatherNdOp::inferReturnTypes(MLIRContext *,
                                           std::optional<Location> loc,
                                           Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType input = tensor(adaptor.getInput()),
                   indices = tensor(adaptor.getIndices());
  if (failed(requireStatic(loc, name, adaptor.getOperands())))
    return failure();
  int64_t batch = adaptor.getBatchDims();
  if (indices.getRank() < 1 || batch < 0 || batch >= indices.getRank() ||
      batch > input.getRank() ||
      indices.getShape().back() > input.getRank() - batch) // C1
    return fail(loc, name, "index tuples of ", indices, " after ", batch,
                " batch dimensions do not index ", input);
  if (indices.getShape().take_front(batch) !=
      input.getShape().take_front(batch)) // C2
    return fail(loc, name, "batch extents of ", input, " and ", indices,
                " differ");
  int64_t tuple = indices.getShape().back();
  Shape shape(indices.getShape().drop_back());
  llvm::append_range(shape, input.getShape().drop_front(batch + tuple));
  if (elementCount(input) == 0 && productOf(shape) != 0)
    return fail(loc, name, "takes elements from the empty ", input);
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult ScatterElementsOp::verify() {
  RankedTensorType input = tensor(getInput()), indices = tensor(getIndices()),
                   updates = tensor(getUpdates());
  if (failed(requireAxis(getLoc(), getOperationName(), getAxis(),
                         input.getRank())))
    return failure();
  if (indices.getShape() != updates.getShape()) // C1
    return emitOpError() << "has indices " << indices << " but updates "
                         << updates;
  if (updates.getElementType() != input.getElementType() ||
      updates.getRank() != input.getRank()) // C2
    return emitOpError() << "cannot write updates " << updates << " into "
                         << input;
  for (int64_t i = 0; i < input.getRank(); ++i)
    if (i != int64_t(getAxis()) && updates.getShape()[i] > input.getShape()[i])
      return emitOpError() << "updates " << updates << " exceed dimension " << i
                           << " of " << input;
  return success();
}

LogicalResult ScatterNdOp::verify() {
  RankedTensorType input = tensor(getInput()), indices = tensor(getIndices()),
                   updates = tensor(getUpdates());
  if (indices.getRank() < 1 ||
      indices.getShape().back() > input.getRank()) // C1
    return emitOpError() << "index tuples of " << indices << " do not index "
                         << input;
  Shape expected(indices.getShape().drop_back());
  llvm::append_range(expected,
                     input.getShape().drop_front(indices.getShape().back()));
  if (updates.getShape() != ArrayRef<int64_t>(expected) ||
      updates.getElementType() != input.getElementType()) // C2
    return emitOpError() << "needs updates of shape " << toString(expected)
                         << ", found " << updates;
  return success();
}

LogicalResult OneHotOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  StringRef name = getOperationName();
  RankedTensorType indices = tensor(adaptor.getIndices());
  int64_t axis = adaptor.getAxis(), depth = adaptor.getDepth();
  if (failed(requireAxis(loc, name, axis, indices.getRank() + 1)) ||
      failed(requireSameElementType(loc, name,
                                    {adaptor.getOn(), adaptor.getOff()})))
    return failure();
  if (depth < 0) // C1
    return fail(loc, name, "depth ", depth, " is negative");
  if (tensor(adaptor.getOn()).getRank() != 0 ||
      tensor(adaptor.getOff()).getRank() != 0) // C2
    return fail(loc, name, "needs scalar values, found ",
                adaptor.getOn().getType(), " and ", adaptor.getOff().getType());
  Shape shape(indices.getShape());
  shape.insert(shape.begin() + axis, depth);
  types.push_back(
      RankedTensorType::get(shape, tensor(adaptor.getOn()).getElementType()));
  return success();
}

LogicalResult IotaOp::verify() {
  return requireAxis(getLoc(), getOperationName(), getAxis(),
                     tensor(getResult()).getRank());
}

//===----------------------------------------------------------------------===//
// Access maps of data movement
//===----------------------------------------------------------------------===//

std::optional<Access> TransposeOp::getAccess() {
  Access access(getPermutation().size());
  for (auto [dim, from] : llvm::enumerate(getPermutation()))
    access[from] = {int64_t(dim), 1, 0};
  return access;
}

std::optional<Access> BroadcastOp::getAccess() {
  ArrayRef<int64_t> from = tensor(getInput()).getShape();
  int64_t added = tensor(getResult()).getRank() - int64_t(from.size());
  Access access;
  for (auto [dim, extent] : llvm::enumerate(from))
    access.push_back(extent == 1 ? AccessDim{}
                                 : AccessDim{added + int64_t(dim), 1, 0});
  return access;
}

std::optional<Access> SliceOp::getAccess() {
  Access access;
  for (auto [dim, stride] : llvm::enumerate(getStrideValues()))
    access.push_back({int64_t(dim), stride, getOffsets()[dim]});
  return access;
}

std::optional<Access> ReverseOp::getAccess() {
  Access access;
  for (auto [dim, extent] : llvm::enumerate(tensor(getInput()).getShape()))
    access.push_back(llvm::is_contained(getAxes(), int64_t(dim))
                         ? AccessDim{int64_t(dim), -1, extent - 1}
                         : AccessDim{int64_t(dim), 1, 0});
  return access;
}
