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
#include "KernelOutliner.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Exe/IR/InPlace.h"
#include "mpc/Dialect/Exe/Transforms/ArenaPlanner.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

#include "llvm/ADT/MapVector.h"

#include <numeric>
#include <set>

namespace mpc {
#define GEN_PASS_DEF_PLANPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Location of a value: a named buffer, or an offset in the buffer of `root`.
struct BufferLocation {
  FlatSymbolRefAttr symbol;
  Value root;
  int64_t offset = 0;
};

/// A kernel launch or message before buffer assignment.
struct PlannedLaunch {
  func::FuncOp kernel; // null for a message
  FusionOp fusion;     // null for a copy
  Location loc;
  llvm::SmallVector<Value> inputs;
  /// Result symbol, or the value that the kernel computes.
  llvm::SmallVector<Value> outputs;
  FlatSymbolRefAttr copyTarget;
  /// The collective, instead of a kernel.
  CollectiveOpInterface message = {};
  /// Last launch that runs while this one reads: its own index; for a message,
  /// that of the first launch that depends on it.
  size_t end = 0;
};

/// Live range of a buffer: indices of the first and last launch that use it.
struct Life {
  int64_t first, last;
};
using LiveRangeMap = llvm::MapVector<Value, Life>;

/// Turns a function of fusions and views into an exe.program.
class ProgramPlanner {
public:
  /// Creates the program before `function`.
  ProgramPlanner(func::FuncOp function, KernelOutliner &outliner,
                 const TargetInfo &target);
  /// Fills the program; modifies `function`.
  LogicalResult run();

  exe::ProgramOp getProgram() { return program; }

private:
  LogicalResult checkBody();
  void declarePorts();
  void collect();
  /// Sets the ends of messages.
  void findEnds();
  void placeInArena();
  /// Returns values that reuse the buffer of an operand dying at their launch,
  /// mapped to that operand, whose live range is extended: at the steps with
  /// most live bytes, until one of these has no candidate.
  llvm::DenseMap<Value, Value> reuseDyingOperands(LiveRangeMap &lives);
  void emitLaunch(PlannedLaunch launch);
  void emitMessage(const PlannedLaunch &launch, ArrayAttr inputs,
                   ArrayAttr outputs);

  FlatSymbolRefAttr constantSymbol(mpc::ConstantOp constant);
  BufferLocation placeOf(Value value);
  Attribute bufferOf(Value value);
  /// Returns true if `value` may be computed directly into a result's buffer.
  bool canBeResult(Value value);
  /// Returns true if its launch may overwrite argument `number`.
  bool canReplace(OpResult value, unsigned number);
  /// Returns true if `launch` may overwrite its input `buffer` with output
  /// `output`, or does not read it.
  bool canReuseBuffer(PlannedLaunch &launch, const BufferLocation &buffer,
                      unsigned output);
  /// Marks kernels that overwrite a buffer that they read.
  void markInPlace(const PlannedLaunch &launch);

  func::FuncOp function;
  KernelOutliner &outliner;
  OpBuilder builder;
  exe::ProgramOp program;
  llvm::SmallVector<int64_t> aliases;
  UniqueNames symbols;
  llvm::SmallVector<FlatSymbolRefAttr> argumentSymbols, resultSymbols;
  llvm::DenseMap<Attribute, size_t> resultNumbers;
  llvm::DenseMap<Attribute, FlatSymbolRefAttr> constantSymbols;
  /// Values computed into a result's buffer.
  llvm::DenseMap<Value, FlatSymbolRefAttr> resultOf;
  /// Inputs of concats that are views: their part of the concat's buffer.
  llvm::DenseMap<Value, BufferLocation> partOf;
  llvm::SmallVector<PlannedLaunch> launches;
  llvm::DenseMap<Operation *, size_t> launchOf;
  /// Last launch that reads each argument.
  llvm::DenseMap<Attribute, size_t> lastReaders;
  llvm::DenseMap<Value, int64_t> arenaOffset;
};
} // namespace

//===----------------------------------------------------------------------===//
// Buffers
//
// Symbols for arguments and results, the arena (ArenaPlanner.cpp) for the rest;
// in-place reuse of operand buffers (InPlace.h).
//===----------------------------------------------------------------------===//

