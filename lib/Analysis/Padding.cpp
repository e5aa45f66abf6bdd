//===- Padding.cpp - which dimensions are padded --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families of dimensions are a union-find in which every node also knows how
// many units of its root it holds. What a family costs and gains is priced
// here, and PaddingChoice.cpp chooses by that.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Padding.h"

#include "mpc/Analysis/Fusibility.h"
#include "mpc/Dialect/Mpc/Training/StepFunction.h"

using namespace mlir;
using namespace mpc;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static bool isConstant(Value value) {
  return value.getDefiningOp<mpc::ConstantOp>();
}

/// The operand or result of a link.
static Value valueOf(Operation *op, const AxisLink &link) {
  return link.isResult ? Value(op->getResult(link.index))
                       : op->getOperand(link.index);
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

std::optional<MathType> mpc::mathTypeOf(Operation *op) {
  auto contraction = dyn_cast<ContractionOpInterface>(op);
  if (!contraction || !isa<MatmulOp, ConvOp, AttentionOp>(op))
    return std::nullopt;
  Type type = getElementTypeOrSelf(op->getOperand(0).getType());
  if (type.isF16())
    return MathType::Float16;
  if (type.isBF16())
    return MathType::BFloat16;
  if (type.isF64())
    return MathType::Float64;
  if (type.isInteger(8))
    return MathType::Int8;
  if (!type.isF32())
    return std::nullopt;
  switch (contraction.getComputeMode()) {
  case ComputeMode::tf32:
    return MathType::TensorFloat32;
  case ComputeMode::bf16x2:
  case ComputeMode::bf16x3:
    return MathType::BFloat16;
  case ComputeMode::native:
    break;
  }
  return MathType::Float32;
}

std::array<int64_t, 4> mpc::contractionExtents(Operation *op) {
  ArrayRef<int64_t> result = shapeOf(op->getResult(0));
  if (auto conv = dyn_cast<ConvOp>(op)) {
    int64_t channels = conv.getOutputChannels();
    return {result[0], productOf(result.drop_front()) / channels, channels,
            conv.getContractionSize()};
  }
  int64_t batch = productOf(result.drop_back(2)),
          rows = result[result.size() - 2];
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    ArrayRef<int64_t> key = shapeOf(attention.getKey());
    return {batch, rows, key[key.size() - 2], key.back()};
  }
  return {batch, rows, result.back(),
          cast<ContractionOpInterface>(op).getContractionSize()};
}

/// Whether the rows of all batches are one long list of rows: the right-hand
/// side is one matrix.
static bool hasOneRightMatrix(Operation *op) {
  return isa<MatmulOp>(op) &&
         productOf(shapeOf(op->getOperand(1)).drop_back(2)) == 1;
}

