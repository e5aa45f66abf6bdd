//===- FusePasses.td - passes of the Fuse stage --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES
#define MPC_DIALECT_MPC_TRANSFORMS_FUSEPASSES

include "mlir/Pass/PassBase.td"

def FusePass : Pass<"mpc-fuse", "::mlir::func::FuncOp"> {
  let summary = "Group ops into the regions that become kernels";
  let description = [{
    Every op but constants and views ends inside an `mpc.fusion`. A priority queue
    holds every pair of neighbours that may share a kernel, by the time that the
    target's model says is saved: the bytes that stay out of memory, the launch,
    less what is read or computed more often. Kernels around a contraction,
    convolution, attention, pool, norm, softmax or reduction take what stands before
    and behind them first, then what is left joins in loops of one shape. Index maps
    and gathers ride with their only reader where they keep the last dimension. A
    group may have several results, all of one shape.

    ```mlir
    %0 = mpc.matmul %x, %w ...
    %1 = mpc.add %0, %b ...
    %2 = mpc.relu %1 ...
    // becomes
    %2 = mpc.fusion kind(contraction) name("fc_MatMul") (...) { ... }
    ```

    Contract in: after mpc-pack-constants. Contract out: a function's body holds
    fusions, constants, views and the return. Views are reshapes, and slices and
    concats whose parts lie in one buffer one after the other.
    Constants of one value are copied into the region, others are operands.
    Numerics: unchanged: every cast that rounds stays, nothing is contracted or
    reordered. A cast to a wider type is repeated for each reader; one to a
    narrower type goes before the movement that it alone reads.
    Left alone: functions that hold fusions already.
    Executed example: test/Dialect/Mpc/Transforms/fuse.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "what to take instead of the module's exe.target, as in cuda:sm_80">,
    Option<"report", "report", "bool", /*default=*/"false",
           "emit a remark for each decision">,
  ];
  let dependentDialects = ["::mpc::MpcDialect"];
  let statistics = [
    Statistic<"numFusions", "fusions", "regions made">,
    Statistic<"numFused", "ops-fused", "ops that share a region with another">,
  ];
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

    Contract in: after mpc-fuse. Contract out: the same fusions with the same
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
