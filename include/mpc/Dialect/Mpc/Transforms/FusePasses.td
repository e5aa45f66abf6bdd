//===- FusePasses.td - passes of the Fuse stage --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES

include "mlir/Pass/PassBase.td"

def FormFusionsPass : Pass<"mpc-form-fusions", "::mlir::func::FuncOp"> {
  let summary = "Move each group of ops into a region that becomes a kernel";
  let description = [{
    What mpc-group-ops and mpc-join-kernels marked as one group becomes one
    `mpc.fusion`, named after the op that leads it. Fusions that compute the same of
    the same values become one.

    ```mlir
    %0 = mpc.matmul %x, %w {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 0 : i64} ...
    %1 = mpc.relu %0 {mpc.group = 0 : i64} ...
    // becomes
    %1 = mpc.fusion kind(contraction) name("fc_MatMul") (...) { ... }
    ```

    Contract in: every op but constants and views is marked. Contract out: a
    function's body holds fusions, constants, views and the return. Views are
    reshapes, and slices and concats whose parts lie in one buffer one after the
    other. Constants of one value are copied into the region, others are operands.
    Numerics: unchanged.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/form-fusions.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numFusions", "fusions", "regions made">,
    Statistic<"numFused", "ops-fused", "ops that share a region with another">,
  ];
}

def GroupOpsPass : Pass<"mpc-group-ops", "::mlir::func::FuncOp"> {
  let summary = "Mark the ops that share a kernel";
  let description = [{
    A priority queue holds every pair of neighbours that may share a kernel, by the
    time that the target's model says is saved: the bytes that stay out of memory,
    the launch, less what is read or computed more often. Kernels around a
    contraction, convolution, attention, pool, norm, softmax or reduction take what
    stands before and behind them first, then what is left joins in loops of one
    shape. Index maps and gathers ride with their only reader where they keep the
    last dimension. Loops and norms before products join these last. A group may
    have several results, all of one shape but for rows that a product makes; but the
    updates of a training step are one group, as are the checks of its gradients.
    The precision stage asks for the same groups before casts are placed.

    ```mlir
    %0 = mpc.matmul %x, %w ...
    %1 = mpc.relu %0 ...
    // becomes
    %0 = mpc.matmul %x, %w {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 0 : i64} ...
    %1 = mpc.relu %0 {mpc.group = 0 : i64} ...
    ```

    Contract in: after mpc-prepare-fusion. Contract out: every op but constants and
    views carries the number of its group, one of each group its kind.
    Numerics: unchanged.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/group-ops.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "what to take instead of the module's exe.target, as in cuda:sm_80">,
    Option<"report", "report", "bool", /*default=*/"false",
           "emit a remark for each decision">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numTaken", "steps-taken", "steps by which groups grew">,
    Statistic<"numDeclined", "steps-declined",
              "steps that cost more or would close a cycle">,
  ];
}

def JoinKernelsPass : Pass<"mpc-join-kernels", "::mlir::func::FuncOp"> {
  let summary = "Make one group of kernels that run as one launch";
  let description = [{
    Where the target runs kernels that stand side by side as one launch, softmaxes,
    sums, extrema and their positions of the same rows, and what is made of the rows
    with them, become one group, sums over all rows join the kernel
    that has the rows or the product that multiplies them, and small sums run beside
    the updates; loops that one kernel reads become one, and compute anew what costs
    less than a launch. On every target sums over the same dimensions of what is made of one
    tensor become one group, and a cast to a wider type goes to the kernel that reads
    it, so that memory holds the narrow value.

    ```mlir
    %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} ...
    %1 = mpc.log_softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64} ...
    // becomes, on a GPU
    %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} ...
    %1 = mpc.log_softmax %x axis(1) {mpc.group = 0 : i64} ...
    ```

    Contract in: after mpc-group-ops. Contract out: the same marks.
    Numerics: unchanged.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/join-kernels.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "what to take instead of the module's exe.target, as in cuda:sm_80">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def PrepareFusionPass : Pass<"mpc-prepare-fusion", "::mlir::func::FuncOp"> {
  let summary = "Bring casts, reshapes and cheap ops to where they fuse";
  let description = [{
    Data moves in 16 bits: a widening cast goes behind movement, a narrowing one
    before it. A cast to a wider type, arithmetic on what is in memory anyway and, on
    targets whose kernels load through them, movements are repeated for each reader,
    and reshapes for each loop where loops run as one.
    Reshapes leave the arithmetic of updates. On CPUs whose vectors multiply pairs of
    positions, gradients of filters without a window become products.

    ```mlir
    %0 = mpc.cast %x : tensor<8x4xbf16> to tensor<8x4xf32>
    %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
    // becomes
    %0 = mpc.transpose %x [1, 0] : tensor<8x4xbf16> to tensor<4x8xbf16>
    %1 = mpc.cast %0 : tensor<4x8xbf16> to tensor<4x8xf32>
    ```

    Contract in: after mpc-pack-constants. Contract out: the same ops elsewhere and
    more often, and these products.
    Numerics: unchanged: every cast that rounds stays, nothing is contracted or
    reordered.
    Left alone: functions that hold fusions already; casts of the model itself
    (pinned).
    Executed example: test/Dialect/Mpc/Transforms/prepare-fusion.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "what to take instead of the module's exe.target, as in cuda:sm_80">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RelaxRoundingPass : Pass<"mpc-relax-rounding", "::mlir::func::FuncOp"> {
  let summary = "Drop narrow-then-widen pairs inside kernels";
  let description = [{
    Where a value inside an `mpc.fusion` is narrowed and widened again to the type
    it had, the reader takes the value before the rounding.

    ```mlir
    %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xbf16>
    %2 = mpc.cast %1 : tensor<4xbf16> to tensor<4xf32>
    %3 = mpc.exp %2 : tensor<4xf32>
    // becomes
    %3 = mpc.exp %0 : tensor<4xf32>
    ```

    Contract in: after mpc-form-fusions. Contract out: the same fusions with the same
    operand and result types.
    Numerics: one rounding less where a pair goes; this is the only pass that
    drops one, and the fuse stage runs it under `--rounding relaxed` alone.
    Left alone: casts of the model itself (pinned), pairs that two fusions share
    (memory holds the type that it declares), casts to and from integers, and ops
    that compute in 16 bits, which round by themselves.
    Executed example: test/Dialect/Mpc/Transforms/relax-rounding.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numDropped", "pairs-dropped", "narrow-then-widen pairs dropped">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES
