//===- Plan.cpp - kernels and a device program ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Outlines fusions (KernelOutliner.cpp) and gives every value a place: symbols
// for what the caller sees, the arena (ArenaPlanner.cpp) for the rest. Reads
// the output of mpc-fuse; nothing moves between buffers afterwards.
//
//===----------------------------------------------------------------------===//

#include "KernelOutliner.h"

#include "mpc/Dialect/Exe/Transforms/ArenaPlanner.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/Transforms/Views.h"

namespace mpc {
#define GEN_PASS_DEF_PLANPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Where a value lies: in a named buffer, or at an offset in the buffer of
/// `root`.
struct Place {
  FlatSymbolRefAttr symbol;
  Value root;
  int64_t offset = 0;
};

/// A kernel call before buffers have places.
struct PlannedLaunch {
  func::FuncOp kernel;
  FusionOp fusion; // null for a copy
  Location loc;
  SmallVector<Value> inputs;
  /// A result symbol, or the value that the kernel computes.
  SmallVector<Value> outputs;
  FlatSymbolRefAttr copyTarget;
};

class ProgramPlanner {
public:
  ProgramPlanner(func::FuncOp function, KernelOutliner &outliner,
                 StringRef target)
      : function(function), outliner(outliner), builder(function),
        program(exe::ProgramOp::create(builder, function.getLoc(),
                                       function.getName(), target,
                                       /*arenaBytes=*/0)) {
    builder.setInsertionPointToStart(&program.getBody().front());
  }

  LogicalResult run() {
    if (failed(checkBody()))
      return failure();
    declarePorts();
    collect();
    placeInArena();
    for (const PlannedLaunch &launch : launches)
      emitLaunch(launch);
    return success();
  }

  exe::ProgramOp getProgram() { return program; }

private:
  LogicalResult checkBody();
  void declarePorts();
  void collect();
  void placeInArena();
  void emitLaunch(PlannedLaunch launch);

  /// A symbol of the program made of `name` that is still free.
  std::string uniqueSymbol(StringRef name);
  FlatSymbolRefAttr constantSymbol(mpc::ConstantOp constant);
  Place placeOf(Value value);
  Attribute bufferOf(Value value);
  /// Whether `value` may be computed straight into a result's buffer.
  bool canBeResult(Value value);

  func::FuncOp function;
  KernelOutliner &outliner;
  OpBuilder builder;
  exe::ProgramOp program;
  llvm::StringSet<> symbols;
  SmallVector<FlatSymbolRefAttr> argumentSymbols, resultSymbols;
  DenseMap<Attribute, FlatSymbolRefAttr> constantSymbols;
  /// Values whose buffer is a result's.
  DenseMap<Value, FlatSymbolRefAttr> resultOf;
  /// Operands of concats that are views: their part of the concat's buffer.
  DenseMap<Value, Place> partOf;
  SmallVector<PlannedLaunch> launches;
  DenseMap<Value, int64_t> arenaOffset;
};

Value behindReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

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

std::string ProgramPlanner::uniqueSymbol(StringRef name) {
  std::string symbol = name.str();
  for (int64_t i = 1; !symbols.insert(symbol).second; ++i)
    symbol = (name + "_" + Twine(i)).str();
  return symbol;
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
                symbol = uniqueSymbol(name);
    exe::ArgumentOp::create(
        builder, argument.getLoc(), builder.getStringAttr(symbol),
        TypeAttr::get(argument.getType()), builder.getI64IntegerAttr(index),
        builder.getStringAttr(name), portRole(attributes));
    argumentSymbols.push_back(
        FlatSymbolRefAttr::get(builder.getContext(), symbol));
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    DictionaryAttr attributes = function.getResultAttrDict(index);
    std::string name = nameOf(attributes, "out", index),
                symbol = uniqueSymbol(name);
    exe::ResultOp::create(builder, function.getLoc(),
                          builder.getStringAttr(symbol), TypeAttr::get(type),
                          builder.getI64IntegerAttr(index),
                          builder.getStringAttr(name), portRole(attributes));
    resultSymbols.push_back(
        FlatSymbolRefAttr::get(builder.getContext(), symbol));
  }
}

FlatSymbolRefAttr ProgramPlanner::constantSymbol(mpc::ConstantOp constant) {
  FlatSymbolRefAttr &symbol = constantSymbols[constant.getValue()];
  if (symbol)
    return symbol;
  StringRef name = "constant";
  if (auto named = dyn_cast<NameLoc>(constant.getLoc());
      named && !named.getName().empty())
    name = named.getName();
  std::string unique = uniqueSymbol(name);
  exe::ConstantOp::create(builder, constant.getLoc(), unique,
                          constant.getValue());
  return symbol = FlatSymbolRefAttr::get(builder.getContext(), unique);
}

Place ProgramPlanner::placeOf(Value value) {
  int64_t offset = 0;
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return {argumentSymbols[argument.getArgNumber()], {}, offset};
    if (auto constant = value.getDefiningOp<mpc::ConstantOp>())
      return {constantSymbol(constant), {}, offset};
    if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      value = reshape.getInput();
    } else if (auto slice = value.getDefiningOp<SliceOp>()) {
      offset += *contiguousOffset(slice);
      value = slice.getInput();
    } else if (auto part = partOf.find(value); part != partOf.end()) {
      offset += part->second.offset;
      value = part->second.root;
    } else if (FlatSymbolRefAttr symbol = resultOf.lookup(value)) {
      return {symbol, {}, offset};
    } else {
      return {{}, value, offset};
    }
  }
}

bool ProgramPlanner::canBeResult(Value value) {
  if (!value.getDefiningOp<FusionOp>() || partOf.contains(value) ||
      resultOf.contains(value))
    return false;
  // Parts of a buffer are addressed in the arena only.
  SmallVector<Value> names = {value};
  for (size_t i = 0; i < names.size(); ++i)
    for (Operation *user : names[i].getUsers()) {
      if (auto reshape = dyn_cast<ReshapeOp>(user))
        names.push_back(reshape.getResult());
      else if (isa<SliceOp, ConcatOp>(user))
        return false;
    }
  return true;
}

void ProgramPlanner::collect() {
  Block &block = function.getBody().front();
  for (auto concat : block.getOps<ConcatOp>()) {
    int64_t offset = 0;
    for (Value input : concat.getInputs()) {
      partOf[behindReshapes(input)] = {{}, concat.getResult(), offset};
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
  // Copies come last, so that each value that can has its result's buffer
  // first.
  SmallVector<std::pair<Value, FlatSymbolRefAttr>> copies;
  for (auto [value, symbol] :
       llvm::zip_equal(block.getTerminator()->getOperands(), resultSymbols)) {
    Value source = behindReshapes(value);
    if (canBeResult(source))
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

void ProgramPlanner::placeInArena() {
  struct Life {
    int64_t first, last;
  };
  llvm::MapVector<Value, Life> lives;
  auto use = [&](Value value, int64_t step) {
    Place place = placeOf(value);
    if (place.symbol)
      return;
    auto [entry, inserted] = lives.insert({place.root, {step, step}});
    entry->second.first = std::min(entry->second.first, step);
    entry->second.last = std::max(entry->second.last, step);
  };
  for (auto [step, launch] : llvm::enumerate(launches)) {
    for (Value value : launch.inputs)
      use(value, step);
    for (Value value : launch.outputs)
      use(value, step);
  }
  ArenaPlanner planner(exe::ProgramOp::kAlignment);
  for (auto &[root, life] : lives)
    planner.add(byteCount(root.getType()), life.first, life.last);
  planner.plan();
  for (auto [number, entry] : llvm::enumerate(lives))
    arenaOffset[entry.first] = planner.offsetOf(number);
  program.setArenaBytes(planner.arenaBytes());
}

Attribute ProgramPlanner::bufferOf(Value value) {
  Place place = placeOf(value);
  if (place.symbol)
    return place.symbol;
  return exe::ArenaAttr::get(builder.getContext(),
                             arenaOffset.lookup(place.root) + place.offset,
                             byteCount(value.getType()));
}

void ProgramPlanner::emitLaunch(PlannedLaunch launch) {
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
    KernelOutliner outliner(module);
    for (func::FuncOp function : functions) {
      ProgramPlanner planner(function, outliner, target);
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
