//===- Passes.td - passes from a model to a training step --*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One file per topic.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_PASSES
#define MPC_DIALECT_MPC_TRAINING_PASSES

include "mpc/Dialect/Mpc/Training/ParameterPasses.td"
include "mpc/Dialect/Mpc/Training/DifferentiatePasses.td"
include "mpc/Dialect/Mpc/Training/DistributePasses.td"
include "mpc/Dialect/Mpc/Training/LossScalePasses.td"

#endif // MPC_DIALECT_MPC_TRAINING_PASSES
