//===- ContractionEpilogue.cpp - epilogues of contractions ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ContractionEpilogue.h"

#include "mpc/Analysis/GatedMatmulColumns.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace mpc;

/// Returns the order of the result of `op` if its operands have that of
/// `input`.
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

/// Returns the order after a reshape of a value in `input` that only removes
/// dimensions of extent 1.
static std::optional<ResultOrder> withoutUnits(ReshapeOp reshape,
                                               const ResultOrder &input) {
  ArrayRef<int64_t> shape = shapeOf(reshape.getResult());
  ResultOrder order;
  for (auto [d, extent] : llvm::enumerate(input.shape)) {
    size_t at = order.shape.size();
    if (at < shape.size() && shape[at] == extent) {
      order.dimensions.push_back(input.dimensions[d]);
      order.first.push_back(input.first[d]);
      order.shape.push_back(extent);
    } else if (extent != 1) {
      return std::nullopt;
    }
  }
  return order.shape.size() == shape.size() ? std::optional(order)
                                            : std::nullopt;
}

using ResultOrders = DenseMap<Value, std::optional<ResultOrder>>;

/// Returns the order of each value that is elementwise in `roots`, which have
/// one shape, or a transpose or slice of such a value; none for a value that
/// mixes two.
static ResultOrders findOrders(func::FuncOp kernel, ArrayRef<Value> roots) {
  ResultOrders orders;
  auto type = cast<RankedTensorType>(roots.front().getType());
  ResultOrder own;
  own.dimensions = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  own.first.assign(type.getRank(), 0);
  own.shape.assign(type.getShape().begin(), type.getShape().end());
  for (Value root : roots)
    orders[root] = own;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    if (!isa<TransposeOp, SliceOp, ElementwiseOpInterface>(op))
      continue;
    std::optional<ResultOrder> order;
    bool reads = false, mixed = false;
    for (Value operand : op.getOperands()) {
      // Movement continues after a reshape that preserves extents.
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      if (reshape && isa<TransposeOp, SliceOp>(op) && !orders.contains(operand))
        if (auto before = orders.lookup(reshape.getInput()))
          if (auto behind = withoutUnits(reshape, *before))
            orders[operand] = behind;
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

/// Returns `value` before reshapes of a value with an order.
static Value sourceOfReshapes(Value value, const ResultOrders &orders) {
  while (!orders.contains(value) && value.getDefiningOp<ReshapeOp>())
    value = value.getDefiningOp<ReshapeOp>().getInput();
  return value;
}

ContractionEpilogue::ContractionEpilogue(func::FuncOp kernel, Operation *anchor)
    : roots({anchor->getResult(0)}) {
  if (std::optional<GatedMatmulColumns> pair = GatedMatmulColumns::of(anchor))
    roots.assign(pair->halves.begin(), pair->halves.end());
  ResultOrders orders = findOrders(kernel, roots);
  for (OpOperand &output :
       kernel.getBody().front().getTerminator()->getOpOperands()) {
    Value source = sourceOfReshapes(output.get(), orders);
    results.push_back(
        {source, orders.lookup(source), output.getOperandNumber()});
  }
}

/// Returns the parts of an output: itself, or the inputs of a concat before
/// reshapes and transposes with their offsets in it.
static std::vector<EpilogueOutput> partsOf(OpOperand &output) {
  Value joined = sourceOfReshapes(output.get(), ResultOrders());
  SmallVector<TransposeOp> transposes;
  while (auto transpose = joined.getDefiningOp<TransposeOp>()) {
    transposes.push_back(transpose);
    joined = transpose.getInput();
  }
  auto concat = joined.getDefiningOp<ConcatOp>();
  unsigned number = output.getOperandNumber();
  if (!concat)
    return {{output.get(), std::nullopt, number}};
  Value last = transposes.empty() ? joined : transposes.front().getResult();
  SmallVector<int64_t> strides = computeStrides(shapeOf(last));
  for (TransposeOp transpose : transposes) {
    SmallVector<int64_t> before(strides.size());
    for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
      before[from] = strides[to];
    strides = before;
  }
  std::vector<EpilogueOutput> parts;
  int64_t first = 0, axis = concat.getAxis();
  for (Value input : concat.getInputs()) {
    parts.push_back(
        {input, std::nullopt, number, first * strides[axis], strides});
    first += cast<RankedTensorType>(input.getType()).getDimSize(axis);
  }
  return parts;
}

/// Returns the strides of a tensor of shape `to` that is a reshape of one of
/// shape `from` with these strides; nullopt if a dimension has none.
static std::optional<SmallVector<int64_t>>
reshapedStrides(ArrayRef<int64_t> strides, ArrayRef<int64_t> from,
                ArrayRef<int64_t> to) {
  SmallVector<int64_t> result(to.size(), 0);
  if (llvm::is_contained(to, 0))
    return result;
  // Adjacent dimensions that can be collapsed, the last one first.
  SmallVector<std::pair<int64_t, int64_t>> runs;
  for (auto [stride, extent] :
       llvm::zip_equal(llvm::reverse(strides), llvm::reverse(from)))
    if (extent != 1) {
      if (!runs.empty() && stride == runs.back().first * runs.back().second)
        runs.back().second *= extent;
      else
        runs.push_back({stride, extent});
    }
  size_t run = 0;
  for (size_t d = to.size(); d-- > 0;) {
    if (to[d] == 1)
      continue;
    auto &[stride, extent] = runs[run];
    if (extent % to[d] != 0)
      return std::nullopt;
    result[d] = stride;
    stride *= to[d];
    extent /= to[d];
    if (extent == 1)
      ++run;
  }
  return result;
}

std::optional<std::vector<ContractionEpilogue>>
ContractionEpilogue::ofEach(func::FuncOp kernel, Operation *anchor) {
  std::vector<ContractionEpilogue> each;
  SmallVector<ResultOrders> orders;
  for (Value result : anchor->getResults()) {
    each.push_back(ContractionEpilogue(result));
    orders.push_back(findOrders(kernel, result));
  }
  for (OpOperand &output :
       kernel.getBody().front().getTerminator()->getOpOperands())
    for (EpilogueOutput &part : partsOf(output)) {
      int64_t makers = 0;
      for (auto [stored, known] : llvm::zip_equal(each, orders)) {
        Value source = sourceOfReshapes(part.value, known);
        if (!known.contains(source))
          continue;
        EpilogueOutput own = part;
        own.value = source;
        own.order = known.lookup(source);
        if (!part.strides.empty()) {
          auto strides = reshapedStrides(part.strides, shapeOf(part.value),
                                         shapeOf(source));
          if (!strides)
            return std::nullopt;
          own.strides = *strides;
        }
        if (!stored.fits(own))
          return std::nullopt;
        stored.results.push_back(own);
        ++makers;
      }
      if (makers != 1)
        return std::nullopt;
    }
  return each;
}

bool ContractionEpilogue::fits(const EpilogueOutput &result) const {
  auto type = cast<RankedTensorType>(roots.front().getType());
  int64_t last = type.getRank() - 1;
  if (!result.order ||
      cast<RankedTensorType>(result.value.getType()).getShape() !=
          ArrayRef<int64_t>(result.order->shape))
    return false;
  return last < 0 || (result.order->dimensions.back() == last &&
                      result.order->shape.back() == type.getDimSize(last));
}

bool ContractionEpilogue::fits() const {
  return llvm::all_of(
      results, [&](const EpilogueOutput &result) { return fits(result); });
}

LogicalResult ContractionEpilogue::check() const {
  for (const EpilogueOutput &result : results)
    if (!fits(result))
      return roots.front().getDefiningOp()->emitError()
             << "an epilogue result has the type " << result.value.getType()
             << "; it must be elementwise in the contraction's result, "
             << roots.front().getType()
             << ", or a transpose or slice of it that preserves the last "
                "dimension";
  return success();
}

LogicalResult ContractionEpilogue::store(ElementEmitter &emitter,
                                         ArrayRef<Value> outputs,
                                         ArrayRef<Value> sums,
                                         ValueRange indices, int64_t lanes,
                                         Value mask) const {
  Value anchor = roots.front();
  for (auto [root, sum] : llvm::zip_equal(roots, sums)) {
    Type element = getElementTypeOrSelf(root.getType()),
         carried = carriedType(element);
    Value value = sum;
    if (Type from = getElementTypeOrSelf(sum.getType()); from != carried) {
      ValueMath math(emitter.getBuilder(), root.getLoc());
      value = from.getIntOrFloatBitWidth() > carried.getIntOrFloatBitWidth()
                  ? math.truncateFloat(sum, carried)
                  : math.extendFloat(sum, carried);
    }
    emitter.bindValue(root, emitter.round(value, element));
  }
  OpBuilder &builder = emitter.getBuilder();
  IndexMath math{builder, anchor.getLoc()};
  for (const EpilogueOutput &stored : results) {
    SmallVector<Value> at;
    // Whether the elements are in the output at all.
    Value inside;
    for (auto [d, dimension] : llvm::enumerate(stored.order->dimensions)) {
      int64_t first = stored.order->first[d], extent = stored.order->shape[d];
      Value index = indices[dimension];
      if (first)
        index = math.sub(index, math.constant(first));
      at.push_back(index);
      if (extent ==
          cast<RankedTensorType>(anchor.getType()).getDimSize(dimension))
        continue;
      Value fits = math.less(index, extent);
      inside = inside ? ValueMath(builder, anchor.getLoc()).bitAnd(inside, fits)
                      : fits;
    }
    auto store = [&] {
      Value out = emitter.value(stored.value, at, lanes, mask),
            output = outputs[stored.output];
      if (stored.strides.empty())
        return emitter.store(out, emitter.viewAs(output, shapeOf(stored.value)),
                             at, lanes, mask);
      Value place = math.constant(stored.first);
      for (auto [index, stride] : llvm::zip_equal(at, stored.strides))
        place = math.add(place, math.mul(index, stride));
      emitter.store(out, math.flatten(output), place, lanes, mask);
    };
    if (inside)
      math.branch(inside, store);
    else
      store();
  }
  return emitter.status();
}
