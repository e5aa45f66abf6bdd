//===- ExeVerify.cpp - verifiers of exe -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies the constraints (Cn) of ExeOps.td; library GEMMs: GemmVerify.cpp.
//
//===----------------------------------------------------------------------===//

#include "ProgramSymbols.h"

#include "mpc/Dialect/Exe/IR/InPlace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

//===----------------------------------------------------------------------===//
// ProgramSymbols
//===----------------------------------------------------------------------===//

ProgramSymbols::ProgramSymbols(ProgramOp program) : program(program) {
  // The first of duplicate names counts; the symbol table reports duplicates.
  for (Operation &op : program.getBody().getOps())
    if (isa<ArgumentOp, ResultOp, exe::ConstantOp>(op))
      buffers.try_emplace(SymbolTable::getSymbolName(&op), &op);
  if (auto module = program->getParentOfType<ModuleOp>())
    for (auto function : module.getOps<func::FuncOp>())
      kernels.try_emplace(function.getSymNameAttr(), function);
}

Operation *ProgramSymbols::bufferOf(Attribute buffer) const {
  auto part = dyn_cast<PartAttr>(buffer);
  auto symbol = part ? part.getWhole() : dyn_cast<FlatSymbolRefAttr>(buffer);
  return symbol ? buffers.lookup(symbol.getAttr()) : nullptr;
}

std::optional<int64_t> ProgramSymbols::bytesOf(Attribute buffer) const {
  if (auto arena = dyn_cast<ArenaAttr>(buffer))
    return arena.getBytes();
  if (auto part = dyn_cast<PartAttr>(buffer))
    return bytesOf(part.getWhole()) ? std::optional(part.getBytes())
                                    : std::nullopt;
  Operation *op = bufferOf(buffer);
  if (auto argument = dyn_cast_if_present<ArgumentOp>(op))
    return byteCount(argument.getTensorType());
  if (auto result = dyn_cast_if_present<ResultOp>(op))
    return byteCount(result.getTensorType());
  if (auto constant = dyn_cast_if_present<exe::ConstantOp>(op))
    return byteCount(constant.getTensorType());
  return std::nullopt;
}

