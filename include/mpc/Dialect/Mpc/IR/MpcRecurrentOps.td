//===- MpcRecurrentOps.td - recurrent layers ----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCRECURRENTOPS
#define MPC_DIALECT_MPC_IR_MPCRECURRENTOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

/// Shapes as in ONNX: input [T, B, I], weight [D, G*H, I], recurrence
/// [D, G*H, H], bias [D, 2*G*H], states [D, B, H], result [T, D, B, H].
class Mpc_RecurrentOp<string mnemonic, string gates, string text,
                      list<Trait> traits = [AttrSizedOperandSegments]>
    : Mpc_WideningOp<mnemonic, "Recurrent",
        "2 * " # gates # " * ::mpc::recurrentCost(*this)",
        !listconcat([Mpc_Composite], traits)> {
  let summary = text;
  let extraClassDeclaration = members # [{
    /// Operands 0 to 2 are contracted; bias and states keep their type.
    bool isPrecisionOperand(unsigned index) { return index < 3; }
    /// Rows of the weights per hidden unit.
    static constexpr int64_t kGates = }] # gates # [{;
  }];
  let hasVerifier = 1;
}

defvar Mpc_RecurrentConstraints = [{
    - (C1) input, weight and recurrence have one float element type; bias, states
      and results one that is the same or wider.
    - (C2) extents agree as above; D is 2 for `bidirectional`, else 1.
}];

def Mpc_LstmOp : Mpc_RecurrentOp<"lstm", "4", "Long short-term memory (ONNX LSTM)"> {
  let description = [{
    Gate order i, o, f, c; activations sigmoid, tanh, tanh. Optional bias,
    initial states and peephole weights `[D, 3*H]` (i, o, f).
  }] # Mpc_RecurrentConstraints;
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$weight, Mpc_FloatTensor:$recurrence,
                       Optional<Mpc_FloatTensor>:$bias, Optional<Mpc_FloatTensor>:$initial_h,
                       Optional<Mpc_FloatTensor>:$initial_c, Optional<Mpc_FloatTensor>:$peephole,
                       DefaultValuedAttr<Mpc_RecurrentDirectionAttr, "::mpc::RecurrentDirection::forward">:$direction);
  let results = (outs Mpc_FloatTensor:$result, Mpc_FloatTensor:$final_h, Mpc_FloatTensor:$final_c);
  let assemblyFormat = [{
    $input `,` $weight `,` $recurrence (`bias` `(` $bias^ `)`)? (`initial_h` `(` $initial_h^ `)`)?
    (`initial_c` `(` $initial_c^ `)`)? (`peephole` `(` $peephole^ `)`)?
    (`direction` `(` custom<EnumKeyword>($direction)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Mpc_GruOp : Mpc_RecurrentOp<"gru", "3", "Gated recurrent unit (ONNX GRU)"> {
  let description = [{
    Gate order z, r, h; activations sigmoid, tanh. `linear_before_reset` applies
    the reset gate after the recurrent product.
  }] # Mpc_RecurrentConstraints;
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$weight, Mpc_FloatTensor:$recurrence,
                       Optional<Mpc_FloatTensor>:$bias, Optional<Mpc_FloatTensor>:$initial_h,
                       UnitAttr:$linear_before_reset,
                       DefaultValuedAttr<Mpc_RecurrentDirectionAttr, "::mpc::RecurrentDirection::forward">:$direction);
  let results = (outs Mpc_FloatTensor:$result, Mpc_FloatTensor:$final_h);
  let assemblyFormat = [{
    $input `,` $weight `,` $recurrence (`bias` `(` $bias^ `)`)? (`initial_h` `(` $initial_h^ `)`)?
    (`linear_before_reset` $linear_before_reset^)? (`direction` `(` custom<EnumKeyword>($direction)^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Mpc_RnnOp : Mpc_RecurrentOp<"rnn", "1", "Elman recurrent network with tanh (ONNX RNN)"> {
  let description = Mpc_RecurrentConstraints;
  let arguments = (ins Mpc_FloatTensor:$input, Mpc_FloatTensor:$weight, Mpc_FloatTensor:$recurrence,
                       Optional<Mpc_FloatTensor>:$bias, Optional<Mpc_FloatTensor>:$initial_h,
                       DefaultValuedAttr<Mpc_RecurrentDirectionAttr, "::mpc::RecurrentDirection::forward">:$direction);
  let results = (outs Mpc_FloatTensor:$result, Mpc_FloatTensor:$final_h);
  let assemblyFormat = [{
    $input `,` $weight `,` $recurrence (`bias` `(` $bias^ `)`)? (`initial_h` `(` $initial_h^ `)`)?
    (`direction` `(` custom<EnumKeyword>($direction)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

def Mpc_RecurrenceOp : Mpc_Op<"recurrence", "Recurrent",
    "2 * getGates() * ::mpc::productOf({getDirections(), getSteps(), getBatch(), getHidden(), getHidden()})",
    [AttrSizedOperandSegments]> {
  let summary = "Time steps of a recurrent layer with projected input";
  let description = [{
    The sequential part of `lstm`, `gru` and `rnn` after a GEMM has computed the
    input's contribution to the gates, `projected` `[T, B, D*G*H]`, including its
    bias. `cell` selects the layer; `linear_gru` is `gru` with
    `linear_before_reset`. `recurrence` is `[D, G*H, H]`, `bias` the recurrent half
    `[D, G*H]`; states, `peephole`, results and gate order as in the layers. States
    have the result's type and are rounded to that of `recurrence` for matmuls.
    - (C1) all but `recurrence` have one float element type, at least as wide as
      `recurrence`'s.
    - (C2) extents agree as above; D is 2 for `bidirectional`, else 1.
    - (C3) only `lstm` has `initial_c`, `peephole` and `final_c`, the last always.
  }];
  let arguments = (ins Mpc_FloatTensor:$projected, Mpc_FloatTensor:$recurrence,
                       Optional<Mpc_FloatTensor>:$bias, Optional<Mpc_FloatTensor>:$initial_h,
                       Optional<Mpc_FloatTensor>:$initial_c, Optional<Mpc_FloatTensor>:$peephole,
                       Mpc_RecurrentCellAttr:$cell,
                       DefaultValuedAttr<Mpc_RecurrentDirectionAttr, "::mpc::RecurrentDirection::forward">:$direction);
  let results = (outs Mpc_FloatTensor:$result, Mpc_FloatTensor:$final_h, Optional<Mpc_FloatTensor>:$final_c);
  let assemblyFormat = [{
    custom<EnumKeyword>($cell) $projected `,` $recurrence (`bias` `(` $bias^ `)`)? (`initial_h` `(` $initial_h^ `)`)?
    (`initial_c` `(` $initial_c^ `)`)? (`peephole` `(` $peephole^ `)`)?
    (`direction` `(` custom<EnumKeyword>($direction)^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = members # [{
    /// The state is contracted with operand 1; other operands keep their type.
    bool isPrecisionOperand(unsigned index) { return index == 1; }
    /// Rows of the weights per hidden unit.
    int64_t getGates();
    int64_t getSteps() { return getProjected().getType().getShape()[0]; }
    int64_t getBatch() { return getProjected().getType().getShape()[1]; }
    int64_t getHidden() { return getRecurrence().getType().getShape()[2]; }
    int64_t getDirections() { return getRecurrence().getType().getShape()[0]; }
  }];
  let hasVerifier = 1;
}

#endif // MPC_DIALECT_MPC_IR_MPCRECURRENTOPS
