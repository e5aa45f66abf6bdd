//===- AttentionWindowCheck.cpp - attention window of a decoder -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sliding-window model masks old positions depending on row indices. The mask
// is evaluated as a constant, so that its form in the graph does not matter.
//
//===----------------------------------------------------------------------===//

#include "AttentionWindowCheck.h"

#include "Compiler.h"
#include "KnownValues.h"

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

/// Collects the attention ops that read `value`, a KV cache, as keys or values.
static LogicalResult collectReaders(Value value,
                                    llvm::SetVector<AttentionOp> &readers) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (user->hasTrait<OpTrait::IsTerminator>())
      continue;
    if (auto attention = dyn_cast<AttentionOp>(user);
        attention &&
        (use.get() == attention.getKey() || use.get() == attention.getValue()))
      readers.insert(attention);
    else if (isa<SliceOp, ConcatOp, TransposeOp, ReshapeOp, CastOp,
                 DecodeFloatOp, MulOp>(user)) {
      if (failed(collectReaders(user->getResult(0), readers)))
        return failure();
    } else {
      return user->emitError()
             << "reads a KV cache other than as keys or values of attention, "
                "so the rows that it needs are unknown";
    }
  }
  return success();
}

/// Returns true if element `index` of a mask shows its position.
static bool keeps(const Tensor &mask, int64_t index) {
  // Additive mask values up to this one give a weight of zero.
  constexpr double kFill = -1.0e4;
  return mask.isFloat() ? mask.floats()[index] > kFill
                        : mask.ints()[index] != 0;
}

static LogicalResult checkReader(AttentionOp op, KnownValues &values,
                                 int64_t rows, int64_t hidden) {
  auto keys = cast<RankedTensorType>(op.getKey().getType()),
       queries = cast<RankedTensorType>(op.getQuery().getType());
  int64_t count = queries.getDimSize(queries.getRank() - 2);
  if (keys.getDimSize(keys.getRank() - 2) != rows)
    return op.emitError() << "reads other rows than those of its KV cache, so "
                             "the attention window is unknown";
  auto refuse = [&](int64_t back) {
    InFlightDiagnostic error = op.emitError();
    error << "attends to tokens further back than the " << rows - count - hidden
          << " rows of the KV cache, so sequences cannot be longer than the "
             "cache";
    if (back > 0)
      error << "; the attention window of the model needs " << back;
    return failure();
  };
  if (!op.getMask())
    return refuse(0);
  const Tensor *mask = values.find(op.getMask());
  if (!mask && !values.unknownInput().empty())
    op.emitError() << "has a mask that depends on input '"
                   << values.unknownInput()
                   << "', so the attention window is unknown";
  if (!mask)
    return failure();
  // A value that is shared by all rows hides none.
  if (mask->getRank() == 0 || mask->getShape().back() != rows)
    return refuse(0);
  int64_t lines = mask->getRank() > 1 ? mask->getShape().drop_back().back() : 1;
  int64_t first = rows, back = 0;
  for (int64_t i = 0; i < mask->size(); ++i) {
    if (!keeps(*mask, i))
      continue;
    int64_t row = i % rows, query = i / rows % lines;
    first = std::min(first, row);
    back = std::max(back, rows - count + query - row);
  }
  if (first < hidden)
    return refuse(first > 0 ? back : 0);
  return success();
}

static LogicalResult checkModule(ModuleOp module, const CompileOptions &options,
                                 const std::string &mask, int64_t hidden) {
  func::FuncOp function = Compiler::entry(module);
  KnownValues::Inputs inputs;
  for (BlockArgument argument : function.getArguments())
    if (argumentName(function, argument.getArgNumber()) == mask)
      inputs[mask].assign(elementCount(argument), 1);
  KnownValues values(function, std::move(inputs));
  for (const GrowingCache &cache : options.caches)
    for (BlockArgument argument : function.getArguments()) {
      if (argumentName(function, argument.getArgNumber()) != cache.argument)
        continue;
      int64_t rows = cast<RankedTensorType>(argument.getType()).getDimSize(0);
      llvm::SetVector<AttentionOp> readers;
      if (failed(collectReaders(argument, readers)))
        return failure();
      for (AttentionOp reader : readers)
        if (failed(checkReader(reader, values, rows, hidden)))
          return failure();
    }
  return success();
}

Status mpc::checkAttentionWindow(const ModelSource &model,
                                 CompileOptions options,
                                 const std::string &mask, int64_t hidden) {
  // The later compiles report diagnostics.
  options.onStage = nullptr;
  options.onDiagnostic = nullptr;
  options.dumpDir.clear();
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(model);
  if (!module.ok())
    return module.status();
  if (Status status = (*compiler)->runStages(**module, "import", "simplify");
      !status.ok())
    return status;
  size_t first = (*compiler)->diagnostics().size();
  if (failed(checkModule(**module, options, mask, hidden)))
    return (*compiler)->failure(first);
  return {};
}
