//===- ExeOps.td - ops of exe -------------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_IR_EXEOPS
#define MPC_DIALECT_EXE_IR_EXEOPS

include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mpc/Dialect/Exe/IR/ExeBase.td"
include "mpc/Dialect/Mpc/IR/MpcBase.td"

class Exe_Op<string mnemonic, list<Trait> traits = []> : Op<Exe_Dialect, mnemonic, traits>;

def Exe_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::mpc::exe";
  let description = "An op that a program runs in order: a kernel launch or a library call.";
  let methods = [
    InterfaceMethod<"Buffers that are read: symbols or arena ranges.",
                    "::mlir::ArrayAttr", "getInputs">,
    InterfaceMethod<"Buffers that are written.", "::mlir::ArrayAttr", "getOutputs">,
    InterfaceMethod<"Names of the model's ops that are computed.", "::mlir::ArrayAttr", "getOps">,
    InterfaceMethod<"Floating-point operations.", "uint64_t", "getFlops">,
    InterfaceMethod<"Bytes read and written.", "uint64_t", "getBytes">,
  ];
}

def Exe_ProgramOp : Exe_Op<"program", [Symbol, SymbolTable, IsolatedFromAbove, SingleBlock,
                                       NoTerminator, NoRegionArguments]> {
  let summary = "Buffers and launches of one entry function";
  let description = [{
    ```mlir
    exe.program @main target("cpu:avx512") arena(4096) {
      exe.argument @x : tensor<32x784xf32> input(0)
      exe.result @y : tensor<32x10xf32> output(0)
      exe.constant @w dense_resource<w> : tensor<784x10xf32>
      exe.launch @k_fc kind(contraction) ops(["fc/MatMul"]) flops(501760) bytes(133000)
        (read @x, read @w, write @y)
    }
    ```
    - (C1) argument indices, and result indices, are 0, 1, 2, ... in order.
    - (C2) every range is inside the arena, argument or result and starts at a
      multiple of `kAlignment`.
    - (C3) an arena range that is read was written by earlier launches and not
      overwritten in between.
    - (C4) every result is written by exactly one launch; one with an alias by at
      most one, or by several in disjoint parts: the rest keeps the argument's
      contents.
    - (C5) an alias is an argument of the result's type, used by one result only.
    - (C6) an argument is not read after a launch that writes its alias.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Exe_TargetAttr:$target, I64Attr:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `target` `(` custom<Target>($target) `)` `arena` `(` $arena_bytes `)` attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  // Steps share one lookup of names.
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "const ::mpc::TargetInfo &":$target,
                                 "int64_t":$arenaBytes)>];
  let extraClassDeclaration = [{
    /// Alignment of every buffer, in bytes.
    static constexpr int64_t kAlignment = 64;
    /// Ops of the program, in order.
    ::llvm::SmallVector<::mpc::exe::ArgumentOp, 0> getProgramArguments();
    ::llvm::SmallVector<::mpc::exe::ResultOp, 0> getProgramResults();
    ::llvm::SmallVector<::mpc::exe::ConstantOp, 0> getProgramConstants();
    ::llvm::SmallVector<::mpc::exe::LaunchOp, 0> getLaunches();
    /// Launches and library calls, in order.
    ::llvm::SmallVector<::mpc::exe::StepOpInterface, 0> getSteps();
  }];
}

class Exe_PortOp<string mnemonic> : Exe_Op<mnemonic, [Symbol, HasParent<"ProgramOp">]> {
  dag common = (ins SymbolNameAttr:$sym_name, TypeAttrOf<RankedTensorOf<[AnyType]>>:$type,
                    I64Attr:$index, StrAttr:$name, OptionalAttr<Mpc_RoleAttr>:$role);
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}
def Exe_ArgumentOp : Exe_PortOp<"argument"> {
  let summary = "A buffer that the caller supplies";
  let description = [{
    `name` is the model's name of the input; the symbol is unique in the program.
    Written only through the result that aliases it. `initial` is the initial value
    in training.
  }];
  let arguments = !con(common, (ins OptionalAttr<ElementsAttr>:$initial));
  let assemblyFormat = [{
    $sym_name `:` $type `input` `(` $index `)` `name` `(` $name `)`
    (`role` `(` $role^ `)`)? (`initial` `(` $initial^ `)`)? attr-dict
  }];
}
def Exe_ResultOp : Exe_PortOp<"result"> {
  let summary = "A buffer that the program fills";
  let description = [{
    `name` is the model's name of the output; the symbol is unique in the program. A
    result with an `alias` shares the buffer of that argument: its new contents or,
    if no launch writes it, the old ones.
  }];
  let arguments = !con(common, (ins OptionalAttr<FlatSymbolRefAttr>:$alias));
  let assemblyFormat = [{
    $sym_name `:` $type `output` `(` $index `)` `name` `(` $name `)`
    (`role` `(` $role^ `)`)? (`alias` `(` $alias^ `)`)? attr-dict
  }];
}

