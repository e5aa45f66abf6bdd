//===- SymbolicTensors.cpp - tensors as functions of their index ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SymbolicTensors.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcGradientOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <array>

using namespace mlir;
using namespace mpc;
using namespace mpc::translation;

//===----------------------------------------------------------------------===//
// Names of operations
//===----------------------------------------------------------------------===//

static std::string text(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// Returns the mnemonic and the inherent attributes, without those that select
/// a layout.
static std::string labelOf(Operation *op, unsigned number = 0) {
  std::string label = op->getName().stripDialect().str();
  llvm::raw_string_ostream out(label);
  if (op->getNumResults() > 1)
    out << '#' << number;
  for (StringAttr name : op->getName().getAttributeNames()) {
    if (llvm::is_contained({"pinned", "layout", "packed"}, name.getValue()))
      continue;
    std::optional<Attribute> attr = op->getInherentAttr(name);
    if (attr && *attr)
      out << ' ' << name.getValue() << '=' << *attr;
  }
  return label;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

TensorId SymbolicTensors::input(StringRef name, RankedTensorType type) {
  Tensor tensor;
  tensor.type = type;
  tensor.name = name.str();
  tensors.push_back(std::move(tensor));
  return TensorId(tensors.size() - 1);
}

TensorId SymbolicTensors::constant(ElementsAttr value) {
  Tensor tensor;
  tensor.type = cast<RankedTensorType>(value.getType());
  tensor.value = value;
  tensors.push_back(std::move(tensor));
  return TensorId(tensors.size() - 1);
}

TensorId SymbolicTensors::result(Operation *op, unsigned number,
                                 ArrayRef<TensorId> operands) {
  Tensor tensor;
  tensor.type = cast<RankedTensorType>(op->getResult(number).getType());
  tensor.op = op;
  tensor.number = number;
  tensor.operands.assign(operands.begin(), operands.end());
  tensor.depth = inlinedDepth(tensor);
  fold(tensor);
  tensors.push_back(std::move(tensor));
  return TensorId(tensors.size() - 1);
}

/// Elementwise ops on a path that are inlined. Cell states of recurrent layers
/// and residual sums have as many as there are steps and layers.
constexpr unsigned kMostInlined = 16;

unsigned SymbolicTensors::inlinedDepth(const Tensor &tensor) const {
  bool isElementwise = tensor.op && isa<ElementwiseOpInterface>(tensor.op);
  if (tensor.op && !isElementwise && !isa<MovementOpInterface>(tensor.op))
    return 0;
  unsigned depth = 0;
  for (TensorId operand : tensor.operands)
    depth = std::max(depth, tensors[operand].depth);
  for (const Piece &piece : tensor.pieces)
    depth = std::max(depth, tensors[piece.tensor].depth);
  return depth > kMostInlined ? 0 : depth + isElementwise;
}

TensorId SymbolicTensors::view(ArrayRef<Piece> pieces, RankedTensorType type) {
  // The whole of a constant under another shape.
  if (pieces.size() == 1 && pieces[0].skipped == 0) {
    const Tensor &whole = tensors[pieces[0].tensor];
    if (whole.type == type)
      return pieces[0].tensor;
  }
  Tensor tensor;
  tensor.type = type;
  tensor.pieces.assign(pieces.begin(), pieces.end());
  tensor.depth = inlinedDepth(tensor);
  tensors.push_back(std::move(tensor));
  return TensorId(tensors.size() - 1);
}

TensorId SymbolicTensors::transpose(TensorId id,
                                    ArrayRef<int64_t> permutation) {
  RankedTensorType of = tensors[id].type;
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(of.getDimSize(unsigned(dim)));
  Tensor tensor;
  tensor.type = of.clone(shape);
  tensor.pieces = {{.size = of.getNumElements(), .tensor = id}};
  tensor.permutation.assign(permutation.begin(), permutation.end());
  tensor.depth = inlinedDepth(tensor);
  tensors.push_back(std::move(tensor));
  return TensorId(tensors.size() - 1);
}

void SymbolicTensors::fold(Tensor &tensor) {
  constexpr int64_t kMostElements = 1 << 12;
  Operation *op = tensor.op;
  bool decodes = isa<DequantizeOp, DecodeFloatOp>(op);
  if (tensor.operands.empty() || op->getNumResults() != 1 ||
      (!decodes && tensor.type.getNumElements() > kMostElements) ||
      !llvm::all_of(tensor.operands, [&](TensorId id) {
        return tensors[id].value &&
               (decodes || tensors[id].type.getNumElements() <= kMostElements);
      }))
    return;
  SmallVector<reference::Tensor> values;
  for (auto [id, operand] :
       llvm::zip_equal(tensor.operands, op->getOperands())) {
    FailureOr<reference::Tensor> value =
        reference::Tensor::fromAttr(tensors[id].value);
    if (failed(value) || value->getType() != operand.getType())
      return;
    values.push_back(*value);
  }
  SmallVector<const reference::Tensor *> pointers;
  for (const reference::Tensor &value : values)
    pointers.push_back(&value);
  SmallVector<reference::Tensor> results;
  if (succeeded(reference::evaluate(op, pointers, results,
                                    reference::Rounding::Declared)))
    tensor.value = results[0].toAttr("folded");
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Returns true if every index in the range of `at` occurs, so that a function
/// of the index says no more than is read.
static bool isContiguous(Expr at) {
  auto divides = [](Expr atom) {
    return atom->kind == Kind::Quotient || atom->kind == Kind::Remainder;
  };
  if (at->kind != Kind::Linear || llvm::none_of(at->operands, divides))
    return true;
  SmallVector<std::pair<int64_t, int64_t>> terms;
  for (auto [i, atom] : llvm::enumerate(at->operands))
    terms.push_back({at->numbers[i + 1], atom->high - atom->low + 1});
  llvm::sort(terms);
  int64_t size = 1;
  for (auto [factor, extent] : terms) {
    if (factor != size)
      return false;
    size *= extent;
  }
  return true;
}

bool SymbolicTensors::isExhausted() const {
  // Most models of the tests have fewer than 40,000.
  return make.size() > 300000;
}

Expr SymbolicTensors::read(TensorId id, ArrayRef<Expr> indices) {
  Indices at(indices);
  for (auto [index, extent] : llvm::zip_equal(at, tensors[id].type.getShape()))
    if (extent == 1)
      index = make.index(0);
  auto key = std::pair(id, at);
  if (auto found = memo.find(key); found != memo.end())
    return found->second;
  const Tensor &tensor = tensors[id];
  Expr result = nullptr;
  if (tensor.value) {
    std::optional<double> splat = splatValue(tensor.value);
    result = splat && isExactNumber(*splat, tensor.type.getElementType())
                 ? make.number(*splat, tensor.type.getElementType())
                 : make.constant(tensor.value, at);
  } else if (tensor.op && isExhausted()) {
    // Unlike any value of the other side, so it is tested.
    result = make.element(("value " + Twine(id)).str(),
                          tensor.type.getElementType(), at);
  } else if (!tensor.permutation.empty()) {
    Indices in(at.size());
    for (auto [index, dim] : llvm::zip_equal(at, tensor.permutation))
      in[size_t(dim)] = index;
    result = read(tensor.pieces[0].tensor, in);
  } else if (!tensor.pieces.empty()) {
    Expr position = make.flatten(at, tensor.type.getShape());
    for (const Piece &piece : llvm::reverse(tensor.pieces)) {
      const Tensor &of = tensors[piece.tensor];
      Expr inside = make.offset(position, piece.skipped - piece.offset);
      Expr element =
          read(piece.tensor, make.unflatten(inside, of.type.getShape()));
      if (of.type.getElementType() != tensor.type.getElementType())
        element =
            make.operation("bitcast", tensor.type.getElementType(), element);
      result = result
                   ? make.select(position, piece.offset,
                                 piece.offset + piece.size - 1, element, result)
                   : element;
    }
  } else if (!tensor.op) {
    result = make.element(tensor.name, tensor.type.getElementType(), at);
  } else if (isa<ElementwiseOpInterface>(tensor.op) &&
             tensor.depth <= kMostInlined) {
    result = elementwise(tensor, at);
  } else if (Expr moved = movement(tensor, at)) {
    result = moved;
  } else {
    result = readAsFunction(id, at);
  }
  memo[key] = result;
  return result;
}

Expr SymbolicTensors::readAsFunction(TensorId id, ArrayRef<Expr> at) {
  const Tensor &tensor = tensors[id];
  // The range of each index that is inside the tensor.
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  for (auto [index, extent] : llvm::zip_equal(at, tensor.type.getShape()))
    ranges.push_back(
        {std::max<int64_t>(index->low, 0), std::min(index->high, extent - 1)});
  auto isInlined = [&](size_t i) {
    auto [low, high] = ranges[i];
    return high < low || !isContiguous(at[i]);
  };
  bool inlines = llvm::any_of(llvm::seq<size_t>(at.size()), isInlined);
  // Parameters instead of the other indices.
  Indices inside;
  DenseMap<Expr, Expr> values;
  for (auto [i, index] : llvm::enumerate(at)) {
    if (isInlined(i)) {
      inside.push_back(index);
      continue;
    }
    auto [low, high] = ranges[i];
    int64_t extent = high - low + 1;
    Expr parameter = inlines ? make.fresh(extent) : dimension(i, extent);
    values[parameter] = make.offset(index, -low);
    inside.push_back(make.offset(parameter, low));
  }
  auto key = std::pair(~id, inside);
  auto found = memo.find(key);
  if (found == memo.end())
    found = memo.emplace(key, evaluate(tensor, inside)).first;
  ClosedForm form = close(found->second);
  Indices arguments;
  for (Expr argument : form.arguments)
    arguments.push_back(make.substitute(argument, values));
  return make.apply(form.function, tensor.type.getElementType(), arguments);
}

ClosedForm SymbolicTensors::form(TensorId id) {
  Indices at;
  for (auto [i, extent] : llvm::enumerate(tensors[id].type.getShape()))
    at.push_back(dimension(i, extent));
  return close(read(id, at));
}

Expr SymbolicTensors::broadcast(TensorId id, ArrayRef<Expr> at) {
  return read(id, at.take_back(size_t(tensors[id].type.getRank())));
}

Expr SymbolicTensors::indexFrom(Expr value, int64_t extent) {
  if (value->kind == Kind::Number) {
    auto at = int64_t(llvm::bit_cast<double>(value->numbers[0]));
    return make.index(std::clamp<int64_t>(at < 0 ? at + extent : at, 0,
                                          std::max<int64_t>(extent - 1, 0)));
  }
  return make.readIndex(value, extent);
}

//===----------------------------------------------------------------------===//
// Elementwise ops and data movement
//===----------------------------------------------------------------------===//

Expr SymbolicTensors::elementwise(const Tensor &tensor, ArrayRef<Expr> at) {
  Operation *op = tensor.op;
  Indices operands;
  for (TensorId operand : tensor.operands)
    operands.push_back(broadcast(operand, at));
  if (isa<StopGradientOp>(op))
    return operands[0];
  return make.operation(labelOf(op, tensor.number),
                        tensor.type.getElementType(), operands);
}

Expr SymbolicTensors::movement(const Tensor &tensor, ArrayRef<Expr> at) {
  Operation *op = tensor.op;
  auto of = [&](unsigned i) { return tensor.operands[i]; };
  auto shape = [&](unsigned i) { return tensors[of(i)].type.getShape(); };
  Indices in;
  if (isa<ReshapeOp>(op))
    return read(of(0), make.unflatten(make.flatten(at, tensor.type.getShape()),
                                      shape(0)));
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    in.resize(at.size());
    for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
      in[size_t(dim)] = at[i];
    return read(of(0), in);
  }
  if (isa<BroadcastOp>(op))
    return broadcast(of(0), at);
  if (auto slice = dyn_cast<SliceOp>(op)) {
    for (auto [index, offset, stride] :
         llvm::zip_equal(at, slice.getOffsets(), slice.getStrideValues()))
      in.push_back(make.offset(make.scale(index, stride), offset));
    return read(of(0), in);
  }
  if (auto reverse = dyn_cast<ReverseOp>(op)) {
    for (auto [i, index] : llvm::enumerate(at))
      in.push_back(llvm::is_contained(reverse.getAxes(), int64_t(i))
                       ? make.offset(make.scale(index, -1), shape(0)[i] - 1)
                       : index);
    return read(of(0), in);
  }
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    auto axis = size_t(concat.getAxis());
    int64_t end = tensor.type.getDimSize(unsigned(axis));
    Expr result = nullptr;
    for (unsigned i = unsigned(tensor.operands.size()); i-- > 0;) {
      int64_t extent = shape(i)[axis], start = end - extent;
      end = start;
      if (extent == 0)
        continue;
      // Parts that the index does not reach are not read.
      if (at[axis]->low >= start + extent || at[axis]->high < start)
        continue;
      in.assign(at.begin(), at.end());
      in[axis] = make.offset(at[axis], -start);
      Expr element = read(of(i), in);
      result = result ? make.select(at[axis], start, start + extent - 1,
                                    element, result)
                      : element;
    }
    // Guards exclude an index that reaches none.
    return result ? result : make.number(0, tensor.type.getElementType());
  }
  if (auto pad = dyn_cast<PadOp>(op);
      pad && pad.getMode() == PadMode::constant) {
    SmallVector<int64_t> interior(at.size(), 0);
    if (std::optional<ArrayRef<int64_t>> values = pad.getInterior())
      interior.assign(values->begin(), values->end());
    Expr value = read(of(1), {});
    for (auto [i, index] : llvm::enumerate(at)) {
      Expr shifted = make.offset(index, -pad.getLow()[i]);
      in.push_back(make.quotient(shifted, interior[i] + 1));
    }
    Expr result = read(of(0), in);
    for (auto [i, index] : llvm::enumerate(at)) {
      Expr shifted = make.offset(index, -pad.getLow()[i]);
      int64_t step = interior[i] + 1, extent = shape(0)[i];
      result = make.select(make.remainder(shifted, step), 0, 0, result, value);
      result = make.select(shifted, 0, (extent - 1) * step, result, value);
    }
    return result;
  }
  if (isa<GatherOp, GatherElementsOp, GatherNdOp>(op))
    return gather(tensor, at);
  if (auto pack = dyn_cast<PackOp>(op)) {
    // The inverse of the layout of #mpc.packed.
    PackedAttr packed = pack.getPacked();
    int64_t depth = packed.getDepth(), columns = packed.getColumns();
    Expr k = make.add(make.scale(at[1], depth), make.remainder(at[2], depth));
    Expr column = make.quotient(at[2], depth);
    if (packed.getInterleave() == 2)
      column = make.add(make.quotient(at[2], 2),
                        make.scale(make.remainder(at[2], 2), columns / 2));
    Expr j = make.add(make.scale(at[0], columns), column);
    Expr zero = make.number(0, tensor.type.getElementType());
    Expr element =
        pack.getTranspose() ? read(of(0), {j, k}) : read(of(0), {k, j});
    element = make.select(k, 0, pack.getDepth() - 1, element, zero);
    return make.select(j, 0, pack.getWidth() - 1, element, zero);
  }
  return nullptr;
}

Expr SymbolicTensors::gather(const Tensor &tensor, ArrayRef<Expr> at) {
  TensorId input = tensor.operands[0], indices = tensor.operands[1];
  ArrayRef<int64_t> shape = tensors[input].type.getShape();
  auto indexRank = size_t(tensors[indices].type.getRank());
  if (auto elements = dyn_cast<GatherElementsOp>(tensor.op)) {
    Indices in(at);
    auto axis = size_t(elements.getAxis());
    in[axis] = indexFrom(read(indices, at), shape[axis]);
    return read(input, in);
  }
  if (auto nd = dyn_cast<GatherNdOp>(tensor.op)) {
    auto batch = size_t(nd.getBatchDims());
    auto length = size_t(tensors[indices].type.getShape().back());
    Indices in(at.take_front(batch)), tuple(at.take_front(indexRank - 1));
    tuple.push_back(nullptr);
    for (size_t i = 0; i < length; ++i) {
      tuple.back() = make.index(int64_t(i));
      in.push_back(indexFrom(read(indices, tuple), shape[batch + i]));
    }
    llvm::append_range(in, at.drop_front(indexRank - 1));
    return read(input, in);
  }
  auto axis = size_t(cast<GatherOp>(tensor.op).getAxis());
  Indices in(at.take_front(axis));
  in.push_back(
      indexFrom(read(indices, at.slice(axis, indexRank)), shape[axis]));
  llvm::append_range(in, at.drop_front(axis + indexRank));
  return read(input, in);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

Expr SymbolicTensors::evaluate(const Tensor &tensor, ArrayRef<Expr> at) {
  if (tensor.op->hasTrait<Normalizes>() && isa<ReductionOpInterface>(tensor.op))
    return rowMap(tensor, at);
  return llvm::TypeSwitch<Operation *, Expr>(tensor.op)
      .Case<ElementwiseOpInterface>(
          [&](auto) { return elementwise(tensor, at); })
      .Case<ReduceSumOp, ReduceMeanOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp,
            ArgmaxOp, ArgminOp>([&](auto) { return reduction(tensor, at); })
      .Case<MatmulOp, AttentionOp>(
          [&](auto) { return contraction(tensor, at); })
      .Case<ConvOp, ConvFilterGradientOp>(
          [&](auto) { return convolution(tensor, at); })
      .Case<MaxPoolOp, AvgPoolOp>([&](auto) { return pool(tensor, at); })
      .Case<SoftmaxOp, LogSoftmaxOp>([&](auto) { return rowMap(tensor, at); })
      .Case<OneHotOp>([&](OneHotOp op) {
        auto axis = size_t(op.getAxis());
        Indices rest(at.take_front(axis));
        llvm::append_range(rest, at.drop_front(axis + 1));
        return make.operation(labelOf(op), tensor.type.getElementType(),
                              {read(tensor.operands[0], rest), at[axis],
                               read(tensor.operands[1], {}),
                               read(tensor.operands[2], {})});
      })
      .Case<IotaOp>([&](IotaOp op) {
        return make.operation("iota", tensor.type.getElementType(),
                              at[size_t(op.getAxis())]);
      })
      .Default([&](Operation *) { return opaqueResult(tensor, at); });
}

Expr SymbolicTensors::reduction(const Tensor &tensor, ArrayRef<Expr> at) {
  auto op = cast<ReductionOpInterface>(tensor.op);
  TensorId input = tensor.operands[0];
  RankedTensorType type = tensors[input].type;
  SmallVector<int64_t> axes = op.getReductionAxes();
  bool keeps = type.getRank() == tensor.type.getRank();
  Indices in, variables;
  size_t next = 0;
  for (auto [i, extent] : llvm::enumerate(type.getShape())) {
    bool isReduced = llvm::is_contained(axes, int64_t(i));
    if (isReduced)
      variables.push_back(make.fresh(extent));
    in.push_back(isReduced ? variables.back() : at[next]);
    next += !isReduced || keeps;
  }
  std::string label = tensor.op->getName().stripDialect().str();
  if (isa<ArgmaxOp, ArgminOp>(tensor.op))
    label = labelOf(tensor.op);
  else if (!isa<ReduceMaxOp, ReduceMinOp>(tensor.op))
    label += " in " + text(op.getAccumulateType());
  Indices bodies{read(input, in)};
  // The result of argmax is the variable.
  if (isa<ArgmaxOp, ArgminOp>(tensor.op))
    bodies.push_back(variables[0]);
  return make.reduce(label, tensor.type.getElementType(), bodies, variables);
}

/// Sum of products in a contraction's accumulate type and compute mode.
static std::string sumLabel(ContractionOpInterface op) {
  std::string label = "sum in " + text(op.getAccumulateType());
  if (op.getComputeMode() != ComputeMode::native)
    label += " of " + std::to_string(int(op.getComputeMode()));
  return label;
}

/// Index of element [k, j] in the layout of #mpc.packed: panel, step, element.
static std::array<Expr, 3> packedIndex(Expressions &make, PackedAttr packed,
                                       Expr k, Expr j, int64_t run) {
  int64_t columns = packed.getColumns(), depth = packed.getDepth();
  Expr panel = make.quotient(j, columns), column = make.remainder(j, columns);
  if (depth > 1) {
    auto steps = int64_t(llvm::divideCeil(uint64_t(run), uint64_t(depth)));
    Expr inRun = make.remainder(k, run);
    return {panel,
            make.add(make.scale(make.quotient(k, run), steps),
                     make.quotient(inRun, depth)),
            make.add(make.scale(column, depth), make.remainder(inRun, depth))};
  }
  if (packed.getInterleave() == 2)
    column = make.add(make.scale(make.remainder(column, columns / 2), 2),
                      make.quotient(column, columns / 2));
  return {panel, k, column};
}

Expr SymbolicTensors::contraction(const Tensor &tensor, ArrayRef<Expr> at) {
  auto op = cast<ContractionOpInterface>(tensor.op);
  Type element = tensor.type.getElementType();
  size_t rank = at.size();
  auto batched = [&](TensorId id, Expr row, Expr column, bool transposed) {
    auto operandRank = size_t(tensors[id].type.getRank());
    Indices in(at.drop_back(2).take_back(operandRank - 2));
    in.push_back(transposed ? column : row);
    in.push_back(transposed ? row : column);
    return read(id, in);
  };
  if (auto matmul = dyn_cast<MatmulOp>(tensor.op)) {
    TensorId lhs = tensor.operands[0], rhs = tensor.operands[1];
    ArrayRef<int64_t> left = tensors[lhs].type.getShape();
    int64_t depth = left[left.size() - (matmul.getTransposeLhs() ? 2 : 1)];
    Expr k = make.fresh(depth);
    Expr a = batched(lhs, at[rank - 2], k, matmul.getTransposeLhs());
    Expr b;
    if (std::optional<PackedAttr> packed = matmul.getPacked()) {
      b = read(rhs, packedIndex(make, *packed, k, at[rank - 1], depth));
    } else {
      b = batched(rhs, k, at[rank - 1], matmul.getTransposeRhs());
    }
    Expr product = make.operation("product", element, {a, b});
    return make.reduce(sumLabel(op), element, product, k);
  }
  auto attention = cast<AttentionOp>(tensor.op);
  // Query [..., H, S, D], key [..., G, T, D], value [..., G, T, E].
  TensorId query = tensor.operands[0], key = tensor.operands[1],
           value = tensor.operands[2];
  ArrayRef<int64_t> queries = tensors[query].type.getShape(),
                    keys = tensors[key].type.getShape();
  int64_t heads = queries[rank - 3], groups = keys[rank - 3],
          length = queries[rank - 2], positions = keys[rank - 2];
  Expr head = at[rank - 3], row = at[rank - 2];
  Type sum = op.getAccumulateType();
  auto in = [&](Expr first, Expr second, Expr third) {
    Indices indices(at.drop_back(3));
    indices.append({first, second, third});
    return indices;
  };
  Expr group = make.quotient(head, heads / groups);
  std::string scale;
  llvm::raw_string_ostream(scale)
      << "attention_score scale=" << attention.getScale().convertToDouble();
  auto score = [&](Expr position) {
    Expr d = make.fresh(queries[rank - 1]);
    Expr product = make.operation(
        "product", sum,
        {read(query, in(head, row, d)), read(key, in(group, position, d))});
    Indices operands{make.reduce(sumLabel(op), sum, product, d)};
    if (attention.getMask())
      operands.push_back(
          broadcast(tensor.operands[3], in(head, row, position)));
    Expr result = make.operation(scale, sum, operands);
    if (attention.getCausal()) {
      // position <= row + positions - length.
      Expr distance = make.add(make.offset(row, positions - length),
                               make.scale(position, -1));
      result = make.select(distance, 0, INT64_MAX, result,
                           make.operation("masked", sum, {}));
    }
    return result;
  };
  Expr t = make.fresh(positions), u = make.fresh(positions);
  Expr total = make.reduce("softmax_total", sum, score(u), u);
  Expr weight = make.operation("softmax_weight", sum, {score(t), total});
  Expr product = make.operation(
      "product", sum, {weight, read(value, in(group, t, at[rank - 1]))});
  return make.reduce(sumLabel(op), element, product, t);
}

namespace {

/// Dimensions of an image in either layout.
struct ImageDims {
  ImageDims(ImageLayout layout, size_t rank)
      : last(layout == ImageLayout::channels_last), rank(rank) {}
  size_t channel() const { return last ? rank - 1 : 1; }
  size_t spatial(size_t i) const { return i + (last ? 1 : 2); }
  size_t count() const { return rank - 2; }
  /// Batch, channel and positions in the layout's order.
  Indices order(Expr batch, Expr channel, ArrayRef<Expr> at) const {
    Indices result{batch};
    if (!last)
      result.push_back(channel);
    llvm::append_range(result, at);
    if (last)
      result.push_back(channel);
    return result;
  }
  bool last;
  size_t rank;
};

} // namespace

Expr SymbolicTensors::convolution(const Tensor &tensor, ArrayRef<Expr> at) {
  Type element = tensor.type.getElementType();
  TensorId input = tensor.operands[0], other = tensor.operands[1];
  RankedTensorType type = tensors[input].type;
  size_t rank = at.size();
  // Reads a padded image.
  auto padded = [&](const ImageDims &dims, Expr batch, Expr channel,
                    ArrayRef<Expr> positions, double value) {
    Expr result = read(input, dims.order(batch, channel, positions));
    Expr outside = make.number(value, type.getElementType());
    for (auto [i, position] : llvm::enumerate(positions))
      result = make.select(position, 0,
                           type.getDimSize(unsigned(dims.spatial(i))) - 1,
                           result, outside);
    return result;
  };
  if (auto conv = dyn_cast<ConvOp>(tensor.op)) {
    ImageDims dims(conv.getLayout(), rank);
    auto groups = int64_t(conv.getGroups());
    SmallVector<int64_t> window = conv.getWindowShape();
    int64_t channels = type.getDimSize(unsigned(dims.channel())) / groups,
            outputs = conv.getOutputChannels() / groups;
    Expr c = make.fresh(channels), o = at[dims.channel()];
    Expr group = make.quotient(o, outputs);
    Indices positions, taps, variables{c};
    for (auto [i, extent] : llvm::enumerate(window)) {
      taps.push_back(make.fresh(extent));
      variables.push_back(taps.back());
      Expr position = make.scale(at[dims.spatial(i)], conv.getStrides()[i]);
      position =
          make.add(position, make.scale(taps.back(), conv.getDilations()[i]));
      positions.push_back(make.offset(position, -conv.getPadLow()[i]));
    }
    Expr a = padded(dims, at[0], make.add(make.scale(group, channels), c),
                    positions, double(conv.getPadValue()));
    Expr b;
    if (std::optional<PackedAttr> packed = conv.getPacked()) {
      SmallVector<int64_t> shape(window);
      shape.push_back(channels);
      Indices order(taps);
      order.push_back(c);
      std::array<Expr, 3> in =
          packedIndex(make, *packed, make.flatten(order, shape),
                      make.remainder(o, outputs), conv.getContractionRun());
      int64_t columns = packed->getColumns();
      int64_t panels = (outputs + columns - 1) / columns;
      in[0] = make.add(make.scale(group, panels), in[0]);
      b = read(other, in);
    } else {
      Indices in{o, c};
      llvm::append_range(in, taps);
      b = read(other, in);
    }
    Expr product = make.operation("product", element, {a, b});
    return make.reduce(sumLabel(conv), element, product, variables);
  }
  auto op = cast<ConvFilterGradientOp>(tensor.op);
  ImageDims dims(op.getLayout(), rank);
  RankedTensorType gradient = tensors[other].type;
  auto groups = int64_t(op.getGroups());
  int64_t outputs = gradient.getDimSize(unsigned(dims.channel())) / groups,
          channels = type.getDimSize(unsigned(dims.channel())) / groups;
  Expr n = make.fresh(type.getDimSize(0));
  Indices variables{n}, positions, places;
  for (size_t i = 0; i < dims.count(); ++i) {
    places.push_back(
        make.fresh(gradient.getDimSize(unsigned(dims.spatial(i)))));
    variables.push_back(places.back());
    Expr position = make.add(make.scale(places.back(), op.getStrides()[i]),
                             make.scale(at[i + 2], op.getDilations()[i]));
    positions.push_back(make.offset(position, -op.getPadLow()[i]));
  }
  Expr group = make.quotient(at[0], outputs);
  Expr a = padded(dims, n, make.add(make.scale(group, channels), at[1]),
                  positions, 0);
  Expr b = read(other, dims.order(n, at[0], places));
  Expr product = make.operation("product", element, {a, b});
  return make.reduce(sumLabel(op), element, product, variables);
}

Expr SymbolicTensors::pool(const Tensor &tensor, ArrayRef<Expr> at) {
  TensorId input = tensor.operands[0];
  RankedTensorType type = tensors[input].type;
  auto windowed = [&](auto op) {
    ImageDims dims(op.getLayout(), at.size());
    Indices positions, variables;
    for (size_t i = 0; i < dims.count(); ++i) {
      variables.push_back(make.fresh(op.getWindow()[i]));
      Expr position =
          make.add(make.scale(at[dims.spatial(i)], op.getStrides()[i]),
                   make.scale(variables.back(), op.getDilations()[i]));
      positions.push_back(make.offset(position, -op.getPadLow()[i]));
    }
    Expr body = read(input, dims.order(at[0], at[dims.channel()], positions));
    Expr outside = make.operation("padding", type.getElementType(), {});
    for (auto [i, position] : llvm::enumerate(positions)) {
      unsigned dim = unsigned(dims.spatial(i));
      // Without the padding that only the last windows of ceil_mode reach.
      body = make.select(position, 0, type.getDimSize(dim) - 1, body, outside);
    }
    std::string label = op->getName().stripDialect().str();
    if constexpr (std::is_same_v<decltype(op), AvgPoolOp>)
      if (op.getCountIncludePad())
        label = labelOf(op);
    return make.reduce(label, tensor.type.getElementType(), body, variables);
  };
  if (auto average = dyn_cast<AvgPoolOp>(tensor.op))
    return windowed(average);
  return windowed(cast<MaxPoolOp>(tensor.op));
}

Expr SymbolicTensors::rowMap(const Tensor &tensor, ArrayRef<Expr> at) {
  Operation *op = tensor.op;
  Type element = tensor.type.getElementType();
  TensorId input = tensor.operands[0];
  ArrayRef<int64_t> shape = tensors[input].type.getShape();
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  // Reduces the row of a function of an element.
  auto reduce = [&](StringRef label, ArrayRef<Expr> others) {
    Indices in(at), variables;
    for (int64_t axis : axes) {
      variables.push_back(make.fresh(shape[size_t(axis)]));
      in[size_t(axis)] = variables.back();
    }
    Indices bodies{read(input, in)};
    llvm::append_range(bodies, others);
    return make.reduce(label, element, bodies, variables);
  };
  Expr x = read(input, at);
  if (isa<SoftmaxOp, LogSoftmaxOp>(op)) {
    Expr total = reduce("softmax_total", {});
    return make.operation(isa<SoftmaxOp>(op) ? "softmax_weight" : "log_softmax",
                          element, {x, total});
  }
  Indices operands{x};
  std::string label;
  llvm::raw_string_ostream out(label);
  out << op->getName().stripDialect();
  operands.push_back(reduce(label + "_moments", {}));
  out << " epsilon=" << op->getAttr("epsilon");
  for (TensorId operand : ArrayRef(tensor.operands).drop_front())
    operands.push_back(broadcast(operand, at));
  return make.operation(label, element, operands);
}

Expr SymbolicTensors::opaqueResult(const Tensor &tensor, ArrayRef<Expr> at) {
  // Image dimensions in one order for both layouts.
  auto layout = tensor.op->getAttrOfType<ImageLayoutAttr>("layout");
  bool isLast = layout && layout.getValue() == ImageLayout::channels_last;
  auto channelsFirst = [&](ArrayRef<Expr> indices) {
    Indices order(indices);
    if (isLast && indices.size() > 2)
      std::rotate(order.begin() + 1, order.end() - 1, order.end());
    return order;
  };
  Indices operands;
  for (TensorId operand : tensor.operands) {
    Indices dims;
    for (int64_t extent : tensors[operand].type.getShape())
      dims.push_back(make.fresh(extent));
    operands.push_back(read(operand, dims));
    llvm::append_range(operands, channelsFirst(dims));
  }
  Expr whole = make.operation(labelOf(tensor.op, tensor.number),
                              tensor.type.getElementType(), operands);
  ClosedForm form = close(whole);
  return make.apply(form.function, tensor.type.getElementType(),
                    channelsFirst(at));
}
