//===- LayoutPasses.td - passes of the Layout stage --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_LAYOUTPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_LAYOUTPASSES

include "mlir/Pass/PassBase.td"

def AssignLayoutPass : Pass<"mpc-assign-layout", "::mlir::func::FuncOp"> {
  let summary = "Put images channels last and remove the transposes between them";
  let description = [{
    Convolutions and pools become `layout(channels_last)` between two transposes;
    transposes then sink through elementwise ops, reductions, concats, pads, slices
    and reshapes until they cancel, meet an op that needs the order, or reach the
    function's end.

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
    that moves only extents of 1 is a reshape; a matmul never multiplies with a
    transpose of its right-hand side's last two dimensions, and no transpose is all
    that reads a product of which one matrix lies across, a weight's gradient.
    Numerics: unchanged; values only move.
    Left alone: filters, whose order mpc-pack-constants decides; ops over axes that
    cannot be renamed (softmax and norms stay where they are).
    Executed example: test/Dialect/Mpc/Transforms/assign-layout.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numConverted", "ops-channels-last", "ops that became channels last">,
    Statistic<"numTransposes", "transposes-left", "transposes left in the function">,
  ];
}

def DecomposePass : Pass<"mpc-decompose", "::mlir::func::FuncOp"> {
  let summary = "Take apart the composites that have no kernel of their own";
  let description = [{
    - `batch_norm`: a product and a sum per channel.
    - `group_norm`, `instance_norm`: reshape, `layer_norm`, a product and a sum.
    - `conv_transpose`: where windows do not overlap a matmul whose result is
      rearranged, else a conv for each remainder of the result's positions by
      the strides (a phase), with the filter positions that meet the input there.
    - `lstm`, `gru`, `rnn`: one matmul for the input of all steps, then one matmul
      and the cell's elementwise ops per step, up to `max-steps` steps.
    - `optimizer.*`, `learning_rate`, `loss_scale.update`: elementwise ops per
      tensor and float64 scalars, which are one for all tensors after CSE.
    - Losses: log_softmax or elementwise terms, then reductions to a scalar.
    - `dropout`: `random_bits`, a comparison and a product.
    - `batch_norm_training`: means per channel, a product and a sum.
    - `attention_gradient`: the probabilities anew, then four products.
    - `norm_gradient`: the rows normalised anew, then means over them.
    - `batch_norm_gradient`: two sums per channel, then elementwise ops; the batch's
      statistics are those of the forward norm where that is in the function.
    - `stop_gradient` goes, `gradient_seed` becomes 1.

    Contract in: static shapes, precision assigned. Contract out: none of these ops
    is left, apart from recurrent ones of more steps and those that `keep` names.
    Numerics: 16-bit norms compute in f32 and round once at the end; recurrent ops
    keep their states in the result's type and round them to the operands' type
    where the next product reads them. batch_norm multiplies by
    `scale / sqrt(variance + epsilon)`, which rounds in another place than the
    formula does, by at most a few units in the last place. Optimizers and loss
    scales round where their descriptions say, to the bit.
    Executed examples: test/Dialect/Mpc/Transforms/decompose.mlir,
    decompose-update.mlir and decompose-training.mlir.
  }];
  let options = [
    Option<"maxSteps", "max-steps", "int64_t", /*default=*/"1024",
           "longest sequence of a recurrent op that is unrolled, in steps; from 1 on">,
    ListOption<"keep", "keep", "std::string",
               "names of ops, without mpc., that stay: the target has kernels for them">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numDecomposed", "ops-decomposed", "composites taken apart">,
  ];
}

def MergeContractionsPass : Pass<"mpc-merge-contractions", "::mlir::func::FuncOp"> {
  let summary = "Multiply one left-hand side with several weights at once";
  let description = [{
    Matmuls of one left-hand side with constant matrices become one matmul with
    the matrices side by side, where their results only move afterwards, as query,
    key and value do. Elementwise ops that all of them have in common (a bias each,
    a cast) follow the joint product; slices hand out the parts. Where only some have
    a constant bias, the others get one of zeros; where only some are cast before they
    move, each reader casts its slice.

    ```mlir
    %q = mpc.matmul %x, %wq ...
    %k = mpc.matmul %x, %wk ...
    // becomes
    %qk = mpc.matmul %x, %wqk ...
    %q = mpc.slice %qk [0, 0] [32, 64]
    %k = mpc.slice %qk [0, 64] [32, 64]
    ```

    With `parameters` so do matmuls with parameters of a training step, which
    `concat` puts side by side. That comes before mpc-differentiate: the gradients
    of the group are then one product each as well.

    Contract in: weights are constants (or parameters) of rank 2 and not packed.
    Contract out: the left-hand side is read once per group; slices are along the
    last dimension. Numerics: every column is computed as before; a zero bias makes
    -0 a 0.
    Left alone: results that meet each other in elementwise ops, as in gated
    layers, which are mpc-pair-contractions'.
    Executed example: test/Dialect/Mpc/Transforms/merge-contractions.mlir.
  }];
  let options = [
    Option<"parameters", "parameters", "bool", /*default=*/"false",
           "join products with parameters of a training step in place of constants">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numMerged", "matmuls-merged", "matmuls that became part of another">,
  ];
}

def NarrowMatricesPass : Pass<"mpc-narrow-matrices", "::mlir::func::FuncOp"> {
  let summary = "Store constant matrices of products narrow where that saves time";
  let description = [{
    On targets whose products unpack matrices (`unpacksMatrices`) the constant
    right-hand side of a product is stored as mpc-narrow-panels stores panels, each
    column a line: the reader's kernel gets an `mpc.dequantize` of rank 2, read
    transposed.

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<1x64xbf16>, tensor<64x32xbf16>) -> tensor<1x32xf32>
    // becomes, where each column is a multiple of 15 steps or less
    %w = mpc.dequantize %q nibbles scale(%s : tensor<32x1xbf16>) common_zero(8) : tensor<32x32xui8> to tensor<32x64xbf16>
    %0 = mpc.matmul %x, %w transpose_rhs : (tensor<1x64xbf16>, tensor<32x64xbf16>) -> tensor<1x32xf32>
    ```

    Contract in: after mpc-assign-layout. Contract out: the same values.
    Numerics: unchanged; a form is taken where it gives back every value bit by bit.
    Left alone: products of so many rows that multiplying takes longer than reading
    (`paysToUnpack`), constants of less than 64 KB, batches of matrices, convolutions,
    sums in f64.
    Executed example: test/Dialect/Mpc/Transforms/narrow-matrices.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target to store for; empty: that of the module">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numNarrowed", "constants-narrowed", "constants stored narrower">,
    Statistic<"bytesSaved", "bytes-saved", "bytes that they take less">,
  ];
}

def NarrowPanelsPass : Pass<"mpc-narrow-panels", "::mlir::func::FuncOp"> {
  let summary = "Store packed constants in the narrowest form that holds them";
  let description = [{
    Packed f32 constants whose values are bf16 or f16 numbers, or products of a scale
    and integers of 16, 8 or 4 bits, are stored as these; an `mpc.dequantize` for each
    reader gives the f32 numbers back, which the reader's kernel does in registers.
    Scales are for all positions of a column, or for groups of 128, 64, 32 or 16.
    With `int8-depth=4` four positions stand side by side where groups are multiples
    of 16 and up to four rows are multiplied; constants of bf16 and f16, in whatever
    layout, that meet so few rows are then stored as bytes too. So are those with
    one position in a step: no unit multiplies them, and kernels widen them to f32.

    ```mlir
    %0 = mpc.matmul %x, %p packed <columns = 32> : (tensor<1x64xf32>, tensor<1x64x32xf32>) -> tensor<1x32xf32>
    // becomes, where each column is a multiple of 15 steps or less
    %w = mpc.dequantize %q nibbles scale(%s : tensor<1x1x32xbf16>) common_zero(8) : tensor<1x32x32xui8> to tensor<1x64x32xf32>
    %0 = mpc.matmul %x, %w packed <columns = 32> : (tensor<1x64xf32>, tensor<1x64x32xf32>) -> tensor<1x32xf32>
    ```

    Contract in: after mpc-pack-constants. Contract out: the same values.
    Numerics: unchanged; a form is taken where it gives back every value bit by bit.
    Left alone, where `most-rows` is given: products of more rows, which multiply a
    weight more often than it pays to unpack it, constants of less than 64 KB, which
    stay in caches, and convolutions. In any case: products that split their factors
    into terms; scales per group of convolutions.
    Executed example: test/Dialect/Mpc/Transforms/narrow-panels.mlir.
  }];
  let options = [
    Option<"mostRows", "most-rows", "int64_t", /*default=*/"0",
           "rows of the left side up to which large constants are narrowed; "
           "0: all are">,
    Option<"int8Depth", "int8-depth", "int64_t", /*default=*/"1",
           "positions along K that the target's unit for unsigned by signed "
           "8-bit integers multiplies at once; 1: it has none, or 4">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numNarrowed", "constants-narrowed", "constants stored narrower">,
    Statistic<"bytesSaved", "bytes-saved", "bytes that they take less">,
  ];
}

def PackConstantsPass : Pass<"mpc-pack-constants", "::mlir::func::FuncOp"> {
  let summary = "Store constant weights in the tile layout of the micro-kernels";
  let description = [{
    Constant right-hand sides of matmuls and constant filters of convs go into
    panels of `columns` columns (`#mpc.packed`); 16-bit types interleave two
    columns half a panel apart, or, with `bf16-depth=2` and `f16-depth=2`, two
    positions along K, which a unit multiplies at once. 8-bit integers are packed
    where both operands are: two positions along K, or `int8-depth` of unsigned
    by signed ones and `other-int8-depth` of others.

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<32x784xf32>, tensor<784x10xf32>) -> tensor<32x10xf32>
    // becomes, with columns=32
    %0 = mpc.matmul %x, %p packed <columns = 32> : (tensor<32x784xf32>, tensor<1x784x32xf32>) -> tensor<32x10xf32>
    ```

    Contract in: after mpc-assign-layout. Contract out: no matmul has a constant
    right-hand side of one matrix that is not packed, no ungrouped channels_last
    conv a constant filter that is not.
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

def PairContractionsPass : Pass<"mpc-pair-contractions", "::mlir::func::FuncOp"> {
  let summary = "Multiply the two halves of a gated layer at once";
  let description = [{
    Two matmuls of one left-hand side with constants of one shape, or the two
    halves of one matmul's columns, whose results meet in elementwise ops, as in
    `silu(x @ gate) * (x @ up)`, become one matmul. Its columns come in blocks of
    `block`, of one half and of the other in turn; the halves are taken from it as
    `[..., n, 2, block]`.

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

    mpc-group-ops takes the product and its halves as one anchor
    (Analysis/PairedColumns.h), so that the epilogue computes with both sums of an
    element, and only what becomes of them is written. The columns are interleaved
    instead of a kernel having two right-hand sides, because then tiles, pipelines,
    units and schedules are those of any product: only the way from a tile of sums
    to the epilogue looks in two places. A block is half a panel on a CPU and a
    vector of 16-bit results on a GPU, so that each tile has both halves of its
    pairs.

    Contract in: after mpc-assign-layout, before mpc-pack-constants. Contract out:
    nothing but the slices reads a joint product. Numerics: unchanged: every column
    is computed as before.
    Left alone: products of which one result is read before both meet by anything
    but elementwise ops of its shape and constants, such as the backward pass or a
    later layer; weights that are no constants or have other readers, which would be
    kept twice; types apart from f32 and 16-bit floats; halves of no whole blocks.
    Executed example: test/Dialect/Mpc/Transforms/pair-contractions.mlir.
  }];
  let options = [
    Option<"block", "block", "int64_t", /*default=*/"16",
           "columns of one half that stand together; from 1 to 512">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numPaired", "pairs-joined", "pairs of products that became one">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_LAYOUTPASSES
