//===- PadPasses.td - passes of the Pad stage --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_PADPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_PADPASSES

include "mlir/Pass/PassBase.td"

def PadContractionsPass : Pass<"mpc-pad-contractions", "::mlir::func::FuncOp"> {
  let summary = "Pad contractions to the tile sizes of matrix units";
  let description = [{
    Zero-pads M, N, K and channels of matmul, attention, conv and their gradients to
    the target's multiple (8 for 16-bit types on a GPU, 4 for tf32). Ops between
    contractions compute in the padded extents, so that a chain is padded once and
    sliced once; constants are padded at compile time. Recurrent ops are unrolled
    first if the target has units for their type.

    ```mlir
    %0 = mpc.matmul %x, %w : (tensor<16x100xbf16>, tensor<100x50xbf16>) -> tensor<16x50xf32>
    %1 = mpc.add %0, %b : (tensor<16x50xf32>, tensor<50xf32>) -> tensor<16x50xf32>
    ```
    becomes, for cuda:sm_80,
    ```mlir
    %p = mpc.pad %x, %zero low(0, 0) high(0, 4) ...
    %0 = mpc.matmul %p, %wp : (tensor<16x104xbf16>, tensor<104x56xbf16>) -> tensor<16x56xf32>
    %1 = mpc.add %0, %bp : (tensor<16x56xf32>, tensor<56xf32>) -> tensor<16x56xf32>
    %2 = mpc.slice %1 [0, 0] [16, 50] ...
    ```
    Contract in: static shapes, precision assigned, weights not packed. Contract
    out: the function's signature is unchanged; a contraction with changed extents
    carries `#mpc.padding`; a dimension is padded in all of its values or in none.

    Numerics: padding M and N changes no bit; padding K adds products with zero, so
    that results stay within the error bound of the contraction's length. Padding
    elements pass only through ops with a finite f(0) and reach no reduction,
    maximum, softmax or norm: they are sliced off, masked, or masked out of
    attention before. An infinite or NaN element still affects only its own row.

    Left alone: contractions that the target's cost model predicts slower padded;
    grouped convs; spatial extents; a matmul of one row; every contraction of a CPU
    target, whose edge kernels mask.
    Example: test/Dialect/Mpc/Transforms/pad-contractions.mlir
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_80">,
  ];
  let statistics = [
    Statistic<"numPadded", "contractions-padded", "contractions whose extents changed">,
    Statistic<"numPads", "pads", "run-time values padded">,
    Statistic<"numSlices", "slices", "slices inserted">,
    Statistic<"numMasks", "masks", "values masked before a contraction">,
    Statistic<"numRefused", "dimensions-refused", "dimensions not padded by decision of the cost model">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def SplitRecurrentPass : Pass<"mpc-split-recurrent", "::mlir::func::FuncOp"> {
  let summary = "Split recurrent layers into an input GEMM and a recurrence";
  let description = [{
    `lstm`, `gru` and `rnn` become one GEMM of the input of all steps with the
    weights of all directions, plus the input's bias, and a `recurrence` computed by
    one kernel, if the target has such kernels (KernelCapabilities::hasPersistentRecurrence), the layer
    fits (PersistentRnnPlan), and that is faster than a GEMM and a cell per step.
    Others are left to mpc-decompose. A `recurrence_training` or
    `recurrence_gradient` from mpc-differentiate is kept under the same conditions,
    else unrolled.

    ```mlir
    %0:2 = mpc.gru %x, %w, %r bias(%b) linear_before_reset : ...
    // becomes
    %p = mpc.matmul %x, %w1 transpose_rhs : ...
    %q = mpc.add %p, %b1 : ...
    %0:2 = mpc.recurrence linear_gru %q, %r bias(%b2) : ...
    ```

    Contract in: static shapes, precision assigned. Contract out: the same; before
    mpc-pad-contractions, which pads the GEMM.
    Numerics: those of the ops that mpc-decompose emits, in the same order.
    Executed example: test/Dialect/Mpc/Transforms/split-recurrent.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_80">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numSplit", "layers-split", "recurrent layers split">,
    Statistic<"numRefused", "layers-refused", "recurrent layers not split: no kernel fits, or it is not faster">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_PADPASSES
