//===- PrecisionPasses.td - passes of the Precision stage --*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_PRECISIONPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_PRECISIONPASSES

include "mlir/Pass/PassBase.td"

def AssignPrecisionPass : Pass<"mpc-assign-precision", "::mlir::ModuleOp"> {
  let summary = "Assign types to f32 ops and values by a precision policy";
  let description = [{
    Mixed-precision assignment: contractions of an f32 graph multiply in the
    policy's compute type, and values between kernels have its storage type:

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
    outputs of the function, every softmax and every loss are f32 unless overridden;
    contractions yield their accumulate type.

    A loss written as several ops is f32 like a loss op: from the result of role
    `loss` back through elementwise ops, reductions, softmax and data movement, to
    contractions, recurrences, norms, inputs of later contractions, and values that
    are outputs as well. Under mpc's own lists the same holds for unrecognized
    softmax or logsumexp ops. Policies that imitate torch or TensorFlow type these
    ops as those do.

    Numerics: each inserted cast rounds once, to nearest even. A value inside a
    predicted kernel is never rounded. `policy=float32` changes no type. Constants
    are rounded at compile time; a warning counts the values that overflow or flush
    to zero.

    `library-products`: cuBLASLt adds a bias in its result's type and sums the bias
    gradient in the type of the GEMM that computes it. Under mpc's own lists a bias
    of a GEMM with a 16-bit result is rounded to that type, and the gradient of
    every such bias to the compute type of its GEMM.

    Left alone: f64, integers, the model's own 16-bit values and pinned casts, and
    the function's signature. A module already typed by the same policy, overrides,
    target and placement, as recorded in its `mpc.precision`, is unchanged; by other
    settings it is an error.

    Example: test/Dialect/Mpc/Transforms/assign-precision.mlir
  }];
  let options = [
    Option<"policy", "policy", "mpc::NamedPolicy", /*default=*/"\"float32\"",
           "name of a built-in policy, or path of a policy file (.json)">,
    ListOption<"sets", "set", "std::string",
               "overrides KEY=TYPE with KEY op:KIND, layer:PATH-OR-REGEX or name:NODE">,
    Option<"partOfModel", "part-of-model", "bool", /*default=*/"false",
           "warn of an override that matches no op instead of failing">,
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_80">,
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

def MultiplyFloat8Pass : Pass<"mpc-multiply-float8", "::mlir::func::FuncOp"> {
  let summary = "Multiply decoded 8-bit floats on matrix units of these types";
  let description = [{
    Lets matmuls whose operands are decoded 8-bit floats, or constants of such
    numbers, read the numbers themselves, along k:

    ```mlir
    %a = mpc.decode_float %codes format(f8E4M3FN) : tensor<8x32xui8> to tensor<8x32xf32>
    %b = mpc.cast %a : tensor<8x32xf32> to tensor<8x32xbf16>
    %0 = mpc.matmul %b, %w : (tensor<8x32xbf16>, tensor<32x16xbf16>) -> tensor<8x16xf32>
    // becomes, with the transposed numbers of %w
    %a = mpc.decode_float %codes format(f8E4M3FN) : tensor<8x32xui8> to tensor<8x32xf8E4M3FN>
    %0 = mpc.matmul %a, %v transpose_rhs : (tensor<8x32xf8E4M3FN>, tensor<16x32xf8E4M3FN>) -> tensor<8x16xf32>
    ```
    Scales of tensors, rows and columns multiply the result, in the epilogue.
    On CPUs with a unit of bf16, which represents numbers of 8 bits exactly, f32
    operands of more than 8 rows become bf16; the result stays f32.

    Contract in: Precision's. Contract out: the same; such matmuls have operands of
    8 bits, or of bf16.
    Numerics: the factors are the same. Sums are those of the unit
    (TensorCoreModel.h): as published recipes do, forward products are summed with
    the unit's accumulator, and those of the backward pass (`mpc.backward`) with f32
    after every 128 (`accumulate(f32)`).
    Left alone: targets without either unit; on GPUs matmuls of f32 operands,
    which an override types; an extent of k that is no multiple of the unit's; blocks
    with scales of their own, which do not leave the sum over k.
    Example: test/Dialect/Mpc/Transforms/multiply-float8.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_90a">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numMatmuls", "matmuls", "matmuls of 8-bit floats">,
  ];
}

def VerifyStagePass : Pass<"mpc-verify-stage", "::mlir::func::FuncOp"> {
  let summary = "Check the output contract of a stage";
  let description = [{
    Fails if a function violates the contract of `stage`. Each stage preserves the
    contracts of earlier stages.
    - `import`, `simplify`: ops of mpc in one block, static shapes, no fusions, no
      decisions; arguments and results of @main have roles and names.
    - `lift`: as `import`; every parameter has a unique name and an `mpc.initial` of
      its type.
    - `differentiate`: as `simplify`; if gradients are computed the loss is a
      scalar, and every parameter has either an updated value or a gradient.
    - `precision`: every op that a policy can name carries a decision, except
      inserted casts; softmax, log_softmax, losses and the ops of a result of role
      `loss` compute in f32 or f64, and no inserted cast rounds a part of a loss or
      a float output, unless an override, the model's own types or the rules of an
      imitated system require it.
    - `loss-scale`: no `mpc.gradient_seed`; every result that updates an argument
      other than an input has its role and name; losses and parameters are f32 or
      f64.
    - `pad`: `mpc.padding` is only on contractions, with the four extents before and
      after, none of which shrinks.
    - `layout`: convolutions and pools are channels_last; a packed right-hand side
      is a constant.
    - `fuse`: only fusions, constants and views are outside of regions; a cast that
      `Analysis/Fusibility.h` priced as free has no fusion of its own.

    Numerics: unchanged.

    Example: test/Dialect/Mpc/Transforms/verify-stage.mlir
  }];
  let options = [
    Option<"stage", "stage", "std::string", /*default=*/"\"import\"",
           "import, lift, simplify, differentiate, precision, loss-scale, pad, layout or fuse">,
  ];
  let statistics = [Statistic<"numChecked", "ops", "ops checked">];
}

def QuantizeWeightsPass : Pass<"mpc-quantize-weights", "::mlir::func::FuncOp"> {
  let summary = "Quantize constant weights by a policy (fake quantization)";
  let description = [{
    Weight-only quantization: replaces constant right-hand sides of matmuls and
    constant filters of convs by their values rounded to the policy's `weights`
    format, in f32:

    ```mlir
    %w = mpc.constant dense<[[0.11], [1.0]]> : tensor<2x1xf32>
    // becomes, with int8, scale * integer
    %w = mpc.constant dense<[[0.110...], [0.999...]]> : tensor<2x1xf32>
    ```
    The constant's type does not change: mpc-compress-panels stores constants in the
    smallest format that holds their values, and so detects these. int16, int8 and
    8-bit floats have one scale per column or output channel; int4 has one per group
    along K, for a conv of the channels at one window position. Matmuls and convs
    whose extent or channels are not a multiple of the group, and grouped convs, use
    int8 instead of int4. Scales have 16 significant bits with int8 and 8-bit
    floats, 8 with int4, and 9 with int16, which is for f32 GEMMs. They have fewer
    if products of scale and integers must be exact in the policy's 16-bit compute
    type: with int8 and int4, 4 and 8 for f16, 1 and 5 (with zero points 4) for
    bf16; with 8-bit floats 7 for f16 and 4 for bf16.

    Contract in: after Simplify, before types are assigned. Contract out: the same
    graph; changed constants carry `#mpc.narrowing`.
    Numerics: each weight is rounded to nearest. Scales minimize the squared error
    of their weights, weighted by the second moments of the activations in the
    policy's `moments`, over candidates that clip the largest weight; with `clip`
    false they represent it.
    Left alone: constants that are not f32 or not finite, batched matrices, layers
    excluded by the policy, ops that an override keeps in float32 or float64.
    Weights that a training step holds as arguments are an error.
    Executed example: test/Dialect/Mpc/Transforms/quantize-weights.mlir.
  }];
  let options = [
    Option<"policy", "policy", "mpc::NamedPolicy", /*default=*/"\"float32\"",
           "name of a built-in policy, or a file that ends in .json">,
    ListOption<"sets", "set", "std::string",
               "overrides; float32 keeps the weights of the ops that it matches">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numRounded", "weights-rounded", "constants rounded">,
  ];
}

def QuantizeOperandsPass : Pass<"mpc-quantize-operands", "::mlir::func::FuncOp"> {
  let summary = "Quantize operands of contractions by a policy's recipe";
  let description = [{
    Rounds both operands of the contractions that the policy's `operands` field
    selects to 8-bit or smaller numbers, with scales computed at run time, and
    divides the result by the scales. With `"operands": "current"`:

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    // becomes, for each operand and the result
    %amax = mpc.reduce_max (mpc.abs %x)
    %scale = 448 / %amax
    %codes = mpc.encode_float (%x * %scale) format(f8E4M3FN) saturate
    %numbers = mpc.decode_float %codes format(f8E4M3FN)
    %1 = mpc.matmul %numbers, %numbers_w
    %0 = %1 * (1 / %scale) * (1 / %scale_w)
    ```
    Scales of blocks are powers of two, or of four significant bits, and multiply
    the numbers: the products are exact in bf16. Values outside of whole blocks are
    padded with zeros.

    - Forward: contractions with a weight (a parameter or constant, moved or cast) as
      an operand. Backward: those with a weight, and the gradients of the weights of
      quantized contractions: contractions of the same activation, of the weight's
      size, that no other contraction of the backward pass reads. Gradients have the type `backward`, others `forward`.
    - A value quantized twice in the same way is quantized once.
    - Delayed scaling: two arguments of role `scaling_state`, `scale` `[T]` and
      `amax_history` `[history, T]`, for the T tensors named in `mpc.labels`, updated
      at the end as TransformerEngine does: row 0 holds this step's largest
      magnitudes, reduced over ranks; scales follow from the history, which is then
      rotated. A largest magnitude of zero, infinity or NaN leaves the scale, and zero
      also the tensor's history.
      mpc-scale-loss leaves the state in skipped steps. A function without a backward
      pass uses the scaling `current`.
    - The largest magnitude of a tensor, or of columns along the examples, is
      reduced over ranks in a training step.
    - Stochastic rounding reads the function's random state.

    Contract in: after Differentiate and mpc-detect-backward, before types are
    assigned. Contract out: the same graph; ops that compute scales have
    `mpc.scale`, quantized contractions `mpc.operands`, those of the backward pass
    `mpc.backward`, too; selected ones of other types than f32 `mpc.unquantized`.
    Left alone: contractions that are not of class low, that an override or
    `products` types, of two activations (attention), and inside recurrent layers.
    Numerics: the numbers of the recipe, bit for bit.
    Example: test/Dialect/Mpc/Transforms/quantize-operands.mlir.
  }];
  let options = [
    Option<"policy", "policy", "mpc::NamedPolicy", /*default=*/"\"float32\"",
           "name of a built-in policy, or a file that ends in .json">,
    ListOption<"sets", "set", "std::string",
               "overrides; ops that they type are not quantized">,
    Option<"ranks", "ranks", "int64_t", /*default=*/"1",
           "ranks that agree on the largest magnitudes">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numQuantized", "quantized", "contractions with quantized operands">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_PRECISIONPASSES
