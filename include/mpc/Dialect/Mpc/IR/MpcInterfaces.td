//===- MpcInterfaces.td - op interfaces of mpc --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Properties that passes query instead of op names.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCINTERFACES
#define MPC_DIALECT_MPC_IR_MPCINTERFACES

include "mlir/IR/OpBase.td"

def Mpc_PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op that a precision policy can name. The policy's lists hold kinds.
  }];
  let methods = [
    InterfaceMethod<"The kind that op lists name; by default the mnemonic.",
      "::llvm::StringRef", "getPrecisionKind", (ins), "",
      [{ return $_op->getName().stripDialect(); }]>,
    InterfaceMethod<[{
        Whether operand `index` takes part in the op's compute type. False for
        operands whose type the op's meaning fixes.
      }],
      "bool", "isPrecisionOperand", (ins "unsigned":$index), "",
      [{ return ::mlir::isa<::mlir::FloatType>(
             ::mlir::getElementTypeOrSelf($_op->getOperand(index).getType())); }]>,
  ];
}

def Mpc_ElementwiseOpInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    Result element i depends only on the (broadcast) operands' elements i.
  }];
  let methods = [
    InterfaceMethod<"Floating-point operations per result element, a rough count.",
      "int64_t", "getFlopsPerElement", (ins), "", [{ return 1; }]>,
  ];
}

def Mpc_ContractionOpInterface : OpInterface<"ContractionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = "A sum of products of two operands (operands 0 and 1).";
  let methods = [
    InterfaceMethod<"Number of products in one result element.",
      "int64_t", "getContractionSize">,
    InterfaceMethod<"Type of the accumulator.",
      "::mlir::Type", "getAccumulateType", (ins), "", [{
        if (::mlir::TypeAttr type = $_op.getAccumulateAttr())
          return type.getValue();
        return ::mlir::getElementTypeOrSelf($_op->getResult(0).getType()); }]>,
    InterfaceMethod<"How operands are multiplied.",
      "::mpc::ComputeMode", "getComputeMode", (ins), "", [{ return $_op.getCompute(); }]>,
  ];
}

def Mpc_ReductionOpInterface : OpInterface<"ReductionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = "Every result element depends on a row (or block) of operand 0.";
  let methods = [
    InterfaceMethod<"Axes of operand 0 that are reduced or normalised over, ascending.",
      "::llvm::SmallVector<int64_t>", "getReductionAxes">,
    InterfaceMethod<"Type of the accumulator.",
      "::mlir::Type", "getAccumulateType", (ins), "", [{
        return ::mlir::getElementTypeOrSelf($_op->getResult(0).getType()); }]>,
    InterfaceMethod<"Elements that one result element reads.",
      "int64_t", "getReductionSize", (ins), "", [{
        auto shape = ::mlir::cast<::mlir::ShapedType>($_op->getOperand(0).getType()).getShape();
        int64_t size = 1;
        for (int64_t axis : $_op.getReductionAxes())
          size *= shape[axis];
        return size; }]>,
  ];
}

def Mpc_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mpc";
  let description = "What an op costs when nothing is fused.";
  let methods = [
    InterfaceMethod<"Floating-point operations; 0 for pure data movement.",
      "int64_t", "getFlops">,
    InterfaceMethod<"Bytes of all operands and results.",
      "int64_t", "getBytes", (ins), "", [{ return ::mpc::operandAndResultBytes($_op); }]>,
  ];
}

def Mpc_FusionOpInterface : OpInterface<"FusionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = "How the fuser may treat an op.";
  let methods = [
    InterfaceMethod<"The op's family.", "::mpc::FusionClass", "getFusionClass">,
  ];
}

def Mpc_OrderOpInterface : OpInterface<"OrderDependentOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    The result depends on the order of values (comparisons, argmax): it jumps where
    an operand's element passes another one or a constant. Rounding the operand,
    however slightly, may change the result by any amount.
  }];
  let methods = [
    InterfaceMethod<[{
        Whether a rounding of operand `index` may change the order that decides.
        False for operands that are not compared, and where the other side is
        zero: rounding keeps the sign of every number that it does not flush.
      }],
      "bool", "dependsOnOrder", (ins "unsigned":$index), "",
      [{ return ::mlir::isa<::mlir::FloatType>(
             ::mlir::getElementTypeOrSelf($_op->getOperand(index).getType())); }]>,
  ];
}

