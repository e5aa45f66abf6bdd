//===- Passes.td - passes into exe --------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_TRANSFORMS_PASSES
#define MPC_DIALECT_EXE_TRANSFORMS_PASSES

include "mlir/Pass/PassBase.td"

def PlanPass : Pass<"mpc-plan", "::mlir::ModuleOp"> {
  let summary = "Outline kernels and plan memory for a device program";
  let description = [{
    Each `mpc.fusion` becomes a private function on tensors, its kernel; fusions
    with equal bodies share one. Each public function becomes an `exe.program` that
    launches them in order, with statically assigned buffers.

    ```mlir
    func.func @main(%x: tensor<4x8xf32> ...) -> (tensor<4x8xf32> ...) {
      %0 = mpc.fusion kind(elementwise) name("relu") (...) { ... }
      return %0
    }
    // becomes
    func.func private @k_relu(%a: tensor<4x8xf32>) -> tensor<4x8xf32>
        attributes {mpc.kernel_kind = #mpc<fusion_kind elementwise>} { ... }
    exe.program @main target("cpu:avx512") arena(0) {
      exe.argument @x : tensor<4x8xf32> input(0) name("x")
      exe.result @y : tensor<4x8xf32> output(0) name("y")
      exe.launch @k_relu kind(elementwise) ... (read @x, write @y)
    }
    ```

    Contract in: after mpc-outline-fusions. Contract out: only kernels are left as
    functions; the program verifies. Returned values are computed directly into
    their result; a value that is returned twice, or that is an argument, a constant
    or a view, is copied by a kernel that returns its argument. A result that
    updates an argument (`mpc.alias`) is written in place by its launch if no later
    launch reads the old contents and the launch reads them element by element
    (mpc/Dialect/Exe/IR/InPlace.h; its kernel is then marked `exe.in_place`); else
    it is copied at the end. The launch moves after other readers if possible, and
    returned old contents are copied first. Arena offsets follow from the values'
    lifetimes in launch order.
    Executed example: test/Dialect/Exe/Transforms/plan.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"",
           "target in place of the module's exe.target, such as cuda:sm_80">,
  ];
  let dependentDialects = ["::mpc::exe::ExeDialect", "::mlir::func::FuncDialect"];
  let statistics = [
    Statistic<"numKernels", "kernels", "kernels outlined">,
    Statistic<"numShared", "launches-shared", "launches that reuse a kernel">,
    Statistic<"arenaBytes", "arena-bytes", "size of the arena, in bytes">,
  ];
}

def AddIndexChecksPass : Pass<"mpc-add-index-checks", "::mlir::func::FuncOp"> {
  let summary = "Add run-time bounds checks of gather and scatter indices";
  let description = [{
    Every gather and scatter with `mpc.checked` gets a word, or one per component of
    its index tuples, in one constant that becomes an operand of its fusion. The
    constant's type lists the op's name, the extent, and the argument that holds the
    indices (-1: they are computed), and `length` if they must not be negative.

    ```mlir
    %y = mpc.fusion kind(elementwise) name("lookup") (%a = %t : tensor<5x2xf32>, %b = %i : tensor<4xi64>) ... {
      %0 = mpc.gather %a, %b axis(0) {mpc.checked} : ...
    }
    // becomes
    %c = mpc.constant dense<0> : tensor<1xi64, [{argument = 0, extent = 5, op = "lookup"} ]>
    %y = mpc.fusion kind(elementwise) name("lookup") (..., %w = %c : tensor<1xi64, [...]>) ... {
      %0 = mpc.gather %a, %b axis(0) {mpc.index_check = 0} : ...
    }
    ```

    Contract: after mpc-outline-fusions and all passes that split fusions, before
    mpc-fuse-launches.
    Numerics: unchanged.
    Executed example: test/Dialect/Exe/Transforms/add-index-checks.mlir.
  }];
  let statistics = [
    Statistic<"numChecks", "checks", "checks added">,
  ];
}

def SetTargetPass : Pass<"mpc-set-target", "::mlir::ModuleOp"> {
  let summary = "Set the compilation target of a module";
  let description = [{
    ```mlir
    module { ... }
    // becomes, for `target=cuda:sm_80`,
    module attributes {exe.target = #exe.target<"cuda:sm_80">} { ... }
    ```
    `cpu:native` becomes the level of this machine. A compilation starts with this
    pass; all later passes query the module. The default target is cpu:avx512.

    Contract: none.
    Numerics: unchanged. Replaces an existing target.
    Executed example: test/Dialect/Exe/Transforms/set-target.mlir.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu:avx512\"",
           "cpu:native, cpu:LEVEL or cuda:sm_XX">,
  ];
  let dependentDialects = ["::mpc::exe::ExeDialect"];
}

def SplitLibraryGemmsPass : Pass<"mpc-split-library-gemms", "::mlir::func::FuncOp"> {
  let summary = "Split fusions so that the library can compute their GEMM";
  let description = [{
    A fusion of one GEMM that computes an operand (narrows an input, concatenates
    weights), computes an addend, or stores slices of its result, is split into the
    plain GEMM and fusions before and after it.

    ```mlir
    %y = mpc.fusion kind(contraction) name("fc") (%p = %x : tensor<8x16xf32>, ...) {
      %0 = mpc.cast %p : tensor<8x16xf32> to tensor<8x16xbf16>
      %1 = mpc.matmul %0, %q ...
    // becomes
    %n = mpc.fusion kind(elementwise) name("fc_operand") (%p = %x : tensor<8x16xf32>) ...
    %y = mpc.fusion kind(contraction) name("fc") (%p = %n : tensor<8x16xbf16>, ...) {
      %1 = mpc.matmul %p, %q ...
    ```

    Contract in: after the fusion passes. Contract out: the same values; two GEMMs
    that computed the same operand share it.
    Numerics: unchanged.
    Left alone: GEMMs that the library does not support even then, and those that
    take less time than the added fusions.
    Executed example: test/Dialect/Exe/Transforms/split-library-gemms.mlir.
  }];
  let dependentDialects = ["::mpc::exe::ExeDialect"];
  let statistics = [
    Statistic<"numSplit", "split", "matmuls split from their fusions">,
  ];
}

def SelectGemmsPass : Pass<"mpc-select-gemms", "::mlir::ModuleOp"> {
  let summary = "Replace GEMM kernels by cuBLASLt calls with fused epilogues";
  let description = [{
    A launch whose kernel is one matmul, with at most a bias, a residual, a ReLU or
    a tanh GELU, becomes an `exe.gemm`; so do an activation that saves values for
    its gradient, that gradient, and a matmul with the sums of an operand.

    ```mlir
    exe.launch @k_fc kind(contraction) ... (read @x, read @w, read @b, write @y)
    // becomes
    exe.gemm "fc" #exe.problem<m = 32, n = 16, k = 784, operand_type = bf16,
      result_type = f32, epilogue = relu, bias = true> ... (read @x, read @w, read @b, write @y)
    ```

    Contract in: after mpc-plan. Contract out: the same buffers and order, but a
    ReLU mask has bits instead of bytes and a GELU slope is replaced by its input,
    if the kernel that writes it and all its readers became library calls; unused
    kernels are erased.
    Numerics: another accumulation order; bias and residual are added in either
    order; the factor of ReLU's gradient at a NaN is the library's choice, and at a
    positive number that rounds to 0 it is 1. `bf16x3` becomes the library's f32
    emulation for sm_100 and later, and is ignored otherwise.
    Left alone, with a remark: kernels that compute an operand, round inside the
    epilogue, add a bias of another type than the result's (the library would round
    it), or hold any other op.
    Executed examples: test/Dialect/Exe/Transforms/select-gemms.mlir,
    select-gemms-training.mlir.
  }];
  let dependentDialects = ["::mpc::exe::ExeDialect"];
  let statistics = [
    Statistic<"numGemms", "gemms", "matmuls replaced by library calls">,
  ];
}

def ApplySchedulesPass : Pass<"mpc-apply-schedules", "::mlir::ModuleOp"> {
  let summary = "Apply tuned schedules to kernels";
  let description = [{
    A kernel whose computation is in the table `file` gets its `mpc.schedule`; the
    target's cost model schedules the others.

    ```mlir
    func.func private @k_fc(...) attributes {mpc.kernel_kind = "contraction"}
    // becomes
    func.func private @k_fc(...) attributes {mpc.kernel_kind = "contraction",
      mpc.schedule = #tile.blocks<rows = 12, columns = 32, ...>}
    ```

    Contract in: after mpc-plan. Contract out: the same module; the target applies a
    schedule or rejects it with a reason.
    Numerics: accumulation order may differ.
    Left alone: kernels with a schedule. A table that cannot be read, or is for
    another target, is an error.
    Executed example: test/Dialect/Exe/Transforms/apply-schedules.mlir.
  }];
  let options = [
    Option<"file", "file", "std::string", /*default=*/"",
           "table of schedules, as mpc tune-kernels writes it">,
  ];
  let dependentDialects = ["::mpc::exe::ExeDialect", "::mpc::tile::TileDialect"];
  let statistics = [
    Statistic<"numApplied", "applied", "kernels with a tuned schedule">,
  ];
}

#endif // MPC_DIALECT_EXE_TRANSFORMS_PASSES
