//===- mpc-opt.cpp - run passes on text IR --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LlvmTool.h"

#include "mpc/InitAllDialects.h"
#include "mpc/InitAllPasses.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

static constexpr char kName[] = "mpc-opt";

int main(int argc, char **argv) {
  mpc::startLlvmTool<kName>();
  mlir::DialectRegistry registry;
  mpc::registerAllDialects(registry);
  mpc::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mpc optimizer driver\n", registry));
}
