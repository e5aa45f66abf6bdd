//===- MpcRecurrenceOps.td - differentiable recurrences ----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Created by differentiating recurrent layers, never by import.
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
    /// Rows of the weights, and saved activations per step, per hidden unit.
    int64_t getGates() { return gatesOf(getCell()); }
    int64_t getKeptValues() { return savedActivationsOf(getCell()); }
    int64_t getSteps() { return get}] # steps # [{().getType().getShape()[0]; }
    int64_t getBatch() { return get}] # steps # [{().getType().getShape()[1]; }
    int64_t getHidden() { return getRecurrence().getType().getShape()[2]; }
    int64_t getDirections() { return getRecurrence().getType().getShape()[0]; }
  }];
  let hasVerifier = 1;
}

def Mpc_RecurrenceTrainingOp : Mpc_StepsOp<"recurrence_training", "Projected",
    "Recurrence that also returns the values that its gradient reads"> {
  let description = [{
    Like `recurrence`, with one more result, `kept`, `[T, B, D*K*H]`, whose
    cotangent is 0: the activations saved for the gradient, per step the activated
    gates and, last, the new state. For `lstm` i, o, f, c and the cell state; for
    `gru` z, r, h and the state; for `linear_gru` also the recurrent part of h
    before its reset, before the state; for `rnn` the state.
    - (C1) all but `recurrence` have one float element type, at least as wide as
      `recurrence`'s.
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
    /// The state is contracted with operand 1; other operands keep their type.
    bool isPrecisionOperand(unsigned index) { return index == 1; }
  }];
}

def Mpc_RecurrenceGradientOp : Mpc_StepsOp<"recurrence_gradient", "Kept",
    "Gradient of a recurrence (backpropagation through time)"> {
  let description = [{
    Backpropagation through time. From the `kept` activations of a
    `recurrence_training` of the same `cell` and `direction`, and the cotangents of
    its `result`, `final_h` and `final_c` (0 if absent), computes the cotangents of
    `projected` and `initial_h`, and for two cells a third: for `lstm` that of
    `initial_c`, for `linear_gru` that of the gates' recurrent part,
    `[T, B, D*G*H]`, which differs in gate h; for other cells it equals
    `projected`'s. `initial` is the state before the first step, `initial_c` for
    `lstm`, else `initial_h`. CotangentAccumulator have the state's type and are rounded to
    that of `recurrence` for matmuls.
    - (C1) all but `recurrence` have one float element type, at least as wide as
      `recurrence`'s.
    - (C2) extents agree as above; D is 2 for `bidirectional`, else 1.
    - (C3) only `lstm` has `final_c` and `peephole`; only `lstm` and `linear_gru`
      have a third result.
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
    /// Gate cotangents are contracted with operand 0; other operands keep their
    /// type.
    bool isPrecisionOperand(unsigned index) { return index == 0; }
    /// Cotangent of the gates' recurrent part.
    ::mlir::Value getRecurrentGradient() {
      return getCell() == RecurrentCell::linear_gru ? getOtherGradient() : getProjectedGradient();
    }
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCRECURRENCEOPS
