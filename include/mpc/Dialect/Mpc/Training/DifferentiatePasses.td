//===- DifferentiatePasses.td - derivatives -----------------*- tablegen -*-===//
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
    Reverse-mode differentiation by the ops' VjpOpInterface:

    ```mlir
    %loss = mpc.mean_squared_error %y, %label      // y = x * w
    // after:
    %seed = mpc.gradient_seed
    %dy = ...                                      // (y - label) * 2 / n * seed
    %dw = mpc.matmul %x, %dy transpose_lhs         // result "w.gradient"
    ```

    Contract in: after Simplify, before precision; one block; results of role
    `loss`, scalars, whose sum is differentiated; arguments of role `parameter`.
    Contract out: one more result of role `output` per float parameter, named
    `PARAMETER.gradient`, of its type. Backward ops stand behind the forward
    ones, each with the location and `mpc.layer` of the op that it
    differentiates. Recurrent ops on the way are unrolled, or, under
    `split-recurrent`, become the product of their input and a `recurrence` that
    keeps what its gradient, a `recurrence_gradient`, reads.

    A function may compute the gradients itself, from the cotangent of a result:
    what a framework traced of its forward and backward pass. `cotangent` is the
    input that takes it, `output` the result, which a loss reads or which is the
    loss, `gradients` names the result that is each parameter's gradient.
    ```mlir
    func.func @main(%w, %x, %dy) -> (%y {mpc.name = "y"}, %dw {mpc.name = "g0"})
    // with gradients=w=g0 cotangent=dy output=y:
    func.func @main(%w, %x, %label) -> (%loss, %y, %dw {mpc.name = "w.gradient"})
    ```
    Only the loss is differentiated then, and its derivative by the result stands
    in for the input; gradients of what is no parameter are dropped.

    Numerics: the forward ops stay as they are. Derivatives of several steps
    compute in f32 at least and round once to the operand's type.

    Derivatives read what the forward pass keeps anyway: relu, tanh, sigmoid,
    softmax their result, norms their input (the normalised value is computed
    again), dropout only its counter. A function without a loss is left alone.
    Executed example: test/Dialect/Mpc/Training/differentiate.mlir.
  }];
  let options = [
    Option<"splitRecurrent", "split-recurrent", "bool", /*default=*/"false",
           "whether the gradient of a recurrent op walks its steps in one op">,
    ListOption<"gradients", "gradients", "std::string",
               "PARAMETER=RESULT of a function that computes its gradients itself">,
    Option<"cotangent", "cotangent", "std::string", /*default=*/"\"\"",
           "the input of such a function that takes the cotangent of `output`">,
    Option<"output", "output", "std::string", /*default=*/"\"\"",
           "the result of such a function whose cotangent it takes; empty for the loss">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numParameters", "parameters", "Gradients appended">,
    Statistic<"numVjps", "vjps", "Ops whose derivative was written">,
    Statistic<"numUnrolled", "unrolled", "Recurrent ops unrolled">,
    Statistic<"numSplit", "split", "Recurrent ops split">];
}

def ShareRepeatedOpsPass : Pass<"mpc-share-repeated-ops", "::mlir::func::FuncOp"> {
  let summary = "Compute once what forward and backward pass both compute";
  let description = [{
    Derivatives write down what they need, such as the softmax of the logits.
    Where an earlier op has the same name, operands and properties it stands in
    for the later one, even where layers, sources and locations differ, which
    common subexpression elimination keeps apart:

    ```mlir
    %p = mpc.softmax %x axis(1) {mpc.layer = "head"} : tensor<32x10xf32>
    %q = mpc.softmax %x axis(1) : tensor<32x10xf32>
    ```
    becomes one softmax, that of layer `head`.

    Contract in: one block; runs behind mpc-differentiate and before precision,
    whose decisions may tell equal ops apart.
    Left alone: constants, ops with regions or effects.

    Numerics: none.

    Example: test/Dialect/Mpc/Training/share-repeated-ops.mlir
  }];
  let statistics = [Statistic<"numShared", "shared", "ops that an earlier one replaced">];
}

#endif // MPC_DIALECT_MPC_TRAINING_DIFFERENTIATEPASSES