FlatSymbolRefAttr ProgramPlanner::constantSymbol(mpc::ConstantOp constant) {
  FlatSymbolRefAttr &symbol = constantSymbols[constant.getValue()];
  if (symbol)
    return symbol;
  StringRef name = "constant";
  if (auto named = dyn_cast<NameLoc>(constant.getLoc());
      named && !named.getName().empty())
    name = named.getName();
  std::string unique = symbols.make(name);
  exe::ConstantOp::create(builder, constant.getLoc(), unique,
                          constant.getValue());
  return symbol = FlatSymbolRefAttr::get(builder.getContext(), unique);
}

BufferLocation ProgramPlanner::placeOf(Value value) {
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
  // Only arena buffers are addressed in parts.
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

Attribute ProgramPlanner::bufferOf(Value value) {
  BufferLocation place = placeOf(value);
  if (place.symbol) {
    // A value appended to an argument is a part of the result that aliases it.
    auto number = resultNumbers.find(place.symbol);
    if (number == resultNumbers.end() ||
        byteCount(value.getType()) ==
            byteCount(function.getResultTypes()[number->second]))
      return place.symbol;
    return exe::PartAttr::get(builder.getContext(), place.symbol, place.offset,
                              byteCount(value.getType()));
  }
  return exe::ArenaAttr::get(builder.getContext(),
                             arenaOffset.lookup(place.root) + place.offset,
                             byteCount(value.getType()));
}

//===----------------------------------------------------------------------===//
// Results in operand buffers
//===----------------------------------------------------------------------===//

bool ProgramPlanner::canReuseBuffer(PlannedLaunch &launch,
                                    const BufferLocation &buffer,
                                    unsigned output) {
  if (launch.message)
    return llvm::none_of(launch.inputs, [&](Value input) {
      BufferLocation place = placeOf(input);
      return place.symbol == buffer.symbol && place.root == buffer.root;
    });
  bool scalarsLast =
      launch.fusion && exe::writesScalarsLast(FusionOp(launch.fusion).getKind(),
                                              program.getTarget().getInfo());
  for (auto [number, input] : llvm::enumerate(launch.inputs)) {
    BufferLocation place = placeOf(input);
    if (place.symbol != buffer.symbol || place.root != buffer.root)
      continue;
    // A part of the buffer is read at other offsets than it is written.
    if (place.offset != buffer.offset ||
        byteCount(input.getType()) !=
            byteCount(launch.kernel.getResultTypes()[output]) ||
        !exe::mayWriteInPlace(launch.kernel, number, output, scalarsLast))
      return false;
  }
  return true;
}

bool ProgramPlanner::canReplace(OpResult value, unsigned number) {
  BufferLocation argument = placeOf(function.getArgument(number));
  size_t step = launchOf.lookup(value.getOwner());
  if (!canReuseBuffer(launches[step], argument, value.getResultNumber()))
    return false;
  // The write overwrites the old contents.
  auto reader = lastReaders.find(argument.symbol);
  return reader == lastReaders.end() || reader->second <= step;
}

void ProgramPlanner::markInPlace(const PlannedLaunch &launch) {
  auto memoryOf = [&](Value value) {
    BufferLocation place = placeOf(value);
    auto result =
        place.symbol ? resultNumbers.find(place.symbol) : resultNumbers.end();
    if (result != resultNumbers.end())
      if (int64_t alias = aliases[result->second]; alias >= 0)
        return Attribute(argumentSymbols[alias]);
    return bufferOf(value);
  };
  llvm::SmallDenseSet<Attribute> written;
  for (Value output : launch.outputs)
    written.insert(memoryOf(output));
  for (auto [number, input] : llvm::enumerate(launch.inputs))
    if (written.contains(memoryOf(input)))
      exe::setWrittenInPlace(launch.kernel, number);
}

//===----------------------------------------------------------------------===//
// The arena
//===----------------------------------------------------------------------===//

void ProgramPlanner::placeInArena() {
  LiveRangeMap lives;
  auto use = [&](Value value, int64_t step) {
    BufferLocation place = placeOf(value);
    if (place.symbol)
      return;
    auto [entry, inserted] = lives.insert({place.root, {step, step}});
    entry->second.first = std::min(entry->second.first, step);
    entry->second.last = std::max(entry->second.last, step);
  };
  for (auto [step, launch] : llvm::enumerate(launches)) {
    for (Value value : launch.inputs) {
      use(value, step);
      use(value, std::max(step, launch.end));
    }
    for (Value value : launch.outputs)
      use(value, step);
  }
  // In-place kernels lose noalias information, so they are used only in
  // programs with long-lived state (training steps).
  DenseMap<Value, Value> over;
  if (llvm::any_of(aliases, [](int64_t alias) { return alias >= 0; }))
    over = reuseDyingOperands(lives);
  ArenaPlanner planner(exe::ProgramOp::kAlignment);
  DenseMap<Value, int64_t> numbers;
  for (auto &[root, life] : lives)
    if (!over.contains(root))
      numbers[root] =
          planner.add(byteCount(root.getType()), life.first, life.last);
  planner.plan();
  for (auto &[root, life] : lives) {
    Value buffer = root;
    while (Value under = over.lookup(buffer))
      buffer = under;
    arenaOffset[root] = planner.offsetOf(numbers.lookup(buffer));
  }
  program.setArenaBytes(planner.arenaBytes());
}

DenseMap<Value, Value> ProgramPlanner::reuseDyingOperands(LiveRangeMap &lives) {
  DenseMap<Value, Value> over;
  auto underneath = [&](Value value) {
    while (Value under = over.lookup(value))
      value = under;
    return value;
  };
  // Live bytes at each step.
  SmallVector<int64_t> inUse(launches.size() + 1);
  for (auto &[root, life] : lives) {
    inUse[life.first] += byteCount(root.getType());
    inUse[life.last + 1] -= byteCount(root.getType());
  }
  std::partial_sum(inUse.begin(), inUse.end(), inUse.begin());
  // Lets an output reuse the buffer of an operand that dies at `step`, which
  // reduces live bytes at that step only.
  auto overwrite = [&](size_t step) {
    bool changed = false;
    PlannedLaunch &launch = launches[step];
    for (auto [number, output] : llvm::enumerate(launch.outputs)) {
      // Parts of another value's buffer stay there; unused outputs would give
      // the operand's buffer to a second output.
      auto own = lives.find(output);
      if (own == lives.end() || over.contains(output) ||
          own->second.last == static_cast<int64_t>(step))
        continue;
      for (Value input : launch.inputs) {
        BufferLocation place = placeOf(input);
        if (!place.root || place.offset != 0)
          continue;
        Value buffer = underneath(place.root);
        Life &life = lives.find(buffer)->second;
        if (life.last != static_cast<int64_t>(step) ||
            byteCount(buffer.getType()) != byteCount(output.getType()) ||
            !canReuseBuffer(launch, place, number))
          continue;
        over[output] = buffer;
        life.last = own->second.last;
        inUse[step] -= byteCount(output.getType());
        changed = true;
        break;
      }
    }
    return changed;
  };
  // Busiest steps first, in order, as long as all equally busy steps improve.
  std::set<std::pair<int64_t, size_t>> busiest;
  for (size_t step = 0; step < launches.size(); ++step)
    busiest.insert({-inUse[step], step});
  for (bool goesOn = !busiest.empty(); goesOn;) {
    int64_t peak = -busiest.begin()->first;
    SmallVector<size_t> steps;
    for (; !busiest.empty() && -busiest.begin()->first == peak;
         busiest.erase(busiest.begin()))
      steps.push_back(busiest.begin()->second);
    for (size_t step : steps) {
      goesOn &= overwrite(step);
      busiest.insert({-inUse[step], step});
    }
  }
  return over;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Name of a port in the model.
static StringRef portName(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(MpcDialect::kNameAttr)
                         : StringAttr();
  return name ? name.getValue() : StringRef();
}

static RoleAttr portRole(DictionaryAttr attributes) {
  return attributes ? attributes.getAs<RoleAttr>(MpcDialect::kRoleAttr)
                    : RoleAttr();
}

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
    if (attributes && attributes.contains(kExemptAttr))
      port->setAttr(kExemptAttr, attributes.get(kExemptAttr));
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
        partOf[sourceOfReshapes(input)] = {{}, concat.getResult(), offset};
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
    Value source = sourceOfReshapes(value);
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
