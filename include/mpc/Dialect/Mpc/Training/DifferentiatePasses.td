//===- DifferentiatePasses.td - automatic differentiation --*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRAINING_DIFFERENTIATEPASSES
#define MPC_DIALECT_MPC_TRAINING_DIFFERENTIATEPASSES

include "mlir/Pass/PassBase.td"

def DifferentiatePass : Pass<"mpc-differentiate", "::mlir::func::FuncOp"> {
  let summary = "Append the gradients of the loss";
  let description = [{
    Reverse-mode automatic differentiation by the ops' VjpOpInterface:

    ```mlir
    %loss = mpc.mean_squared_error %y, %label      // y = x * w
    // after:
    %seed = mpc.gradient_seed
    %dy = ...                                      // (y - label) * 2 / n * seed
    %dw = mpc.matmul %x, %dy transpose_lhs         // result "w.gradient"
    ```

    Contract in: after Simplify, before precision; one block; scalar results of role
    `loss`, whose sum is differentiated; arguments of role `parameter`. Contract
    out: one more result of role `output` per float parameter, named
    `PARAMETER.gradient`, of its type. Backward ops follow the forward ops, each
    with the location and `mpc.layer` of the op that it differentiates. Recurrent
    ops are unrolled or, under `split-recurrent`, split into an input GEMM and a
    `recurrence` that saves the activations for its gradient op,
    `recurrence_gradient`.

    A function may contain its own backward pass (a framework's traced autograd
    graph) that starts at the cotangent of a result. `cotangent` is the input for
    that cotangent, `output` the result, which is the loss or read by it,
    `gradients` maps each parameter to the result that is its gradient.
    ```mlir
    func.func @main(%w, %x, %dy) -> (%y {mpc.name = "y"}, %dw {mpc.name = "g0"})
    // with gradients=w=g0 cotangent=dy output=y:
    func.func @main(%w, %x, %label) -> (%loss, %y, %dw {mpc.name = "w.gradient"})
    ```
    Only the loss is differentiated then, and its derivative with respect to
    `output` replaces the input; gradients of non-parameters are dropped.

    Numerics: forward ops are unchanged. Multi-step derivatives compute in at least
    f32 and round once to the operand's type.

    Derivatives read values that the forward pass saves anyway: relu, tanh, sigmoid
    and softmax their result, norms their input (the normalized value is
    recomputed), dropout only its counter. A function without a loss is unchanged.
    Executed example: test/Dialect/Mpc/Training/differentiate.mlir.
  }];
  let options = [
    Option<"splitRecurrent", "split-recurrent", "bool", /*default=*/"false",
           "compute the gradient of a recurrent op in one op for all steps">,
    ListOption<"gradients", "gradients", "std::string",
               "PARAMETER=RESULT of a function that computes its gradients itself">,
    Option<"cotangent", "cotangent", "std::string", /*default=*/"\"\"",
           "the input of such a function that takes the cotangent of `output`">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "the result of such a function whose cotangent it takes; empty for the loss">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numParameters", "parameters", "gradients appended">,
    Statistic<"numVjps", "vjps", "ops differentiated">,
    Statistic<"numUnrolled", "unrolled", "recurrent ops unrolled">,
    Statistic<"numSplit", "split", "recurrent ops split">];
}

#endif // MPC_DIALECT_MPC_TRAINING_DIFFERENTIATEPASSES
