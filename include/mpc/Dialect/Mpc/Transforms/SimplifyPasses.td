//===- SimplifyPasses.td - passes of the Simplify stage ----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_SIMPLIFYPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_SIMPLIFYPASSES

include "mlir/Pass/PassBase.td"

def FoldBatchNormPass : Pass<"mpc-fold-batch-norm", "::mlir::func::FuncOp"> {
  let summary = "Fold batch norms into the contraction before them";
  let description = [{
    With constant filter, bias and statistics,
    ```mlir
    %0 = mpc.conv %x, %filter ...
    %1 = mpc.add %0, %bias ...
    %2 = mpc.batch_norm %1, %scale, %shift, %mean, %variance epsilon(1.0e-5)
    ```
    becomes
    ```mlir
    %0 = mpc.conv %x, %filter_scaled ...
    %1 = mpc.add %0, %shift_moved ...
    ```
    The bias may be absent. Applies to convolutions, transposed convolutions and
    matmuls of rank 2 with a constant right-hand side.

    Contract in: mpc ops, static shapes; run mpc-fold-constants first. Contract
    out: the same.

    Numerics: the factor scale / sqrt(variance + epsilon) multiplies the filter
    instead of the result; filter and bias are computed in f64 and rounded once.

    Left alone: f16 and bf16 (the second rounding of a 16-bit filter would be
    visible), contractions with other readers, statistics that are not constants.

    Example: test/Dialect/Mpc/Transforms/fold-batch-norm.mlir
  }];
  let statistics = [
    Statistic<"numFolded", "folded", "batch norms folded">,
    Statistic<"numKept", "kept", "batch norms left in the graph">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def FoldConstantsPass : Pass<"mpc-fold-constants", "::mlir::func::FuncOp"> {
  let summary = "Fold ops whose operands are all constants";
  let description = [{
    ```mlir
    %w = mpc.constant dense_resource<w> : tensor<512x784xf32>
    %0 = mpc.transpose %w [1, 0] : tensor<512x784xf32> to tensor<784x512xf32>
    ```
    becomes one constant of type `tensor<784x512xf32>`. Unused constants are erased.

    Contract in: mpc ops, static shapes. Contract out: no op within the limits has
    only constant operands.

    Numerics: the reference interpreter evaluates each op in f64 and rounds its
    results once, so a folded op is at least as exact as an executed one. A cast
    rounds as at run time, pinned casts included.

    Left alone: results of more than `max-bytes` that are larger than the op's
    operands together, except casts of stored constants, and ops of more than
    `max-flops`.

    Example: test/Dialect/Mpc/Transforms/fold-constants.mlir
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", /*default=*/"int64_t(64) << 20",
           "largest result, in bytes, that may be larger than its operands">,
    Option<"maxFlops", "max-flops", "int64_t", /*default=*/"int64_t(1) << 30",
           "most floating-point operations that one op may take to evaluate">,
  ];
  let statistics = [
    Statistic<"numFolded", "folded", "ops evaluated">,
    Statistic<"numTooLarge", "too-large", "ops left alone because of a bound">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeAttentionPass : Pass<"mpc-recognize-attention", "::mlir::func::FuncOp"> {
  let summary = "Recognize matmul, scale, mask, softmax and matmul as attention";
  let description = [{
    ```mlir
    %0 = mpc.matmul %q, %kt
    %1 = mpc.mul %0, %scale
    %2 = mpc.add %1, %mask
    %3 = mpc.softmax %2 axis(3)
    %4 = mpc.matmul %3, %v
    ```
    becomes
    ```mlir
    %4 = mpc.attention %q, %k, %v mask(%mask) scale(0.125)
    ```
    The scale may apply to the scores, to query and key, or be absent; the mask may
    be added, or selected with a fill value; several terms added to the scores, such
    as position biases and masks, are summed first. A transposed key is replaced by
    the original; otherwise a transpose is inserted. Key and value heads that are
    repeated for groups of query heads (broadcast, or concatenated with themselves;
    GQA), or shared by all (MQA), are replaced by the originals.

    Contract in: mpc ops, static shapes, softmax recognized; run mpc-fold-constants
    first, so that masks are constants if possible. Contract out: the same.

    Numerics: the scale multiplies the scores instead of the operands; the sum of
    several biases is rounded instead of the scores. A selected fill of -1.0e4 or
    less becomes a boolean mask if every row of a constant condition keeps a
    position, or if the model replaces the NaN of fully masked rows by zero; a fill
    of -1.0e30 or less becomes an added mask otherwise. Scores are assumed to be far
    above the fill.

    Left alone: attention whose scores or probabilities have other readers, masks
    that would change the result of a fully masked row, broadcast batch dimensions,
    operands of rank 2.

    Example: test/Dialect/Mpc/Transforms/recognize-attention.mlir
  }];
  let statistics = [Statistic<"numRecognized", "recognized", "attention ops made">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeGeluPass : Pass<"mpc-recognize-gelu", "::mlir::func::FuncOp"> {
  let summary = "Recognize gelu";
  let description = [{
    ```mlir
    %0 = mpc.div %x, %sqrt2
    %1 = mpc.erf %0
    %2 = mpc.add %1, %one
    %3 = mpc.mul %half, %2
    %4 = mpc.mul %x, %3
    ```
    becomes `mpc.gelu %x`, in any order of the factors, and
    `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))` with the cube as power or
    products becomes `mpc.gelu %x form(tanh)`.

    Contract in: mpc ops, static shapes. Contract out: the same.

    Numerics: constants within four ulps of the formula's, in the element type, are
    taken as exact.

    Left alone: variants with other constants (x * sigmoid(1.702 * x)), products
    with other readers.

    Example: test/Dialect/Mpc/Transforms/recognize-gelu.mlir
  }];
  let statistics = [Statistic<"numRecognized", "recognized", "gelu ops made">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeQuantizedMatmulsPass : Pass<"mpc-recognize-quantized-matmuls", "::mlir::func::FuncOp"> {
  let summary = "Recognize QDQ matmuls and convolutions as ones of 8-bit numbers";
  let description = [{
    ```mlir
    %0 = mpc.mul %centredX, %scaleX   // f32 of (ui8 - 128), a number
    %1 = mpc.mul %centredW, %scaleW   // f32 of i8, a number per column
    %2 = mpc.matmul %0, %1
    ```
    becomes the integer matmul, minus the contributions of the zero points, times
    one factor per column:
    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<4x64xui8>, tensor<64x10xi8>) -> tensor<4x10xi32>
    %1 = mpc.sub %0, %zeroTimesColumnSums
    %2 = mpc.cast %1 : tensor<4x10xi32> -> tensor<4x10xf32>
    %3 = mpc.mul %2, %scales
    ```
    Likewise for convs, whose padding value is then the zero point, or zero if that
    is computed; a filter's zero point needs window sums. In every integer matmul
    signed left operands and unsigned right operands are shifted by 128, with their
    zero points: dot-product units multiply unsigned by signed integers.

    Scales of floats of at most 8 bits multiply the result of a matmul or conv as
    well, which then has the form of mpc-quantize-operands, with `mpc.operands`
    "model":
    ```mlir
    %a = mpc.decode_float %x format(f8E4M3FN) : tensor<4x64xui8> to tensor<4x64xf32>
    %b = mpc.decode_float %w format(f8E4M3FN) : tensor<64x10xui8> to tensor<64x10xf32>
    %0 = mpc.matmul %a, %b : (tensor<4x64xf32>, tensor<64x10xf32>) -> tensor<4x10xf32>
    %1 = mpc.mul %0, %scales
    ```
    Contract in: mpc ops, static shapes; before constant folding, which turns
    dequantized weights into floats. Contract out: the same.

    Numerics: accumulators of integers are exact, where f32 rounds each; products of
    decoded floats are; the factor is the product of both scales, rounded once.

    Left alone: contractions too long for an i32 accumulator; scales and zero points
    that are not constants, or vary along the contracted dimension; depthwise convs,
    and grouped filters with a zero point; floats with zero points.

    Example: test/Dialect/Mpc/Transforms/recognize-quantized-matmuls.mlir
  }];
  let options = [
    Option<"integers", "integers", "bool", /*default=*/"true",
           "whether the target multiplies 8-bit integers">,
  ];
  let statistics = [Statistic<"numRecognized", "recognized", "matmuls and convolutions of 8-bit numbers made">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeLayerNormPass : Pass<"mpc-recognize-layer-norm", "::mlir::func::FuncOp"> {
  let summary = "Recognize layer norm and RMS norm";
  let description = [{
    ```mlir
    %0 = mpc.reduce_mean %x axes([1]) keep_dims
    %1 = mpc.sub %x, %0
    %2 = mpc.pow %1, %two
    %3 = mpc.reduce_mean %2 axes([1]) keep_dims
    %4 = mpc.add %3, %epsilon
    %5 = mpc.sqrt %4
    %6 = mpc.div %1, %5
    %7 = mpc.mul %6, %scale
    %8 = mpc.add %7, %bias
    ```
    becomes `mpc.layer_norm %x, %scale, %bias axis(1) epsilon(...)`; without the
    mean it becomes `mpc.rms_norm`. Squares may be products, means sums divided by
    the count, the root an rsqrt, and scale and bias may be absent.

    Contract in: mpc ops, static shapes. Contract out: the same.

    Numerics: the composite uses the two-pass formula and rounds its result once.

    Left alone: norms over axes that are not the last ones, an epsilon outside the
    root.

    Example: test/Dialect/Mpc/Transforms/recognize-layer-norm.mlir
  }];
  let statistics = [
    Statistic<"numLayerNorm", "layer-norm", "layer_norm ops made">,
    Statistic<"numRmsNorm", "rms-norm", "rms_norm ops made">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeExpertRoutingPass : Pass<"mpc-recognize-expert-routing", "::mlir::func::FuncOp"> {
  let summary = "Recognize top-k expert routing as masked rows";
  let description = [{
    ```mlir
    %values, %indices = mpc.top_k %p k(2) axis(1)
    %sum = mpc.reduce_sum %values axes([1]) keep_dims
    %0 = mpc.div %values, %sum
    %1 = mpc.scatter_elements %zeros, %indices, %0 axis(1)
    ```
    becomes, for mixture-of-experts routing,
    ```mlir
    %first = mpc.argmax %p axis(1) keep_dims
    %isFirst = mpc.compare eq %places, %first
    %left = mpc.select %isFirst, %minusOne, %p
    %second = mpc.argmax %left axis(1) keep_dims
    %isSecond = mpc.compare eq %places, %second
    %mask = mpc.or %isFirst, %isSecond
    %kept = mpc.select %mask, %p, %zero
    %sum = mpc.reduce_sum %kept axes([1]) keep_dims
    %0 = mpc.div %p, %sum
    %1 = mpc.select %mask, %0, %zeros
    ```
    which fuses into one row kernel, including the softmax before it. Sums over the
    choices, any elementwise ops of these sums, and ops that are linear in the
    choices may come between.

    Contract in: mpc ops, static shapes. Contract out: the same.

    Numerics: the same values; a sum over the choices includes zeros and adds in
    index order.

    Left alone: more than four choices, values that may be negative (selected
    elements are marked by -1), choices or indices with other readers, nonlinear
    functions of a choice (their derivative at unselected elements may be infinite),
    rows too long for one kernel.

    Example: test/Dialect/Mpc/Transforms/recognize-expert-routing.mlir
  }];
  let statistics = [Statistic<"numRecognized", "recognized", "scatters replaced">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeSoftmaxPass : Pass<"mpc-recognize-softmax", "::mlir::func::FuncOp"> {
  let summary = "Recognize softmax and log_softmax";
  let description = [{
    ```mlir
    %0 = mpc.reduce_max %x axes([1]) keep_dims
    %1 = mpc.sub %x, %0
    %2 = mpc.exp %1
    %3 = mpc.reduce_sum %2 axes([1]) keep_dims
    %4 = mpc.div %2, %3
    ```
    becomes `mpc.softmax %x axis(1)`. The subtraction of the maximum may be absent,
    or of a maximum over more axes, and the quotient a product with a reciprocal.
    Constant factors of the exponentials or their sum cancel, or scale the softmax.
    `x - max - log(sum(exp(x - max)))` and `log(softmax(x))` become
    `mpc.log_softmax`.

    Contract in: mpc ops, static shapes. Contract out: the same.

    Numerics: the composite subtracts the maximum first, so a form without it no
    longer overflows; its result is rounded once.

    Left alone: sums over more than one axis, sums plus an epsilon, factors that
    differ between elements. mpc-assign-precision keeps those in f32.

    Example: test/Dialect/Mpc/Transforms/recognize-softmax.mlir
  }];
  let statistics = [
    Statistic<"numSoftmax", "softmax", "softmax ops made">,
    Statistic<"numLogSoftmax", "log-softmax", "log_softmax ops made">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def SinkDequantizationPass : Pass<"mpc-sink-dequantization", "::mlir::func::FuncOp"> {
  let summary = "Move and compare int8 values before dequantization";
  let description = [{
    ```mlir
    %0 = mpc.mul %centred, %scale      // f32 of (ui8 - 3)
    %1 = mpc.max_pool %0
    %2 = mpc.div %1, %scale            // rounded, plus 3, as ui8
    ```
    becomes `mpc.max_pool` of the int8 values; likewise for reshapes and transposes.
    A dequantize-quantize pair with the same scale and zero point is removed.

    Contract in: mpc ops, static shapes; before
    mpc-recognize-quantized-matmuls. Contract out: the same.

    Numerics: unchanged. PerTensorDequantization is monotone, and multiplying and dividing an
    int8 value by the same scale rounds back to it.

    Left alone: pools with windows that cover only padding, scales per channel.

    Example: test/Dialect/Mpc/Transforms/sink-dequantization.mlir
  }];
  let statistics = [
    Statistic<"numSunk", "sunk", "ops that now read int8">,
    Statistic<"numDropped", "dropped", "dequantize-quantize pairs removed">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def SplitAttentionPass : Pass<"mpc-split-attention", "::mlir::func::FuncOp"> {
  let summary = "Split batched decode attention by KV cache";
  let description = [{
    ```mlir
    %k = mpc.concat %k0, %k1 axis(0)
    %v = mpc.concat %v0, %v1 axis(0)
    %0 = mpc.attention %q, %k, %v mask(%mask)
    ```
    becomes
    ```mlir
    %0 = mpc.attention %q_0, %k0, %v0 mask(%mask_0)
    %1 = mpc.attention %q_1, %k1, %v1 mask(%mask_1)
    %2 = mpc.concat %0, %1 axis(0)
    ```
    where `%q_0` and `%mask_0` are slices of the first batch entry. Separate caches
    are read in place; concatenating would copy them.

    Contract in: mpc ops, static shapes, attention recognized. Contract out: the
    same.

    Numerics: unchanged. Attention does not mix batch entries.

    Left alone: attention whose keys or values are not concatenated per entry of the
    first dimension, or whose first dimension is the heads'.

    Example: test/Dialect/Mpc/Transforms/split-attention.mlir
  }];
  let statistics = [
    Statistic<"numSplit", "split", "attention ops that became one per sequence">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_SIMPLIFYPASSES
