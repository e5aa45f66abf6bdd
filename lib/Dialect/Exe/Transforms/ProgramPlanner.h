//===- ProgramPlanner.h - memory planning of a program ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this directory. Turns a function of fusions and views into an
// exe.program: Plan.cpp collects and emits launches,
// BufferAssignment.cpp assigns buffers.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_PROGRAMPLANNER_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_PROGRAMPLANNER_H

#include "KernelOutliner.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"

#include "llvm/ADT/MapVector.h"

namespace mpc {
class ConstantOp;

/// Location of a value: a named buffer, or an offset in the buffer of `root`.
struct BufferLocation {
  mlir::FlatSymbolRefAttr symbol;
  mlir::Value root;
  int64_t offset = 0;
};

/// A kernel launch or message before buffer assignment.
struct PlannedLaunch {
  mlir::func::FuncOp kernel; // null for a message
  FusionOp fusion;           // null for a copy
  mlir::Location loc;
  llvm::SmallVector<mlir::Value> inputs;
  /// Result symbol, or the value that the kernel computes.
  llvm::SmallVector<mlir::Value> outputs;
  mlir::FlatSymbolRefAttr copyTarget;
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
using LiveRangeMap = llvm::MapVector<mlir::Value, Life>;

class ProgramPlanner {
public:
  /// Creates the program before `function`.
  ProgramPlanner(mlir::func::FuncOp function, KernelOutliner &outliner,
                 const TargetInfo &target);
  /// Fills the program; modifies `function`.
  mlir::LogicalResult run();

  exe::ProgramOp getProgram() { return program; }

private:
  mlir::LogicalResult checkBody();
  void declarePorts();
  void collect();
  /// Sets the ends of messages.
  void findEnds();
  void placeInArena();
  /// Returns values that reuse the buffer of an operand dying at their launch,
  /// mapped to that operand, whose live range is extended: at the steps with
  /// most live bytes, until one of these has no candidate.
  llvm::DenseMap<mlir::Value, mlir::Value>
  reuseDyingOperands(LiveRangeMap &lives);
  void emitLaunch(PlannedLaunch launch);
  void emitMessage(const PlannedLaunch &launch, mlir::ArrayAttr inputs,
                   mlir::ArrayAttr outputs);

  mlir::FlatSymbolRefAttr constantSymbol(mpc::ConstantOp constant);
  BufferLocation placeOf(mlir::Value value);
  mlir::Attribute bufferOf(mlir::Value value);
  /// Returns true if `value` may be computed directly into a result's buffer.
  bool canBeResult(mlir::Value value);
  /// Returns true if its launch may overwrite argument `number`.
  bool canReplace(mlir::OpResult value, unsigned number);
  /// Returns true if `launch` may overwrite its input `buffer` with output
  /// `output`, or does not read it.
  bool canReuseBuffer(PlannedLaunch &launch, const BufferLocation &buffer,
                      unsigned output);
  /// Marks kernels that overwrite a buffer that they read.
  void markInPlace(const PlannedLaunch &launch);

  mlir::func::FuncOp function;
  KernelOutliner &outliner;
  mlir::OpBuilder builder;
  exe::ProgramOp program;
  llvm::SmallVector<int64_t> aliases;
  UniqueNames symbols;
  llvm::SmallVector<mlir::FlatSymbolRefAttr> argumentSymbols, resultSymbols;
  llvm::DenseMap<mlir::Attribute, size_t> resultNumbers;
  llvm::DenseMap<mlir::Attribute, mlir::FlatSymbolRefAttr> constantSymbols;
  /// Values computed into a result's buffer.
  llvm::DenseMap<mlir::Value, mlir::FlatSymbolRefAttr> resultOf;
  /// Inputs of concats that are views: their part of the concat's buffer.
  llvm::DenseMap<mlir::Value, BufferLocation> partOf;
  llvm::SmallVector<PlannedLaunch> launches;
  llvm::DenseMap<mlir::Operation *, size_t> launchOf;
  /// Last launch that reads each argument.
  llvm::DenseMap<mlir::Attribute, size_t> lastReaders;
  llvm::DenseMap<mlir::Value, int64_t> arenaOffset;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_PROGRAMPLANNER_H
