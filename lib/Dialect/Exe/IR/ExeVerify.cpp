//===- ExeVerify.cpp - verifiers of exe -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The constraints that ExeOps.td numbers.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/IR/ExeOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::exe;

/// The bytes that a buffer has, or nullopt where it names nothing of the
/// program.
static std::optional<int64_t> bufferBytes(ProgramOp program, Attribute buffer) {
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

static bool overlap(Attribute a, Attribute b) {
  auto left = dyn_cast<ArenaAttr>(a), right = dyn_cast<ArenaAttr>(b);
  if (!left || !right)
    return a == b;
  return left.getOffset() < right.getOffset() + right.getBytes() &&
         right.getOffset() < left.getOffset() + left.getBytes();
}

//===----------------------------------------------------------------------===//
// LaunchOp
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verify() {
  auto program = cast<ProgramOp>((*this)->getParentOp());
  // C1
  for (Attribute buffer :
       llvm::concat<const Attribute>(getInputs(), getOutputs()))
    if (!bufferBytes(program, buffer))
      return emitOpError()
             << "uses buffer " << buffer
             << ", which is no argument, result or constant of the program";
  // C2
  for (Attribute buffer : getOutputs())
    if (auto symbol = dyn_cast<FlatSymbolRefAttr>(buffer))
      if (!isa<ResultOp>(SymbolTable::lookupSymbolIn(program, symbol)))
        return emitOpError()
               << "writes " << buffer << ", which is no result of the program";
  // C3
  for (auto [index, output] : llvm::enumerate(getOutputs())) {
    for (Attribute input : getInputs())
      if (overlap(input, output))
        return emitOpError()
               << "writes " << output << ", which overlaps its input " << input;
    for (Attribute other : getOutputs().getValue().take_front(index))
      if (overlap(other, output))
        return emitOpError() << "writes " << output
                             << ", which overlaps its output " << other;
  }
  // C4
  auto module = program->getParentOfType<ModuleOp>();
  auto kernel = module
                    ? dyn_cast_if_present<func::FuncOp>(
                          SymbolTable::lookupSymbolIn(module, getKernelAttr()))
                    : func::FuncOp();
  if (!kernel ||
      !llvm::all_of(kernel.getArgumentTypes(), llvm::IsaPred<RankedTensorType>))
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
    if (!isa<ArgumentOp, ResultOp, exe::ConstantOp, LaunchOp>(op))
      return op.emitOpError() << "is no part of a program";
  // C1
  if (failed(verifyIndices<ArgumentOp>(getProgramArguments())) ||
      failed(verifyIndices<ResultOp>(getProgramResults())))
    return failure();

  SmallVector<ArenaAttr> live;
  DenseMap<Attribute, LaunchOp> written;
  for (LaunchOp launch : getLaunches()) {
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
        return launch.emitOpError()
               << "uses arena[" << arena.getOffset() << " : "
               << arena.getBytes() << "] of an arena of " << getArenaBytes()
               << " bytes aligned to " << kAlignment;
    }
    // C3
    for (Attribute buffer : launch.getInputs()) {
      if (auto arena = dyn_cast<ArenaAttr>(buffer)) {
        if (!holdsValue(live, arena))
          return launch.emitOpError()
                 << "reads arena[" << arena.getOffset() << " : "
                 << arena.getBytes() << "], which holds no value there";
      } else if (isa_and_present<ResultOp>(mlir::SymbolTable::lookupSymbolIn(
                     getOperation(), cast<FlatSymbolRefAttr>(buffer))) &&
                 !written.contains(buffer)) {
        return launch.emitOpError()
               << "reads result " << buffer << " before it is written";
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
            launch.emitOpError() << "writes result " << buffer << " again";
        diagnostic.attachNote(entry->second.getLoc()) << "first written here";
        return diagnostic;
      }
    }
  }
  for (ResultOp result : getProgramResults())
    if (!written.contains(FlatSymbolRefAttr::get(result.getSymNameAttr())))
      return result.emitOpError() << "is written by no launch";
  return success();
}