def Exe_ConstantOp : Exe_Op<"constant", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "A buffer with fixed contents; never written";
  let arguments = (ins SymbolNameAttr:$sym_name, ElementsAttr:$value);
  let assemblyFormat = "$sym_name $value attr-dict";
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getValue().getType());
    }
  }];
}

def Exe_LaunchOp : Exe_Op<"launch", [HasParent<"ProgramOp">, Exe_StepOpInterface]> {
  let summary = "Run one kernel";
  let description = [{
    `kernel` names a private function of the enclosing module from input tensors to
    output tensors; a kernel that returns its argument is a copy. `inputs` and
    `outputs` hold one buffer per argument and result of the kernel: a flat symbol
    reference, `#exe.part` or `#exe.arena`. A buffer may differ from the tensor in
    shape, never in bytes. `ops` are the names of the model's ops that the kernel
    computes, `flops` their cost, `bytes` the kernel's memory traffic.
    - (C1) every buffer is a symbol of the program, a part of one or an arena
      range.
    - (C2) outputs are results, parts of results with an alias, or arena ranges.
    - (C3) no output range overlaps another output or an input, unless it equals the
      range of an input that the kernel may overwrite in place (InPlace.h).
    - (C4) if the kernel is a function on tensors, counts and sizes agree.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Mpc_FusionKindAttr:$kind, StrArrayAttr:$ops,
                       I64Attr:$flops, I64Attr:$bytes, ArrayAttr:$inputs, ArrayAttr:$outputs);
  let assemblyFormat = [{
    $kernel `kind` `(` custom<Kind>($kind) `)` `ops` `(` $ops `)` `flops` `(` $flops `)` `bytes` `(` $bytes `)`
    custom<Buffers>($inputs, $outputs) attr-dict
  }];
}

def Exe_GemmOp : Exe_Op<"gemm", [HasParent<"ProgramOp">, Exe_StepOpInterface]> {
  let summary = "Library GEMM with its epilogue";
  let description = [{
    ```mlir
    exe.gemm "fc_MatMul" #exe.problem<m = 32, n = 16, k = 784, operand_type = bf16, result_type = f32,
                                      epilogue = relu, bias = true> ops(["fc/MatMul"]) flops(802816) bytes(78336)
      (read @x, read @w, read @b, write @y)
    ```
    `result = epilogue(a * b + bias + residual)`, accumulated in f32 (f64 for f64
    operands), rounded once to the result's type. Inputs are a, b, then, if present:
    the scales of a and of b, the bias (n elements), the residual (like the result),
    the buffer read by an activation's gradient, the result's scale. Outputs are the
    result, then the auxiliary buffer, the bias gradient and the maximum magnitude.
    - (C1) inputs and outputs have the problem's sizes.
    - (C2) every buffer is a symbol of the program or an arena range; outputs are
      results or arena ranges and overlap no input and no other output.
    - (C3) 8-bit operands need a target of sm_89 or later.
  }];
  let arguments = (ins StrAttr:$name, Exe_ProblemAttr:$problem, StrArrayAttr:$ops,
                       I64Attr:$flops, I64Attr:$bytes, ArrayAttr:$inputs, ArrayAttr:$outputs);
  let assemblyFormat = [{
    $name $problem `ops` `(` $ops `)` `flops` `(` $flops `)` `bytes` `(` $bytes `)`
    custom<Buffers>($inputs, $outputs) attr-dict
  }];
}

def Exe_CollectiveOp : Exe_Op<"collective", [HasParent<"ProgramOp">, Exe_StepOpInterface]> {
  let summary = "Collective of all ranks that run the program";
  let description = [{
    ```mlir
    exe.collective "gradients" #exe.message<kind = all_reduce, ranks = 4, element = bf16, reduction = mean,
                                            accumulate = f32> ops([]) flops(0) bytes(4096)
      (read arena[0 : 2048], write arena[2048 : 2048])
    ```
    Outputs correspond to inputs. Asynchronous: later steps run concurrently with
    the message until one reads or writes an output, or writes an input. `bytes` is
    the amount sent by the rank.
    - (C1) every buffer is a symbol of the program, a part of one or an arena range.
    - (C2) outputs are results or arena ranges and overlap no input and no other
      output.
    - (C3) there is an input, and each output has the size that the message produces
      from its input.
  }];
  let arguments = (ins StrAttr:$name, Exe_MessageAttr:$message, StrArrayAttr:$ops,
                       I64Attr:$flops, I64Attr:$bytes, ArrayAttr:$inputs, ArrayAttr:$outputs);
  let assemblyFormat = [{
    $name $message `ops` `(` $ops `)` `flops` `(` $flops `)` `bytes` `(` $bytes `)`
    custom<Buffers>($inputs, $outputs) attr-dict
  }];
}

#endif // MPC_DIALECT_EXE_IR_EXEOPS