def Mpc_MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    Data movement: every result element is an unchanged operand element, selected by
    position or by index operands. Excludes selection by value (select, one_hot) and
    writes over a copy (scatters). Used by analyses that follow values: ranges,
    integers, indices, reader types, initial values.
  }];
  let methods = [
    InterfaceMethod<[{
        Whether elements of operand `index` stand in the result. False for
        indices, which only say where.
      }],
      "bool", "givesElements", (ins "unsigned":$index), "", [{ return index == 0; }]>,
    InterfaceMethod<[{
        Whether the result holds each element of the operands once: none is left
        out, repeated or added, so that the movement can be undone.
      }],
      "bool", "isPermutation", (ins), "", [{ return false; }]>,
    InterfaceMethod<[{
        Where an element of the result stands in operand 0, the only one: an entry
        for each dimension of that. Nothing where strides and offsets do not say it.
      }],
      "::std::optional<::mpc::Access>", "getAccess", (ins), "", [{ return ::std::nullopt; }]>,
  ];
}

def Mpc_MonotoneOpInterface : OpInterface<"MonotoneOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    Elementwise op that is monotone in each operand while the others are constant;
    with SingularOpInterface, on either side of zero. Its result range follows from its
    operands' bounds: NaN for bounds outside of its domain.
  }];
  let methods = [
    InterfaceMethod<"True if the result is non-decreasing in operand `index`, false if it is non-increasing.",
      "bool", "isIncreasingIn", (ins "unsigned":$index), "", [{ return true; }]>,
  ];
}

def Mpc_RangeOpInterface : OpInterface<"RangeOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    Op with a tighter result range than movement or monotonicity imply. Extents are
    static.
  }];
  let methods = [
    InterfaceMethod<[{
        Where the numbers of a result lie, NaN aside, before a wrap of integers;
        `operands` has an entry for each operand.
      }],
      "::mpc::KnownRange", "getResultRange",
      (ins "unsigned":$result, "::llvm::ArrayRef<::mpc::KnownRange>":$operands)>,
  ];
}

def Mpc_PoleOpInterface : OpInterface<"SingularOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    Singular at zero, like a division: the result is infinite or NaN if an operand
    is zero. Queried before a type may flush an operand to zero.
  }];
  let methods = [
    InterfaceMethod<"True if the op is singular at zero of operand `index`.",
      "bool", "isSingularAtZero", (ins "unsigned":$index), "", [{ return index == 0; }]>,
  ];
}

//===----------------------------------------------------------------------===//
// Traits: properties without code
//===----------------------------------------------------------------------===//

class Mpc_Trait<string name> : NativeOpTrait<name> { let cppNamespace = "::mpc"; }

/// The result is the sum of the operands up to sign: an operand's error
/// propagates unchanged. Used by error estimates.
def Mpc_Additive : Mpc_Trait<"Additive">;

/// The result is a sum or mean over operand 0; partial sums are rounded to the
/// accumulate type of ReductionOpInterface. Used by the lint.
def Mpc_AddsUp : Mpc_Trait<"SumsElements">;

/// Decomposed by mpc-decompose on targets without a kernel for it.
def Mpc_Composite : Mpc_Trait<"Composite">;

/// The result is an operand's element up to sign, or an integer bounded by it:
/// representable in the operands' type without rounding. Used by code
/// generation, which computes 16-bit elements in f32.
def Mpc_Exact : Mpc_Trait<"Exact">;

/// Row reduction: reduces operand 0 along the reduction axes (a row) to one
/// element: a sum, mean, product or extremum. With ReductionOpInterface; used
/// by row kernels.
def Mpc_JoinsRows : Mpc_Trait<"ReducesRows">;

/// Row map: the result has the shape of operand 0 and each element depends on
/// its row; other operands hold one value per column. With
/// ReductionOpInterface; used by row kernels.
def Mpc_MapsRows : Mpc_Trait<"MapsRows">;

/// Finite operands give a finite result, except for overflow of sums and
/// products. Used by the analysis of padding elements.
def Mpc_KeepsFinite : Mpc_Trait<"KeepsFinite">;

/// Integers give integers. Used by the analysis of integers in floats, which a
/// policy must not round.
def Mpc_KeepsIntegers : Mpc_Trait<"KeepsIntegers">;

/// The result is an integer next to the operand. Used with KeepsIntegers.
def Mpc_RoundsToInteger : Mpc_Trait<"RoundsToInteger">;

/// A scalar to minimize: a mean over operand 0, the predictions, against
/// operand 1, the targets.
def Mpc_Loss : Mpc_Trait<"Loss">;

/// Normalizes operand 0 along some axes (zero mean, unit deviation or similar),
/// multiplies by operand 1 (scale) and adds operand 2 (bias) if present.
def Mpc_Normalizes : Mpc_Trait<"Normalizes">;

#endif // MPC_DIALECT_MPC_IR_MPCINTERFACES
