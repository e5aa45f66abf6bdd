//===- SplitLibraryGemms.cpp - split GEMMs for the library ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Our kernels compute operands in their loads and store slices of the result;
// library GEMMs do neither. If that alone prevents a library call, the work is
// split into separate kernels, provided they take less time than the GEMM. Last
// pass of the Fuse stage, because the remaining fusion is matched as it is
// (GemmMatch.cpp).
//
//===----------------------------------------------------------------------===//

#include "GemmMatch.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Padding.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/Transforms/UniqueNames.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_SPLITLIBRARYGEMMSPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Splits a fusion into a GEMM and kernels before and after it.
class LibraryGemmSplitter {
public:
  LibraryGemmSplitter(FusionOp fusion, MatmulOp product,
                      const TargetInfo &target, UniqueNames &names)
      : fusion(fusion), product(product), target(target), names(names),
        yield(fusion.getBody().front().getTerminator()) {}

  /// Returns true if the fusion is now a library GEMM. `shared` holds kernels
  /// split off earlier GEMMs; those of this one are appended.
  bool run(SmallVectorImpl<FusionOp> &shared);

private:
  void findComputed();
  void findWholes();
  bool isApart(Value value) const;
  FusionOp outline(ValueRange values, FusionKind kind, StringRef name);
  void makeOperands();
  void makeMoved(FusionOp rest);
  void undo(FusionOp rest);
  bool isWorthIt(ArrayRef<FusionOp> added, FusionOp rest);

  FusionOp fusion;
  MatmulOp product;
  const TargetInfo &target;
  UniqueNames &names;
  Operation *yield;
  /// Values of the body that the library cannot compute: operands and addends.
  SmallVector<Value> computed;
  /// Results of the GEMM's kernel, before data movement.
  llvm::SmallSetVector<Value, 4> wholes;
  /// Kernels before and after the GEMM.
  SmallVector<FusionOp> before, behind;
  /// Values of the body available outside of it.
  DenseMap<Value, Value> outside;
};

} // namespace

/// Returns the value that a chain of slices, reshapes and transposes reads
/// from; `value` itself if the chain only reshapes.
static Value wholeOf(Value value) {
  Value whole = value;
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<SliceOp, ReshapeOp, TransposeOp>(op))
      break;
    value = op->getOperand(0);
    if (!isa<ReshapeOp>(op))
      whole = value;
  }
  return whole;
}

void LibraryGemmSplitter::findWholes() {
  for (Value value : yield->getOperands())
    wholes.insert(wholeOf(value));
}

/// Collects operands that are not arguments, and addends that are not of the
/// result's type.
void LibraryGemmSplitter::findComputed() {
  auto add = [&](Value value) {
    while (auto reshape = value.getDefiningOp<ReshapeOp>())
      value = reshape.getInput();
    if (!isa<BlockArgument>(value) && !llvm::is_contained(computed, value))
      computed.push_back(value);
  };
  add(product.getLhs());
  add(product.getRhs());
  Type type;
  for (Value whole : wholes)
    if (Type element = getElementTypeOrSelf(whole); isa<FloatType>(element))
      type = element;
  Value sums = product.getResult();
  while (true) {
    auto next = llvm::find_if(sums.getUsers(), [](Operation *user) {
      return isa<AddOp, ReshapeOp>(user);
    });
    if (next == sums.user_end())
      return;
    if (auto addition = dyn_cast<AddOp>(*next)) {
      Value other =
          addition.getLhs() == sums ? addition.getRhs() : addition.getLhs();
      // The library upcasts addends of the result's type.
      auto cast = other.getDefiningOp<CastOp>();
      if (cast && getElementTypeOrSelf(cast.getInput()) == type)
        other = cast.getInput();
      add(other);
    }
    sums = (*next)->getResult(0);
  }
}

/// Returns true if `value` is computed from outside values without the GEMM.
bool LibraryGemmSplitter::isApart(Value value) const {
  llvm::SmallPtrSet<Operation *, 16> seen;
  SmallVector<Value> pending = {value};
  bool reads = false;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op)
      reads = true;
    else if (op == product)
      return false;
    else if (seen.insert(op).second)
      llvm::append_range(pending, op->getOperands());
  }
  return reads;
}

