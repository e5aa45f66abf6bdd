//===- MpcInterfaces.td - op interfaces of mpc --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What passes ask an op instead of comparing its name.
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
    InterfaceMethod<"Type of the running sum.",
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
  let description = "Every result element depends on a line (or block) of operand 0.";
  let methods = [
    InterfaceMethod<"Axes of operand 0 that are reduced or normalised over, ascending.",
      "::llvm::SmallVector<int64_t>", "getReductionAxes">,
    InterfaceMethod<"Type of the running sum.",
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

def Mpc_OrderOpInterface : OpInterface<"OrderOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    The order of values decides the result: it jumps where an operand's element
    passes another one, or a fixed number. A rounding of the operand, however
    small, may then change the result by any amount.
  }];
  let methods = [
    InterfaceMethod<[{
        Whether a rounding of operand `index` may change the order that decides.
        False for operands that are not compared, and where the other side is
        zero: rounding keeps the sign of every number that it does not flush.
      }],
      "bool", "decidesByOrder", (ins "unsigned":$index), "",
      [{ return ::mlir::isa<::mlir::FloatType>(
             ::mlir::getElementTypeOrSelf($_op->getOperand(index).getType())); }]>,
  ];
}

def Mpc_MovementOpInterface : OpInterface<"MovementOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    Every element of the result is, unchanged, an element of an operand; which
    one follows from places alone, or from indices that are operands too. What
    chooses by values (select, one_hot) or writes over a copy (scatters) is none.
    Asked by what follows values through a graph: ranges, integers, indices,
    types of readers, initial values.
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
      "bool", "keepsAll", (ins), "", [{ return false; }]>,
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
    An elementwise op whose result never falls, or never rises, while an element
    of one operand grows and those of the others stay; with PoleOpInterface, on
    either side of zero. Its range then follows from what the op makes of its
    operands' ends: no number where that is outside of its domain.
  }];
  let methods = [
    InterfaceMethod<"Whether the result never falls while operand `index` grows; it never rises else.",
      "bool", "risesWith", (ins "unsigned":$index), "", [{ return true; }]>,
  ];
}

def Mpc_RangeOpInterface : OpInterface<"RangeOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op that knows more about the range of its results than movement or
    monotonicity say. Extents are static.
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

def Mpc_PoleOpInterface : OpInterface<"PoleOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op that divides, or does as a division does: the result is infinite or no
    number where an operand is zero. Asked where a type may flush an operand.
  }];
  let methods = [
    InterfaceMethod<"Whether that is so for operand `index`.",
      "bool", "hasPoleAtZero", (ins "unsigned":$index), "", [{ return index == 0; }]>,
  ];
}

//===----------------------------------------------------------------------===//
// Traits: facts that need no code
//===----------------------------------------------------------------------===//

class Mpc_Trait<string name> : NativeOpTrait<name> { let cppNamespace = "::mpc"; }

/// The result is the sum of the operands, up to their signs: an error of an
/// operand reaches the result as it is. Asked by error estimates.
def Mpc_Additive : Mpc_Trait<"Additive">;

/// The result is a sum of elements of operand 0, or a mean, whose partial sums
/// the accumulate type of ReductionOpInterface rounds. Asked by the lint.
def Mpc_AddsUp : Mpc_Trait<"AddsUp">;

/// mpc-decompose writes the op with others where the target's kernels do not
/// know it.
def Mpc_Composite : Mpc_Trait<"Composite">;

/// The result is an operand's element, that with another sign, or an integer
/// not beyond it: a number of the operands' type without rounding. Asked by code
/// generation, which computes 16-bit elements in f32.
def Mpc_Exact : Mpc_Trait<"Exact">;

/// Each result element joins the elements of operand 0 along the reduction axes
/// (a row) into one: a sum, mean, product or extremum. With
/// ReductionOpInterface; asked by the kernels of rows.
def Mpc_JoinsRows : Mpc_Trait<"JoinsRows">;

/// The result has the shape of operand 0, and each of its elements is made of
/// the row that it lies in; other operands hold a number per place in the row.
/// With ReductionOpInterface; asked by the kernels of rows.
def Mpc_MapsRows : Mpc_Trait<"MapsRows">;

/// Finite operands give a finite result, but for sums and products beyond the
/// type's range. Asked by the analysis of padded places.
def Mpc_KeepsFinite : Mpc_Trait<"KeepsFinite">;

/// Integers give integers. Asked by the analysis of integers in floats, which a
/// policy must not round.
def Mpc_KeepsIntegers : Mpc_Trait<"KeepsIntegers">;

/// The result is an integer next to the operand. Asked with KeepsIntegers.
def Mpc_RoundsToInteger : Mpc_Trait<"RoundsToInteger">;

/// A scalar that training makes small: a mean over operand 0, the predictions,
/// against operand 1, the targets.
def Mpc_Loss : Mpc_Trait<"Loss">;

/// Operand 0 gets mean zero, deviation one or the like along some axes, is then
/// multiplied by operand 1 (the scale) and, where there is an operand 2, shifted
/// by it (the bias).
def Mpc_Normalizes : Mpc_Trait<"Normalizes">;

#endif // MPC_DIALECT_MPC_IR_MPCINTERFACES
