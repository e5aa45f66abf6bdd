//===- Plan.cpp - kernels and a device program ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outlines fusions (KernelOutliner.cpp) and assigns buffers: symbols for
// arguments and results, the arena (ArenaPlanner.cpp) for the rest. Consumes
// the output of mpc-fuse; buffers are final afterwards. Results that update
// arguments are written in place if no later kernel needs the old contents
// (ArgumentAliases.cpp, InPlace.h).
//
//===----------------------------------------------------------------------===//

#include "ArgumentAliases.h"
#include "ProgramPlanner.h"

#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

namespace mpc {
#define GEN_PASS_DEF_PLANPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Name of a port in the model.
StringRef portName(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(MpcDialect::kNameAttr)
                         : StringAttr();
  return name ? name.getValue() : StringRef();
}

RoleAttr portRole(DictionaryAttr attributes) {
  return attributes ? attributes.getAs<RoleAttr>(MpcDialect::kRoleAttr)
                    : RoleAttr();
}

} // namespace

ProgramPlanner::ProgramPlanner(func::FuncOp function, KernelOutliner &outliner,
                               const TargetInfo &target)
    : function(function), outliner(outliner), builder(function),
      program(exe::ProgramOp::create(builder, function.getLoc(),
                                     function.getName(), target,
                                     /*arenaBytes=*/0)),
      aliases(aliasesOf(function)) {
  builder.setInsertionPointToStart(&program.getBody().front());
}

LogicalResult ProgramPlanner::run() {
  if (failed(checkBody()))
    return failure();
  orderInPlaceUpdates(function, aliases);
  declarePorts();
  collect();
  placeInArena();
  for (const PlannedLaunch &launch : launches)
    emitLaunch(launch);
  return success();
}

LogicalResult ProgramPlanner::checkBody() {
  if (!function.getBody().hasOneBlock())
    return function.emitError()
           << "mpc-plan needs a function of one block, found "
           << function.getBody().getBlocks().size();
  for (Type type : llvm::concat<const Type>(function.getArgumentTypes(),
                                            function.getResultTypes()))
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        !tensor || !tensor.hasStaticShape())
      return function.emitError()
             << "mpc-plan needs tensors of static shape, found " << type;
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isa<FusionOp, mpc::ConstantOp>(op) && !isView(&op))
      return op.emitError()
             << "'" << op.getName()
             << "' is in no fusion; run mpc-fuse before mpc-plan";
  return success();
}

void ProgramPlanner::declarePorts() {
  auto nameOf = [](DictionaryAttr attributes, StringRef kind, unsigned index) {
    StringRef name = portName(attributes);
    return name.empty() ? (kind + Twine(index)).str() : name.str();
  };
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    DictionaryAttr attributes = function.getArgAttrDict(index);
    std::string name = nameOf(attributes, "arg", index),
                symbol = symbols.make(name);
    auto port = exe::ArgumentOp::create(
        builder, argument.getLoc(), builder.getStringAttr(symbol),
        TypeAttr::get(argument.getType()), builder.getI64IntegerAttr(index),
        builder.getStringAttr(name), portRole(attributes),
        attributes ? attributes.getAs<ElementsAttr>(MpcDialect::kInitialAttr)
                   : ElementsAttr());
    // Labels of an overflow record, from mpc-scale-loss.
    if (attributes && attributes.contains("mpc.labels"))
      port->setAttr("mpc.labels", attributes.get("mpc.labels"));
    if (attributes && attributes.contains(kShardAttr))
      port->setAttr(kShardAttr, attributes.get(kShardAttr));
    argumentSymbols.push_back(
        FlatSymbolRefAttr::get(builder.getContext(), symbol));
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    DictionaryAttr attributes = function.getResultAttrDict(index);
    std::string name = nameOf(attributes, "out", index),
                symbol = symbols.make(name);
    auto port = exe::ResultOp::create(
        builder, function.getLoc(), builder.getStringAttr(symbol),
        TypeAttr::get(type), builder.getI64IntegerAttr(index),
        builder.getStringAttr(name), portRole(attributes),
        aliases[index] < 0 ? FlatSymbolRefAttr()
                           : argumentSymbols[aliases[index]]);
    // Whether the model produces infinities in the result.
    if (attributes && attributes.contains(kInfiniteAttr))
      port->setAttr(kInfiniteAttr, attributes.get(kInfiniteAttr));
    resultSymbols.push_back(
        FlatSymbolRefAttr::get(builder.getContext(), symbol));
    resultNumbers[resultSymbols.back()] = index;
  }
}

void ProgramPlanner::collect() {
  Block &block = function.getBody().front();
  for (auto concat : block.getOps<ConcatOp>()) {
    int64_t offset = 0;
    for (Value input : concat.getInputs()) {
      // Not for slices of the argument that a concat appends to.
      if (!input.getDefiningOp<SliceOp>())
        partOf[reshapeRoot(input)] = {{}, concat.getResult(), offset};
      offset += byteCount(input.getType());
    }
  }
  for (auto fusion : block.getOps<FusionOp>()) {
    // A message is the only op of its fusion.
    auto message =
        dyn_cast<CollectiveOpInterface>(fusion.getBody().front().front());
    launches.push_back({message ? func::FuncOp() : outliner.outline(fusion),
                        fusion,
                        fusion.getLoc(),
                        SmallVector<Value>(fusion.getInputs()),
                        SmallVector<Value>(fusion.getOutputs()),
                        {},
                        message});
  }
  for (auto [step, launch] : llvm::enumerate(launches))
    launchOf[launch.fusion] = step;
  findEnds();
  for (const PlannedLaunch &launch : launches)
    for (Value input : launch.inputs)
      if (FlatSymbolRefAttr symbol = placeOf(input).symbol)
        lastReaders[symbol] = std::max(lastReaders[symbol], launch.end);
  // Copies come last: every value that can be computed into its result's buffer
  // is, and no launch reads an argument that a copy overwrites.
  SmallVector<std::pair<Value, FlatSymbolRefAttr>> copies;
  for (auto [value, symbol, alias] : llvm::zip_equal(
           block.getTerminator()->getOperands(), resultSymbols, aliases)) {
    Value source = reshapeRoot(value);
    if (alias >= 0 && source == function.getArgument(alias))
      continue;
    if (auto concat = source.getDefiningOp<ConcatOp>();
        concat && source == value && inPlaceAppendArgument(concat)) {
      resultOf[source] = symbol;
      continue;
    }
    if (canBeResult(source) &&
        (alias < 0 || canReplace(cast<OpResult>(source), alias)))
      resultOf[source] = symbol;
    else
      copies.push_back({value, symbol});
  }
  for (auto [value, symbol] : copies) {
    Location loc = block.getTerminator()->getLoc();
    auto type = cast<RankedTensorType>(value.getType());
    launches.push_back(
        {outliner.copyOf(type, loc), FusionOp(), loc, {value}, {}, symbol});
  }
}

void ProgramPlanner::findEnds() {
  for (auto [step, launch] : llvm::enumerate(launches))
    launch.end = step;
  for (PlannedLaunch &launch : launches) {
    if (!launch.message)
      continue;
    size_t end = launches.size();
    SmallVector<Value> names = launch.outputs;
    for (size_t i = 0; i < names.size(); ++i)
      for (Operation *user : names[i].getUsers())
        if (auto reader = launchOf.find(user); reader != launchOf.end())
          end = std::min(end, reader->second);
        else if (isView(user))
          names.push_back(user->getResult(0));
    launch.end = std::max(launch.end, std::min(end, launches.size() - 1));
  }
}

static exe::MessageAttr messageOf(CollectiveOpInterface op) {
  MLIRContext *context = op->getContext();
  Type element = getElementTypeOrSelf(op->getOperand(0).getType());
  auto kind = exe::MessageKind::all_gather;
  auto reduction = exe::Reduction::sum;
  Type accumulate;
  int64_t root = 0;
  auto readReduction = [&](auto reduce, exe::MessageKind which) {
    kind = which;
    reduction =
        *exe::symbolizeReduction(stringifyRankReduction(reduce.getReduction()));
    accumulate = reduce.getAccumulate().value_or(Type());
  };
  if (auto reduce = dyn_cast<AllReduceOp>(op.getOperation()))
    readReduction(reduce, exe::MessageKind::all_reduce);
  else if (auto scatter = dyn_cast<ReduceScatterOp>(op.getOperation()))
    readReduction(scatter, exe::MessageKind::reduce_scatter);
  else if (auto broadcast =
               dyn_cast<CollectiveBroadcastOp>(op.getOperation())) {
    kind = exe::MessageKind::broadcast;
    root = int64_t(broadcast.getRoot());
  }
  return exe::MessageAttr::get(context, kind, int64_t(op.getRanks()), element,
                               reduction, accumulate, root);
}

void ProgramPlanner::emitMessage(const PlannedLaunch &launch, ArrayAttr inputs,
                                 ArrayAttr outputs) {
  exe::CollectiveOp::create(
      builder, launch.loc,
      builder.getStringAttr(FusionOp(launch.fusion).getName()),
      messageOf(launch.message),
      builder.getStrArrayAttr(opNamesOf(launch.fusion)),
      builder.getI64IntegerAttr(0),
      builder.getI64IntegerAttr(
          CollectiveOpInterface(launch.message).getMessageBytes()),
      inputs, outputs);
}

void ProgramPlanner::emitLaunch(PlannedLaunch launch) {
  if (launch.kernel)
    markInPlace(launch);
  SmallVector<Attribute> inputs, outputs;
  for (Value value : launch.inputs)
    inputs.push_back(bufferOf(value));
  for (Value value : launch.outputs)
    outputs.push_back(bufferOf(value));
  if (launch.copyTarget)
    outputs.push_back(launch.copyTarget);
  if (launch.message)
    return emitMessage(launch, builder.getArrayAttr(inputs),
                       builder.getArrayAttr(outputs));
  FusionOp fusion = launch.fusion;
  SmallVector<StringRef> names =
      fusion ? opNamesOf(fusion) : SmallVector<StringRef>();
  int64_t flops = fusion ? fusion.getFlops() : 0;
  int64_t bytes = fusion ? bytesMovedBy(fusion)
                         : 2 * byteCount(launch.inputs.front().getType());
  auto op = exe::LaunchOp::create(
      builder, launch.loc, FlatSymbolRefAttr::get(launch.kernel.getNameAttr()),
      FusionKindAttr::get(builder.getContext(),
                          fusion ? fusion.getKind() : FusionKind::elementwise),
      builder.getStrArrayAttr(names), builder.getI64IntegerAttr(flops),
      builder.getI64IntegerAttr(bytes), builder.getArrayAttr(inputs),
      builder.getArrayAttr(outputs));
  if (Attribute layer = fusion
                            ? fusion->getDiscardableAttr(MpcDialect::kLayerAttr)
                            : Attribute())
    op->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
}

namespace {
struct PlanPass : mpc::impl::PlanPassBase<PlanPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (function.isPublic() && !function.isExternal())
        functions.push_back(function);
    FailureOr<TargetInfo> info = exe::targetOf(module, target);
    if (failed(info))
      return signalPassFailure();
    KernelOutliner outliner(module);
    for (func::FuncOp function : functions) {
      ProgramPlanner planner(function, outliner, *info);
      if (failed(planner.run())) {
        planner.getProgram().erase();
        return signalPassFailure();
      }
      arenaBytes += planner.getProgram().getArenaBytes();
      function.erase();
    }
    numKernels += outliner.numKernels();
    numShared += outliner.numShared();
  }
};
} // namespace
