//===- ExeBase.td - dialect and attributes of exe -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_IR_EXEBASE
#define MPC_DIALECT_EXE_IR_EXEBASE

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Exe_Dialect : Dialect {
  let name = "exe";
  let cppNamespace = "::mpc::exe";
  let summary = "Device program: statically planned buffers and a list of launches";
  let description = [{
    A program declares its arguments, results and constants, the size of one arena
    for all intermediate values, and the launches in execution order. A buffer is
    the symbol of an argument, result or constant, a range of one (`#exe.part`), or
    a range of the arena (`#exe.arena`). All buffers are dense and row-major; a
    boolean takes one byte.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mpc::MpcDialect"];
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Module attribute: its target, a TargetAttr.
    static constexpr ::llvm::StringLiteral kTargetAttr = "exe.target";
  }];
}

def Exe_ArenaAttr : AttrDef<Exe_Dialect, "Arena"> {
  let mnemonic = "arena";
  let summary = "a range of the program's arena, in bytes";
  let parameters = (ins "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $offset `,` $bytes `>`";
}

def Exe_PartAttr : AttrDef<Exe_Dialect, "Part"> {
  let mnemonic = "part";
  let summary = "a range of an argument or result, in bytes";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$whole, "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $whole `,` $offset `,` $bytes `>`";
}

def Exe_TargetAttr : AttrDef<Exe_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "compilation target";
  let description = [{
    A compiled module has one as its attribute `exe.target`; passes query it
    (mpc/Target/TargetInfo.h) instead of taking their own.

    ```mlir
    module attributes {exe.target = #exe.target<"cuda:sm_90a">} { ... }
    ```
  }];
  let parameters = (ins AttrParameter<"::mpc::TargetInfo", "the target">:$info);
  let assemblyFormat = "`<` custom<TargetName>($info) `>`";
}

// Enumerators of problems and messages have the runtime's numbers (Gemm.h,
// Collective.h).
class Exe_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc::exe";
  let genSpecializedAttr = 0;
}
def Exe_Epilogue : Exe_Enum<"Epilogue", "epilogue of a library GEMM", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"relu", 1>, I32EnumAttrCase<"gelu_tanh", 2>,
  I32EnumAttrCase<"relu_gradient", 3>, I32EnumAttrCase<"gelu_tanh_gradient", 4>]>;

def Exe_Compute : Exe_Enum<"Compute", "compute type of a library GEMM of f32 operands", [
  I32EnumAttrCase<"native", 0>, I32EnumAttrCase<"tf32", 1>, I32EnumAttrCase<"bf16x9", 2>]>;

def Exe_BiasGradient : Exe_Enum<"BiasGradient", "bias gradient that a library GEMM computes", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"a", 1>, I32EnumAttrCase<"b", 2>,
  I32EnumAttrCase<"result", 3>]>;

def Exe_MessageKind : Exe_Enum<"MessageKind", "kind of a collective", [
  I32EnumAttrCase<"all_reduce", 0>, I32EnumAttrCase<"reduce_scatter", 1>,
  I32EnumAttrCase<"all_gather", 2>, I32EnumAttrCase<"broadcast", 3>]>;

def Exe_Reduction : Exe_Enum<"Reduction", "reduction of a collective", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"min", 2>,
  I32EnumAttrCase<"max", 3>]>;

def Exe_MessageAttr : AttrDef<Exe_Dialect, "Message"> {
  let mnemonic = "message";
  let summary = "one collective of all ranks";
  let description = [{
    Every rank contributes tensors of `element`; semantics of mpc's op of the same
    name.
    - (C1) `ranks` is positive and `element` is a numeric type.
    - (C2) `reduction` and `accumulate` are only for messages that reduce; a mean
      needs floats, and `accumulate` is a float at least as wide.
    - (C3) `root` is one of the ranks, and 0 except for a broadcast.
  }];
  let parameters = (ins "::mpc::exe::MessageKind":$kind, "int64_t":$ranks, "::mlir::Type":$element,
                        DefaultValuedParameter<"::mpc::exe::Reduction", "::mpc::exe::Reduction::sum">:$reduction,
                        OptionalParameter<"::mlir::Type">:$accumulate,
                        DefaultValuedParameter<"int64_t", "0">:$root);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the message for the runtime.
    ::mpc::Collective getCollective() const;
  }];
}

