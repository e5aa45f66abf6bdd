//===- BufferAssignment.cpp - buffer assignment of values -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Symbols for arguments and results, the arena (ArenaPlanner.cpp) for the rest;
// in-place reuse of operand buffers (InPlace.h).
//
//===----------------------------------------------------------------------===//

#include "ProgramPlanner.h"

#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Dialect/Exe/IR/InPlace.h"
#include "mpc/Dialect/Exe/Transforms/ArenaPlanner.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include <numeric>
#include <set>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Values and buffers
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
