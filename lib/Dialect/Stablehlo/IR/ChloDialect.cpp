//===- ChloDialect.cpp - ops of chlo --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StablehloForms.h"

using namespace mlir;
using namespace mpc;

void chlo::ChloDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "mpc/Dialect/Stablehlo/IR/ChloOps.cpp.inc"
      >();
}

#define GET_OP_CLASSES
#include "mpc/Dialect/Stablehlo/IR/ChloOps.cpp.inc"
