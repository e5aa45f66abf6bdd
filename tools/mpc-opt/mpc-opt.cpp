//===- mpc-opt.cpp - run passes on text IR --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/InitAllDialects.h"
#include "mpc/InitAllPasses.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "mpc-opt " MPC_VERSION ", LLVM " LLVM_VERSION_STRING "\n";
  });
  mlir::DialectRegistry registry;
  mpc::registerAllDialects(registry);
  mpc::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mpc optimizer driver\n", registry));
}