void PaddingPlan::addContraction(Operation *op) {
  std::optional<MathType> type = mpc::mathTypeOf(op);
  if (!type)
    return;
  Contraction contraction{op, *type, paddableAxes(op), {}, {}, {}};
  // Where odd extents run as fast (the masked edges of a CPU), none is wanted.
  bool gains =
      !target.hasCeilings() || target.flopsPerSecond(*type, /*aligned=*/true) >
                                   target.flopsPerSecond(*type, false);
  int64_t multiple = gains ? target.multiple(*type) : 1;
  auto want = [&](ArrayRef<AxisRole> roles) {
    SmallVector<unsigned> axes;
    int64_t extent = 1;
    for (auto [number, axis] : llvm::enumerate(contraction.axes))
      if (llvm::is_contained(roles, axis.role)) {
        axes.push_back(number);
        extent *= axis.extent;
      }
    if (axes.empty() || extent % multiple == 0)
      return;
    contraction.wants.push_back({multiple, axes});
    // Rows grow before the batches around them.
    unsigned growing = axes.back();
    for (unsigned axis : axes)
      if (contraction.axes[axis].role == AxisRole::Rows)
        growing = axis;
    contraction.growing.push_back(growing);
  };
  if (hasOneRightMatrix(op))
    want({AxisRole::Batch, AxisRole::Rows});
  else
    want({AxisRole::Rows});
  want({AxisRole::Columns});
  want({AxisRole::Depth});
  want({AxisRole::Keys});
  // A conv of one channel has no axis to grow and stays unaligned.
  if (auto conv = dyn_cast<ConvOp>(op); conv && conv.getGroups() == 1 &&
                                        multiple > 1 &&
                                        shapeOf(conv.getFilter())[1] == 1) {
    contraction.wants.push_back({multiple, {}});
    contraction.growing.push_back(-1);
  }
  contractions.push_back(std::move(contraction));
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

int PaddingPlan::nodeOf(Value value, unsigned dim) {
  auto [entry, isNew] = places.try_emplace({value, dim}, int(nodes.size()));
  if (isNew)
    nodes.push_back({int(nodes.size()), 1, shapeOf(value)[dim]});
  return entry->second;
}

PaddingPlan::Place PaddingPlan::find(int node) const {
  // Every node on the way is hung below the root, for the next question.
  SmallVector<int> way;
  for (; nodes[node].parent != node; node = nodes[node].parent)
    way.push_back(node);
  int64_t factor = 1;
  for (int step : llvm::reverse(way)) {
    factor *= nodes[step].factor;
    nodes[step].parent = node;
    nodes[step].factor = factor;
  }
  return {node, factor};
}

std::optional<PaddingPlan::Place> PaddingPlan::placeOf(Value value,
                                                       unsigned dim) const {
  auto entry = places.find({value, dim});
  if (entry == places.end())
    return std::nullopt;
  return find(entry->second);
}

void PaddingPlan::join(const AxisLink &a, int nodeA, const AxisLink &b,
                       int nodeB) {
  Place left = find(nodeA), right = find(nodeB);
  if (left.family == right.family)
    return;
  // Both hold the axis `scale` times, so leftUnits units of the left family are
  // as long as rightUnits units of the right one.
  int64_t leftUnits = left.factor * b.scale,
          rightUnits = right.factor * a.scale;
  if (rightUnits % leftUnits == 0) {
    nodes[left.family].parent = right.family;
    nodes[left.family].factor = rightUnits / leftUnits;
  } else if (leftUnits % rightUnits == 0) {
    nodes[right.family].parent = left.family;
    nodes[right.family].factor = leftUnits / rightUnits;
  }
  // Otherwise no unit serves both: the families stay apart, and the op converts
  // between them.
}

void PaddingPlan::tieCausal(const Contraction &contraction) {
  auto attention = dyn_cast<AttentionOp>(contraction.op);
  const OpAxis *rows = nullptr, *keys = nullptr;
  for (const OpAxis &axis : contraction.axes) {
    rows = axis.role == AxisRole::Rows ? &axis : rows;
    keys = axis.role == AxisRole::Keys ? &axis : keys;
  }
  if (!attention || !attention.getCausal() || !rows || !keys)
    return;
  auto node = [&](const OpAxis &axis) {
    return nodeOf(valueOf(contraction.op, axis.links[0]), axis.links[0].dim);
  };
  if (!isConstant(attention.getKey()))
    join(rows->links[0], node(*rows), keys->links[0], node(*keys));
}

std::optional<PaddingPlan::Place>
PaddingPlan::placeOf(Operation *op, const OpAxis &axis) const {
  // The result's family is the op's; contracted axes have operands only.
  for (bool isResult : {true, false})
    for (const AxisLink &link : axis.links) {
      if (link.isResult != isResult || isConstant(valueOf(op, link)))
        continue;
      std::optional<Place> place = placeOf(valueOf(op, link), link.dim);
      if (place && place->factor % link.scale == 0)
        return Place{place->family, place->factor / link.scale};
    }
  return std::nullopt;
}

std::optional<int64_t> PaddingPlan::extentOf(int family, int without) const {
  if (family == without || without == kEverything)
    return std::nullopt;
  auto entry = chosen.find(family);
  return entry == chosen.end() ? std::nullopt : std::optional(entry->second);
}

DimPadding PaddingPlan::pad(std::optional<Place> place, int64_t extent,
                            int without) const {
  if (place)
    if (std::optional<int64_t> to = extentOf(place->family, without))
      return {place->factor, nodes[place->family].extent, *to};
  return {1, extent, extent};
}

DimPadding PaddingPlan::paddingOf(Operation *op, const OpAxis &axis) const {
  return pad(placeOf(op, axis), axis.extent);
}

//===----------------------------------------------------------------------===//
// The bound
//===----------------------------------------------------------------------===//

bool PaddingPlan::isAligned(const Contraction &contraction, int without) const {
  return llvm::all_of(contraction.wants, [&](const auto &want) {
    int64_t extent = 1;
    for (unsigned axis : want.second)
      extent *=
          pad(contraction.places[axis], contraction.axes[axis].extent, without)
              .newExtent();
    return !want.second.empty() && extent % want.first == 0;
  });
}

double PaddingPlan::flops(const Contraction &contraction, int without) const {
  double factor = 1, widths = 0;
  bool isAttention = isa<AttentionOp>(contraction.op);
  for (auto [axis, place] :
       llvm::zip_equal(contraction.axes, contraction.places)) {
    DimPadding padding = pad(place, axis.extent, without);
    double growth = double(padding.newExtent()) / padding.oldExtent();
    // Each of attention's two widths takes part in one of two products.
    if (isAttention &&
        (axis.role == AxisRole::Depth || axis.role == AxisRole::Columns))
      widths += growth / 2;
    else
      factor *= growth;
  }
  return cast<CostOpInterface>(contraction.op).getFlops() * factor *
         (widths ? widths : 1);
}

double PaddingPlan::growth(const Contraction &contraction,
                           const AxisLink &operand, int without) const {
  double growth = 1;
  for (auto [axis, place] :
       llvm::zip_equal(contraction.axes, contraction.places))
    if (axis.find(operand.isResult, operand.index)) {
      DimPadding padding = pad(place, axis.extent, without);
      growth *= double(padding.newExtent()) / padding.oldExtent();
    }
  return growth;
}

double PaddingPlan::bytes(const Contraction &contraction, int without) const {
  double bytes = 0;
  Operation *op = contraction.op;
  for (OpOperand &operand : op->getOpOperands())
    bytes += byteCount(operand.get().getType()) *
             growth(contraction, {false, operand.getOperandNumber()}, without);
  return bytes + byteCount(op->getResult(0).getType()) *
                     growth(contraction, {true, 0}, without);
}

bool PaddingPlan::wins(const Contraction &contraction) const {
  if (contraction.wants.empty() || !isAligned(contraction, kNothing))
    return false;
  if (!target.hasCeilings()) {
    for (unsigned index : {0u, 1u})
      if (growth(contraction, {false, index}, kNothing) > kLargestGrowth)
        return false;
    return growth(contraction, {true, 0}, kNothing) <= kLargestGrowth;
  }
  // Neither the extra products nor the extra bytes may eat up what aligned
  // extents win.
  return flops(contraction, kNothing) /
                 target.flopsPerSecond(contraction.type, /*aligned=*/true) <
             flops(contraction, kEverything) /
                 target.flopsPerSecond(contraction.type, /*aligned=*/false) &&
         bytes(contraction, kNothing) / target.bytesPerSecond(true) <
             bytes(contraction, kEverything) / target.bytesPerSecond(false);
}

double PaddingPlan::seconds(const Contraction &contraction, int without) const {
  bool aligned = isAligned(contraction, without);
  return std::max(flops(contraction, without) /
                      target.flopsPerSecond(contraction.type, aligned),
                  bytes(contraction, without) / target.bytesPerSecond(aligned));
}

double PaddingPlan::seconds(const Stored &value, int without) const {
  // A padded value is written and read with what was added to it.
  double growth = 1;
  for (auto [place, extent] : value.dims)
    if (std::optional<int64_t> to = extentOf(place.family, without))
      growth *= double(place.factor * *to) / extent;
  return 2 * value.bytes * (growth - 1) / target.bytesPerSecond();
}

double PaddingPlan::seconds(ArrayRef<int> parameter, int without) const {
  // A constant is padded once; a parameter changes, and what pads it is a
  // kernel of its own.
  bool isPadded = llvm::any_of(parameter, [&](int family) {
    return extentOf(family, without).has_value();
  });
  return isPadded ? target.launchSeconds() : 0;
}

PaddingPlan::PaddingPlan(func::FuncOp func, const TargetInfo &target)
    : target(target) {
  Block &body = func.getBody().front();
  for (Operation &op : body)
    addContraction(&op);
  if (llvm::all_of(contractions, [](const Contraction &contraction) {
        return contraction.wants.empty();
      }))
    return;
  for (Operation &op : body)
    for (const OpAxis &axis : paddableAxes(&op)) {
      const AxisLink *first = nullptr;
      for (const AxisLink &link : axis.links) {
        Value value = valueOf(&op, link);
        if (isConstant(value))
          continue;
        int node = nodeOf(value, link.dim);
        if (first)
          join(*first, nodeOf(valueOf(&op, *first), first->dim), link, node);
        else
          first = &link;
      }
    }
  for (const Contraction &contraction : contractions)
    tieCausal(contraction);
  for (Contraction &contraction : contractions)
    for (const OpAxis &axis : contraction.axes)
      contraction.places.push_back(placeOf(contraction.op, axis));
  KernelPrediction kernels(func);
  auto addStored = [&](Value value) {
    if (isConstant(value) || !isa<RankedTensorType>(value.getType()) ||
        kernels.isInternal(value))
      return;
    Stored entry{byteCount(value.getType()), {}};
    for (auto [dim, extent] : llvm::enumerate(shapeOf(value)))
      if (std::optional<Place> place = placeOf(value, dim))
        entry.dims.push_back({*place, extent});
    if (!entry.dims.empty())
      stored.push_back(std::move(entry));
  };
  for (Operation &op : body)
    for (Value result : op.getResults())
      addStored(result);
  StepFunction step(func);
  for (RoleKind kind : {RoleKind::parameter, RoleKind::parameter_copy})
    for (BlockArgument argument : step.arguments(kind)) {
      SmallVector<int> families;
      for (unsigned dim = 0; dim < shapeOf(argument).size(); ++dim)
        if (std::optional<Place> place = placeOf(argument, dim))
          families.push_back(place->family);
      if (!families.empty())
        parameters.push_back(families);
    }
  choose();
}
