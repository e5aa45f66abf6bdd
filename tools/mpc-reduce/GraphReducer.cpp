//===- GraphReducer.cpp - test-case reduction of graphs -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphReducer.h"

#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Transformations
//===----------------------------------------------------------------------===//

static func::FuncOp entryOf(ModuleOp module) {
  if (auto main = module.lookupSymbol<func::FuncOp>("main"))
    return main;
  auto functions = module.getOps<func::FuncOp>();
  return functions.empty() ? func::FuncOp() : *functions.begin();
}

/// Returns the ops of the function except the terminator.
static SmallVector<Operation *> opsOf(func::FuncOp function) {
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front().without_terminator())
    ops.push_back(&op);
  return ops;
}

/// Erases unused ops, then unused arguments.
static void dropUnused(func::FuncOp function) {
  SmallVector<Operation *> ops = opsOf(function);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty())
      op->erase();
  llvm::BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
  if (failed(function.eraseArguments(unused)))
    return;
}

static void keepResults(func::FuncOp function, ArrayRef<unsigned> kept) {
  llvm::BitVector erased(function.getNumResults(), true);
  for (unsigned index : kept)
    erased.reset(index);
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<Value> values;
  for (unsigned index : kept)
    values.push_back(terminator->getOperand(index));
  terminator->setOperands(values);
  if (failed(function.eraseResults(erased)))
    return;
  dropUnused(function);
}

/// Replaces `value` by a new argument.
static bool makeArgument(func::FuncOp function, Value value) {
  MLIRContext *context = function.getContext();
  Builder builder(context);
  llvm::SmallPtrSet<Attribute, 8> names;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    names.insert(function.getArgAttr(i, MpcDialect::kNameAttr));
  StringAttr name;
  for (int i = 0; !name || names.contains(name); ++i)
    name = builder.getStringAttr("cut" + std::to_string(i));
  unsigned index = function.getNumArguments();
  if (failed(function.insertArgument(
          index, value.getType(),
          builder.getDictionaryAttr(
              {builder.getNamedAttr(
                   MpcDialect::kRoleAttr,
                   RoleAttr::get(context, RoleKind::input, StringAttr())),
               builder.getNamedAttr(MpcDialect::kNameAttr, name)}),
          builder.getUnknownLoc())))
    return false;
  value.replaceAllUsesWith(function.getArgument(index));
  return true;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

std::string GraphReducer::text() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  best.get()->print(stream,
                    OpPrintingFlags().enableDebugInfo(/*enable=*/true,
                                                      /*prettyForm=*/false));
  stream << "\n";
  return text;
}

bool GraphReducer::attempt(const Change &change) {
  if (!goesOn())
    return false;
  OwningOpRef<ModuleOp> copy = best->clone();
  func::FuncOp function = entryOf(*copy);
  if (!function || !change(function))
    return false;
  // Skip graphs that do not verify.
  ScopedDiagnosticHandler silence(copy->getContext(),
                                  [](Diagnostic &) { return success(); });
  if (failed(verify(*copy)))
    return false;
  std::swap(best, copy);
  if (interesting(text()))
    return true;
  std::swap(best, copy);
  return false;
}

bool GraphReducer::reduceResults() {
  unsigned count = entryOf(*best).getNumResults();
  if (count < 2)
    return false;
  for (unsigned i = 0; i < count; ++i)
    if (attempt([&](func::FuncOp function) {
          keepResults(function, {i});
          return true;
        }))
      return true;
  bool changed = false;
  for (unsigned i = count; i-- > 0 && count > 1;) {
    bool dropped = attempt([&](func::FuncOp function) {
      SmallVector<unsigned> kept;
      for (unsigned k = 0; k < function.getNumResults(); ++k)
        if (k != i)
          kept.push_back(k);
      keepResults(function, kept);
      return true;
    });
    changed |= dropped;
  }
  return changed;
}

