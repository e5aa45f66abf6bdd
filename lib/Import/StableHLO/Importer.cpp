//===- Importer.cpp - conversion of StableHLO modules ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The function @main is flattened: calls are inlined, loops of known length
// unrolled, and known branches selected.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/CreateChecked.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

/// Maximum size of folded integer constants, in elements.
static constexpr int64_t kFoldElements = 4096;
/// The same for floats, of which only scalars determine structure here.
static constexpr int64_t kFoldFloats = 1;
/// Attributes that JAX writes on every module: number of devices.
static constexpr StringLiteral kPartitionsAttr = "mhlo.num_partitions",
                               kReplicasAttr = "mhlo.num_replicas";
/// Maximum call depth.
static constexpr size_t kMostCalls = 64;

Value Scope::find(Value source) const {
  for (const Scope *scope = this; scope; scope = scope->outer)
    if (Value value = scope->values.lookup(source))
      return value;
  return {};
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static Converter findConverter(StringRef name) {
  static const llvm::StringMap<Converter> table = [] {
    llvm::StringMap<Converter> all;
    for (OpFamily family : {elementwiseOps(), specialOps(), movementOps(),
                            indexingOps(), contractionOps(), reductionOps(),
                            windowOps(), sortOps(), randomOps(), controlOps()})
      for (const OpEntry &entry : family)
        all[entry.name] = entry.convert;
    return all;
  }();
  return table.lookup(name);
}

Type hlo::storedType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !narrowFloatOf(tensor.getElementType()))
    return type;
  return tensor.clone(
      IntegerType::get(type.getContext(), 8, IntegerType::Unsigned));
}

/// Returns true if `op` computes in floats of 8 bits or fewer. Others move
/// their codes, convert them, or multiply decoded numbers.
static bool computesInSmallFloats(Operation &op) {
  static const llvm::StringSet<> movements = {"func.call",
                                              "func.return",
                                              "stablehlo.broadcast",
                                              "stablehlo.broadcast_in_dim",
                                              "stablehlo.concatenate",
                                              "stablehlo.convert",
                                              "stablehlo.optimization_barrier",
                                              "stablehlo.reshape",
                                              "stablehlo.reverse",
                                              "stablehlo.slice",
                                              "stablehlo.transpose"};
  StringRef name = op.getName().getStringRef();
  bool moves = movements.contains(name);
  auto isRefused = [&](Type type) {
    auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
    return element && element.getWidth() <= 8 &&
           !(moves && narrowFloatOf(element));
  };
  if (llvm::any_of(op.getResultTypes(), isRefused))
    return true;
  moves |= name == "stablehlo.dot_general";
  return llvm::any_of(op.getOperandTypes(), isRefused);
}

LogicalResult Importer::importBlock(Block &block, Scope &scope,
                                    SmallVectorImpl<Value> &results) {
  for (Operation &op : block) {
    if (computesInSmallFloats(op))
      return op.emitOpError() << "computes in floats of 8 bits or fewer; "
                                 "convert its operands to a wider type";
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value value : op.getOperands())
        results.push_back(scope.find(value));
      return success();
    }
    Converter convert = findConverter(op.getName().getStringRef());
    if (!convert)
      return op.emitOpError()
             << stablehlo::unsupportedReason(op.getName().getStringRef());
    OpImport import(*this, &op, scope);
    if (failed(convert(import)) || failed(import.status()))
      return failure();
  }
  return success();
}

LogicalResult Importer::call(Operation *at, StringRef callee,
                             ArrayRef<Value> arguments, bool isSpread,
                             SmallVectorImpl<Value> &results) {
  auto function = source.lookupSymbol<func::FuncOp>(callee);
  if (!function || function.isExternal())
    return at->emitOpError() << "calls @" << callee << ", which has no body";
  if (llvm::is_contained(open, callee) || open.size() == kMostCalls)
    return at->emitOpError()
           << "calls @" << callee
           << (open.size() == kMostCalls ? ", too many nested calls"
                                         : ", which calls itself");
  if (function.getNumArguments() != arguments.size())
    return at->emitOpError()
           << "gives @" << callee << " " << arguments.size() << " arguments";
  open.push_back(callee);
  Scope scope;
  scope.isSpread = isSpread;
  for (auto [argument, value] : llvm::zip(function.getArguments(), arguments))
    scope.values[argument] = value;
  LogicalResult done = importBlock(function.getBody().front(), scope, results);
  open.pop_back();
  return done;
}

/// Returns true if the value is known: a small constant or an iota.
static bool isKnown(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<ConstantOp, IotaOp>(op) &&
         elementCount(value.getType()) <= kFoldElements;
}

Operation *Importer::adopt(Operation *op) {
  if (++opsMade > options.maxOps) {
    if (!hasTooMany)
      emitError(op->getLoc())
          << "results in more than " << options.maxOps
          << " ops after inlining calls and unrolling loops";
    hasTooMany = true;
    return nullptr;
  }
  if (op->getNumOperands() == 0 || op->getNumResults() != 1)
    return op;
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  bool isInteger = isa<IntegerType>(type.getElementType());
  if (elementCount(type) > (isInteger ? kFoldElements : kFoldFloats) ||
      !llvm::all_of(op->getOperands(), isKnown))
    return op;
  if (!isInteger && isa<ReshapeOp, BroadcastOp>(op))
    return op;
  SmallVector<reference::Tensor> held;
  for (Value operand : op->getOperands()) {
    SmallVector<reference::Tensor> made;
    if (failed(reference::evaluate(operand.getDefiningOp(), {}, made,
                                   reference::Rounding::Declared)))
      return op;
    held.push_back(std::move(made.front()));
  }
  SmallVector<const reference::Tensor *> operands;
  for (const reference::Tensor &tensor : held)
    operands.push_back(&tensor);
  SmallVector<reference::Tensor> results;
  if (failed(reference::evaluate(op, operands, results,
                                 reference::Rounding::Declared)))
    return op;
  FailureOr<Operation *> constant =
      createChecked(builder, op->getLoc(), ConstantOp::getOperationName(),
                    TypeRange(Type(type)), {},
                    builder.getNamedAttr("value", results.front().toAttr()));
  if (failed(constant))
    return op;
  op->erase();
  return *constant;
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

LogicalResult Importer::checkSource() {
  for (Operation &op : *source.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return op.emitError(
          "only functions are allowed at the top level of a model");
    if (!function.isExternal() && !function.getBody().hasOneBlock())
      return function.emitError("function '")
             << function.getName() << "' must have exactly one block";
  }
  for (StringRef name : {kPartitionsAttr, kReplicasAttr})
    if (auto count = source->getAttrOfType<IntegerAttr>(name);
        count && count.getInt() != 1)
      return source.emitError() << "is made for " << count.getInt()
                                << " devices, but mpc compiles for one device";
  return success();
}

LogicalResult Importer::signature(func::FuncOp from, func::FuncOp to) {
  MLIRContext *context = builder.getContext();
  for (unsigned i = 0; i < from.getNumArguments(); ++i) {
    to.setArgAttr(i, MpcDialect::kRoleAttr,
                  RoleAttr::get(context, RoleKind::input, StringAttr()));
    to.setArgAttr(i, MpcDialect::kNameAttr,
                  builder.getStringAttr("arg" + Twine(i)));
  }
  for (unsigned i = 0; i < from.getNumResults(); ++i) {
    to.setResultAttr(i, MpcDialect::kRoleAttr,
                     RoleAttr::get(context, RoleKind::output, StringAttr()));
    to.setResultAttr(i, MpcDialect::kNameAttr,
                     builder.getStringAttr("out" + Twine(i)));
  }
  // Donated buffers alias the result.
  for (unsigned i = 0; i < from.getNumArguments(); ++i) {
    auto result = from.getArgAttrOfType<IntegerAttr>(i, "tf.aliasing_output");
    if (!result)
      continue;
    int64_t number = result.getInt();
    if (number < 0 || number >= int64_t(from.getNumResults()) ||
        from.getResultTypes()[number] != from.getArgumentTypes()[i])
      return from.emitError("argument ")
             << i << " is donated to result " << number
             << ", which does not exist or has another type";
    if (to.getResultAttr(number, MpcDialect::kAliasAttr))
      return from.emitError("argument ")
             << i << " is donated to result " << number
             << ", to which another argument is donated";
    to.setResultAttr(number, MpcDialect::kAliasAttr,
                     builder.getI64IntegerAttr(i));
  }
  return success();
}

void Importer::eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!op.hasTrait<OpTrait::IsTerminator>() && op.use_empty())
      op.erase();
}

OwningOpRef<ModuleOp> Importer::run() {
  if (failed(checkSource()))
    return {};
  auto main = source.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal()) {
    source.emitError("has no function @main");
    return {};
  }
  OwningOpRef<ModuleOp> module = ModuleOp::create(source.getLoc());
  builder.setInsertionPointToStart(module->getBody());
  auto stored = [](ArrayRef<Type> types) {
    return llvm::map_to_vector(types, storedType);
  };
  auto function = func::FuncOp::create(
      builder, main.getLoc(), "main",
      builder.getFunctionType(stored(main.getArgumentTypes()),
                              stored(main.getResultTypes())));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  SmallVector<Value> arguments(body->getArguments()), results;
  if (failed(call(main, "main", arguments, /*isSpread=*/false, results)))
    return {};
  for (auto [i, value] : llvm::enumerate(results))
    if (!value || value.getType() != function.getResultTypes()[i]) {
      main.emitError("result ")
          << i << " does not have the type that @main declares";
      return {};
    }
  func::ReturnOp::create(builder, main.getLoc(), results);
  if (failed(signature(main, function)))
    return {};
  eraseDead(*body);
  if (failed(verify(*module)))
    return {};
  return module;
}

OwningOpRef<ModuleOp>
mpc::importStablehlo(ModuleOp source, const StablehloImportOptions &options) {
  source.getContext()->loadDialect<MpcDialect>();
  return Importer(source, options).run();
}

void mpc::registerStablehloDialects(DialectRegistry &registry) {
  registry.insert<stablehlo::StablehloDialect, chlo::ChloDialect,
                  func::FuncDialect>();
}

bool mpc::holdsStablehlo(ModuleOp module) {
  // A function that only returns its arguments has no stablehlo op.
  if (module->hasAttr(kPartitionsAttr) || module->hasAttr(kReplicasAttr))
    return true;
  WalkResult found = module.walk([](Operation *op) {
    StringRef dialect = op->getName().getDialectNamespace();
    return dialect == "stablehlo" || dialect == "chlo" ? WalkResult::interrupt()
                                                       : WalkResult::advance();
  });
  return found.wasInterrupted();
}
