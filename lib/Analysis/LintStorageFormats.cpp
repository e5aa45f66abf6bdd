//===- LintStorageFormats.cpp - lint of storage without benefit -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weight and cache formats of a policy that save nothing: the weights are not
// in the model, cannot be stored in the format, or take as much as 16 bits.
//
//===----------------------------------------------------------------------===//

#include "LintContext.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/WeightColumns.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

/// Returns the KV-cache arguments of a decoder, by name, as
/// JIT/DecoderSignature finds them.
static SmallVector<BlockArgument> cachesOf(func::FuncOp func) {
  SmallVector<BlockArgument> caches;
  for (BlockArgument argument : func.getArguments()) {
    auto name = func.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                  MpcDialect::kNameAttr);
    if (name && name.getValue().starts_with("past") &&
        shapeOf(argument).size() >= 3)
      caches.push_back(argument);
  }
  return caches;
}

/// Returns the 16-bit compute type of all readers of the rows of `cache`, old
/// and new ones together; null if some reader needs more.
static FloatType narrowReads(BlockArgument cache) {
  FloatType type;
  bool isRead = false;
  for (OpOperand *use : readersOf(cache)) {
    auto concat = dyn_cast<ConcatOp>(use->getOwner());
    if (!concat)
      return {};
    for (OpOperand *read : readersOf(concat.getResult())) {
      if (isa<func::ReturnOp>(read->getOwner()))
        continue;
      isRead = true;
      type = narrowTypeOf(read->get());
      if (!type)
        return {};
    }
  }
  return isRead ? type : FloatType();
}

static void lintCaches(LintContext &context) {
  std::optional<WeightType> stored = context.policy.getCache();
  if (!stored)
    return;
  std::string name = stringify(*stored).str();
  SmallVector<BlockArgument> caches = cachesOf(context.func);
  if (caches.empty())
    return context.report("cache_unused", context.func, 0,
                          "the policy stores KV caches as " + name +
                              ", but no input of the model is a cache (a name "
                              "that starts with 'past')",
                          "drop 'cache' from the policy");
  constexpr int64_t kScaleBytes = 4;
  bool isByte = *stored == WeightType::Int8 || *stored == WeightType::Float8;
  for (BlockArgument cache : caches) {
    // Caches that the compiler already converted have the policy's type.
    if (cache.use_empty() || !getElementTypeOrSelf(cache.getType()).isF32())
      continue;
    Operation *reader = readersOf(cache).front()->getOwner();
    std::string what = "cache '" +
                       context.func
                           .getArgAttrOfType<StringAttr>(cache.getArgNumber(),
                                                         MpcDialect::kNameAttr)
                           .str() +
                       "'";
    int64_t size = shapeOf(cache).back();
    if (isByte && size + kScaleBytes >= 2 * size)
      context.report("cache_scales", reader, double(size),
                     "a row of " + what + " has " + std::to_string(size) +
                         " elements, which take " +
                         std::to_string(size + kScaleBytes) +
                         " bytes including the scale as " + name + " and " +
                         std::to_string(2 * size) + " in 16 bits",
                     "set the policy's 'cache' to bfloat16 or float16");
    if (FloatType type = narrowReads(cache);
        type && *stored == WeightType::Float32)
      context.report(
          "cache_wide", reader, 32,
          what + " is stored in float32, but all its readers round it to " +
              nameOf(type),
          "drop 'cache' from the policy to store it in " + nameOf(type));
  }
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Returns why the weights of `op` cannot be quantized; empty if they can.
static std::string obstacleOf(Operation *op, ElementsAttr value) {
  if (!WeightColumns::of(op))
    return "are a batch of matrices";
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(value);
  if (succeeded(bytes) && !llvm::all_of(bytes->as<float>(), [](float number) {
        return std::isfinite(number);
      }))
    return "contain an infinity or NaN";
  return "";
}

static void lintWeightsKept(LintContext &context) {
  if (!context.policy.narrowsWeights())
    return;
  bool areAny = false;
  // Ops of one name were imported from one op of the file.
  llvm::StringSet<> readers;
  llvm::MapVector<StringRef, Operation *> others;
  for (Operation &op : context.body()) {
    const WeightFormat *named = context.policy.weightsOf(opNames(&op));
    auto original = context.originals.find({&op, 1});
    if (!isa<MatmulOp, ConvOp>(op) || original == context.originals.end()) {
      if (named && !isa<CastOp, mpc::ConstantOp>(op))
        others.try_emplace(opName(&op), &op);
      continue;
    }
    areAny = true;
    readers.insert(opName(&op));
    llvm::Expected<const Policy *> layer =
        context.policy.policyOfLayer(layerPath(&op));
    if (!layer) {
      // The stage has already reported it.
      llvm::consumeError(layer.takeError());
      continue;
    }
    const WeightFormat &format = named ? *named : (*layer)->getWeights();
    std::string obstacle = format.isNarrow()
                               ? obstacleOf(&op, original->second.value)
                               : std::string();
    if (!obstacle.empty())
      context.report("weights_kept", &op, 32,
                     "the weights of " + describe(&op) + " " + obstacle +
                         ", so they are not stored as " + format.describe(),
                     "none is needed; the weights stay in float32");
  }
  for (auto [name, op] : others)
    if (!readers.contains(name))
      context.report("weights_unused", op, 0,
                     "the policy quantizes the weights of " + describe(op) +
                         ", which has no constant float32 weights",
                     "drop the name from the policy's 'weights'");
  if (!areAny)
    context.report("weights_unused", context.func, 0,
                   "the policy quantizes weights, but no matmul or convolution "
                   "of the model has constant float32 weights",
                   "drop 'weights' from the policy");
}

void mpc::lintStored(LintContext &context) {
  lintCaches(context);
  lintWeightsKept(context);
}
