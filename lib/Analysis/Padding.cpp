//===- Padding.cpp - padding for matrix units -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families of dimensions are a weighted union-find: every node also stores how
// many units of its root it spans. Costs and gains of a family are computed
// here; PaddingPruning.cpp chooses by them.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Padding.h"

#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "mpc/Analysis/Fusion/GreedyFusion.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

using namespace mlir;
using namespace mpc;

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

std::optional<MathType> mpc::mathTypeOf(Type element) {
  if (element.isF16())
    return MathType::Float16;
  if (element.isBF16())
    return MathType::BFloat16;
  if (element.isF64())
    return MathType::Float64;
  if (element.isInteger(8))
    return MathType::Int8;
  return element.isF32() ? std::optional(MathType::Float32) : std::nullopt;
}

std::optional<MathType> mpc::mathTypeOf(Operation *op) {
  auto contraction = dyn_cast<ContractionOpInterface>(op);
  if (!contraction)
    return std::nullopt;
  std::optional<MathType> type =
      mathTypeOf(getElementTypeOrSelf(op->getOperand(0).getType()));
  if (type != MathType::Float32)
    return type;
  switch (contraction.getComputeMode()) {
  case ComputeMode::tf32:
    return MathType::TensorFloat32;
  case ComputeMode::bf16x2:
  case ComputeMode::bf16x3:
    return MathType::BFloat16;
  case ComputeMode::native:
    break;
  }
  return type;
}

void PaddingPlan::addContraction(Operation *op) {
  std::optional<MathType> type = mpc::mathTypeOf(op);
  if (!type || !isa<PaddingOpInterface>(op))
    return;
  Contraction contraction{op, *type, paddableAxes(op), {}, {}, {}};
  // No padding if odd extents are as fast (masked edges on a CPU).
  bool gains =
      !target.hasCeilings() || target.flopsPerSecond(*type, /*aligned=*/true) >
                                   target.flopsPerSecond(*type, false);
  int64_t multiple = gains ? target.multiple(*type) : 1;
  for (AxisRole role :
       {AxisRole::Rows, AxisRole::Columns, AxisRole::Depth, AxisRole::Keys}) {
    SmallVector<unsigned> axes;
    int64_t extent = 1;
    for (auto [number, axis] : llvm::enumerate(contraction.axes))
      if (axis.role == role) {
        axes.push_back(number);
        extent *= axis.extent;
      }
    if (axes.empty() || extent % multiple == 0)
      continue;
    contraction.wants.push_back({multiple, axes});
    // With one matrix for all batches, the rows of each batch grow.
    contraction.growing.push_back(axes.back());
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
  // Path compression.
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
  // Both contain `scale` copies of the axis, so leftUnits units of the left
  // family are as long as rightUnits units of the right one.
  int64_t leftUnits = left.factor * b.scale,
          rightUnits = right.factor * a.scale;
  if (rightUnits % leftUnits == 0) {
    nodes[left.family].parent = right.family;
    nodes[left.family].factor = rightUnits / leftUnits;
  } else if (leftUnits % rightUnits == 0) {
    nodes[right.family].parent = left.family;
    nodes[right.family].factor = leftUnits / rightUnits;
  }
  // Otherwise the units are incommensurable: the families stay separate, and
  // the op converts between them.
}

void PaddingPlan::tie(const Contraction &contraction) {
  const AxisLink *first = nullptr;
  for (const OpAxis &axis : contraction.axes) {
    if (!axis.isTied || axis.links.empty() ||
        isConstant(valueOf(contraction.op, axis.links[0])))
      continue;
    auto node = [&](const AxisLink &link) {
      return nodeOf(valueOf(contraction.op, link), link.dim);
    };
    const AxisLink &link = axis.links[0];
    if (first)
      join(*first, node(*first), link, node(link));
    else
      first = &link;
  }
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
    return extent % want.first == 0;
  });
}

double PaddingPlan::flops(const Contraction &contraction, int without) const {
  // Axes that take part in some of an op's GEMMs only: shares add up.
  double factor = 1, parts = 1;
  for (auto [axis, place] :
       llvm::zip_equal(contraction.axes, contraction.places)) {
    DimPadding padding = pad(place, axis.extent, without);
    double growth = double(padding.newExtent()) / padding.oldExtent();
    if (axis.share < 1)
      parts += axis.share * (growth - 1);
    else
      factor *= growth;
  }
  return cast<CostOpInterface>(contraction.op).getFlops() * factor * parts;
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
  for (OpResult result : op->getResults())
    bytes += byteCount(result.getType()) *
             growth(contraction, {true, result.getResultNumber()}, without);
  return bytes;
}

bool PaddingPlan::wins(const Contraction &contraction) const {
  if (contraction.wants.empty() || !isAligned(contraction, kNothing))
    return false;
  if (!target.hasCeilings()) {
    auto isBounded = [&](bool isResult, unsigned index) {
      return growth(contraction, {isResult, index}, kNothing) <= kLargestGrowth;
    };
    Operation *op = contraction.op;
    return llvm::all_of(llvm::seq(op->getNumOperands()),
                        [&](unsigned i) { return isBounded(false, i); }) &&
           llvm::all_of(llvm::seq(op->getNumResults()),
                        [&](unsigned i) { return isBounded(true, i); });
  }
  // Neither the additional flops nor the additional bytes may exceed the gain
  // of aligned extents.
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
  // A padded value is written and read with its padding.
  double growth = 1;
  for (auto [place, extent] : value.dims)
    if (std::optional<int64_t> to = extentOf(place.family, without))
      growth *= double(place.factor * *to) / extent;
  return 2 * value.bytes * (growth - 1) / target.bytesPerSecond();
}

double PaddingPlan::seconds(ArrayRef<int> parameter, int without) const {
  // A constant is padded once; a parameter changes, and needs a padding kernel.
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
    tie(contraction);
  for (Contraction &contraction : contractions)
    for (const OpAxis &axis : contraction.axes)
      contraction.places.push_back(placeOf(contraction.op, axis));
  FusionGraph kernels(body);
  selectFusionGroups(kernels, body, target);
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
