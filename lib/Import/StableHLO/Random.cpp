//===- Random.cpp - rng_bit_generator -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::hlo;

static LogicalResult convertRngBitGenerator(OpImport &op) {
  op.error()
      << "is not read yet; draw with the default generator of jax.random";
  return failure();
}

OpFamily hlo::randomOps() {
  static const OpEntry entries[] = {
      {"stablehlo.rng_bit_generator", convertRngBitGenerator}};
  return entries;
}
