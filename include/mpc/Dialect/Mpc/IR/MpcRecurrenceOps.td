//===- MpcRecurrenceOps.td - recurrences that learn ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What differentiation makes of recurrent layers; no model has these. Their
// classes are generated apart from the other ops (MpcRecurrenceOps.h).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS
#define MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

class Mpc_StepsOp<string mnemonic, string steps, string text>
    : Mpc_Op<mnemonic, "Recurrent",
        "2 * getGates() * ::mpc::productOf({getDirections(), getSteps(), getBatch(), getHidden(), getHidden()})",
        [AttrSizedOperandSegments]> {
  let summary = text;
  string extents = members # [{
    /// Rows of the weights per hidden unit; what a step keeps of each unit.
    int64_t getGates() { return gatesOf(getCell()); }
    int64_t getKeptValues() { return keptValuesOf(getCell()); }
    int64_t getSteps() { return get}] # steps # [{().getType().getShape()[0]; }
    int64_t getBatch() { return get}] # steps # [{().getType().getShape()[1]; }
    int64_t getHidden() { return getRecurrence().getType().getShape()[2]; }
    int64_t getDirections() { return getRecurrence().getType().getShape()[0]; }
  }];
  let hasVerifier = 1;
}

def Mpc_RecurrenceTrainingOp : Mpc_StepsOp<"recurrence_training", "Projected",
    "A recurrence that keeps what its gradient reads"> {
  let description = [{
    Like `recurrence`, with one more result at the end, `kept`, `[T, B, D*K*H]`, whose
    cotangent is taken to be 0: of each step
    the gates behind their activations and, last, the state at its end. That is i,
    o, f, c and the cell state of `lstm`; z, r, h and the state of `gru`; of
    `linear_gru` the recurrent share of h, before its reset, ahead of the state; the
    state of `rnn`.
    - (C1) all but `recurrence` have one float element type, as wide as that of
      `recurrence` or wider.
    - (C2) extents agree as above; D is 2 for `bidirectional`, else 1.
    - (C3) `lstm` alone has `initial_c`, `peephole` and `final_c`, the last always.
  }];
  let arguments = (ins Mpc_FloatTensor:$projected, Mpc_FloatTensor:$recurrence,
                       Optional<Mpc_FloatTensor>:$bias, Optional<Mpc_FloatTensor>:$initial_h,
                       Optional<Mpc_FloatTensor>:$initial_c, Optional<Mpc_FloatTensor>:$peephole,
                       Mpc_RecurrentCellAttr:$cell,
                       DefaultValuedAttr<Mpc_RecurrentDirectionAttr, "::mpc::RecurrentDirection::forward">:$direction);
  let results = (outs Mpc_FloatTensor:$result, Mpc_FloatTensor:$final_h,
                      Optional<Mpc_FloatTensor>:$final_c, Mpc_FloatTensor:$kept);
  let assemblyFormat = [{
    custom<EnumKeyword>($cell) $projected `,` $recurrence (`bias` `(` $bias^ `)`)? (`initial_h` `(` $initial_h^ `)`)?
    (`initial_c` `(` $initial_c^ `)`)? (`peephole` `(` $peephole^ `)`)?
    (`direction` `(` custom<EnumKeyword>($direction)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = extents # [{
    /// The state is contracted with operand 1; the others keep their type.
    bool isPrecisionOperand(unsigned index) { return index == 1; }
  }];
}

def Mpc_RecurrenceGradientOp : Mpc_StepsOp<"recurrence_gradient", "Kept",
    "The gradient of a recurrence, walked against its steps"> {
  let description = [{
    Of what a `recurrence_training` of the same `cell` and `direction` has `kept`,
    and the cotangents of its sequence `result`, of `final_h` and of `final_c` (0
    where they are absent), the cotangents of `projected` and `initial_h`, and for
    two cells a third: that of `initial_c` for `lstm`, and for `linear_gru` that of
    the gates' recurrent share, `[T, B, D*G*H]`, which differs in gate h; of the
    other cells that is `projected`'s. `initial` is the state before the first step,
    `initial_c` for `lstm` and `initial_h` else. Cotangents stay in the state's type
    and are rounded to that of `recurrence` where a product reads them.
    - (C1) all but `recurrence` have one float element type, as wide as that of
      `recurrence` or wider.
    - (C2) extents agree as above; D is 2 for `bidirectional`, else 1.
    - (C3) `lstm` alone has `final_c` and `peephole`; it and `linear_gru` have a
      third result.
  }];
  let arguments = (ins Mpc_FloatTensor:$recurrence, Mpc_FloatTensor:$kept,
                       Optional<Mpc_FloatTensor>:$result_gradient,
                       Optional<Mpc_FloatTensor>:$final_h_gradient,
                       Optional<Mpc_FloatTensor>:$final_c_gradient,
                       Optional<Mpc_FloatTensor>:$initial, Optional<Mpc_FloatTensor>:$peephole,
                       Mpc_RecurrentCellAttr:$cell,
                       DefaultValuedAttr<Mpc_RecurrentDirectionAttr, "::mpc::RecurrentDirection::forward">:$direction);
  let results = (outs Mpc_FloatTensor:$projected_gradient, Mpc_FloatTensor:$initial_h_gradient,
                      Optional<Mpc_FloatTensor>:$other_gradient);
  let assemblyFormat = [{
    custom<EnumKeyword>($cell) $recurrence `,` $kept (`result` `(` $result_gradient^ `)`)?
    (`final_h` `(` $final_h_gradient^ `)`)? (`final_c` `(` $final_c_gradient^ `)`)?
    (`initial` `(` $initial^ `)`)? (`peephole` `(` $peephole^ `)`)?
    (`direction` `(` custom<EnumKeyword>($direction)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = extents # [{
    /// Cotangents of gates are contracted with operand 0; the others keep their type.
    bool isPrecisionOperand(unsigned index) { return index == 0; }
    /// The cotangent of the gates' recurrent share.
    ::mlir::Value getRecurrentGradient() {
      return getCell() == RecurrentCell::linear_gru ? getOtherGradient() : getProjectedGradient();
    }
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS
