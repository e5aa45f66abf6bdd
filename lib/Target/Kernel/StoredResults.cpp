//===- StoredResults.cpp - what kernels around a contraction store --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StoredResults.h"

#include "IndexMath.h"
#include "MathExpansion.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mpc;

/// The order of the result of `op` where its operands have that of `input`.
static std::optional<ResultOrder> orderOf(Operation &op, ResultOrder input) {
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    ResultOrder order = input;
    for (auto [to, from] : llvm::enumerate(transpose.getPermutation())) {
      order.dimensions[to] = input.dimensions[from];
      order.first[to] = input.first[from];
      order.shape[to] = input.shape[from];
    }
    return order;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    if (llvm::any_of(slice.getStrideValues(),
                     [](int64_t stride) { return stride != 1; }))
      return std::nullopt;
    for (auto [d, offset] : llvm::enumerate(slice.getOffsets()))
      input.first[d] += offset;
    input.shape.assign(slice.getSizes().begin(), slice.getSizes().end());
  }
  return input;
}

/// The order of each value that is elementwise in the result of `anchor`, or a
/// transpose or slice of such a value; nothing for a value that mixes two.
static DenseMap<Value, std::optional<ResultOrder>>
findOrders(func::FuncOp kernel, Operation *anchor) {
  DenseMap<Value, std::optional<ResultOrder>> orders;
  Value result = anchor->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  ResultOrder own;
  own.dimensions = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  own.first.assign(type.getRank(), 0);
  own.shape.assign(type.getShape().begin(), type.getShape().end());
  orders[result] = own;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!isa<TransposeOp, SliceOp, ElementwiseOpInterface>(op))
      continue;
    std::optional<ResultOrder> order;
    bool reads = false, mixed = false;
    for (Value operand : op.getOperands()) {
      auto input = orders.find(operand);
      if (input == orders.end())
        continue;
      mixed |= reads && order != input->second;
      order = input->second;
      reads = true;
    }
    if (!reads)
      continue;
    if (mixed || !order)
      order = std::nullopt;
    else
      order = orderOf(op, *order);
    orders[op.getResult(0)] = order;
  }
  return orders;
}

StoredResults::StoredResults(func::FuncOp kernel, Operation *anchor)
    : anchor(anchor) {
  auto orders = findOrders(kernel, anchor);
  for (Value value : kernel.getBody().front().getTerminator()->getOperands()) {
    Value source = value;
    while (!orders.contains(source) && source.getDefiningOp<ReshapeOp>())
      source = source.getDefiningOp<ReshapeOp>().getInput();
    results.push_back({source, orders.lookup(source)});
  }
}

bool StoredResults::fits(const StoredResult &result) const {
  auto type = cast<RankedTensorType>(anchor->getResult(0).getType());
  int64_t last = type.getRank() - 1;
  if (!result.order ||
      cast<RankedTensorType>(result.value.getType()).getShape() !=
          ArrayRef<int64_t>(result.order->shape))
    return false;
  return last < 0 || (result.order->dimensions.back() == last &&
                      result.order->shape.back() == type.getDimSize(last));
}

bool StoredResults::fits() const {
  return llvm::all_of(results,
                      [&](const StoredResult &result) { return fits(result); });
}

LogicalResult StoredResults::check() const {
  for (const StoredResult &result : results)
    if (!fits(result))
      return anchor->emitError()
             << "an epilogue result has the type " << result.value.getType()
             << "; it must be elementwise in the contraction's result, "
             << anchor->getResult(0).getType()
             << ", or a transpose or slice of that which keeps the last "
                "dimension";
  return success();
}

Value StoredResults::outputMemory(ElementEmitter &emitter, Value output,
                                  unsigned index) const {
  auto type = cast<MemRefType>(output.getType());
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(results[index].value.getType()).getShape();
  if (type.getShape() == shape)
    return output;
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * shape[i + 1];
  return memref::ReinterpretCastOp::create(
      emitter.getBuilder(), anchor->getLoc(),
      MemRefType::get(shape, type.getElementType()), output,
      /*offset=*/0, shape, strides);
}

LogicalResult StoredResults::store(ElementEmitter &emitter,
                                   ArrayRef<Value> outputs, Value sums,
                                   ValueRange indices, int64_t lanes,
                                   Value mask) const {
  Value result = anchor->getResult(0);
  Type element = getElementTypeOrSelf(result.getType()),
       carried = carriedType(element);
  if (Type from = getElementTypeOrSelf(sums.getType()); from != carried) {
    ValueMath math(emitter.getBuilder(), anchor->getLoc());
    sums = from.getIntOrFloatBitWidth() > carried.getIntOrFloatBitWidth()
               ? math.truncateFloat(sums, carried)
               : math.extendFloat(sums, carried);
  }
  emitter.bindValue(result, emitter.round(sums, element));
  OpBuilder &builder = emitter.getBuilder();
  IndexMath math{builder, anchor->getLoc()};
  for (auto [i, stored] : llvm::enumerate(results)) {
    SmallVector<Value> at;
    // Whether the elements lie in the output at all.
    Value inside;
    for (auto [d, dimension] : llvm::enumerate(stored.order->dimensions)) {
      int64_t first = stored.order->first[d], extent = stored.order->shape[d];
      Value index = indices[dimension];
      if (first)
        index = math.sub(index, math.constant(first));
      at.push_back(index);
      if (extent ==
          cast<RankedTensorType>(result.getType()).getDimSize(dimension))
        continue;
      Value fits = math.less(index, extent);
      inside = inside
                   ? ValueMath(builder, anchor->getLoc()).bitAnd(inside, fits)
                   : fits;
    }
    OpBuilder::InsertionGuard guard(builder);
    if (inside) {
      auto branch = scf::IfOp::create(builder, anchor->getLoc(), inside,
                                      /*withElseRegion=*/false);
      builder.setInsertionPoint(branch.thenBlock()->getTerminator());
    }
    FailureOr<Value> out = emitter.emit(stored.value, at, lanes, mask);
    if (failed(out))
      return failure();
    emitter.store(*out, outputMemory(emitter, outputs[i], i), at, lanes, mask);
  }
  return success();
}
