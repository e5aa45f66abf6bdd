//===- FrameworkOps.cpp - mapping to the framework's ops ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/FrameworkOps.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Names by kind
//===----------------------------------------------------------------------===//

/// Number of spatial dimensions of an image op, 0 for any other op.
static int64_t spatialRank(Operation *op) {
  FusionClass family = fusionClassOf(op);
  if (family != FusionClass::Convolution && family != FusionClass::Pool)
    return 0;
  return cast<RankedTensorType>(op->getOperand(0).getType()).getRank() - 2;
}

/// Returns torch's name of a padding by copied elements, which its lists
/// distinguish from constant padding.
static std::string nameOfPad(PadOp pad) {
  int64_t padded = 0;
  for (auto [low, high] : llvm::zip(pad.getLow(), pad.getHigh()))
    padded += low != 0 || high != 0;
  std::string rank = std::to_string(padded) + "d";
  switch (pad.getMode()) {
  case PadMode::reflect:
    return "reflection_pad" + rank;
  case PadMode::edge:
    return "replication_pad" + rank;
  case PadMode::constant:
  case PadMode::wrap:
    break;
  }
  return "";
}

std::string mpc::systemOpOf(Operation *op, const Policy &policy) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  if (!precision)
    return "";
  StringRef name = policy.systemOpOf(precision.getPrecisionKind());
  if (policy.getAlgorithm() != PolicyAlgorithm::TorchAutocast)
    return name.str();
  if (int64_t rank = spatialRank(op); rank && name.consume_back("2d"))
    return name.str() + std::to_string(rank) + "d";
  if (auto pad = dyn_cast<PadOp>(op))
    if (std::string special = nameOfPad(pad); !special.empty())
      return special;
  return name.str();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// Returns true if `value` is a parameter or a view of it, not a result.
static bool isModelParameter(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<ConstantOp>(op))
      return true;
    if (!isa<TransposeOp, ReshapeOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return true;
}

/// Returns true if `value` has one number per channel along `axis` of `shape`,
/// like the bias of a layer.
static bool isBias(Value value, ArrayRef<int64_t> shape, int64_t axis) {
  if (!isModelParameter(value))
    return false;
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() > int64_t(shape.size()))
    return false;
  int64_t offset = shape.size() - type.getRank();
  for (auto [index, extent] : llvm::enumerate(type.getShape()))
    if (extent != (int64_t(index) + offset == axis ? shape[axis] : 1))
      return false;
  return offset <= axis;
}

Operation *FrameworkOps::biasAddOf(Operation *op) const {
  if (!isa<ContractionOpInterface>(op) || !op->hasOneUse() ||
      op->hasAttr(MpcDialect::kSourceAttr))
    return nullptr;
  auto add = dyn_cast<AddOp>(*op->user_begin());
  if (!add || add->hasAttr(MpcDialect::kSourceAttr) ||
      add.getResult().getType() != op->getResult(0).getType() ||
      !isModelParameter(op->getOperand(1)))
    return nullptr;
  Value other = add.getLhs() == op->getResult(0) ? add.getRhs() : add.getLhs();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  int64_t axis = isa<MatmulOp>(op) ? type.getRank() - 1 : 1;
  return isBias(other, type.getShape(), axis) ? add : nullptr;
}

FrameworkOpGroup &FrameworkOps::makeGroup(StringRef op) {
  FrameworkOpGroup &group = groups.emplace_back();
  group.op = op.str();
  return group;
}

void FrameworkOps::add(FrameworkOpGroup &group, Operation *op) {
  group.members.push_back(op);
  groupOf[op] = &group;
}

FrameworkOps::FrameworkOps(func::FuncOp func, const Policy &policy,
                           llvm::function_ref<bool(Operation *)> standsAlone) {
  auto alone = [&](Operation *op) { return standsAlone && standsAlone(op); };
  llvm::DenseMap<int64_t, FrameworkOpGroup *> byId;
  Block &body = func.getBody().front();
  for (Operation &op : body.without_terminator()) {
    if (isa<ConstantOp>(op) || groupOf.contains(&op))
      continue;
    if (auto source = op.getAttrOfType<SourceAttr>(MpcDialect::kSourceAttr)) {
      if (alone(&op)) {
        add(makeGroup(source.getOp().getValue()), &op);
        continue;
      }
      FrameworkOpGroup *&group = byId[source.getId()];
      if (!group)
        group = &makeGroup(source.getOp().getValue());
      add(*group, &op);
      continue;
    }
    FrameworkOpGroup &group = makeGroup(systemOpOf(&op, policy));
    add(group, &op);
    // One op of torch is a layer with its bias.
    if (policy.getAlgorithm() != PolicyAlgorithm::TorchAutocast || alone(&op))
      continue;
    if (Operation *bias = biasAddOf(&op); bias && !alone(bias)) {
      if (isa<MatmulOp>(op))
        group.op = "linear";
      add(group, bias);
    }
  }
  // A reader of a group's result comes after the group's last op.
  llvm::SmallPtrSet<const FrameworkOpGroup *, 16> done;
  for (Operation &op : llvm::reverse(body.without_terminator()))
    if (FrameworkOpGroup *group = groupOf.lookup(&op))
      if (done.insert(group).second)
        ordered.push_back(group);
  std::reverse(ordered.begin(), ordered.end());
}
