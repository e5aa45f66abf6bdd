//===- ExeBase.td - dialect and attributes of exe -----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_IR_EXEBASE
#define MPC_DIALECT_EXE_IR_EXEBASE

include "mlir/IR/AttrTypeBase.td"
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

#endif // MPC_DIALECT_EXE_IR_EXEBASE
