//===- NodeCase.cpp - one ONNX node test ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The comparison is that of ONNX's own backend runner: count, type, shape, and
// values within rtol 1e-3 and atol 1e-7.
//
//===----------------------------------------------------------------------===//

#include "NodeCase.h"

#include "NarrowStorageType.h"
#include "TensorReader.h"
#include "onnx.pb.h"

#include "mpc/Import/ONNX.h"
#include "mpc/Reference/Interpreter.h"

#include "mlir/IR/Diagnostics.h"

#include <cmath>
#include <fstream>
#include <sstream>

using namespace mlir;
using namespace mpc;
using namespace mpc::nodetests;
using mpc::reference::Tensor;

static constexpr double kRelativeTolerance = 1e-3;
static constexpr double kAbsoluteTolerance = 1e-7;

func::FuncOp mpc::nodetests::entry(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>("main");
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static std::optional<std::string> readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Reads a serialised TensorProto. Fails where it is none of a type that mpc
/// has.
static FailureOr<Tensor> readTensorFile(const std::string &path,
                                        MLIRContext *context) {
  std::optional<std::string> bytes = readFile(path);
  mpc_onnx::TensorProto proto;
  Location location = FileLineColLoc::get(context, path, 0, 0);
  if (!bytes || !proto.ParseFromString(*bytes))
    return emitError(location, "is no serialised tensor");
  onnx::TensorData data;
  if (failed(onnx::readTensor(proto, data, location, "test data")))
    return failure();
  Type element = onnx::storageTypeOf(data.dataType, context);
  if (!element)
    return emitError(location)
           << "has element type " << onnx::dataTypeName(data.dataType);
  auto type = RankedTensorType::get(data.dims, element);
  if (static_cast<int64_t>(data.bytes.size()) != byteCount(type))
    return emitError(location)
           << "has " << data.bytes.size() << " bytes for " << type;
  return Tensor::fromBytes(type, data.bytes.data());
}

/// Returns `data` with its declared type. ONNX's test data stores bf16 as the
/// same bits in uint16, and the second input of CastLike, of which only the
/// type matters, as one element.
static Tensor withDeclaredType(Tensor data, RankedTensorType declared) {
  if (declared.getElementType().isBF16() &&
      data.getElementType().isUnsignedInteger(16)) {
    std::vector<char> bytes(2 * data.size());
    data.toBytes(bytes.data());
    data = Tensor::fromBytes(
        RankedTensorType::get(data.getShape(), declared.getElementType()),
        bytes.data());
  }
  if (data.getElementType() == declared.getElementType() && data.isFloat() &&
      data.size() == 1 && elementCount(declared) > 1) {
    Tensor repeated(declared);
    llvm::fill(repeated.floats(), data.floats()[0]);
    return repeated;
  }
  return data;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

static bool close(double actual, double expected) {
  if (std::isnan(actual) || std::isnan(expected))
    return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) || std::isinf(expected))
    return actual == expected;
  return std::fabs(actual - expected) <=
         kAbsoluteTolerance + kRelativeTolerance * std::fabs(expected);
}

/// Empty where the tensors agree.
static std::string difference(const Tensor &actual, const Tensor &expected) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (actual.getType() != expected.getType()) {
    os << "is " << actual.getType() << ", expected " << expected.getType();
    return text;
  }
  for (int64_t i = 0; i < expected.size(); ++i) {
    if (actual.isFloat() && !close(actual.floats()[i], expected.floats()[i])) {
      os << "element " << i << " is " << actual.floats()[i] << ", expected "
         << expected.floats()[i];
      return text;
    }
    if (!actual.isFloat() && actual.ints()[i] != expected.ints()[i]) {
      os << "element " << i << " is " << actual.ints()[i] << ", expected "
         << expected.ints()[i];
      return text;
    }
  }
  return text;
}

//===----------------------------------------------------------------------===//
// One test
//===----------------------------------------------------------------------===//

namespace {

/// Errors since the last `clear`.
struct Messages {
  explicit Messages(MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
              first.empty()) {
            first = diagnostic.str();
            located = !isa<UnknownLoc>(diagnostic.getLocation());
          }
          return success();
        }) {}
  void clear() { first.clear(); }

  std::string first;
  bool located = false;
  ScopedDiagnosticHandler handler;
};

/// A test's folder while it runs.
class CaseRun {
public:
  CaseRun(const std::string &folder, Runner &runner)
      : folder(folder), runner(runner), messages(&runner.context()) {}

  Report run();

private:
  /// Fills the names of the inputs that have data, in order.
  LogicalResult readInputNames(const std::string &bytes);
  /// Imports the model; inputs whose value the import needs become constants.
  OwningOpRef<ModuleOp> importModel(const std::string &bytes, Report &report);
  std::string dataFile(const char *kind, size_t index) const {
    return folder + "/test_data_set_0/" + kind + "_" + std::to_string(index) +
           ".pb";
  }
  FailureOr<Tensor> readInput(StringRef name);
  std::string compare(ArrayRef<Tensor> results);

