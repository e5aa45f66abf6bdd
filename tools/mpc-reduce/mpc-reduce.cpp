//===- mpc-reduce.cpp - test-case reduction of .mlir files ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GraphReducer.h"

#include "mpc/InitAllDialects.h"
#include "mpc/InitAllPasses.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace {

/// Runs the graph reducer with a script as the test: exit code 1 means
/// interesting, as for reduction-tree.
struct ReduceGraphPass
    : public PassWrapper<ReduceGraphPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReduceGraphPass)

  ReduceGraphPass() = default;
  ReduceGraphPass(const ReduceGraphPass &other) : PassWrapper(other) {
    test = other.test.getValue();
  }
  StringRef getArgument() const override { return "reduce-graph"; }
  StringRef getDescription() const override {
    return "Shrink the graph of a model while a script says that it is "
           "interesting (exit code 1)";
  }

  bool isInteresting(const std::string &text) {
    SmallString<128> path;
    int file = 0;
    if (llvm::sys::fs::createTemporaryFile("mpc-reduce", "mlir", file, path))
      return false;
    llvm::FileRemover remover(path);
    {
      llvm::raw_fd_ostream out(file, /*shouldClose=*/true);
      out << text;
    }
    StringRef words[] = {test, path};
    return llvm::sys::ExecuteAndWait(test, words) == 1;
  }

  void runOnOperation() override {
    mpc::GraphReducer reducer(getOperation(), [this](const std::string &text) {
      return isInteresting(text);
    });
    if (!isInteresting(reducer.text())) {
      getOperation().emitError() << "the script '" << test.getValue()
                                 << "' does not call the graph interesting";
      return signalPassFailure();
    }
    reducer.run();
    OwningOpRef<ModuleOp> smallest =
        parseSourceString<ModuleOp>(reducer.text(), &getContext());
    getOperation().getBodyRegion().takeBody(smallest->getBodyRegion());
  }

  Option<std::string> test{*this, "test",
                           llvm::cl::desc("script that gets a file")};
};

} // namespace

int main(int argc, char **argv) {
  DialectRegistry registry;
  mpc::registerAllDialects(registry);
  mpc::registerAllPasses();
  PassRegistration<ReduceGraphPass>();
  MLIRContext context(registry);
  return failed(mlirReduceMain(argc, argv, context)) ? 1 : 0;
}
