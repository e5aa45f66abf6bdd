//===- PrecisionPasses.td - passes of the Precision stage --*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_PRECISIONPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_PRECISIONPASSES

include "mlir/Pass/PassBase.td"

def AssignPrecisionPass : Pass<"mpc-assign-precision", "::mlir::ModuleOp"> {
  let summary = "Give every f32 op and value a type by a policy";
  let description = [{
    Rewrites an f32 graph so that contractions multiply in the policy's compute
    type and values travel between kernels in its storage type:

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<32x784xf32>, tensor<784x512xf32>) -> tensor<32x512xf32>
    %1 = mpc.relu %0 : tensor<32x512xf32>
    %2 = mpc.matmul %1, %v : (tensor<32x512xf32>, tensor<512x10xf32>) -> tensor<32x10xf32>
    ```
    under `mixed_bfloat16` becomes
    ```mlir
    %xh = mpc.cast %x : tensor<32x784xf32> to tensor<32x784xbf16>
    %0 = mpc.matmul %xh, %wh : (tensor<32x784xbf16>, tensor<784x512xbf16>) -> tensor<32x512xf32>
    %1 = mpc.relu %0 : tensor<32x512xf32>
    %h = mpc.cast %1 : tensor<32x512xf32> to tensor<32x512xbf16>
    %2 = mpc.matmul %h, %vh : (tensor<32x512xbf16>, tensor<512x10xbf16>) -> tensor<32x10xf32>
    ```
    Contract in: one block, static shapes, f32 where the model leaves the choice.
    Contract out: every op that a policy can name carries `#mpc.decision`; float
    outputs of the function, every softmax and every loss are f32 unless an
    override says otherwise; contractions yield their accumulate type.

    A loss that the graph spells out is f32 as one op is: from the result of role
    `loss` back through elementwise ops, reductions, softmax and what moves
    elements, to contractions, recurrences, norms, what a later contraction reads,
    and values that are outputs as well. So are, under mpc's own lists, the steps of
    a softmax or logsumexp that no pattern recognises. Policies that imitate torch
    or TensorFlow type these ops as those do.

    Numerics: each inserted cast rounds once, to nearest even. A value inside a
    predicted kernel is never rounded. `policy=float32` changes no type. Constants
    are rounded at compile time; a warning counts the values that overflow or
    flush to zero.

    `library-products`: cuBLASLt adds a bias in the type of its result and sums the
    bias's gradient in that of the product beside it. Under mpc's own lists a bias
    of a product whose result is stored in 16 bits is rounded to them, and the
    gradient of every such bias to the type in which its product multiplies.

    Left alone: f64, integers, the model's own 16-bit values and pinned casts, and
    the function's signature. A module that has its types already by the same
    policy, overrides, target and placement is not changed again; `mpc.precision`
    on it records them. By others it is an error.

    Example: test/Dialect/Mpc/Transforms/assign-precision.mlir
  }];
  let options = [
    Option<"policy", "policy", "std::string", /*default=*/"\"float32\"",
           "name of a built-in policy, or path of a policy file (.json)">,
    ListOption<"sets", "set", "std::string",
               "overrides KEY=TYPE with KEY op:KIND, layer:PATH-OR-REGEX or name:NODE">,
    Option<"target", "target", "std::string", /*default=*/"",
           "what to take instead of the module's exe.target, as in cuda:sm_80">,
    Option<"castPlacement", "cast-placement", "std::string", /*default=*/"\"mincut\"",
           "how free values get their types: mincut or propagate">,
    Option<"remarks", "remarks", "bool", /*default=*/"false",
           "emit a remark at every op with its rule and why its results are stored as they are">,
    Option<"libraryProducts", "library-products", "bool", /*default=*/"false",
           "round biases to 16 bits where a library adds them in the type of its result">,
  ];
  let statistics = [
    Statistic<"numNarrowed", "contractions-narrowed", "contractions with narrow operands">,
    Statistic<"numCasts", "casts", "casts inserted">,
    Statistic<"numConstants", "constants", "constants rounded at compile time">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def VerifyStagePass : Pass<"mpc-verify-stage", "::mlir::func::FuncOp"> {
  let summary = "Check the output contract of a stage";
  let description = [{
    Fails where a function does not fulfil what `stage` promises to the next one.
    Each stage keeps the promises of those before it.
    - `import`, `simplify`: ops of mpc in one block, static shapes, no fusions, no
      decisions; arguments and results of @main have roles and names.
    - `lift`: as `import`; every parameter has a name of its own and an
      `mpc.initial` of its type.
    - `differentiate`: as `simplify`; where gradients are computed the loss is a
      scalar, and every parameter either has the result that replaces it or its
      gradient.
    - `precision`: every op that a policy can name carries a decision, inserted
      casts excepted; softmax, log_softmax, losses and what makes a result of role
      `loss` compute in f32 or f64, and no inserted cast rounds a part of a loss or
      a float output, unless an override, the model's own types or the rules of an
      imitated system say otherwise.
    - `loss-scale`: no `mpc.gradient_seed`; every result that replaces an argument
      other than an input has its role and name; losses and parameters are f32 or f64.
    - `pad`: `mpc.padding` stands on contractions only, with the four extents before
      and after, of which none shrinks.
    - `layout`: convolutions and pools are channels_last; a packed right-hand side
      is a constant.
    - `fuse`: only fusions, constants and views are left outside; a cast that
      `Analysis/Fusibility.h` priced as free stands in no fusion of its own.

    Numerics: none; the pass changes nothing.

    Example: test/Dialect/Mpc/Transforms/verify-stage.mlir
  }];
  let options = [
    Option<"stage", "stage", "std::string", /*default=*/"\"import\"",
           "import, lift, simplify, differentiate, precision, loss-scale, pad, layout or fuse">,
  ];
  let statistics = [Statistic<"numChecked", "ops", "ops checked">];
}

def NarrowWeightsPass : Pass<"mpc-narrow-weights", "::mlir::func::FuncOp"> {
  let summary = "Round the constants of contractions as a policy's weights";
  let description = [{
    Replaces constant right-hand sides of matmuls and constant filters of convs by
    what the `weights` of the policy hold of them, in f32:

    ```mlir
    %w = mpc.constant dense<[[0.11], [1.0]]> : tensor<2x1xf32>
    // becomes, with int8, scale * integer
    %w = mpc.constant dense<[[0.110...], [0.999...]]> : tensor<2x1xf32>
    ```
    The type of the constant says nothing about it: mpc-narrow-panels stores
    constants in the narrowest form that holds their values, and so does it find
    these. int16, int8 and 8-bit floats have one scale per column of the product or output
    channel, int4 one per group along the contracted extent, of a conv of the channels at one place
    of its window; matmuls and convs whose extent or channels are no multiple of the group, and convs of
    groups, have int8 instead. Scales have 16
    significant bits with int8 and 8-bit floats and 8 with int4, or fewer where their products with the
    integers are to be numbers of the 16-bit type that the policy multiplies, 9 with
    int16, which is for products in f32: 4 and 8 of
    f16, of bf16 1 and 5 (with zero points 4), with 8-bit floats 7 and 4.

    Contract in: after Simplify, before types are assigned. Contract out: the same
    graph; changed constants carry `#mpc.narrowing`.
    Numerics: each weight is rounded to nearest. Scales are those with the least
    squared error of the weights that they are for, each times the mean square that
    the policy's `moments` have of what it meets, out of some that clip the largest, or that hold the largest where the policy says `clip` false.
    Left alone: constants that are not f32 or not finite, batches of matrices,
    layers whose policy says so, ops that an override keeps in float32 or float64.
    Weights that a training step keeps as arguments are an error.
    Executed example: test/Dialect/Mpc/Transforms/narrow-weights.mlir.
  }];
  let options = [
    Option<"policy", "policy", "std::string", /*default=*/"\"float32\"",
           "name of a built-in policy, or a file that ends in .json">,
    ListOption<"sets", "set", "std::string",
               "overrides; float32 keeps the weights of the ops that it is for">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numRounded", "weights-rounded", "constants rounded">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_PRECISIONPASSES
