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
  let summary = "The device program: buffers with fixed places and a list of launches";
  let description = [{
    A program names its arguments, results and constants, fixes the size of one
    arena for everything between kernels, and lists the launches in the order in
    which they run. A buffer is the symbol of an argument, result or constant, a
    range of one (`#exe.part`), or a range of the arena (`#exe.arena`). All buffers are dense, row-major, and a
    boolean takes one byte.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mpc::MpcDialect"];
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Of a module: its target, a TargetAttr.
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
  let summary = "what code is planned and made for";
  let description = [{
    A module that is compiled has one as its attribute `exe.target`; passes ask it
    (mpc/Target/TargetInfo.h) and take no target of their own.

    ```mlir
    module attributes {exe.target = #exe.target<"cuda:sm_90a">} { ... }
    ```
  }];
  let parameters = (ins AttrParameter<"::mpc::TargetInfo", "the target">:$info);
  let assemblyFormat = "`<` custom<TargetName>($info) `>`";
}

class Exe_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc::exe";
  let genSpecializedAttr = 0;
}
def Exe_Epilogue : Exe_Enum<"Epilogue", "what the library does to a product's sums", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"relu", 1>, I32EnumAttrCase<"gelu_tanh", 2>,
  I32EnumAttrCase<"relu_gradient", 3>, I32EnumAttrCase<"gelu_tanh_gradient", 4>]>;

def Exe_Compute : Exe_Enum<"Compute", "how the library multiplies f32", [
  I32EnumAttrCase<"native", 0>, I32EnumAttrCase<"tf32", 1>, I32EnumAttrCase<"bf16x9", 2>]>;

def Exe_BiasGradient : Exe_Enum<"BiasGradient", "what a product sums beside its result", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"a", 1>, I32EnumAttrCase<"b", 2>,
  I32EnumAttrCase<"result", 3>]>;

def Exe_MessageKind : Exe_Enum<"MessageKind", "what ranks do together", [
  I32EnumAttrCase<"all_reduce", 0>, I32EnumAttrCase<"reduce_scatter", 1>,
  I32EnumAttrCase<"all_gather", 2>, I32EnumAttrCase<"broadcast", 3>]>;

def Exe_Reduction : Exe_Enum<"Reduction", "what ranks make of their values", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"mean", 1>, I32EnumAttrCase<"min", 2>,
  I32EnumAttrCase<"max", 3>]>;

def Exe_MessageAttr : AttrDef<Exe_Dialect, "Message"> {
  let mnemonic = "message";
  let summary = "what ranks exchange at once";
  let description = [{
    Every rank's tensors of `element`, as mpc's op of the same name says.
    - (C1) there is a rank, and `element` is a number.
    - (C2) `reduction` and `accumulate` are of messages that reduce; a mean is of
      floats, `accumulate` a float no narrower than they.
    - (C3) `root` is one of the ranks, 0 but of a broadcast.
  }];
  let parameters = (ins "::mpc::exe::MessageKind":$kind, "int64_t":$ranks, "::mlir::Type":$element,
                        DefaultValuedParameter<"::mpc::exe::Reduction", "::mpc::exe::Reduction::sum">:$reduction,
                        OptionalParameter<"::mlir::Type">:$accumulate,
                        DefaultValuedParameter<"int64_t", "0">:$root);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Exe_Flag : DefaultValuedParameter<"bool", "false">;

def Exe_ProblemAttr : AttrDef<Exe_Dialect, "Problem"> {
  let mnemonic = "problem";
  let summary = "one matrix product for the library";
  let description = [{
    `d[batch, m, n] = epilogue(a[batch, m, k] * b[batch, k, n] + bias[n] + c[batch, m, n])`,
    everything row-major and contiguous. A transposed operand lies as `[k, m]` or
    `[n, k]`; one that is shared lies once for all batches. `operand_b_type` is b's
    type where it is not a's.

    An activation with `auxiliary` leaves what its gradient needs: GELU its input,
    rounded to the result's type; ReLU a bit for each element, 1 where the input is
    positive, in lines that begin at multiples of 128 bits. The epilogues
    `relu_gradient` and `gelu_tanh_gradient` read that and multiply the sums by the
    activation's derivative there. `bias_gradient` asks for one more result: the sums
    of a over k (m elements), of b over k, or, of an activation's gradient, of the
    result over its rows (n elements), each in f32 and rounded once to the result's
    type.

    `compute` permits f32 operands to be rounded to `tf32`, or to be multiplied as
    three bf16 terms each, all nine products (`bf16x9`), which is f32's precision.

    Operands of 8 bits may have `scales`: one f32 each, which multiply the sums.
    Results of 8 bits are `round(result_scale * epilogue(...))`, saturated; `amax`
    stores the largest magnitude before that multiplication.
    - (C1) extents are positive, sizes fit in 63 bits, types are floats.
    - (C2) operands have one type, or are both of 8 bits (f8E4M3FN, f8E5M2), at most
      one of them f8E5M2.
    - (C3) of 8-bit operands a lies as `[m, k]` and b as `[n, k]`, extents are
      multiples of 16, and there is no gradient's epilogue, auxiliary buffer or bias
      gradient.
    - (C4) a result of 8 bits comes of 8-bit operands, f8E5M2 of two types, and goes
      without a residual; `scales` are of 8-bit operands, `result_scale` and `amax`
      of 8-bit results.
    - (C5) `compute` is of f32 operands.
    - (C6) an activation goes without a residual, an activation's gradient without a
      bias.
    - (C7) `auxiliary` is of an activation; GELU's has lines of a multiple of 8
      elements.
    - (C8) a bias gradient has one batch; an operand's goes without another epilogue,
      the result's is of an activation's gradient.
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
    ::mlir::Type typeOfB() const { return getOperandBType() ? getOperandBType() : getOperandType(); }
    bool isGradient() const {
      return getEpilogue() == Epilogue::relu_gradient || getEpilogue() == Epilogue::gelu_tanh_gradient;
    }
    bool isRelu() const {
      return getEpilogue() == Epilogue::relu || getEpilogue() == Epilogue::relu_gradient;
    }
    /// Type of the bias: the result's, but bf16 where 8-bit operands give a
    /// result of f32 or of 8 bits.
    ::mlir::Type biasType() const;
    /// Bytes of the buffers that are read, and of those that are written: the
    /// result, the auxiliary buffer, the bias gradient, the largest magnitude.
    ::llvm::SmallVector<int64_t> inputBytes() const;
    ::llvm::SmallVector<int64_t> outputBytes() const;
  }];
}

#endif // MPC_DIALECT_EXE_IR_EXEBASE
