//===- GrowingCaches.cpp - a decoder's caches without their old rows ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CompileOptions::caches: what a call adds to a cache is its result, not the
// whole of it once more.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

using namespace mlir;
using namespace mpc;

/// The number whose attribute MpcDialect::kNameAttr, as `nameAt` gives it, is
/// `name`; nullopt where there is none.
static std::optional<unsigned>
findNamed(unsigned count, StringRef name,
          llvm::function_ref<StringAttr(unsigned)> nameAt) {
  for (unsigned i = 0; i < count; ++i)
    if (StringAttr found = nameAt(i); found && found.getValue() == name)
      return i;
  return std::nullopt;
}

LogicalResult mpc::keepNewRows(func::FuncOp function,
                               ArrayRef<GrowingCache> caches) {
  Operation *terminator = function.getBody().front().getTerminator();
  for (const GrowingCache &cache : caches) {
    std::optional<unsigned> argument =
        findNamed(function.getNumArguments(), cache.argument, [&](unsigned i) {
          return function.getArgAttrOfType<StringAttr>(i,
                                                       MpcDialect::kNameAttr);
        });
    std::optional<unsigned> result =
        findNamed(function.getNumResults(), cache.result, [&](unsigned i) {
          return function.getResultAttrOfType<StringAttr>(
              i, MpcDialect::kNameAttr);
        });
    if (!argument || !result)
      return function.emitError()
             << "has no " << (argument ? "output" : "input") << " '"
             << (argument ? cache.result : cache.argument)
             << "', which a cache is made of ('" << cache.argument << "' and '"
             << cache.result << "')";
    auto concat = terminator->getOperand(*result).getDefiningOp<ConcatOp>();
    if (!concat || int64_t(concat.getAxis()) != cache.axis ||
        concat.getInputs().front() != function.getArgument(*argument) ||
        concat.getInputs().size() < 2)
      return emitError(terminator->getOperand(*result).getLoc())
             << "output '" << cache.result << "' is no concatenation of input '"
             << cache.argument << "' and new rows along dimension "
             << cache.axis << ", as a cache that is kept between runs must be";
    ValueRange rows = concat.getInputs().drop_front();
    Value grown = rows.front();
    if (rows.size() > 1) {
      OpBuilder builder(terminator);
      grown = ConcatOp::create(builder, concat.getLoc(), rows, cache.axis);
    }
    terminator->setOperand(*result, grown);
  }
  function.setType(FunctionType::get(function.getContext(),
                                     function.getArgumentTypes(),
                                     terminator->getOperandTypes()));
  return success();
}
