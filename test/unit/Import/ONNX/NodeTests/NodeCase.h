//===- NodeCase.h - one ONNX node test --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_IMPORT_ONNX_NODETESTS_NODECASE_H
#define MPC_TEST_UNIT_IMPORT_ONNX_NODETESTS_NODECASE_H

#include "mpc/Reference/Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace mpc::nodetests {

/// Outcome of a node test.
enum class Outcome {
  Passed,
  /// The importer refused the model with a located error.
  Refused,
  /// Anything else: wrong values, shapes, types or counts, an error without a
  /// place, an error after import, a crash.
  Wrong,
};

struct Report {
  Outcome outcome = Outcome::Wrong;
  /// Why it did not pass, one line.
  std::string message;
  /// Set where the import needed the values of inputs that shapes depend on.
  bool fixedInputs = false;
};

/// Executor of an imported function: the interpreter, or compiled code.
class Runner {
public:
  virtual ~Runner() = default;
  /// The context to import into; has all dialects that the runner needs.
  virtual mlir::MLIRContext &context() = 0;
  /// Results of `@main`. Fails with diagnostics.
  virtual mlir::FailureOr<llvm::SmallVector<reference::Tensor>>
  run(mlir::ModuleOp module, llvm::ArrayRef<reference::Tensor> arguments) = 0;
};

/// The float64 interpreter in its declared mode.
std::unique_ptr<Runner> createInterpreterRunner();

/// The whole compiler under policy float32; null where this build has no CPU
/// target or this machine cannot run it.
std::unique_ptr<Runner> createCpuRunner();

/// Runs the test in `folder` (model.onnx, test_data_set_0).
Report runCase(const std::string &folder, Runner &runner);

/// The entry function.
mlir::func::FuncOp entry(mlir::ModuleOp module);

} // namespace mpc::nodetests

#endif // MPC_TEST_UNIT_IMPORT_ONNX_NODETESTS_NODECASE_H