  std::string folder;
  Runner &runner;
  Messages messages;
  std::vector<std::string> inputNames;
};

} // namespace

LogicalResult CaseRun::readInputNames(const std::string &bytes) {
  mpc_onnx::ModelProto model;
  if (!model.ParseFromString(bytes))
    return failure();
  for (const mpc_onnx::ValueInfoProto &input : model.graph().input())
    inputNames.push_back(input.name());
  return success();
}

FailureOr<Tensor> CaseRun::readInput(StringRef name) {
  auto found = llvm::find(inputNames, name);
  if (found == inputNames.end())
    return emitError(UnknownLoc::get(&runner.context()))
           << "argument '" << name << "' is no graph input";
  return readTensorFile(dataFile("input", found - inputNames.begin()),
                        &runner.context());
}

OwningOpRef<ModuleOp> CaseRun::importModel(const std::string &bytes,
                                           Report &report) {
  SmallVector<std::string> fixed;
  OnnxImportOptions options;
  options.fixedInputs = &fixed;
  options.offeredValue = [&](StringRef name) -> ElementsAttr {
    FailureOr<Tensor> value = readInput(name);
    return succeeded(value) ? value->toAttr(name) : ElementsAttr();
  };
  OwningOpRef<ModuleOp> module = importOnnxBytes(
      bytes, folder + "/model.onnx", folder, options, &runner.context());
  report.fixedInputs = !fixed.empty();
  return module;
}

std::string CaseRun::compare(ArrayRef<Tensor> results) {
  for (auto [index, result] : llvm::enumerate(results)) {
    FailureOr<Tensor> expected =
        readTensorFile(dataFile("output", index), &runner.context());
    if (failed(expected))
      return "output " + std::to_string(index) + ": " + messages.first;
    if (expected->getShape() == result.getShape())
      expected = withDeclaredType(std::move(*expected), result.getType());
    std::string text = difference(result, *expected);
    if (!text.empty())
      return "output " + std::to_string(index) + " " + text;
  }
  if (std::ifstream(dataFile("output", results.size())).good())
    return "gives " + std::to_string(results.size()) +
           " outputs, the test has more";
  return "";
}

Report CaseRun::run() {
  Report report;
  std::optional<std::string> bytes = readFile(folder + "/model.onnx");
  if (!bytes || failed(readInputNames(*bytes))) {
    report.message = "model.onnx cannot be read";
    return report;
  }
  OwningOpRef<ModuleOp> module = importModel(*bytes, report);
  if (!module) {
    report.message = messages.first;
    report.outcome = messages.located && !messages.first.empty()
                         ? Outcome::Refused
                         : Outcome::Wrong;
    return report;
  }
  func::FuncOp function = entry(*module);
  if (!function) {
    report.message = "the module has no function @main";
    return report;
  }
  messages.clear();
  SmallVector<Tensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, MpcDialect::kNameAttr);
    FailureOr<Tensor> argument = readInput(name ? name.getValue() : "");
    if (failed(argument)) {
      report.message = messages.first;
      return report;
    }
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
    arguments.push_back(withDeclaredType(std::move(*argument), type));
    if (arguments.back().getType() != type) {
      llvm::raw_string_ostream(report.message)
          << "argument " << name << " is " << type << ", the data "
          << arguments.back().getType();
      return report;
    }
  }
  FailureOr<SmallVector<Tensor>> results = runner.run(*module, arguments);
  if (failed(results)) {
    report.message = "after import: " + messages.first;
    return report;
  }
  report.message = compare(*results);
  if (report.message.empty())
    report.outcome = Outcome::Passed;
  return report;
}

Report mpc::nodetests::runCase(const std::string &folder, Runner &runner) {
  Report report = CaseRun(folder, runner).run();
  llvm::replace(report.message, '\n', ' ');
  return report;
}

//===----------------------------------------------------------------------===//
// Interpreter
//===----------------------------------------------------------------------===//

namespace {

class InterpreterRunner : public Runner {
public:
  InterpreterRunner() {
    ownContext.loadDialect<MpcDialect, func::FuncDialect>();
  }
  MLIRContext &context() override { return ownContext; }
  FailureOr<SmallVector<Tensor>> run(ModuleOp module,
                                     ArrayRef<Tensor> arguments) override {
    return reference::interpret(entry(module), arguments,
                                {.rounding = reference::Rounding::Declared});
  }

private:
  MLIRContext ownContext{MLIRContext::Threading::DISABLED};
};

} // namespace

std::unique_ptr<Runner> mpc::nodetests::createInterpreterRunner() {
  return std::make_unique<InterpreterRunner>();
}
