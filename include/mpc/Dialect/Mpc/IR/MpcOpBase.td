//===- MpcOpBase.td - op classes of mpc ---------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Base classes of the op families. Every compute op implements the precision,
// cost and fusion interfaces.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCOPBASE
#define MPC_DIALECT_MPC_IR_MPCOPBASE

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mpc/Dialect/Mpc/IR/MpcBase.td"
include "mpc/Dialect/Mpc/IR/MpcInterfaces.td"

/// Default compute mode of contractions, and default image layout.
defvar Mpc_ComputeDefault = DefaultValuedAttr<Mpc_ComputeModeAttr, "::mpc::ComputeMode::native">;
defvar Mpc_ImageLayoutDefault = DefaultValuedAttr<Mpc_ImageLayoutAttr, "::mpc::ImageLayout::channels_first">;

/// A pure op of fusion class `cls` whose cost is `flops` (a C++ expression over
/// the op).
class Mpc_Op<string mnemonic, string cls, string flops, list<Trait> traits = []>
    : Op<Mpc_Dialect, mnemonic,
         !listconcat([Pure, Mpc_PrecisionOpInterface, Mpc_CostOpInterface,
                      Mpc_FusionOpInterface], traits)> {
  string members = [{
    ::mpc::FusionClass getFusionClass() { return ::mpc::FusionClass::}] # cls # [{; }
    int64_t getFlops() { return }] # flops # [{; }
  }];
  let extraClassDeclaration = members;
}

/// Members of a RangeOpInterface op whose results are bounded by two constants.
class Mpc_Between<string low, string high> {
  string members = [{
    ::mpc::KnownRange getResultRange(unsigned, ::llvm::ArrayRef<::mpc::KnownRange>) {
      return {}] # low # ", " # high # [{};
    }
  }];
}
defvar Mpc_Range = DeclareOpInterfaceMethods<Mpc_RangeOpInterface>;

/// An op with inferred result types.
class Mpc_InferredOp<string mnemonic, string cls, string flops, list<Trait> traits = []>
    : Mpc_Op<mnemonic, cls, flops, !listconcat([InferTypeOpAdaptor], traits)>;

/// Like Mpc_InferredOp, but the result may have a wider float type than the
/// operands: the accumulate type.
class Mpc_WideningOp<string mnemonic, string cls, string flops, list<Trait> traits = []>
    : Mpc_Op<mnemonic, cls, flops, !listconcat([InferTypeOpAdaptorWithIsCompatible], traits)>;

/// Movement with strided access.
defvar Mpc_StridedMovement = DeclareOpInterfaceMethods<Mpc_MovementOpInterface, ["getAccess"]>;

/// result[i] = f(input[i]), same type.
class Mpc_UnaryOp<string mnemonic, string text, string flops = "1", Type tensor = Mpc_FloatTensor,
                  list<Trait> traits = [], string facts = "">
    : Mpc_Op<mnemonic, "Elementwise", "getFlopsPerElement() * ::mpc::elementCount(getResult())",
             !listconcat([SameOperandsAndResultType, Mpc_ElementwiseOpInterface], traits)> {
  let summary = text;
  let arguments = (ins tensor:$input);
  let results = (outs tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let extraClassDeclaration = members # [{
    int64_t getFlopsPerElement() { return }] # flops # [{; }
  }] # facts;
}

/// Two operands that broadcast as NumPy's do.
class Mpc_BinaryOp<string mnemonic, string text, Type tensor = Mpc_Tensor, string flops = "1",
                   list<Trait> traits = [], string facts = "">
    : Mpc_InferredOp<mnemonic, "Elementwise", "getFlopsPerElement() * ::mpc::elementCount(getResult())",
             !listconcat([Mpc_ElementwiseOpInterface], traits)> {
  let summary = text;
  let description = [{
    - (C1) operands have the same element type.
    - (C2) operand shapes broadcast together as NumPy's do.
    - (C3) the result has the broadcast shape and the operands' element type.
  }];
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = members # [{
    int64_t getFlopsPerElement() { return }] # flops # [{; }
  }] # facts;
}

#endif // MPC_DIALECT_MPC_IR_MPCOPBASE
