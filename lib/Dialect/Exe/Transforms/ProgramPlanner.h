//===- ProgramPlanner.h - one function as a program -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to this folder. Turns a function of fusions and views into an
// exe.program: Plan.cpp collects and writes launches, PlanPlaces.cpp says where
// every value lies.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_EXE_TRANSFORMS_PROGRAMPLANNER_H
#define MPC_LIB_DIALECT_EXE_TRANSFORMS_PROGRAMPLANNER_H

#include "KernelOutliner.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCommunicationOps.h"

#include "llvm/ADT/MapVector.h"

namespace mpc {

/// Where a value lies: in a named buffer, or at an offset in the buffer of
/// `root`.
struct Place {
  mlir::FlatSymbolRefAttr symbol;
  mlir::Value root;
  int64_t offset = 0;
};

/// A kernel call or a message before buffers have places.
struct PlannedLaunch {
  mlir::func::FuncOp kernel; // null for a message
  FusionOp fusion;           // null for a copy
  mlir::Location loc;
  llvm::SmallVector<mlir::Value> inputs;
  /// A result symbol, or the value that the kernel computes.
  llvm::SmallVector<mlir::Value> outputs;
  mlir::FlatSymbolRefAttr copyTarget;
  /// What ranks exchange, in place of a kernel.
  CollectiveOpInterface message = {};
  /// The last launch that runs while this one reads: its own number, of a
  /// message that of the launch that waits for it.
  size_t end = 0;
};

/// The first and the last launch that use a buffer.
struct Life {
  int64_t first, last;
};
using Lives = llvm::MapVector<mlir::Value, Life>;

class ProgramPlanner {
public:
  /// Creates the program in front of `function`.
  ProgramPlanner(mlir::func::FuncOp function, KernelOutliner &outliner,
                 const TargetInfo &target);
  /// Fills it. `function` is changed.
  mlir::LogicalResult run();

  exe::ProgramOp getProgram() { return program; }

private:
  mlir::LogicalResult checkBody();
  void declarePorts();
  void collect();
  /// Sets the ends of messages.
  void findEnds();
  void placeInArena();
  /// Values that take the place of an operand that dies at their launch, and
  /// that operand, whose life grows: at the steps where most bytes are in use,
  /// until none of these has any.
  llvm::DenseMap<mlir::Value, mlir::Value> overwriteAtPeaks(Lives &lives);
  void emitLaunch(PlannedLaunch launch);
  void emitMessage(const PlannedLaunch &launch, mlir::ArrayAttr inputs,
                   mlir::ArrayAttr outputs);

  mlir::FlatSymbolRefAttr constantSymbol(mpc::ConstantOp constant);
  Place placeOf(mlir::Value value);
  mlir::Attribute bufferOf(mlir::Value value);
  /// Whether `value` may be computed straight into a result's buffer.
  bool canBeResult(mlir::Value value);
  /// Whether its launch may write it over argument `number`.
  bool canReplace(mlir::OpResult value, unsigned number);
  /// Whether `launch` may write its output `output` over what it reads as
  /// `buffer`, or does not read that.
  bool worksInPlace(PlannedLaunch &launch, const Place &buffer,
                    unsigned output);
  /// Marks the kernels of launches whose output is a buffer that they read.
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
  /// Values whose buffer is a result's.
  llvm::DenseMap<mlir::Value, mlir::FlatSymbolRefAttr> resultOf;
  /// Operands of concats that are views: their part of the concat's buffer.
  llvm::DenseMap<mlir::Value, Place> partOf;
  llvm::SmallVector<PlannedLaunch> launches;
  llvm::DenseMap<mlir::Operation *, size_t> launchOf;
  /// By argument: the last launch of a fusion that reads it.
  llvm::DenseMap<mlir::Attribute, size_t> lastReaders;
  llvm::DenseMap<mlir::Value, int64_t> arenaOffset;
};

} // namespace mpc

#endif // MPC_LIB_DIALECT_EXE_TRANSFORMS_PROGRAMPLANNER_H
