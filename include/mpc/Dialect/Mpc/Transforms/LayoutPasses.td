//===- LayoutPasses.td - passes of the Layout stage --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_LAYOUTPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_LAYOUTPASSES

include "mlir/Pass/PassBase.td"

def AssignLayoutPass : Pass<"mpc-assign-layout", "::mlir::func::FuncOp"> {
  let summary = "Convert images to channels-last (NHWC) and cancel transposes";
  let description = [{
    Converts convolutions and pools to `layout(channels_last)` between two
    transposes; transposes then sink through elementwise ops, reductions, concats,
    pads, slices and reshapes until they cancel, reach an op that needs the order,
    or reach the function's end.

    ```mlir
    %0 = mpc.conv %x, %w ... : (tensor<1x3x8x8xf32>, ...) -> tensor<1x4x8x8xf32>
    %1 = mpc.relu %0
    // becomes
    %t = mpc.transpose %x [0, 2, 3, 1]
    %0 = mpc.conv %t, %w ... layout(channels_last) : ... -> tensor<1x8x8x4xf32>
    %1 = mpc.relu %0
    %2 = mpc.transpose %1 [0, 3, 1, 2]
    ```

    Contract in: static shapes, after mpc-decompose. Contract out: every conv and
    pool is channels_last; constants are transposed at compile time; a transpose
    that moves only extents of 1 is a reshape; no matmul reads a transpose of its
    right-hand side's last two dimensions; no transpose is the only reader of a
    matmul with exactly one transposed operand (a weight gradient).
    Numerics: unchanged.
    Left alone: filters, which mpc-pack-constants lays out; ops with fixed axes
    (softmax and norms).
    Executed example: test/Dialect/Mpc/Transforms/assign-layout.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numConverted", "ops-channels-last", "ops that became channels last">,
    Statistic<"numTransposes", "transposes-left", "transposes left in the function">,
  ];
}

def DecomposePass : Pass<"mpc-decompose", "::mlir::func::FuncOp"> {
  let summary = "Decompose composite ops without a kernel of their own";
  let description = [{
    - `batch_norm`: multiply and add per channel.
    - `group_norm`, `instance_norm`: reshape, `layer_norm`, multiply and add.
    - `conv_transpose`: a matmul and depth-to-space if windows do not overlap, else
      one conv per output phase (position modulo stride) with the filter taps of
      that phase.
    - `lstm`, `gru`, `rnn`: one matmul for the input of all steps, then one matmul
      and the cell's elementwise ops per step, up to `max-steps` steps.
    - `optimizer.*`, `learning_rate`, `loss_scale.update`: elementwise ops per
      tensor and float64 scalars, shared by all tensors after CSE.
    - Losses: log_softmax or elementwise terms, then reductions to a scalar.
    - `dropout`: `random_bits`, a comparison and a multiplication.
    - `batch_norm_training`: means per channel, multiply and add.
    - `attention_gradient`: recomputed probabilities, then four matmuls.
    - `norm_gradient`: recomputed normalized rows, then means over them.
    - `batch_norm_gradient`: two sums per channel, then elementwise ops; reuses the
      statistics of the forward norm if present in the function.
    - `stop_gradient` is erased, `gradient_seed` becomes 1.

    Contract in: static shapes, precision assigned. Contract out: none of these ops
    is left, except longer recurrent ops and those that `keep` names.
    Numerics: 16-bit norms compute in f32 and round once at the end; recurrent ops
    hold their states in the result's type and round them to the operands' type for
    each matmul. batch_norm multiplies by `scale / sqrt(variance + epsilon)`, which
    differs from the formula by at most a few ulps. Optimizers and loss scales round
    exactly as described.
    Executed examples: test/Dialect/Mpc/Transforms/decompose.mlir,
    decompose-update.mlir and decompose-training.mlir.
  }];
  let options = [
    Option<"maxSteps", "max-steps", "int64_t", /*default=*/"1024",
           "longest sequence of a recurrent op that is unrolled, in steps; from 1 on">,
    ListOption<"keep", "keep", "std::string",
               "ops to keep, named without mpc.: the target has kernels for them">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numDecomposed", "ops-decomposed", "composites decomposed">,
  ];
}

def MergeContractionsPass : Pass<"mpc-merge-contractions", "::mlir::func::FuncOp"> {
  let summary = "Merge matmuls that share their left-hand side (QKV merging)";
  let description = [{
    Matmuls with a common left-hand side and constant matrices become one matmul
    with concatenated matrices if their results are only moved afterwards (query,
    key and value). Elementwise ops common to all of them (biases, casts) follow the
    merged matmul; slices return the parts. Branches without a constant bias get one
    of zeros if others have one; if only some are cast before they move, each reader
    casts its slice.

    ```mlir
    %q = mpc.matmul %x, %wq ...
    %k = mpc.matmul %x, %wk ...
    // becomes
    %qk = mpc.matmul %x, %wqk ...
    %q = mpc.slice %qk [0, 0] [32, 64]
    %k = mpc.slice %qk [0, 64] [32, 64]
    ```

    With `parameters` matmuls with parameters of a training step are merged as well,
    by `concat`, before mpc-differentiate: the gradients of the group are then one
    matmul each.

    Contract in: weights are constants (or parameters) of rank 2 and not packed.
    Contract out: the left-hand side is read once per group; slices are along the
    last dimension.
    Numerics: columns are computed as before; a zero bias turns -0 into 0.
    Left alone: results combined by elementwise ops (gated layers), which
    mpc-fuse-gated-matmuls handles.
    Executed example: test/Dialect/Mpc/Transforms/merge-contractions.mlir.
  }];
  let options = [
    Option<"parameters", "parameters", "bool", /*default=*/"false",
           "merge matmuls with parameters of a training step instead of constants">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numMerged", "matmuls-merged", "matmuls that became part of another">,
  ];
}

def CompressMatricesPass : Pass<"mpc-compress-matrices", "::mlir::func::FuncOp"> {
  let summary = "Compress constant GEMM operands losslessly where that saves time";
  let description = [{
    On targets whose GEMMs dequantize matrices (`dequantizesMatrices`) stores the
    constant right-hand side like mpc-compress-panels stores panels, one row per
    column; the reader's kernel fuses an `mpc.dequantize` of rank 2, read
    transposed.

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<1x64xbf16>, tensor<64x32xbf16>) -> tensor<1x32xf32>
    // becomes, where each column is a multiple of 15 steps or less
    %w = mpc.dequantize %q nibbles scale(%s : tensor<32x1xbf16>) common_zero(8) : tensor<32x32xui8> to tensor<32x64xbf16>
    %0 = mpc.matmul %x, %w transpose_rhs : (tensor<1x64xbf16>, tensor<32x64xbf16>) -> tensor<1x32xf32>
    ```

    Contract in: after mpc-assign-layout. Contract out: the same values.
    Numerics: unchanged; only lossless formats are used.
    Left alone: compute-bound GEMMs with many rows (`isDequantizedGemmFaster`), constants of
    less than 64 KB, batched matrices, convolutions, f64 accumulators.
    Executed example: test/Dialect/Mpc/Transforms/compress-matrices.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target to store for; empty: that of the module">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numNarrowed", "constants-narrowed", "constants stored in a smaller type">,
    Statistic<"bytesSaved", "bytes-saved", "bytes saved">,
  ];
}

def CompressPanelsPass : Pass<"mpc-compress-panels", "::mlir::func::FuncOp"> {
  let summary = "Compress packed constants losslessly to their smallest format";
  let description = [{
    Stores packed f32 constants whose values are exact in bf16 or f16, or as a scale
    times 16-, 8- or 4-bit integers, in that format; an `mpc.dequantize` per reader
    restores the f32 values in registers of the reader's kernel. Scales are per
    column, or per group of 128, 64, 32 or 16 k indices. With `int8-depth=4` four k
    indices are adjacent if groups are multiples of 16 and at most four rows are
    multiplied, by an int8 dot-product unit; bf16 and f16 constants in any layout are
    then stored as int8 too. So are bf16 constants in the steps of a dot-product unit
    for 64 rows or more, whose kernels dequantize panels, and constants with one k
    index per step, which kernels upcast to f32.

    ```mlir
    %0 = mpc.matmul %x, %p packed <columns = 32> : (tensor<1x64xf32>, tensor<1x64x32xf32>) -> tensor<1x32xf32>
    // becomes, where each column is a multiple of 15 steps or less
    %w = mpc.dequantize %q nibbles scale(%s : tensor<1x1x32xbf16>) common_zero(8) : tensor<1x32x32xui8> to tensor<1x64x32xf32>
    %0 = mpc.matmul %x, %w packed <columns = 32> : (tensor<1x64xf32>, tensor<1x64x32xf32>) -> tensor<1x32xf32>
    ```

    Contract in: after mpc-pack-constants. Contract out: the same values.
    Numerics: unchanged; only lossless formats are used.
    Left alone if `most-rows` is given: GEMMs with more rows, which reuse a weight
    too often for dequantization to pay off, unless they have at most
    `most-byte-rows` and weights take 8 bits or less; constants of less than 64 KB,
    which stay in cache; and convolutions. Always left alone: GEMMs in bf16x2/bf16x3 split
    mode; scales per group of convolutions.
    Executed example: test/Dialect/Mpc/Transforms/compress-panels.mlir.
  }];
  let options = [
    Option<"mostRows", "most-rows", "int64_t", /*default=*/"0",
           "rows of the left-hand side up to which large constants are compressed; 0: no limit">,
    Option<"mostByteRows", "most-byte-rows", "int64_t", /*default=*/"0",
           "the same for constants that take 8 bits per element or less, if larger">,
    Option<"int8Depth", "int8-depth", "int64_t", /*default=*/"1",
           "positions along K that the target's unit for unsigned by signed "
           "8-bit integers multiplies at once; 1: it has none, or 4">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numNarrowed", "constants-narrowed", "constants stored in a smaller type">,
    Statistic<"bytesSaved", "bytes-saved", "bytes saved">,
  ];
}

def CompressTablesPass : Pass<"mpc-compress-tables", "::mlir::func::FuncOp"> {
  let summary = "Compress constant embedding tables losslessly";
  let description = [{
    Stores a constant matrix of which `mpc.gather` takes rows like mpc-compress-panels
    stores panels, one row of the table per row; the reader's kernel fuses the
    `mpc.dequantize` and restores the values of the rows that it takes.

    ```mlir
    %0 = mpc.gather %table, %ids axis(0) : (tensor<512x64xf32>, tensor<3xi64>) -> tensor<3x64xf32>
    // becomes, where each group of 32 columns is a multiple of 255 steps or less
    %t = mpc.dequantize %q scale(%s : tensor<512x2xf16>) : tensor<512x64xi8> to tensor<512x64xf32>
    %0 = mpc.gather %t, %ids axis(0) : (tensor<512x64xf32>, tensor<3xi64>) -> tensor<3x64xf32>
    ```

    Contract in: after mpc-pack-constants. Contract out: the same values.
    Numerics: unchanged; only lossless formats are used.
    Left alone: tables with other readers, and those of less than 64 KB.
    Executed example: test/Dialect/Mpc/Transforms/compress-tables.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numNarrowed", "constants-narrowed", "constants stored in a smaller type">,
    Statistic<"bytesSaved", "bytes-saved", "bytes saved">,
  ];
}

def PackConstantsPass : Pass<"mpc-pack-constants", "::mlir::func::FuncOp"> {
  let summary = "Prepack constant weights into micro-kernel panels";
  let description = [{
    Packs constant right-hand sides of matmuls and constant filters of convs into
    panels of `columns` columns (`#mpc.packed`); 16-bit types interleave two columns
    half a panel apart, or, with `bf16-depth=2` and `f16-depth=2`, two k indices for
    a dot-product unit. 8-bit integers are packed if both operands are: two k
    indices, or `int8-depth` for unsigned by signed operands and `other-int8-depth`
    for others.

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<32x784xf32>, tensor<784x10xf32>) -> tensor<32x10xf32>
    // becomes, with columns=32
    %0 = mpc.matmul %x, %p packed <columns = 32> : (tensor<32x784xf32>, tensor<1x784x32xf32>) -> tensor<32x10xf32>
    ```

    Contract in: after mpc-assign-layout. Contract out: every constant right-hand
    side of a matmul that is one matrix, and every constant filter of an ungrouped
    channels_last conv, is packed.
    Numerics: unchanged. A constant that several ops read alike is packed once.
    Left alone: batches of constant matrices; filters of grouped convs with fewer
    than half a panel of channels per group; channels_first convs.
    Executed example: test/Dialect/Mpc/Transforms/pack-constants.mlir.
  }];
  let options = [
    Option<"columns", "columns", "int64_t", /*default=*/"32",
           "columns of a panel; an even number from 2 to 1024">,
    Option<"bf16Depth", "bf16-depth", "int64_t", /*default=*/"1",
           "positions along K that the target's unit for bf16 multiplies at "
           "once; 1: it has none, 2 or 4">,
    Option<"int8Depth", "int8-depth", "int64_t", /*default=*/"2",
           "the same of unsigned by signed 8-bit integers; 2 or 4">,
    Option<"otherInt8Depth", "other-int8-depth", "int64_t", /*default=*/"2",
           "the same of 8-bit integers of other signs; 2 or 4">,
    Option<"f16Depth", "f16-depth", "int64_t", /*default=*/"1",
           "the same of f16; 1: the target has no unit for it, or 2">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numPacked", "constants-packed", "constants stored in panels">,
    Statistic<"bytesAdded", "padding-bytes", "bytes that padding adds">,
  ];
}

def FuseGatedMatmulsPass : Pass<"mpc-fuse-gated-matmuls", "::mlir::func::FuncOp"> {
  let summary = "Fuse the two halves of a gated layer (SwiGLU) into one GEMM";
  let description = [{
    Two matmuls with a common left-hand side and constants of one shape, or the two
    column halves of one matmul, whose results are combined by elementwise ops, as
    in `silu(x @ gate) * (x @ up)`, become one matmul. Its columns alternate in
    blocks of `block` columns of one half and the other; the halves are sliced from
    it as `[..., n, 2, block]`.

    ```mlir
    %g = mpc.matmul %x, %gate ... -> tensor<64x256xf32>
    %u = mpc.matmul %x, %up ... -> tensor<64x256xf32>
    // becomes, with block=16
    %p = mpc.matmul %x, %pairs ... -> tensor<64x512xf32>
    %b = mpc.reshape %p : tensor<64x512xf32> to tensor<64x16x2x16xf32>
    %0 = mpc.slice %b [0, 0, 0, 0] [64, 16, 1, 16] ...
    %g = mpc.reshape %0 : ... to tensor<64x256xf32>
    %1 = mpc.slice %b [0, 0, 1, 0] [64, 16, 1, 16] ...
    %u = mpc.reshape %1 : ... to tensor<64x256xf32>
    ```

    mpc-select-fusion-groups treats the matmul and its halves as one anchor
    (Analysis/GatedMatmulColumns.h), so that the epilogue combines both accumulators of
    an element and only its result is stored. Columns are interleaved instead of
    passing two right-hand sides to the kernel, because tiles, pipelines, units and
    schedules are then those of any GEMM: only the path from the accumulator tile to
    the epilogue reads two locations. A block is half a panel on a CPU and a vector of
    16-bit results on a GPU, so that each tile holds both halves of its pairs.

    Contract in: after mpc-assign-layout, before mpc-pack-constants. Contract out:
    only the slices read a merged matmul.
    Numerics: unchanged: every column is computed as before.
    Left alone: matmuls of which one result has other readers than elementwise ops
    of its shape and constants, such as the backward pass or a later layer; weights
    that are not constants or have other readers, which would be duplicated; types
    other than f32 and 16-bit floats; halves that are not whole blocks.
    Executed example: test/Dialect/Mpc/Transforms/fuse-gated-matmuls.mlir.
  }];
  let options = [
    Option<"block", "block", "int64_t", /*default=*/"16",
           "adjacent columns of one half; from 1 to 512">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numPaired", "pairs-joined", "pairs of matmuls fused into one">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_LAYOUTPASSES