/// Outlines the computation of `values` of the body into a fusion before this
/// one.
FusionOp LibraryGemmSplitter::outline(ValueRange values, FusionKind kind,
                                      StringRef name) {
  llvm::SmallPtrSet<Operation *, 16> needed;
  SmallVector<Value> pending(values);
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    if (!outside.contains(value) && needed.insert(value.getDefiningOp()).second)
      llvm::append_range(pending, value.getDefiningOp()->getOperands());
  }
  // In order of use.
  llvm::SmallSetVector<Value, 8> read;
  for (Operation &op : fusion.getBody().front())
    if (needed.contains(&op))
      for (Value operand : op.getOperands())
        if (outside.contains(operand))
          read.insert(operand);

  OpBuilder builder(fusion);
  SmallVector<Value> operands;
  for (Value value : read)
    operands.push_back(outside.lookup(value));
  auto made = FusionOp::create(builder, fusion.getLoc(), values.getTypes(),
                               operands, kind, name);
  if (Attribute layer = fusion->getDiscardableAttr(MpcDialect::kLayerAttr))
    made->setDiscardableAttr(MpcDialect::kLayerAttr, layer);
  Block &body = made.getBody().empty() ? made.getBody().emplaceBlock()
                                       : made.getBody().front();
  IRMapping mapping;
  for (Value value : read)
    mapping.map(value, body.addArgument(value.getType(), value.getLoc()));
  builder.setInsertionPointToEnd(&body);
  for (Operation &op : fusion.getBody().front())
    if (needed.contains(&op))
      builder.clone(op, mapping);
  SmallVector<Value> results;
  for (Value value : values)
    results.push_back(mapping.lookup(value));
  YieldOp::create(builder, fusion.getLoc(), results);
  return made;
}

/// Hoists a cast-only kernel above reshapes, so that GEMMs that read the value
/// in different shapes share it. Returns the result in the original shape.
static Value castBehindReshapes(FusionOp kernel) {
  Value made = kernel->getResult(0), input = kernel.getInputs().front();
  Operation &op = kernel.getBody().front().front();
  Value source = sourceOfReshapes(input);
  if (source == input || !isa<CastOp>(op) ||
      op.getNextNode() != kernel.getBody().front().getTerminator())
    return made;
  auto shaped = [&](Value value) {
    return cast<RankedTensorType>(source.getType())
        .clone(getElementTypeOrSelf(value));
  };
  Type wanted = made.getType();
  kernel.getInputsMutable()[0].set(source);
  kernel.getBody().getArgument(0).setType(source.getType());
  op.getResult(0).setType(shaped(op.getResult(0)));
  made.setType(shaped(made));
  OpBuilder builder(kernel);
  builder.setInsertionPointAfter(kernel);
  return ReshapeOp::create(builder, kernel.getLoc(), wanted, made);
}

/// Returns the kernel among `kernels` that computes the same as `made`, or
/// null.
static FusionOp findEqual(ArrayRef<FusionOp> kernels, FusionOp made) {
  auto *same = llvm::find_if(kernels, [&](FusionOp other) {
    return other.getKind() == made.getKind() &&
           other.getInputs() == made.getInputs() &&
           OperationEquivalence::isRegionEquivalentTo(
               &other.getBody(), &made.getBody(),
               OperationEquivalence::IgnoreLocations);
  });
  return same == kernels.end() ? FusionOp() : *same;
}

static double bytesOf(FusionOp fusion) {
  return double(operandAndResultBytes(fusion));
}

/// Returns true if a kernel only converts types.
static bool isLoneCast(FusionOp fusion) {
  return llvm::all_of(fusion.getBody().front().without_terminator(),
                      [](Operation &op) { return isa<CastOp, ReshapeOp>(op); });
}

