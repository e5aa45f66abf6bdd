//===- ExactCheck.cpp - Bit-exactness check of one graph ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ExactCheck.h"

#include "ExactGraph.h"

#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Executable.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

#include <bit>

using namespace mlir;
using namespace mpc;
using namespace mpc::smith;
using reference::Tensor;

/// Bits of an element, with one pattern for all NaN.
static uint64_t bitsOf(const Tensor &tensor, int64_t index) {
  if (!tensor.isFloat())
    return tensor.ints()[index];
  double value = tensor.floats()[index];
  return std::isnan(value) ? ~uint64_t(0) : std::bit_cast<uint64_t>(value);
}

/// Describes the first element that differs; empty if none does.
static std::string difference(const Tensor &actual, const Tensor &expected) {
  if (actual.getType() != expected.getType())
    return "another type";
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (int64_t i = 0; i < actual.size() && text.empty(); ++i)
    if (bitsOf(actual, i) != bitsOf(expected, i)) {
      stream << actual.getType() << " [" << i << "] is ";
      if (actual.isFloat())
        stream << llvm::format("%a instead of %a", actual.floats()[i],
                               expected.floats()[i]);
      else
        stream << actual.ints()[i] << " instead of " << expected.ints()[i];
    }
  return text;
}

/// Appends every fusion's results to the function's results: the values that
/// kernels store.
static std::vector<mlir::Value> exposeBoundaries(func::FuncOp function) {
  Builder builder(function.getContext());
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<mlir::Value> results(terminator->getOperands());
  SmallVector<Attribute> attributes;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    attributes.push_back(function.getResultAttrDict(i));
  std::vector<mlir::Value> exposed;
  for (FusionOp fusion : function.getOps<FusionOp>())
    for (mlir::Value output : fusion.getOutputs()) {
      exposed.push_back(output);
      results.push_back(output);
      attributes.push_back(builder.getDictionaryAttr(
          {builder.getNamedAttr(MpcDialect::kRoleAttr,
                                RoleAttr::get(function.getContext(),
                                              RoleKind::output, StringAttr())),
           builder.getNamedAttr(
               MpcDialect::kNameAttr,
               builder.getStringAttr("kernel" +
                                     std::to_string(exposed.size())))}));
    }
  terminator->setOperands(results);
  SmallVector<Type> types(ValueRange(results).getTypes());
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
  return exposed;
}

static SmallVector<Tensor> declared(func::FuncOp function,
                                    ArrayRef<Tensor> arguments) {
  reference::InterpretOptions options;
  options.rounding = reference::Rounding::Declared;
  auto results = reference::interpret(function, arguments, options);
  return succeeded(results) ? std::move(*results) : SmallVector<Tensor>();
}

/// Whether a contraction of `function` runs on a unit that flushes subnormals.
static bool usesFlushingUnit(func::FuncOp function, const TargetInfo &target) {
  const MathUnit *unit = target.unit(MathType::BFloat16);
  if (!unit || !unit->flushesSubnormals)
    return false;
  WalkResult walk = function.walk([](ContractionOpInterface op) {
    Type type = getElementTypeOrSelf(op->getOperand(0).getType());
    return type.isBF16() ? WalkResult::interrupt() : WalkResult::advance();
  });
  return walk.wasInterrupted();
}

std::string smith::exactCheck(const std::string &text,
                              const CompileOptions &options, uint64_t seed) {
  auto created = Compiler::create(options);
  if (!created.ok())
    return created.status().toString();
  Compiler &compiler = **created;
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, &compiler.context());
  if (!module)
    return "does not parse";

  Random random(seed);
  SmallVector<Tensor> arguments;
  for (Type type : Compiler::entry(*module).getArgumentTypes())
    arguments.push_back(drawExtremes(cast<RankedTensorType>(type), random));
  SmallVector<Tensor> imported = declared(Compiler::entry(*module), arguments);
  if (Status status = compiler.runStages(*module, "import", "precision");
      !status.ok())
    return status.toString();
  SmallVector<Tensor> expected = declared(Compiler::entry(*module), arguments);
  if (expected.empty())
    return "cannot be interpreted";
  // float32 changes no types: only simplifications make a difference.
  if (options.policy == "float32" && options.sets.empty())
    for (auto [i, result] : llvm::enumerate(expected))
      if (std::string text = difference(result, imported[i]); !text.empty())
        return "simplified: result " + std::to_string(i) + ": " + text;

  if (Status status = compiler.runStages(*module, "precision", "fuse");
      !status.ok())
    return status.toString();
  size_t outputs = expected.size();
  std::vector<mlir::Value> boundaries =
      exposeBoundaries(Compiler::entry(*module));
  SmallVector<Tensor> fused = declared(Compiler::entry(*module), arguments);
  for (size_t i = 0; i < outputs && options.rounding == RoundingMode::Strict;
       ++i)
    if (std::string text = difference(fused[i], expected[i]); !text.empty())
      return "fused: result " + std::to_string(i) + ": " + text;

  // The inputs have extreme values: flushing a subnormal may change a result
  // completely, even an infinity to NaN.
  if (usesFlushingUnit(Compiler::entry(*module), compiler.target()))
    return "";
  if (Status status = compiler.runStages(*module, "fuse", "plan"); !status.ok())
    return status.toString();
  auto program = compiler.generate(*module, /*withCode=*/true);
  if (!program.ok())
    return program.status().toString();
  auto executable = Executable::create(*Device::cpu({.threads = 1}), *program);
  if (!executable.ok())
    return executable.status().toString();
  std::vector<Buffer> inputs;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    inputs.push_back(*Buffer::allocate((*program)->arguments[i].type));
    argument.toBytes(inputs.back().data());
  }
  auto results = executable->run(inputs);
  if (!results.ok())
    return results.status().toString();
  for (auto [i, result] : llvm::enumerate(*results)) {
    if (result.type() != runtimeType(fused[i].getType()))
      return "result " + std::to_string(i) + " lies in memory as " +
             result.type().toString();
    Tensor actual = Tensor::fromBytes(fused[i].getType(), result.data());
    if (std::string text = difference(actual, fused[i]); !text.empty())
      return (i < outputs ? "result " : "between kernels: ") +
             std::to_string(i < outputs ? i : i - outputs) + ": " + text;
  }
  return {};
}
