//===- TrainingStep.cpp - a training step on given gradients --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingStep.h"

#include "JIT/Compiler.h"

#include "mpc/Reference/Interpreter.h"
#include "mpc/Runtime/Executable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

static llvm::Error makeError(const std::string &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

static llvm::Error makeError(const Status &status) {
  return makeError(status.toString());
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

std::string mpc::replay::stepName(const StepSpec &spec, size_t optimizer) {
  return spec.optimizers.size() == 1 ? "step"
                                     : "step." + std::to_string(optimizer);
}

namespace {

/// Writes the module's text.
class ModuleWriter {
public:
  explicit ModuleWriter(const StepSpec &spec) : spec(spec) {}

  std::string write() {
    if (spec.probes)
      writeScaledLoss();
    for (size_t i = 0; i < spec.optimizers.size(); ++i)
      writeOptimizer(i);
    return "func.func @main(" + join(arguments) + ") -> (" + join(results) +
           ") {\n" + body + "  return " + join(returned) + " : " +
           join(returnedTypes) + "\n}\n";
  }

private:
  static std::string join(const std::vector<std::string> &parts) {
    return llvm::join(parts, ", ");
  }

  std::string typeOf(const std::string &parameter) const {
    std::string type = "tensor<";
    for (const auto &[name, shape] : spec.shapes)
      if (name == parameter)
        for (int64_t extent : shape)
          type += std::to_string(extent) + "x";
    return type + spec.type + ">";
  }

  std::string argument(const std::string &name, const std::string &type,
                       const std::string &role) {
    std::string value = "%a" + std::to_string(arguments.size());
    arguments.push_back(llvm::formatv(
        "{0}: {1} {{mpc.name = \"{2}\", mpc.role = #mpc.role<{3}>}", value,
        type, name, role));
    return value;
  }

  void result(const std::string &value, const std::string &name,
              const std::string &type, const std::string &role,
              const std::string &replaced = "") {
    std::string alias = replaced.empty()
                            ? ""
                            : ", mpc.alias = " + replaced.substr(2) + " : i64";
    results.push_back(
        llvm::formatv("{0} {{mpc.name = \"{1}\", mpc.role = #mpc.role<{2}>{3}}",
                      type, name, role, alias));
    returned.push_back(value);
    returnedTypes.push_back(type);
  }

  void writeScaledLoss() {
    std::string loss = argument("loss", "tensor<f32>", "input");
    body += "  %seed = mpc.gradient_seed : tensor<f32>\n"
            "  %scaled = mpc.mul " +
            loss +
            ", %seed : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
            "  %taken = mpc.constant dense<-1.0> : tensor<f32>\n";
    result("%scaled", "scaled_loss", "tensor<f32>", "output");
  }

  void writeOptimizer(size_t number) {
    const OptimizerSpec &optimizer = spec.optimizers[number];
    std::string suffix = std::to_string(number);
    std::string name = stepName(spec, number);
    std::string step = argument(name, "tensor<i64>", "optimizer_step");
    body += llvm::formatv(
        "  %rate{0} = mpc.learning_rate {1} base({2:e17}) : tensor<i64> -> "
        "tensor<{3}>\n"
        "  %one{0} = mpc.constant dense<1> : tensor<i64>\n"
        "  %next{0} = mpc.add {1}, %one{0} : (tensor<i64>, tensor<i64>) -> "
        "tensor<i64>\n",
        suffix, step, optimizer.learningRate, optimizer.rateType);
    for (const std::string &parameter : optimizer.parameters)
      writeUpdate(optimizer, parameter, step, suffix);
    result("%next" + suffix, name, "tensor<i64>", "optimizer_step", step);
  }

  void writeUpdate(const OptimizerSpec &optimizer, const std::string &parameter,
                   const std::string &step, const std::string &suffix) {
    std::string type = typeOf(parameter);
    std::string gradient =
        argument(parameter + ".scaled_gradient", type, "input");
    std::string master = argument(parameter, type, "parameter");
    std::vector<std::string> states, newStates;
    for (const std::string &state : optimizer.states) {
      states.push_back(
          argument(parameter + "." + state, type, "optimizer_state"));
      newStates.push_back("%" + parameter + "_" + state);
    }
    std::vector<std::string> outputs = {"%" + parameter};
    outputs.insert(outputs.end(), newStates.begin(), newStates.end());
    std::vector<std::string> outputTypes(outputs.size(), type);
    std::vector<std::string> inputTypes(outputs.size() + 1, type);
    inputTypes.push_back("tensor<i64>");
    inputTypes.push_back("tensor<" + optimizer.rateType + ">");
    body += "  " + join(outputs) + " = mpc.optimizer." + optimizer.op + " " +
            master + ", " + gradient +
            (states.empty() ? "" : " states(" + join(states) + ")") + " step(" +
            step + ") learning_rate(%rate" + suffix + ") {" +
            optimizer.attributes + "} : (" + join(inputTypes) + ") -> (" +
            join(outputTypes) + ")\n";
    result(outputs[0], parameter, type, "parameter", master);
    for (size_t i = 0; i < states.size(); ++i)
      result(newStates[i], parameter + "." + optimizer.states[i], type,
             "optimizer_state", states[i]);
    if (!spec.probes)
      return;
    // A step of rate -1 on a parameter of -0 gives the gradient of the update.
    std::string zero = argument(parameter + ".unscaled", type, "parameter");
    body += llvm::formatv(
        "  %{0}_unscaled = mpc.optimizer.sgd {1}, {2} step({3}) "
        "learning_rate(%taken) : ({4}, {4}, tensor<i64>, tensor<f32>) -> {4}\n",
        parameter, zero, gradient, step, type);
    result("%" + parameter + "_unscaled", parameter + ".unscaled", type,
           "parameter", zero);
  }

  const StepSpec &spec;
  std::vector<std::string> arguments, results, returned, returnedTypes;
  std::string body;
};

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

std::string nameOf(DictionaryAttr attributes) {
  auto name = attributes ? attributes.getAs<StringAttr>(MpcDialect::kNameAttr)
                         : StringAttr();
  return name ? name.str() : std::string();
}

std::vector<double> toDoubles(const reference::Tensor &tensor) {
  if (tensor.isFloat())
    return {tensor.floats().begin(), tensor.floats().end()};
  return {tensor.ints().begin(), tensor.ints().end()};
}

/// The step in the interpreter, every value rounded to its type.
class OracleStep : public TrainingStep {
public:
  OracleStep(std::unique_ptr<Compiler> compiler, Compiler::Module module,
             Values initial)
      : compiler(std::move(compiler)), module(std::move(module)) {
    start = std::move(initial);
  }

  llvm::Expected<Values> run(const Values &arguments) override {
    func::FuncOp function = Compiler::entry(*module);
    SmallVector<reference::Tensor> tensors;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      reference::Tensor tensor(
          cast<RankedTensorType>(function.getArgument(i).getType()));
      const std::vector<double> &values =
          arguments.at(nameOf(function.getArgAttrDict(i)));
      for (size_t k = 0; k < values.size(); ++k) {
        if (tensor.isFloat())
          tensor.floats()[k] = values[k];
        else
          tensor.ints()[k] = int64_t(values[k]);
      }
      tensors.push_back(std::move(tensor));
    }
    reference::InterpretOptions options;
    options.rounding = reference::Rounding::Declared;
    FailureOr<SmallVector<reference::Tensor>> results =
        reference::interpret(function, tensors, options);
    if (failed(results))
      return makeError("the oracle cannot run the step: " +
                       (compiler->diagnostics().empty()
                            ? std::string()
                            : compiler->diagnostics().back().text));
    Values named;
    for (auto [i, result] : llvm::enumerate(*results))
      named[nameOf(function.getResultAttrDict(i))] = toDoubles(result);
    return named;
  }

private:
  std::unique_ptr<Compiler> compiler;
  Compiler::Module module;
};

template <typename T>
void copyIn(const std::vector<double> &values, Buffer &buffer) {
  std::transform(values.begin(), values.end(), buffer.as<T>().begin(),
                 [](double value) { return T(value); });
}

template <typename T> std::vector<double> copyOut(const Buffer &buffer) {
  std::span<const T> values = buffer.as<T>();
  return {values.begin(), values.end()};
}

/// The step as code for the CPU.
class CpuStep : public TrainingStep {
public:
  CpuStep(Executable executable, Values initial)
      : executable(std::move(executable)) {
    start = std::move(initial);
  }

  llvm::Expected<Values> run(const Values &values) override {
    const Program &program = executable.program();
    std::vector<Buffer> arguments;
    for (const ProgramValue &argument : program.arguments) {
      Result<Buffer> buffer = Buffer::allocate(argument.type);
      if (!buffer.ok())
        return makeError(buffer.status());
      const std::vector<double> &from = values.at(argument.name);
      switch (argument.type.element) {
      case ElementType::F32:
        copyIn<float>(from, *buffer);
        break;
      case ElementType::F64:
        copyIn<double>(from, *buffer);
        break;
      case ElementType::I32:
        copyIn<int32_t>(from, *buffer);
        break;
      case ElementType::I64:
        copyIn<int64_t>(from, *buffer);
        break;
      default:
        return makeError("argument '" + argument.name +
                         "' has a type that no "
                         "step has");
      }
      arguments.push_back(*buffer);
    }
    Result<std::vector<Buffer>> results = executable.run(arguments);
    if (!results.ok())
      return makeError(results.status());
    Values named;
    for (size_t i = 0; i < program.results.size(); ++i) {
      const Buffer &buffer = (*results)[i];
      std::vector<double> &to = named[program.results[i].name];
      switch (buffer.type().element) {
      case ElementType::F32:
        to = copyOut<float>(buffer);
        break;
      case ElementType::F64:
        to = copyOut<double>(buffer);
        break;
      case ElementType::I32:
        to = copyOut<int32_t>(buffer);
        break;
      default:
        to = copyOut<int64_t>(buffer);
      }
    }
    return named;
  }

private:
  Executable executable;
};

Values initialValues(func::FuncOp function) {
  Values values;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(function.getArgument(i).getType());
    std::vector<double> &value = values[nameOf(function.getArgAttrDict(i))];
    value.assign(type.getNumElements(), 0);
    auto attr =
        function.getArgAttrOfType<ElementsAttr>(i, MpcDialect::kInitialAttr);
    if (!attr)
      continue;
    FailureOr<reference::Tensor> tensor = reference::Tensor::fromAttr(attr);
    if (succeeded(tensor))
      value = toDoubles(*tensor);
  }
  return values;
}

} // namespace

llvm::Expected<std::unique_ptr<TrainingStep>>
TrainingStep::compile(const StepSpec &spec, Device device) {
  CompileOptions options;
  options.training = spec.training;
  options.threads = 1;
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return makeError(compiler.status());
  Compiler &compile = **compiler;
  auto fail = [&](const std::string &what) {
    return makeError(what + (compile.diagnostics().empty()
                                 ? std::string()
                                 : ": " + compile.diagnostics().back().text));
  };
  Compiler::Module module = parseSourceString<ModuleOp>(
      ModuleWriter(spec).write(), &compile.context());
  if (!module)
    return fail("the step's module is not valid");
  // Gradients are given: there is nothing to differentiate.
  if (Status status = compile.runStages(*module, "differentiate", "loss-scale");
      !status.ok())
    return makeError(status);
  Values initial = initialValues(Compiler::entry(*module));
  if (device == Device::Oracle)
    return std::make_unique<OracleStep>(std::move(*compiler), std::move(module),
                                        std::move(initial));
  if (Status status = compile.runStages(*module, "loss-scale", "plan");
      !status.ok())
    return makeError(status);
  Result<std::shared_ptr<Program>> program =
      compile.generate(*module, /*withCode=*/true);
  if (!program.ok())
    return makeError(program.status());
  Result<mpc::Device> cpu = mpc::Device::cpu();
  if (!cpu.ok())
    return makeError(cpu.status());
  Result<Executable> executable = Executable::create(*cpu, std::move(*program));
  if (!executable.ok())
    return makeError(executable.status());
  return std::make_unique<CpuStep>(std::move(*executable), std::move(initial));
}
