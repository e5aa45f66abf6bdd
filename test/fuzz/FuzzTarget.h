//===- FuzzTarget.h - invariants of any model -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_FUZZ_FUZZTARGET_H
#define MPC_TEST_FUZZ_FUZZTARGET_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include "llvm/Support/raw_ostream.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace mpc::fuzz {

/// Captures the diagnostics of a context.
class Messages {
public:
  explicit Messages(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &message) {
          if (message.getSeverity() == mlir::DiagnosticSeverity::Error) {
            ++errors;
            text = message.str();
          }
          return mlir::success();
        }) {
    context.printOpOnDiagnostic(false);
  }

  /// A model is refused with words, or is one that the verifier accepts.
  /// `explained`: a status has the words.
  void check(mlir::ModuleOp module, bool explained = false) {
    if (!module && errors == 0 && !explained)
      fail("refused in silence");
    if (module && mlir::failed(mlir::verify(module)))
      fail("accepted, but not valid: " + text);
  }

private:
  [[noreturn]] static void fail(const std::string &what) {
    llvm::errs() << "fuzz target: " << what << "\n";
    std::abort();
  }

  int errors = 0;
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace mpc::fuzz

#endif // MPC_TEST_FUZZ_FUZZTARGET_H
