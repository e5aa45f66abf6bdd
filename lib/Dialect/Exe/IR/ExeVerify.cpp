//===- ExeVerify.cpp - verifiers of exe -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The constraints that ExeOps.td numbers; those of products: GemmVerify.cpp.
//
//===----------------------------------------------------------------------===//

#include "Buffers.h"

#include "mpc/Dialect/Exe/IR/InPlace.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

std::optional<int64_t> mpc::exe::bufferBytes(ProgramOp program,
                                             Attribute buffer) {
  if (auto arena = dyn_cast<ArenaAttr>(buffer))
    return arena.getBytes();
  auto symbol = dyn_cast<FlatSymbolRefAttr>(buffer);
  if (!symbol)
    return std::nullopt;
  Operation *op = SymbolTable::lookupSymbolIn(program, symbol);
  if (auto argument = dyn_cast_if_present<ArgumentOp>(op))
    return byteCount(argument.getTensorType());
  if (auto result = dyn_cast_if_present<ResultOp>(op))
    return byteCount(result.getTensorType());
  if (auto constant = dyn_cast_if_present<exe::ConstantOp>(op))
    return byteCount(constant.getTensorType());
  return std::nullopt;
}

/// The buffer that `buffer` names: a result with an alias is its argument's.
static Attribute memoryOf(ProgramOp program, Attribute buffer) {
  if (auto symbol = dyn_cast<FlatSymbolRefAttr>(buffer))
    if (auto result = dyn_cast_if_present<ResultOp>(
            SymbolTable::lookupSymbolIn(program, symbol)))
      if (FlatSymbolRefAttr alias = result.getAliasAttr())
        return alias;
  return buffer;
}

static bool overlap(Attribute a, Attribute b) {
  auto left = dyn_cast<ArenaAttr>(a), right = dyn_cast<ArenaAttr>(b);
  if (!left || !right)
    return a == b;
  return left.getOffset() < right.getOffset() + right.getBytes() &&
         right.getOffset() < left.getOffset() + left.getBytes();
}

/// The kernel that a launch names, where it is a function on tensors; null
/// where it is not there or already code.
static func::FuncOp tensorKernel(LaunchOp launch) {
  auto module = launch->getParentOfType<ModuleOp>();
  auto kernel =
      module ? dyn_cast_if_present<func::FuncOp>(
                   SymbolTable::lookupSymbolIn(module, launch.getKernelAttr()))
             : func::FuncOp();
  if (!kernel ||
      !llvm::all_of(kernel.getArgumentTypes(), llvm::IsaPred<RankedTensorType>))
    return {};
  return kernel;
}

/// Whether output `output` may have the buffer of input `input`.
static bool mayShare(StepOpInterface step, unsigned input, unsigned output) {
  auto launch = dyn_cast<LaunchOp>(*step);
  if (!launch)
    return false;
  func::FuncOp kernel = tensorKernel(launch);
  if (!kernel || kernel.isExternal() || input >= kernel.getNumArguments() ||
      output >= kernel.getNumResults())
    return true;
  auto program = cast<ProgramOp>(launch->getParentOp());
  return isWrittenInPlace(kernel, input) &&
         mayWriteInPlace(
             kernel, input, output,
             storesScalarsLast(launch.getKind(), program.getTarget()));
}

