//===- FusePasses.td - passes of the Fuse stage --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES

include "mlir/Pass/PassBase.td"

def OutlineFusionsPass : Pass<"mpc-outline-fusions", "::mlir::func::FuncOp"> {
  let summary = "Outline each fusion group into a region that becomes a kernel";
  let description = [{
    Each group marked by mpc-select-fusion-groups and mpc-fuse-horizontal becomes one
    `mpc.fusion`, named after its leading op. Identical fusions of the same values
    are merged (CSE).

    ```mlir
    %0 = mpc.matmul %x, %w {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 0 : i64} ...
    %1 = mpc.relu %0 {mpc.group = 0 : i64} ...
    // becomes
    %1 = mpc.fusion kind(contraction) name("fc_MatMul") (...) { ... }
    ```

    Contract in: every op but constants and views is marked. Contract out: a
    function's body holds fusions, constants, views and the return. Views are
    reshapes, and slices and concats whose inputs are contiguous in one buffer.
    Splat constants are copied into the region, others are operands.
    Numerics: unchanged.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/outline-fusions.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numFusions", "fusions", "regions created">,
    Statistic<"numFused", "ops-fused", "ops that share a region with another">,
  ];
}

def SelectFusionGroupsPass : Pass<"mpc-select-fusion-groups", "::mlir::func::FuncOp"> {
  let summary = "Select the ops that fuse into one kernel";
  let description = [{
    Greedy producer-consumer fusion by benefit. A priority queue holds every fusible
    pair of neighbors by the time saved in the target's cost model: memory traffic
    and launches avoided, minus recomputation and repeated reads. Kernels anchored
    at a contraction, convolution, attention, pool, norm, softmax or reduction first
    fuse their prologue and epilogue; the remaining ops fuse into loops of one
    shape. Index maps and gathers that preserve the last dimension fuse into their
    only reader. Loops and norms before GEMMs fuse last. A group may have several
    results of one shape, except for rows computed by a GEMM; the updates of a
    training step are one group, as are its gradient checks. The precision stage
    computes the same groups before it places casts.

    ```mlir
    %0 = mpc.matmul %x, %w ...
    %1 = mpc.relu %0 ...
    // becomes
    %0 = mpc.matmul %x, %w {mpc.anchor = #mpc<fusion_kind contraction>, mpc.group = 0 : i64} ...
    %1 = mpc.relu %0 {mpc.group = 0 : i64} ...
    ```

    Contract in: after mpc-prepare-fusion. Contract out: every op but constants and
    views carries its group number; one op of each group carries its kind.
    Numerics: unchanged. In a function with the attribute `mpc.unfused` every op that
    has a kernel of its own gets one, to test that fusion does not change bits.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/select-fusion-groups.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_80">,
    Option<"report", "report", "bool", /*default=*/"false",
           "emit a remark for each decision">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numTaken", "steps-taken", "merges of groups">,
    Statistic<"numDeclined", "steps-declined",
              "merges rejected: they cost more or would create a cycle">,
  ];
}

def FuseHorizontalPass : Pass<"mpc-fuse-horizontal", "::mlir::func::FuncOp"> {
  let summary = "Fuse independent kernels into one launch (horizontal fusion)";
  let description = [{
    Horizontal fusion. If the target supports it, softmaxes, sums, extrema and
    argmax over the same rows and their elementwise users become one group, sums
    over all rows fuse into the kernel that reads the rows or the GEMM that
    multiplies them, small sums run concurrently with the updates, loops read by
    one kernel are merged, recomputing what is cheaper than a launch, and the largest
    magnitude of a tensor fuses into the kernel that computes the tensor. On every
    target sums over the same dimensions of values derived from one tensor become
    one group, and upcasts move into the readers' kernels, so that memory holds the
    low-precision value.

    ```mlir
    %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} ...
    %1 = mpc.log_softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 1 : i64} ...
    // becomes, on a GPU
    %0 = mpc.softmax %x axis(1) {mpc.anchor = #mpc<fusion_kind row>, mpc.group = 0 : i64} ...
    %1 = mpc.log_softmax %x axis(1) {mpc.group = 0 : i64} ...
    ```

    Contract in: after mpc-select-fusion-groups. Contract out: the same marks.
    Numerics: unchanged.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/fuse-horizontal.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_80">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def PrepareFusionPass : Pass<"mpc-prepare-fusion", "::mlir::func::FuncOp"> {
  let summary = "Move casts, reshapes and cheap ops to fuse better";
  let description = [{
    Data moves in 16 bits: upcasts sink below data movement, narrowing casts are
    hoisted above it. Upcasts, arithmetic on stored values and, on targets whose
    kernels fuse it into loads, data movement are rematerialized per reader;
    reshapes per loop if the target fuses loops horizontally. Reshapes are hoisted
    out of update arithmetic. On CPUs with bf16 dot-product vectors, gradients of
    1x1 filters become matmuls.

    ```mlir
    %0 = mpc.cast %x : tensor<8x4xbf16> to tensor<8x4xf32>
    %1 = mpc.transpose %0 [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
    // becomes
    %0 = mpc.transpose %x [1, 0] : tensor<8x4xbf16> to tensor<4x8xbf16>
    %1 = mpc.cast %0 : tensor<4x8xbf16> to tensor<4x8xf32>
    ```

    Contract in: after mpc-pack-constants. Contract out: the same ops, moved and
    duplicated, and these matmuls.
    Numerics: unchanged: every rounding cast stays, nothing is contracted or
    reordered.
    Left alone: functions that hold fusions already; casts of the model itself
    (pinned).
    Executed example: test/Dialect/Mpc/Transforms/prepare-fusion.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_80">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
}

def RelaxRoundingPass : Pass<"mpc-relax-rounding", "::mlir::func::FuncOp"> {
  let summary = "Drop narrow-then-widen pairs inside kernels";
  let description = [{
    If a value inside an `mpc.fusion` is narrowed and widened back to its type, the
    reader uses the value before the rounding (excess precision).

    ```mlir
    %1 = mpc.cast %0 : tensor<4xf32> to tensor<4xbf16>
    %2 = mpc.cast %1 : tensor<4xbf16> to tensor<4xf32>
    %3 = mpc.exp %2 : tensor<4xf32>
    // becomes
    %3 = mpc.exp %0 : tensor<4xf32>
    ```

    Contract in: after mpc-outline-fusions. Contract out: the same fusions with the
    same operand and result types.
    Numerics: one rounding less per pair; this is the only pass that drops one, and
    the fuse stage runs it only under `--rounding relaxed`.
    Left alone: casts of the model itself (pinned), pairs split over two fusions
    (memory holds the declared type), casts to and from integers, and ops that
    compute in 16 bits, which round themselves.
    Executed example: test/Dialect/Mpc/Transforms/relax-rounding.mlir.
  }];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numDropped", "pairs-dropped", "narrow-then-widen pairs dropped">,
  ];
}

#endif // MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES
