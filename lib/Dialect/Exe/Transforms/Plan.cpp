//===- Plan.cpp - kernels and a device program ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outlines fusions (KernelOutliner.cpp) and gives every value a place: symbols
// for what the caller sees, the arena (ArenaPlanner.cpp) for the rest. Reads
// the output of mpc-fuse; nothing moves between buffers afterwards. Results
// that replace arguments are written in place where no kernel needs the old
// contents any more (ReplacedArguments.cpp, InPlace.h).
//
//===----------------------------------------------------------------------===//

#include "ProgramPlanner.h"
#include "ReplacedArguments.h"

#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_PLANPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// A port's name in the model.
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
  orderReplacements(function, aliases);
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
    // What mpc-scale-loss says about the numbers in a record of overflows.
    if (attributes && attributes.contains("mpc.labels"))
      port->setAttr("mpc.labels", attributes.get("mpc.labels"));
    argumentSymbols.push_back(
        FlatSymbolRefAttr::get(builder.getContext(), symbol));
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    DictionaryAttr attributes = function.getResultAttrDict(index);
    std::string name = nameOf(attributes, "out", index),
                symbol = symbols.make(name);
    exe::ResultOp::create(builder, function.getLoc(),
                          builder.getStringAttr(symbol), TypeAttr::get(type),
                          builder.getI64IntegerAttr(index),
                          builder.getStringAttr(name), portRole(attributes),
                          aliases[index] < 0 ? FlatSymbolRefAttr()
                                             : argumentSymbols[aliases[index]]);
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
      // What an append leaves of its argument is that.
      if (!input.getDefiningOp<SliceOp>())
        partOf[reshapedFrom(input)] = {{}, concat.getResult(), offset};
      offset += byteCount(input.getType());
    }
  }
  for (auto fusion : block.getOps<FusionOp>())
    launches.push_back({outliner.outline(fusion),
                        fusion,
                        fusion.getLoc(),
                        SmallVector<Value>(fusion.getInputs()),
                        SmallVector<Value>(fusion.getOutputs()),
                        {}});
  for (auto [step, launch] : llvm::enumerate(launches)) {
    launchOf[launch.fusion] = step;
    for (Value input : launch.inputs)
      if (FlatSymbolRefAttr symbol = placeOf(input).symbol)
        lastReaders[symbol] = step;
  }
  // Copies come last, so that each value that can has its result's buffer
  // first, and no launch reads an argument that a copy replaces.
  SmallVector<std::pair<Value, FlatSymbolRefAttr>> copies;
  for (auto [value, symbol, alias] : llvm::zip_equal(
           block.getTerminator()->getOperands(), resultSymbols, aliases)) {
    Value source = reshapedFrom(value);
    if (alias >= 0 && source == function.getArgument(alias))
      continue;
    if (auto concat = source.getDefiningOp<ConcatOp>();
        concat && source == value && appendedTo(concat)) {
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

void ProgramPlanner::emitLaunch(PlannedLaunch launch) {
  markInPlace(launch);
  SmallVector<Attribute> inputs, outputs;
  for (Value value : launch.inputs)
    inputs.push_back(bufferOf(value));
  for (Value value : launch.outputs)
    outputs.push_back(bufferOf(value));
  if (launch.copyTarget)
    outputs.push_back(launch.copyTarget);
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
