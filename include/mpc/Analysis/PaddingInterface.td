//===- PaddingInterface.td - padding op interface ----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_PADDINGINTERFACE
#define MPC_ANALYSIS_PADDINGINTERFACE

include "mlir/IR/OpBase.td"

def Mpc_PaddingOpInterface : OpInterface<"PaddingOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op with dimensions that can be padded without changing any original
    element. Elementwise ops need no model of their own; the models of other ops
    are attached by `registerPaddingModels`.
  }];
  let methods = [
    InterfaceMethod<"The axes that can be padded with zeros.",
      "::llvm::SmallVector<::mpc::OpAxis>", "getPaddableAxes">,
    InterfaceMethod<[{
        What stands in the padded places of a result along an axis. `operands`
        holds the state of each operand there; only those on the axis are read.
        By default what is moved, or nothing but zero for sums of zeros.
      }],
      "::mpc::PaddingState", "getPaddedPlaces",
      (ins "const ::mpc::OpAxis &":$axis, "unsigned":$result,
           "::llvm::ArrayRef<::mpc::PaddingState>":$operands), "",
      [{ return ::mpc::movedLanes($_op, axis, operands); }]>,
    InterfaceMethod<[{
        Extents of a contraction as `#mpc.padding` counts them; zeros for other
        ops.
      }],
      "::std::array<int64_t, 4>", "getPaddedExtents", (ins), "",
      [{ return {0, 0, 0, 0}; }]>,
    InterfaceMethod<[{
        Number of the operand, given or not, under which padded keys are hidden.
      }],
      "::std::optional<unsigned>", "getKeyMaskOperand", (ins), "",
      [{ return ::std::nullopt; }]>,
    InterfaceMethod<"Adapts attributes that count positions of an axis.",
      "void", "growAxis", (ins "const ::mpc::OpAxis &":$axis, "int64_t":$extent),
      "", [{ return; }]>,
  ];
}

#endif // MPC_ANALYSIS_PADDINGINTERFACE