/// Replaces all results of the ops before index `end` that later ops use by
/// arguments.
bool GraphReducer::cutOff() {
  bool changed = false;
  for (int64_t part = 8; part-- > 1;) {
    auto total = int64_t(opsOf(entryOf(*best)).size());
    int64_t end = total * part / 8;
    if (end == 0)
      break;
    bool cut = attempt([&](func::FuncOp function) {
      SmallVector<Operation *> ops = opsOf(function);
      llvm::SmallPtrSet<Operation *, 32> before(ops.begin(), ops.begin() + end);
      bool any = false;
      for (int64_t i = 0; i < end; ++i) {
        if (isa<ConstantOp>(ops[i]))
          continue;
        for (Value result : ops[i]->getResults())
          if (llvm::any_of(result.getUsers(), [&](Operation *user) {
                return !before.contains(user);
              }))
            any |= makeArgument(function, result);
      }
      dropUnused(function);
      return any;
    });
    changed |= cut;
    if (cut)
      part = 8;
  }
  return changed;
}

bool GraphReducer::reduceOps() {
  bool changed = false;
  for (int64_t i = int64_t(opsOf(entryOf(*best)).size()); i-- > 0;) {
    // The graph has fewer ops now.
    if (i >= int64_t(opsOf(entryOf(*best)).size()))
      continue;
    Operation *op = opsOf(entryOf(*best))[i];
    if (isa<ConstantOp>(op))
      continue;
    bool gone = false;
    // After a successful attempt the op is gone with the previous graph.
    for (unsigned k = 0; !gone && k < op->getNumOperands(); ++k) {
      if (op->getOperand(k).getType() != op->getResult(0).getType())
        continue;
      gone = attempt([&](func::FuncOp function) {
        Operation *same = opsOf(function)[i];
        if (!llvm::all_of(llvm::drop_begin(same->getResults()),
                          [](Value value) { return value.use_empty(); }))
          return false;
        same->getResult(0).replaceAllUsesWith(same->getOperand(k));
        dropUnused(function);
        return true;
      });
    }
    if (!gone)
      gone = attempt([&](func::FuncOp function) {
        for (Value result : opsOf(function)[i]->getResults())
          if (!result.use_empty() && !makeArgument(function, result))
            return false;
        dropUnused(function);
        return true;
      });
    changed |= gone;
  }
  return changed;
}

bool GraphReducer::reduceConstants() {
  bool changed = false;
  size_t count = opsOf(entryOf(*best)).size();
  for (size_t i = 0; i < count; ++i)
    changed |= attempt([&](func::FuncOp function) {
      auto constant = dyn_cast<ConstantOp>(opsOf(function)[i]);
      auto elements = constant
                          ? dyn_cast<DenseElementsAttr>(constant.getValue())
                          : DenseElementsAttr();
      if (!elements || elements.isSplat() || elements.getNumElements() == 0)
        return false;
      // The first value, which keeps the element's kind.
      constant.setValueAttr(DenseElementsAttr::get(
          elements.getType(), *elements.value_begin<Attribute>()));
      return true;
    });
  return changed;
}

bool GraphReducer::reduceAttributes() {
  auto eachOp = [](func::FuncOp function,
                   function_ref<bool(Operation *)> change) {
    bool any = false;
    for (Operation *op : opsOf(function))
      any |= change(op);
    return any;
  };
  bool changed = attempt([&](func::FuncOp function) {
    return eachOp(function, [](Operation *op) {
      return bool(op->removeAttr(MpcDialect::kLayerAttr));
    });
  });
  changed |= attempt([&](func::FuncOp function) {
    return eachOp(function, [](Operation *op) {
      bool named = isa<NameLoc>(op->getLoc());
      op->setLoc(UnknownLoc::get(op->getContext()));
      return named;
    });
  });
  return changed;
}

void GraphReducer::run(const std::function<bool()> &mayGoOn) {
  goesOn = mayGoOn;
  func::FuncOp function = entryOf(*best);
  if (!function || !function.getBody().hasOneBlock())
    return;
  // Drop file positions, which are about to change, but keep names.
  best->walk([](Operation *op) {
    Location unknown = UnknownLoc::get(op->getContext());
    auto name = dyn_cast<NameLoc>(op->getLoc());
    op->setLoc(name ? Location(NameLoc::get(name.getName(), unknown))
                    : unknown);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setLoc(unknown);
  });
  bool changed = true;
  while (changed && goesOn()) {
    changed = reduceResults();
    changed |= cutOff();
    changed |= reduceOps();
    changed |= reduceConstants();
    changed |= reduceAttributes();
  }
}
