//===- Replay.cpp - helpers of all replays --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Replay.h"

#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

llvm::Error mpc::replay::assignPrecision(ModuleOp module, StringRef policy,
                                         ArrayRef<std::string> sets) {
  std::string messages;
  ScopedDiagnosticHandler handler(
      module.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          messages += (messages.empty() ? "" : "; ") + diagnostic.str();
        return success();
      });
  AssignPrecisionPassOptions options;
  options.policy = policy.str();
  options.sets.assign(sets.begin(), sets.end());
  PassManager manager(module.getContext());
  manager.addPass(createAssignPrecisionPass(options));
  if (succeeded(manager.run(module)))
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(), messages);
}

std::string mpc::replay::shortName(Type element) {
  std::string name;
  llvm::raw_string_ostream(name) << element;
  return name;
}

Type mpc::replay::parseShortName(StringRef name, MLIRContext *context) {
  Builder builder(context);
  return llvm::StringSwitch<Type>(name)
      .Case("f16", builder.getF16Type())
      .Case("bf16", builder.getBF16Type())
      .Case("f32", builder.getF32Type())
      .Case("f64", builder.getF64Type())
      .Case("i1", builder.getI1Type())
      .Case("i8", builder.getI8Type())
      .Case("i16", builder.getI16Type())
      .Case("i32", builder.getI32Type())
      .Case("i64", builder.getI64Type())
      .Case("u8", builder.getIntegerType(8, /*isSigned=*/false))
      .Default(Type());
}

llvm::Expected<Policy> mpc::replay::presetOf(const Json &recording) {
  auto text = [&](const char *field) {
    auto it = recording.find(field);
    return it != recording.end() && it->is_string() ? it->get<std::string>()
                                                    : std::string();
  };
  std::string system = text("system"), device = text("device");
  std::string low = text("dtype") == "f16"    ? "float16"
                    : text("dtype") == "bf16" ? "bfloat16"
                                              : "";
  if (system == "torch.autocast" && (device == "cpu" || device == "cuda") &&
      !low.empty())
    return Policy::load("torch_autocast_" + device + "_" + low);
  if (system == "TensorFlow grappler") {
    std::string mode = text("mode");
    if (mode == "auto_mixed_precision")
      return Policy::load("tf_amp_gpu_float16");
    if (mode == "auto_mixed_precision_onednn_bfloat16")
      return Policy::load("tf_amp_onednn_bfloat16");
    if (mode == "auto_mixed_precision_cpu")
      return Policy::load("tf_amp_cpu_float16");
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "no preset imitates system '" + system +
                                     "' on device '" + device + "' in type '" +
                                     text("dtype") + text("mode") + "'");
}