LogicalResult mpc::exe::verifyBuffers(StepOpInterface step) {
  Operation *op = step;
  auto program = cast<ProgramOp>(op->getParentOp());
  for (Attribute buffer :
       llvm::concat<const Attribute>(step.getInputs(), step.getOutputs()))
    if (!bufferBytes(program, buffer))
      return op->emitOpError()
             << "uses buffer " << buffer
             << ", which is no argument, result or constant of the program";
  for (Attribute buffer : step.getOutputs())
    if (auto symbol = dyn_cast<FlatSymbolRefAttr>(buffer))
      if (!isa<ResultOp>(SymbolTable::lookupSymbolIn(program, symbol)))
        return op->emitOpError()
               << "writes " << buffer << ", which is no result of the program";
  auto memoriesOf = [&](ArrayAttr buffers) {
    return llvm::map_to_vector(
        buffers, [&](Attribute buffer) { return memoryOf(program, buffer); });
  };
  SmallVector<Attribute> read = memoriesOf(step.getInputs()),
                         written = memoriesOf(step.getOutputs());
  for (auto [index, output] : llvm::enumerate(step.getOutputs())) {
    for (auto [number, input] : llvm::enumerate(step.getInputs())) {
      bool isSame = read[number] == written[index];
      if (!overlap(read[number], written[index]) ||
          (isSame && mayShare(step, number, index)))
        continue;
      InFlightDiagnostic diagnostic = op->emitOpError()
                                      << "writes " << output
                                      << ", which overlaps its input " << input;
      if (isSame)
        diagnostic << ", and its kernel does not work in place there";
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

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verify() {
  // C1, C2, C3
  if (failed(verifyBuffers(cast<StepOpInterface>(getOperation()))))
    return failure();
  auto program = cast<ProgramOp>((*this)->getParentOp());
  // C4
  func::FuncOp kernel = tensorKernel(*this);
  if (!kernel)
    return success();
  FunctionType type = kernel.getFunctionType();
  auto check = [&](StringRef what, ArrayAttr buffers,
                   ArrayRef<Type> types) -> LogicalResult {
    if (buffers.size() != types.size())
      return emitOpError() << "has " << buffers.size() << ' ' << what
                           << "s, kernel " << getKernelAttr() << " has "
                           << types.size();
    for (auto [index, buffer, tensor] : llvm::enumerate(buffers, types))
      if (*bufferBytes(program, buffer) != byteCount(tensor))
        return emitOpError()
               << what << ' ' << index << " has "
               << *bufferBytes(program, buffer) << " bytes, the kernel's "
               << tensor << " has " << byteCount(tensor);
    return success();
  };
  if (failed(check("input", getInputs(), type.getInputs())))
    return failure();
  return check("output", getOutputs(), type.getResults());
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

/// Whether ranges that hold values, which never overlap, cover `range`.
static bool holdsValue(ArrayRef<ArenaAttr> live, ArenaAttr range) {
  int64_t begin = range.getOffset(), end = begin + range.getBytes(),
          covered = 0;
  for (ArenaAttr value : live)
    covered += std::max<int64_t>(
        0, std::min(end, value.getOffset() + value.getBytes()) -
               std::max(begin, value.getOffset()));
  return covered == range.getBytes();
}

LogicalResult ProgramOp::verify() {
  if (static_cast<int64_t>(getArenaBytes()) < 0)
    return emitOpError() << "has an arena of "
                         << static_cast<int64_t>(getArenaBytes()) << " bytes";
  for (Operation &op : getBody().getOps())
    if (!isa<ArgumentOp, ResultOp, exe::ConstantOp, StepOpInterface>(op))
      return op.emitOpError() << "is no part of a program";
  // C1
  if (failed(verifyIndices<ArgumentOp>(getProgramArguments())) ||
      failed(verifyIndices<ResultOp>(getProgramResults())))
    return failure();

  // C5
  DenseMap<Attribute, ResultOp> replaced;
  for (ResultOp result : getProgramResults()) {
    FlatSymbolRefAttr alias = result.getAliasAttr();
    if (!alias)
      continue;
    auto argument = dyn_cast_if_present<ArgumentOp>(
        mlir::SymbolTable::lookupSymbolIn(getOperation(), alias));
    if (!argument)
      return result.emitOpError()
             << "has alias " << alias << ", which is no argument";
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

  SmallVector<ArenaAttr> live;
  DenseMap<Attribute, Operation *> written;
  for (StepOpInterface launch : getSteps()) {
    for (Attribute buffer : llvm::concat<const Attribute>(
             launch.getInputs(), launch.getOutputs())) {
      // C2
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
        if (!holdsValue(live, arena))
          return launch->emitOpError()
                 << "reads arena[" << arena.getOffset() << " : "
                 << arena.getBytes() << "], which holds no value there";
      } else if (isa_and_present<ResultOp>(mlir::SymbolTable::lookupSymbolIn(
                     getOperation(), cast<FlatSymbolRefAttr>(buffer)))) {
        if (!written.contains(buffer))
          return launch->emitOpError()
                 << "reads result " << buffer << " before it is written";
      } else if (ResultOp result = replaced.lookup(buffer)) {
        // C6
        auto writer =
            written.find(FlatSymbolRefAttr::get(result.getSymNameAttr()));
        if (writer == written.end())
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
        llvm::erase_if(live,
                       [&](ArenaAttr range) { return overlap(range, arena); });
        live.push_back(arena);
        continue;
      }
      // C4
      auto [entry, inserted] = written.insert({buffer, launch});
      if (!inserted) {
        InFlightDiagnostic diagnostic =
            launch->emitOpError() << "writes result " << buffer << " again";
        diagnostic.attachNote(entry->second->getLoc()) << "first written here";
        return diagnostic;
      }
    }
  }
  for (ResultOp result : getProgramResults())
    if (!result.getAliasAttr() &&
        !written.contains(FlatSymbolRefAttr::get(result.getSymNameAttr())))
      return result.emitOpError() << "is written by no launch";
  return success();
}
