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
    The bias may be absent. Convolutions, transposed convolutions and matmuls of
    rank 2 with a constant right-hand side take part.

    Contract in: mpc ops, static shapes; run mpc-fold-constants first. Contract
    out: the same.

    Numerics: the factor scale / sqrt(variance + epsilon) multiplies the filter
    instead of the result; filter and bias are computed in f64 and rounded once.

    Left alone: f16 and bf16 (the second rounding of a narrow filter would show),
    contractions that have other readers, statistics that are no constants.

    Example: test/Dialect/Mpc/Transforms/fold-batch-norm.mlir
  }];
  let statistics = [
    Statistic<"numFolded", "folded", "batch norms folded">,
    Statistic<"numKept", "kept", "batch norms left in the graph">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def FoldConstantsPass : Pass<"mpc-fold-constants", "::mlir::func::FuncOp"> {
  let summary = "Evaluate ops whose operands are all constants";
  let description = [{
    ```mlir
    %w = mpc.constant dense_resource<w> : tensor<512x784xf32>
    %0 = mpc.transpose %w [1, 0] : tensor<512x784xf32> to tensor<784x512xf32>
    ```
    becomes one constant of type `tensor<784x512xf32>`. Constants that nothing
    reads any more are dropped.

    Contract in: mpc ops, static shapes. Contract out: no op within the bounds has
    only constant operands.

    Numerics: each op is evaluated in f64 by the reference interpreter and its
    results are rounded once to their types, so a folded op is at least as exact
    as an executed one. A cast rounds as at run time, pinned casts included.

    Left alone: results of more than `max-bytes` that are larger than the op's own
    operands together, and ops of more than `max-flops`.

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
  let summary = "Collect matmul, scale, mask, softmax and matmul into attention";
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
    The scale may stand on the scores, on query and key, or be absent; the mask may
    be added, or selected with a fill value; what is added to the scores one after
    another, as biases of positions and masks are, is added up first. A key that was transposed is taken
    before its transposition; otherwise a transpose is inserted. Heads of keys and
    values that are repeated for groups of the query's (broadcast, or joined with
    themselves), or are one for all, are read as they were before.

    Contract in: mpc ops, static shapes, softmax recognised; run mpc-fold-constants
    first, so that masks are constants where they can be. Contract out: the same.

    Numerics: the scale multiplies the scores instead of the operands; several
    biases are rounded where they meet each other instead of the scores. A selected
    fill of -1.0e4 or less becomes a boolean mask where every row of a constant
    condition keeps a position, or where the model replaces the NaN of empty rows
    by zero; a fill of -1.0e30 or less becomes an added mask otherwise. Scores are
    assumed to lie far above the fill.

    Left alone: attention whose scores or probabilities have other readers, masks
    that would change what an empty row gives, batch dimensions that broadcast,
    operands of rank 2.

    Example: test/Dialect/Mpc/Transforms/recognize-attention.mlir
  }];
  let statistics = [Statistic<"numRecognized", "recognized", "attention ops made">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeGeluPass : Pass<"mpc-recognize-gelu", "::mlir::func::FuncOp"> {
  let summary = "Collect the products of gelu into one op";
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

    Numerics: the constants are taken as exact where they agree with the formula's
    to four units in the last place of the element type.

    Left alone: forms with other constants (x * sigmoid(1.702 * x)), products that
    something else reads.

    Example: test/Dialect/Mpc/Transforms/recognize-gelu.mlir
  }];
  let statistics = [Statistic<"numRecognized", "recognized", "gelu ops made">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeIntegerProductsPass : Pass<"mpc-recognize-integer-products", "::mlir::func::FuncOp"> {
  let summary = "Multiply dequantised 8-bit integers as integers";
  let description = [{
    ```mlir
    %0 = mpc.mul %centredX, %scaleX   // f32 of (ui8 - 128), a number
    %1 = mpc.mul %centredW, %scaleW   // f32 of i8, a number per column
    %2 = mpc.matmul %0, %1
    ```
    becomes the product of the integers, less what the zero points put into it,
    times one factor per column:
    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<4x64xui8>, tensor<64x10xi8>) -> tensor<4x10xi32>
    %1 = mpc.sub %0, %zeroTimesColumnSums
    %2 = mpc.cast %1 : tensor<4x10xi32> -> tensor<4x10xf32>
    %3 = mpc.mul %2, %scales
    ```
    The same of convs, whose padding then reads the zero point, or zero where that
    is computed; a filter's zero point asks for sums of windows. In every integer
    product signed left sides and unsigned right sides move by 128, with their
    zero points: units multiply unsigned by signed numbers.

    Contract in: mpc ops, static shapes; before constants are folded, which makes
    dequantised weights floats. Contract out: the same.

    Numerics: sums are exact, where f32 rounds each; the factor is the product of
    both scales, rounded once.

    Left alone: products of more positions than an i32 sum surely holds; scales
    and zero points that are no constants, or vary along the contracted
    dimension; depthwise convs, and groups of filters with a zero point.

    Example: test/Dialect/Mpc/Transforms/recognize-integer-products.mlir
  }];
  let statistics = [Statistic<"numRecognized", "recognized", "integer products made">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeLayerNormPass : Pass<"mpc-recognize-layer-norm", "::mlir::func::FuncOp"> {
  let summary = "Collect the steps of layer and rms norm into one op";
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

    Numerics: the composite rounds its result once; mean and variance are the same
    two-pass formula.

    Left alone: norms over axes that are not the last ones, variances computed as
    E[x^2] - E[x]^2, an epsilon outside the root.

    Example: test/Dialect/Mpc/Transforms/recognize-layer-norm.mlir
  }];
  let statistics = [
    Statistic<"numLayerNorm", "layer-norm", "layer_norm ops made">,
    Statistic<"numRmsNorm", "rms-norm", "rms_norm ops made">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeRoutingPass : Pass<"mpc-recognize-routing", "::mlir::func::FuncOp"> {
  let summary = "Choose the largest numbers of rows by masks in place of scatters";
  let description = [{
    ```mlir
    %values, %indices = mpc.top_k %p k(2) axis(1)
    %sum = mpc.reduce_sum %values axes([1]) keep_dims
    %0 = mpc.div %values, %sum
    %1 = mpc.scatter_elements %zeros, %indices, %0 axis(1)
    ```
    becomes, as the routing of experts has it,
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
    which one kernel of rows computes, the softmax before it included. Between the two
    may stand sums over the choices, any elementwise ops of these, and ops that are
    linear in the choices.

    Contract in: mpc ops, static shapes. Contract out: the same.

    Numerics: the same numbers; a sum over the choices has zeros between them and adds
    them in the order of their places.

    Left alone: more than four choices, numbers that may be below zero (what is chosen
    is marked by -1), choices or their positions that something else reads, other
    functions of a choice (their derivative at what was not picked may be infinite),
    rows that one kernel would not keep.

    Example: test/Dialect/Mpc/Transforms/recognize-routing.mlir
  }];
  let statistics = [Statistic<"numRecognized", "recognized", "scatters replaced">];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RecognizeSoftmaxPass : Pass<"mpc-recognize-softmax", "::mlir::func::FuncOp"> {
  let summary = "Collect the steps of softmax and log_softmax into one op";
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
    Numbers that scale the exponentials or their sum cancel, or scale the softmax.
    `x - max - log(sum(exp(x - max)))`
    and `log(softmax(x))` become `mpc.log_softmax`.

    Contract in: mpc ops, static shapes. Contract out: the same.

    Numerics: the composite subtracts the maximum first, so a form without it no
    longer overflows; its result is rounded once.

    Left alone: sums over more than one axis, sums beside an epsilon, factors that
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
  let summary = "Move and compare bytes before they are dequantised";
  let description = [{
    ```mlir
    %0 = mpc.mul %centred, %scale      // f32 of (ui8 - 3)
    %1 = mpc.max_pool %0
    %2 = mpc.div %1, %scale            // rounded, plus 3, as ui8
    ```
    becomes `mpc.max_pool` of the bytes; the same of reshapes and transposes.
    Conversions to float and back with the same scale and zero point are none.

    Contract in: mpc ops, static shapes; before
    mpc-recognize-integer-products. Contract out: the same.

    Numerics: unchanged. Dequantisation rises with the bytes, and a byte times a
    number over that number rounds to the byte.

    Left alone: pools with windows in the padding alone, scales per channel.

    Example: test/Dialect/Mpc/Transforms/sink-dequantization.mlir
  }];
  let statistics = [
    Statistic<"numSunk", "sunk", "ops that take bytes now">,
    Statistic<"numDropped", "dropped", "conversions there and back">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def SplitAttentionPass : Pass<"mpc-split-attention", "::mlir::func::FuncOp"> {
  let summary = "Let each sequence of a batch attend to its own cache";
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
    where `%q_0` and `%mask_0` are slices of the first entry of the batch. Keys and
    values that lie apart are read where they are; to join them would copy them.

    Contract in: mpc ops, static shapes, attention recognised. Contract out: the
    same.

    Numerics: unchanged. Sequences of a batch do not meet in attention.

    Left alone: attention of which keys or values are not joined of one part per
    entry of the first dimension, or where that is the heads'.

    Example: test/Dialect/Mpc/Transforms/split-attention.mlir
  }];
  let statistics = [
    Statistic<"numSplit", "split", "attention ops that became one per sequence">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_SIMPLIFYPASSES
