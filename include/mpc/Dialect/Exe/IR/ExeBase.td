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
    which they run. A buffer is the symbol of an argument, result or constant, or
    a range of the arena (`#exe.arena`). All buffers are dense, row-major, and a
    boolean takes one byte.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mpc::MpcDialect"];
}

def Exe_ArenaAttr : AttrDef<Exe_Dialect, "Arena"> {
  let mnemonic = "arena";
  let summary = "a range of the program's arena, in bytes";
  let parameters = (ins "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $offset `,` $bytes `>`";
}

def Exe_Epilogue : I32EnumAttr<"Epilogue", "what the library does to a product's sums", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"relu", 1>, I32EnumAttrCase<"gelu_tanh", 2>]> {
  let cppNamespace = "::mpc::exe";
  let genSpecializedAttr = 0;
}
def Exe_EpilogueParameter : EnumParameter<Exe_Epilogue>;

def Exe_ProblemAttr : AttrDef<Exe_Dialect, "Problem"> {
  let mnemonic = "problem";
  let summary = "one matrix product for the library";
  let description = [{
    `d[batch, m, n] = epilogue(a[batch, m, k] * b[batch, k, n] + bias[n] + c[batch, m, n])`,
    everything row-major and contiguous. A transposed operand lies as `[k, m]` or
    `[n, k]`; one that is shared lies once for all batches.
  }];
  let parameters = (ins "int64_t":$m, "int64_t":$n, "int64_t":$k, DefaultValuedParameter<"int64_t", "1">:$batch,
                        "::mlir::Type":$operand_type, "::mlir::Type":$result_type,
                        DefaultValuedParameter<"bool", "false">:$transpose_a,
                        DefaultValuedParameter<"bool", "false">:$transpose_b,
                        DefaultValuedParameter<"bool", "false">:$shared_a,
                        DefaultValuedParameter<"bool", "false">:$shared_b,
                        DefaultValuedParameter<"::mpc::exe::Epilogue", "::mpc::exe::Epilogue::none">:$epilogue,
                        DefaultValuedParameter<"bool", "false">:$bias,
                        DefaultValuedParameter<"bool", "false">:$residual,
                        DefaultValuedParameter<"bool", "false">:$tf32);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // MPC_DIALECT_EXE_IR_EXEBASE