/// Returns the kernel that produces the input of the cast-only kernel `cast`,
/// if it can store a second result; else null.
static FusionOp makerOf(FusionOp cast) {
  auto maker = cast.getInputs().front().getDefiningOp<FusionOp>();
  bool stores =
      maker &&
      llvm::hasSingleElement(cast.getBody().front().without_terminator()) &&
      (maker.getKind() == FusionKind::row ||
       maker.getKind() == FusionKind::elementwise);
  return stores ? maker : FusionOp();
}

/// Returns the index of an existing result equal to `cast` of result `number`
/// of `maker`, or nullopt.
static std::optional<unsigned> storedWide(FusionOp cast, FusionOp maker,
                                          unsigned number) {
  Operation *yield = maker.getBody().front().getTerminator();
  for (auto [index, value] : llvm::enumerate(yield->getOperands())) {
    auto stored = value.getDefiningOp<CastOp>();
    if (stored && stored.getInput() == yield->getOperand(number) &&
        stored.getType() == cast->getResult(0).getType())
      return index;
  }
  return std::nullopt;
}

/// Adds the result of `cast` to the kernel before it, so that nothing is
/// reread. Returns the kernel that replaces `maker`.
static FusionOp storeInMaker(FusionOp cast, FusionOp maker) {
  unsigned number =
      llvm::cast<OpResult>(cast.getInputs().front()).getResultNumber();
  if (std::optional<unsigned> stored = storedWide(cast, maker, number)) {
    cast->getResult(0).replaceAllUsesWith(maker->getResult(*stored));
    cast.erase();
    return maker;
  }
  SmallVector<Type> types(maker.getResultTypes());
  llvm::append_range(types, cast.getResultTypes());
  OpBuilder builder(maker);
  auto wider =
      FusionOp::create(builder, maker.getLoc(), types, maker.getInputs(),
                       maker.getKind(), maker.getName());
  wider->setDiscardableAttrs(maker->getDiscardableAttrDictionary());
  wider.getBody().takeBody(maker.getBody());
  Operation *yield = wider.getBody().front().getTerminator();
  builder.setInsertionPoint(yield);
  Operation *stored = builder.clone(cast.getBody().front().front());
  stored->setOperand(0, yield->getOperand(number));
  yield->insertOperands(yield->getNumOperands(), stored->getResult(0));
  maker->replaceAllUsesWith(wider->getResults().drop_back());
  cast->replaceAllUsesWith(wider->getResults().take_back());
  cast.erase();
  maker.erase();
  return wider;
}

/// Returns true if the added kernels take less time than the GEMM.
bool LibraryGemmSplitter::isWorthIt(ArrayRef<FusionOp> added, FusionOp rest) {
  if (!target.hasCeilings())
    return true;
  double extra = bytesOf(rest) - bytesOf(fusion);
  for (FusionOp kernel : added)
    extra += bytesOf(kernel);
  double seconds = bytesOf(rest) / target.bytesPerSecond();
  if (std::optional<MathType> type = mathTypeOf(product))
    seconds = std::max(seconds, double(product.getFlops()) /
                                    target.flopsPerSecond(*type, true));
  return extra / target.bytesPerSecond() +
             double(added.size()) * target.launchSeconds() <
         seconds;
}

/// Returns the kind of a kernel that only computes `value`.
static FusionKind kindOf(Value value) {
  llvm::SmallSetVector<Operation *, 8> ops;
  if (Operation *op = value.getDefiningOp())
    ops.insert(op);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i]->hasTrait<MapsRows>())
      return FusionKind::row;
    for (Value operand : ops[i]->getOperands())
      if (Operation *op = operand.getDefiningOp())
        ops.insert(op);
  }
  return isa_and_present<TransposeOp>(value.getDefiningOp())
             ? FusionKind::transpose
             : FusionKind::elementwise;
}

/// Creates the kernels before the GEMM.
void LibraryGemmSplitter::makeOperands() {
  for (Value value : computed) {
    FusionOp made = outline(value, kindOf(value),
                            names.make((fusion.getName() + "_operand").str()));
    outside[value] = castBehindReshapes(made);
    before.push_back(made);
  }
}

