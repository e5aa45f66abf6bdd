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

/// The result is the sum of the operands, up to their signs: an error of an
/// operand reaches the result as it is.
def Mpc_Additive : NativeOpTrait<"Additive"> { let cppNamespace = "::mpc"; }

#endif // MPC_DIALECT_MPC_IR_MPCINTERFACES