func::FuncOp ProgramSymbols::kernelOf(LaunchOp launch) const {
  func::FuncOp kernel = kernels.lookup(launch.getKernelAttr().getAttr());
  if (!kernel ||
      !llvm::all_of(kernel.getArgumentTypes(), llvm::IsaPred<RankedTensorType>))
    return {};
  return kernel;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Returns the buffer of `buffer`: a result with an alias uses its argument's.
static Attribute memoryOf(const ProgramSymbols &names, Attribute buffer) {
  if (auto result = dyn_cast_if_present<ResultOp>(names.bufferOf(buffer)))
    if (FlatSymbolRefAttr alias = result.getAliasAttr()) {
      auto part = dyn_cast<PartAttr>(buffer);
      return part ? Attribute(PartAttr::get(part.getContext(), alias,
                                            part.getOffset(), part.getBytes()))
                  : alias;
    }
  return buffer;
}

template <typename RangeAttr>
static bool rangesOverlap(RangeAttr a, RangeAttr b) {
  return a.getOffset() < b.getOffset() + b.getBytes() &&
         b.getOffset() < a.getOffset() + a.getBytes();
}

static bool overlap(Attribute a, Attribute b) {
  if (auto left = dyn_cast<ArenaAttr>(a))
    if (auto right = dyn_cast<ArenaAttr>(b))
      return rangesOverlap(left, right);
  auto left = dyn_cast<PartAttr>(a), right = dyn_cast<PartAttr>(b);
  if (!left && !right)
    return a == b;
  if (!left || !right)
    return (left ? left.getWhole() : a) == (right ? right.getWhole() : b);
  return left.getWhole() == right.getWhole() && rangesOverlap(left, right);
}

/// Returns true if output `output` may share the buffer of input `input`.
static bool mayShare(StepOpInterface step, const ProgramSymbols &names,
                     unsigned input, unsigned output) {
  auto launch = dyn_cast<LaunchOp>(*step);
  if (!launch)
    return false;
  func::FuncOp kernel = names.kernelOf(launch);
  if (!kernel || kernel.isExternal() || input >= kernel.getNumArguments() ||
      output >= kernel.getNumResults())
    return true;
  ProgramOp program = names.getProgram();
  return isWrittenInPlace(kernel, input) &&
         mayWriteInPlace(kernel, input, output,
                         writesScalarsLast(launch.getKind(),
                                           program.getTarget().getInfo()));
}

LogicalResult mpc::exe::verifyBuffers(StepOpInterface step,
                                      const ProgramSymbols &names) {
  Operation *op = step;
  for (Attribute buffer :
       llvm::concat<const Attribute>(step.getInputs(), step.getOutputs()))
    if (!names.bytesOf(buffer))
      return op->emitOpError()
             << "uses buffer " << buffer
             << ", which is not an argument, result or constant of the program";
  for (Attribute buffer : step.getOutputs()) {
    if (isa<ArenaAttr>(buffer))
      continue;
    auto result = dyn_cast<ResultOp>(names.bufferOf(buffer));
    if (!result)
      return op->emitOpError()
             << "writes " << buffer << ", which is not a result of the program";
    // The rest keeps the argument's contents.
    if (isa<PartAttr>(buffer) && !result.getAliasAttr())
      return op->emitOpError() << "writes " << buffer
                               << ", a part of a result that replaces nothing";
  }
  auto memoriesOf = [&](ArrayAttr buffers) {
    return llvm::map_to_vector(
        buffers, [&](Attribute buffer) { return memoryOf(names, buffer); });
  };
  SmallVector<Attribute> read = memoriesOf(step.getInputs()),
                         written = memoriesOf(step.getOutputs());
  for (auto [index, output] : llvm::enumerate(step.getOutputs())) {
    for (auto [number, input] : llvm::enumerate(step.getInputs())) {
      bool isSame = read[number] == written[index];
      if (!overlap(read[number], written[index]) ||
          (isSame && mayShare(step, names, number, index)))
        continue;
      InFlightDiagnostic diagnostic = op->emitOpError()
                                      << "writes " << output
                                      << ", which overlaps its input " << input;
      if (isSame)
        diagnostic << ", but its kernel does not support that in place";
      return diagnostic;
    }
    for (size_t other = 0; other < index; ++other)
      if (overlap(written[other], written[index]))
        return op->emitOpError()
               << "writes " << output << ", which overlaps its output "
               << step.getOutputs()[other];
  }
  return success();
}

static LogicalResult verifyLaunch(LaunchOp launch,
                                  const ProgramSymbols &names) {
  // C1, C2, C3
  if (failed(
          verifyBuffers(cast<StepOpInterface>(launch.getOperation()), names)))
    return failure();
  // C4
  func::FuncOp kernel = names.kernelOf(launch);
  if (!kernel)
    return success();
  FunctionType type = kernel.getFunctionType();
  auto check = [&](StringRef what, ArrayAttr buffers,
                   ArrayRef<Type> types) -> LogicalResult {
    if (buffers.size() != types.size())
      return launch.emitOpError()
             << "has " << buffers.size() << ' ' << what << "s, kernel "
             << launch.getKernelAttr() << " has " << types.size();
    for (auto [index, buffer, tensor] : llvm::enumerate(buffers, types))
      if (*names.bytesOf(buffer) != byteCount(tensor))
        return launch.emitOpError()
               << what << ' ' << index << " has " << *names.bytesOf(buffer)
               << " bytes, the kernel's " << tensor << " has "
               << byteCount(tensor);
    return success();
  };
  if (failed(check("input", launch.getInputs(), type.getInputs())))
    return failure();
  return check("output", launch.getOutputs(), type.getResults());
}

//===----------------------------------------------------------------------===//
// ProgramOp
//===----------------------------------------------------------------------===//

template <typename PortOp>
static LogicalResult verifyIndices(ArrayRef<PortOp> ports) {
  for (auto [index, port] : llvm::enumerate(ports))
    if (static_cast<int64_t>(PortOp(port).getIndex()) !=
        static_cast<int64_t>(index))
      return PortOp(port).emitOpError()
             << "has index " << PortOp(port).getIndex() << " at position "
             << index;
  return success();
}

namespace {

/// Disjoint arena ranges that hold live values.
class LiveRanges {
public:
  /// Writes a value, which invalidates the ranges it overlaps.
  void write(ArenaAttr range) {
    if (range.getBytes() == 0)
      return;
    int64_t begin = range.getOffset(), end = begin + range.getBytes();
    auto next = behind(begin);
    while (next != ends.end() && next->first < end)
      next = ends.erase(next);
    ends[begin] = end;
  }

  /// Returns true if all of `range` holds values.
  bool holds(ArenaAttr range) {
    int64_t begin = range.getOffset(), end = begin + range.getBytes();
    for (auto next = behind(begin);
         begin < end && next != ends.end() && next->first <= begin; ++next)
      begin = next->second;
    return begin >= end;
  }

private:
  /// Returns the first range with an end beyond offset `place`.
  std::map<int64_t, int64_t>::iterator behind(int64_t place) {
    auto next = ends.upper_bound(place);
    if (next != ends.begin() && std::prev(next)->second > place)
      --next;
    return next;
  }

  /// End offset, keyed by start offset.
  std::map<int64_t, int64_t> ends;
};

} // namespace

/// Returns the argument or result that contains `buffer`.
static Attribute wholeOf(Attribute buffer) {
  auto part = dyn_cast<PartAttr>(buffer);
  return part ? part.getWhole() : buffer;
}

LogicalResult ProgramOp::verify() {
  if (static_cast<int64_t>(getArenaBytes()) < 0)
    return emitOpError() << "has an arena of "
                         << static_cast<int64_t>(getArenaBytes()) << " bytes";
  for (Operation &op : getBody().getOps())
    if (!isa<ArgumentOp, ResultOp, exe::ConstantOp, StepOpInterface>(op))
      return op.emitOpError() << "is not part of a program";
  // C1
  if (failed(verifyIndices<ArgumentOp>(getProgramArguments())) ||
      failed(verifyIndices<ResultOp>(getProgramResults())))
    return failure();

  ProgramSymbols names(*this);
  // C5
  DenseMap<Attribute, ResultOp> replaced;
  for (ResultOp result : getProgramResults()) {
    FlatSymbolRefAttr alias = result.getAliasAttr();
    if (!alias)
      continue;
    auto argument = dyn_cast_if_present<ArgumentOp>(names.bufferOf(alias));
    if (!argument)
      return result.emitOpError()
             << "has alias " << alias << ", which is not an argument";
    if (argument.getTensorType() != result.getTensorType())
      return result.emitOpError()
             << "of type " << result.getTensorType() << " has alias " << alias
             << " of type " << argument.getTensorType();
    if (auto [entry, inserted] = replaced.insert({alias, result}); !inserted) {
      InFlightDiagnostic diagnostic =
          result.emitOpError() << "has alias " << alias << ", as another has";
      diagnostic.attachNote(entry->second.getLoc()) << "the other result";
      return diagnostic;
    }
  }

  LiveRanges live;
  // Written buffers, and the first writer of each argument or result.
  SmallVector<std::pair<Attribute, Operation *>> written;
  DenseMap<Attribute, Operation *> begun;
  for (StepOpInterface launch : getSteps()) {
    for (Attribute buffer : llvm::concat<const Attribute>(
             launch.getInputs(), launch.getOutputs())) {
      // C2
      if (auto part = dyn_cast<PartAttr>(buffer)) {
        std::optional<int64_t> whole = names.bytesOf(part.getWhole());
        if (part.getOffset() < 0 || part.getBytes() < 0 ||
            part.getOffset() % kAlignment != 0 ||
            (whole && part.getOffset() > *whole - part.getBytes()))
          return launch->emitOpError()
                 << "uses bytes [" << part.getOffset() << " : "
                 << part.getBytes() << "] of " << part.getWhole()
                 << ", which has " << whole.value_or(0)
                 << " bytes and parts aligned to " << kAlignment;
      }
      auto arena = dyn_cast<ArenaAttr>(buffer);
      if (!arena)
        continue;
      if (arena.getOffset() < 0 || arena.getBytes() < 0 ||
          arena.getOffset() % kAlignment != 0 ||
          arena.getOffset() >
              static_cast<int64_t>(getArenaBytes()) - arena.getBytes())
        return launch->emitOpError()
               << "uses arena[" << arena.getOffset() << " : "
               << arena.getBytes() << "] of an arena of " << getArenaBytes()
               << " bytes aligned to " << kAlignment;
    }
    // C3
    for (Attribute buffer : launch.getInputs()) {
      if (auto arena = dyn_cast<ArenaAttr>(buffer)) {
        if (!live.holds(arena))
          return launch->emitOpError()
                 << "reads arena[" << arena.getOffset() << " : "
                 << arena.getBytes() << "], which has no value at that point";
      } else if (isa_and_present<ResultOp>(names.bufferOf(buffer))) {
        if (!begun.contains(wholeOf(buffer)))
          return launch->emitOpError()
                 << "reads result " << buffer << " before it is written";
      } else if (ResultOp result = replaced.lookup(wholeOf(buffer))) {
        // C6
        auto writer =
            begun.find(FlatSymbolRefAttr::get(result.getSymNameAttr()));
        if (writer == begun.end())
          continue;
        InFlightDiagnostic diagnostic =
            launch->emitOpError()
            << "reads argument " << buffer << " after result @"
            << result.getSymName() << " replaced it";
        diagnostic.attachNote(writer->second->getLoc()) << "written here";
        return diagnostic;
      }
    }
    for (Attribute buffer : launch.getOutputs()) {
      if (auto arena = dyn_cast<ArenaAttr>(buffer)) {
        live.write(arena);
        continue;
      }
      // C4
      begun.insert({wholeOf(buffer), launch});
      auto *before = llvm::find_if(written, [&](const auto &entry) {
        return overlap(entry.first, buffer);
      });
      if (before != written.end()) {
        InFlightDiagnostic diagnostic =
            launch->emitOpError() << "writes result " << buffer << " again";
        diagnostic.attachNote(before->second->getLoc()) << "first written here";
        return diagnostic;
      }
      written.push_back({buffer, launch});
    }
  }
  for (ResultOp result : getProgramResults())
    if (!result.getAliasAttr() &&
        !begun.contains(FlatSymbolRefAttr::get(result.getSymNameAttr())))
      return result.emitOpError() << "is written by no launch";
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  ProgramSymbols names(*this);
  CollectiveOp first;
  for (CollectiveOp message : getBody().getOps<CollectiveOp>()) {
    if (!first)
      first = message;
    if (message.getMessage().getRanks() != first.getMessage().getRanks()) // C7
      return message.emitOpError()
             << "is of " << message.getMessage().getRanks()
             << " ranks, but an earlier message is of "
             << first.getMessage().getRanks();
  }
  for (StepOpInterface step : getSteps()) {
    auto gemm = dyn_cast<GemmOp>(step.getOperation());
    auto launch = dyn_cast<LaunchOp>(step.getOperation());
    auto message = dyn_cast<CollectiveOp>(step.getOperation());
    if ((message && failed(verifyMessage(message, names))) ||
        (gemm && failed(verifyGemm(gemm, names))) ||
        (launch && failed(verifyLaunch(launch, names))))
      return failure();
  }
  return success();
}