/// Creates the kernels after the GEMM that move the results of `rest`: one per
/// shape.
void LibraryGemmSplitter::makeMoved(FusionOp rest) {
  for (auto [whole, result] : llvm::zip_equal(wholes, rest->getResults()))
    outside[whole] = result;
  llvm::MapVector<ArrayRef<int64_t>, SmallVector<Value>> byShape;
  for (Value value : yield->getOperands())
    if (!wholes.contains(value))
      byShape[shapeOf(value)].push_back(value);
  for (auto &[shape, moved] : byShape) {
    FusionOp made = outline(moved, FusionKind::elementwise,
                            names.make((fusion.getName() + "_result").str()));
    for (auto [value, result] : llvm::zip_equal(moved, made->getResults()))
      outside[value] = result;
    behind.push_back(made);
  }
}

/// Restores the original fusion.
void LibraryGemmSplitter::undo(FusionOp rest) {
  for (FusionOp kernel : behind)
    kernel.erase();
  rest.erase();
  for (FusionOp kernel : before) {
    for (Operation *reshape : llvm::make_early_inc_range(kernel->getUsers()))
      reshape->erase();
    kernel.erase();
  }
}

bool LibraryGemmSplitter::run(SmallVectorImpl<FusionOp> &shared) {
  findWholes();
  findComputed();
  bool moves = llvm::any_of(yield->getOperands(), [&](Value value) {
    return !wholes.contains(value);
  });
  auto isRead = [](Value value) { return isa<BlockArgument>(value); };
  if ((computed.empty() && !moves) || llvm::any_of(wholes, isRead) ||
      !llvm::all_of(computed, [&](Value value) { return isApart(value); }))
    return false;
  for (auto [argument, operand] :
       llvm::zip_equal(fusion.getBody().getArguments(), fusion.getInputs()))
    outside[argument] = operand;
  makeOperands();
  FusionOp rest =
      outline(wholes.getArrayRef(), fusion.getKind(), fusion.getName());
  makeMoved(rest);

  // Casts of computed values belong into their producers' kernels.
  auto isStray = [](FusionOp kernel) {
    return isLoneCast(kernel) &&
           !isa<BlockArgument>(kernel.getInputs().front()) && !makerOf(kernel);
  };
  SmallVector<FusionOp> added = behind;
  for (FusionOp kernel : before)
    if (!findEqual(shared, kernel))
      added.push_back(kernel);
  GemmMatch match(rest.getBody().front(), target);
  if (!match.problem() || llvm::any_of(before, isStray) ||
      !isWorthIt(added, rest)) {
    undo(rest);
    return false;
  }
  for (auto [value, old] :
       llvm::zip_equal(yield->getOperands(), fusion->getResults()))
    old.replaceAllUsesWith(outside.lookup(value));
  fusion.erase();
  for (FusionOp kernel : before) {
    if (FusionOp same = findEqual(shared, kernel)) {
      kernel->replaceAllUsesWith(same);
      kernel.erase();
    } else if (FusionOp maker =
                   isLoneCast(kernel) ? makerOf(kernel) : FusionOp()) {
      FusionOp wider = storeInMaker(kernel, maker);
      llvm::replace(shared, maker, wider);
    } else {
      shared.push_back(kernel);
    }
  }
  return true;
}

namespace {
struct SplitLibraryGemmsPass
    : mpc::impl::SplitLibraryGemmsPassBase<SplitLibraryGemmsPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isDeclaration())
      return;
    FailureOr<TargetInfo> target = exe::targetOf(function, "");
    if (failed(target))
      return signalPassFailure();
    UniqueNames names;
    for (auto fusion : function.getOps<FusionOp>())
      names.reserve(fusion.getName());
    SmallVector<FusionOp> shared;
    for (auto fusion :
         llvm::make_early_inc_range(function.getOps<FusionOp>())) {
      auto products = fusion.getBody().getOps<MatmulOp>();
      if (fusion.getKind() == FusionKind::contraction &&
          llvm::hasSingleElement(products) &&
          LibraryGemmSplitter(fusion, *products.begin(), *target, names)
              .run(shared))
        ++numSplit;
    }
  }
};
} // namespace