def Exe_Flag : DefaultValuedParameter<"bool", "false">;

def Exe_ProblemAttr : AttrDef<Exe_Dialect, "Problem"> {
  let mnemonic = "problem";
  let summary = "one library GEMM";
  let description = [{
    `d[batch, m, n] = epilogue(a[batch, m, k] * b[batch, k, n] + bias[n] + c[batch, m, n])`,
    all row-major and contiguous. A transposed operand is stored as `[k, m]` or
    `[n, k]`; a shared one is stored once for all batches. `operand_b_type` is b's
    type if it differs from a's.

    An activation with `auxiliary` saves the input of its gradient: GELU its input,
    rounded to the result's type; ReLU one bit per element, 1 if the input is
    positive, in rows aligned to 128 bits. The epilogues `relu_gradient` and
    `gelu_tanh_gradient` read it and multiply the accumulators by the activation's
    derivative. `bias_gradient` adds a result: the sums of a over k (m elements), of
    b over k, or, for an activation's gradient, of the result over its rows (n
    elements), each in f32 and rounded once to the result's type.

    `compute` allows f32 operands to be rounded to `tf32`, or split into three bf16
    terms each, with all nine products (`bf16x9`), which has f32 precision.

    8-bit operands may have `scales`: one f32 each, which multiply the accumulators.
    8-bit results are `round(result_scale * epilogue(...))`, saturated; `amax`
    stores the maximum magnitude before that multiplication.
    - (C1) extents are positive, sizes fit in 63 bits, types are floats.
    - (C2) operands have one type, or are both 8-bit (f8E4M3FN, f8E5M2), at most one
      of them f8E5M2.
    - (C3) with 8-bit operands a is stored as `[m, k]` and b as `[n, k]`, extents
      are multiples of 16, and there is no gradient epilogue, auxiliary buffer or
      bias gradient.
    - (C4) an 8-bit result needs 8-bit operands (f8E5M2: of two different types) and
      no residual; `scales` need 8-bit operands, `result_scale` and `amax` 8-bit
      results.
    - (C5) `compute` needs f32 operands.
    - (C6) an activation excludes a residual, an activation's gradient a bias.
    - (C7) `auxiliary` needs an activation; GELU's has rows of a multiple of 8
      elements.
    - (C8) a bias gradient needs batch 1; one of an operand excludes other
      epilogues, one of the result needs an activation's gradient.
  }];
  let parameters = (ins "int64_t":$m, "int64_t":$n, "int64_t":$k, DefaultValuedParameter<"int64_t", "1">:$batch,
                        "::mlir::Type":$operand_type, OptionalParameter<"::mlir::Type">:$operand_b_type,
                        "::mlir::Type":$result_type,
                        Exe_Flag:$transpose_a, Exe_Flag:$transpose_b, Exe_Flag:$shared_a, Exe_Flag:$shared_b,
                        DefaultValuedParameter<"::mpc::exe::Epilogue", "::mpc::exe::Epilogue::none">:$epilogue,
                        Exe_Flag:$bias, Exe_Flag:$residual, Exe_Flag:$auxiliary,
                        DefaultValuedParameter<"::mpc::exe::BiasGradient",
                                               "::mpc::exe::BiasGradient::none">:$bias_gradient,
                        DefaultValuedParameter<"::mpc::exe::Compute", "::mpc::exe::Compute::native">:$compute,
                        Exe_Flag:$scales, Exe_Flag:$result_scale, Exe_Flag:$amax);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the problem for the runtime.
    ::mpc::GemmProblem getGemm() const;
  }];
}

#endif // MPC_DIALECT_EXE_IR_EXEBASE
