//===- MpcTrainingInterfaces.td - interfaces of training ----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Differentiation of ops, and the common interface of optimizers.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCTRAININGINTERFACES
#define MPC_DIALECT_MPC_IR_MPCTRAININGINTERFACES

include "mlir/IR/OpBase.td"

/// Computes training bookkeeping, not model values; see MpcTraits.h.
def Mpc_KeepsBooks : NativeOpTrait<"IsBookkeeping"> {
  let cppNamespace = "::mpc";
}

def Mpc_VjpOpInterface : OpInterface<"VjpOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    Vector-Jacobian product of an op: maps the cotangents of its results to those of
    its operands. Attached externally (registerVjpModels), so that ops do not depend
    on their derivatives.
  }];
  let methods = [
    InterfaceMethod<[{
        Writes the product at the builder's place. `cotangents` has one value of
        the result's type per result, null where nothing flows back; at least
        one is there. `needed` says for which operands a cotangent is asked;
        `operandCotangents` has one entry per operand, null on entry, and
        receives values of the operands' types, left null where the derivative
        is zero everywhere. Fails with a diagnostic at the op where a needed
        derivative does not exist.
      }],
      "::llvm::LogicalResult", "buildVjp",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$cotangents,
           "::llvm::ArrayRef<bool>":$needed,
           "::llvm::MutableArrayRef<::mlir::Value>":$operandCotangents)>,
  ];
}

def Mpc_OptimizerOpInterface : OpInterface<"OptimizerOpInterface"> {
  let cppNamespace = "::mpc";
  let description = "One parameter's update by one optimizer.";
  let methods = [
    InterfaceMethod<"The f32 (or f64) master weights before the step.",
      "::mlir::Value", "getParameter">,
    InterfaceMethod<"The gradient: the parameter's shape, its type or a narrower float.",
      "::mlir::OpOperand &", "getGradientMutable">,
    InterfaceMethod<"State tensors before the step, in the order of getStateNames().",
      "::mlir::OperandRange", "getStates">,
    InterfaceMethod<[{
        Names of the states under the op's attributes, as checkpoints use them:
        "momentum", "exp_avg", ...
      }],
      "::llvm::SmallVector<::llvm::StringRef>", "getStateNames">,
    InterfaceMethod<"Number of steps applied before this one.",
      "::mlir::Value", "getStep">,
    InterfaceMethod<"The flag that predicates the update; may be empty.",
      "::mlir::MutableOperandRange", "getWhenMutable">,
    InterfaceMethod<"The factor that unscales the gradient; may be empty.",
      "::mlir::MutableOperandRange", "getUnscaleMutable">,
    InterfaceMethod<"The parameter after the step.",
      "::mlir::Value", "getNewParameter">,
    InterfaceMethod<"The states after the step.",
      "::mlir::ResultRange", "getNewStates">,
  ];
}

#endif // MPC_DIALECT_MPC_IR_MPCTRAININGINTERFACES
