//===- ModelGradientTests.cpp - gradients of models against PyTorch's -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// record_gradients.py wrote gradients.json: per parameter the norm of PyTorch's
// float64 gradient and its dot products with pseudo-random vectors. The test
// imports and differentiates the model and runs it in the reference
// interpreter in float64. Skipped without the shared model folder.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Training/Differentiate.h"
#include "mpc/Dialect/Mpc/Training/Passes.h"
#include "mpc/Dialect/Mpc/Vjp/Vjp.h"
#include "mpc/Import/ONNX.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

/// Number `index` of a stream, in [-1, 1): SplitMix64, as the script has it.
double noise(uint64_t stream, uint64_t index) {
  uint64_t x = (index + (stream << 32) + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  return double(x >> 11) * 0x1p-52 - 1.0;
}

void fill(Tensor &tensor, uint64_t stream) {
  for (auto [index, value] : llvm::enumerate(tensor.floats()))
    value = noise(stream, index);
}

Type widened(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !isa<FloatType>(tensor.getElementType()))
    return type;
  return tensor.clone(Float64Type::get(type.getContext()));
}

/// Converts every float of the function to f64, so that the constants of
/// derivatives are not rounded to a lower precision.
void widen(func::FuncOp function) {
  Block &block = function.getBody().front();
  Type wide = Float64Type::get(function.getContext());
  for (BlockArgument argument : block.getArguments())
    argument.setType(widened(argument.getType()));
  for (Operation &op : block) {
    if (auto constant = dyn_cast<mpc::ConstantOp>(op))
      if (isa<FloatType>(getElementTypeOrSelf(constant.getType()))) {
        FailureOr<Tensor> value = Tensor::fromAttr(constant.getValue());
        ASSERT_TRUE(succeeded(value));
        constant.setValueAttr(
            std::move(*value)
                .withType(cast<RankedTensorType>(widened(constant.getType())))
                .toAttr());
      }
    if (op.hasAttr("accumulate"))
      op.setAttr("accumulate", TypeAttr::get(wide));
    for (Value result : op.getResults())
      result.setType(widened(result.getType()));
  }
  function.setFunctionType(
      FunctionType::get(function.getContext(), block.getArgumentTypes(),
                        block.getTerminator()->getOperandTypes()));
}

/// Appends the loss: the sum of the float outputs times arguments for the
/// streams 0, 1, ... Returns the indices of these arguments.
SmallVector<unsigned> appendLoss(StepFunction step) {
  OpBuilder b = step.atEnd();
  Location loc = step.getFunction().getLoc();
  Type wide = b.getF64Type();
  auto scalar = RankedTensorType::get({}, wide);
  SmallVector<unsigned> weights;
  Value loss;
  for (Value output : SmallVector<Value>(step.terminator().getOperands())) {
    auto type = cast<RankedTensorType>(output.getType());
    if (!isa<FloatType>(type.getElementType()))
      continue;
    BlockArgument weight = step.appendArgument(
        type, RoleKind::input, "weight" + std::to_string(weights.size()));
    weights.push_back(weight.getArgNumber());
    Value product = MulOp::create(b, loc, output, weight);
    SmallVector<int64_t> axes =
        llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    Value sum = ReduceSumOp::create(b, loc, scalar, product,
                                    b.getDenseI64ArrayAttr(axes), UnitAttr(),
                                    TypeAttr());
    loss = loss ? Value(AddOp::create(b, loc, loss, sum)) : sum;
  }
  step.appendResult(loss, RoleKind::loss, "loss");
  return weights;
}

class ModelGradientTest : public testing::TestWithParam<const char *> {
protected:
  ModelGradientTest() {
    DialectRegistry registry;
    registry.insert<MpcDialect, func::FuncDialect>();
    registerVjpModels(registry);
    context.appendDialectRegistry(registry);
    context.loadDialect<MpcDialect, func::FuncDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      messages += diagnostic.str() + "\n";
    });
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::string messages;
};

TEST_P(ModelGradientTest, AgreesWithPyTorch) {
  std::string path =
      std::string(MPC_SHARED_MODELS) + "/" + GetParam() + "/model.onnx";
  if (!llvm::sys::fs::exists(path))
    GTEST_SKIP() << "no model at " << path;
  auto buffer = llvm::MemoryBuffer::getFile(MPC_GRADIENTS);
  ASSERT_TRUE(bool(buffer));
  llvm::Expected<llvm::json::Value> records =
      llvm::json::parse((*buffer)->getBuffer());
  ASSERT_TRUE(bool(records)) << llvm::toString(records.takeError());
  const llvm::json::Object &record =
      *records->getAsObject()->getObject(GetParam());

  OnnxImportOptions options;
  for (const auto &[name, input] : *record.getObject("inputs")) {
    SmallVector<int64_t> shape;
    for (const llvm::json::Value &extent :
         *input.getAsObject()->getArray("shape"))
      shape.push_back(*extent.getAsInteger());
    options.inputShapes[name.str()] = shape;
  }
  OwningOpRef<ModuleOp> module = importOnnxFile(path, options, &context);
  ASSERT_TRUE(module) << messages;
  // Batch norms use their running statistics, as the recorded models do.
  PassManager passes(&context);
  LiftParametersPassOptions lift;
  lift.statistics = false;
  passes.addNestedPass<func::FuncOp>(createLiftParametersPass(lift));
  ASSERT_TRUE(succeeded(passes.run(*module))) << messages;
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  StepFunction step(function);
  std::vector<std::optional<Tensor>> initial(function.getNumArguments());
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto value = function.getArgAttrOfType<ElementsAttr>(
            i, MpcDialect::kInitialAttr)) {
      initial[i] = *Tensor::fromAttr(value);
      function.removeArgAttr(i, MpcDialect::kInitialAttr);
    }
  widen(function);
  SmallVector<unsigned> weights = appendLoss(step);
  ASSERT_TRUE(succeeded(differentiate(function))) << messages;
  ASSERT_TRUE(succeeded(verify(*module))) << messages;

  std::vector<Tensor> arguments;
  uint64_t inputs = 0;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    Tensor tensor(cast<RankedTensorType>(type));
    auto found = llvm::find(weights, i);
    if (i < initial.size() && initial[i]) {
      tensor = std::move(*initial[i]).withType(tensor.getType());
    } else if (found != weights.end()) {
      fill(tensor, found - weights.begin());
    } else {
      const llvm::json::Object *input =
          record.getObject("inputs")->getObject(step.argumentName(i));
      ASSERT_TRUE(input) << step.argumentName(i).str();
      fill(tensor, 200 + inputs++);
      if (!tensor.isFloat())
        for (auto [value, recorded] :
             llvm::zip_equal(tensor.ints(), *input->getArray("values")))
          value = recorded.getAsInteger() ? *recorded.getAsInteger()
                                          : int64_t(*recorded.getAsBoolean());
    }
    arguments.push_back(std::move(tensor));
  }
  auto results = interpret(function, arguments, {});
  ASSERT_TRUE(succeeded(results)) << messages;

  constexpr double kBound = 1e-10;
  double loss = *record.getNumber("loss");
  unsigned lossIndex = step.results(RoleKind::loss).front();
  EXPECT_NEAR((*results)[lossIndex].floats()[0], loss, kBound * std::abs(loss));
  const llvm::json::Object &gradients = *record.getObject("gradients");
  double all = 0;
  for (const auto &[name, gradient] : gradients)
    all = std::hypot(all, *gradient.getAsObject()->getNumber("norm"));
  for (const auto &[name, gradient] : gradients) {
    std::optional<unsigned> index =
        step.findResult(RoleKind::output, name.str() + ".gradient");
    if (!index) {
      ADD_FAILURE() << "no gradient of " << name.str();
      continue;
    }
    ArrayRef<double> actual = std::as_const((*results)[*index]).floats();
    double norm = *gradient.getAsObject()->getNumber("norm"), sum = 0;
    for (double value : actual)
      sum += value * value;
    // A gradient that is 0 but for rounding (a key's bias) has no relative
    // error.
    double bound = kBound * (norm > kBound * all ? norm : all);
    EXPECT_NEAR(std::sqrt(sum), norm, bound) << name.str();
    for (auto [k, expected] :
         llvm::enumerate(*gradient.getAsObject()->getArray("projections"))) {
      double product = 0;
      for (auto [i, value] : llvm::enumerate(actual))
        product += value * noise(100 + k, i);
      EXPECT_NEAR(product, *expected.getAsNumber(), bound)
          << name.str() << " " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SharedModels, ModelGradientTest,
                         testing::Values("bert-tiny", "dynamic-batch",
                                         "external-data", "gpt-dynamic",
                                         "gpt-tiny", "gpt-unoptimized",
                                         "lstm-lm", "mlp", "mnist-cnn",
                                         "mnist-cnn-fp16", "resnet",
                                         "unet-small", "vit-tiny"),
                         [](const auto &info) {
                           std::string name(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
