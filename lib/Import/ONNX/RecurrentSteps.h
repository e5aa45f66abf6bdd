//===- RecurrentSteps.h - unrolled recurrent cells --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrent layers that no op of the dialect supports (other activations,
// clipped gates, coupled input and forget gates, quantized states) are unrolled
// to one matmul and elementwise ops per step. Formulas: ONNX operators LSTM,
// GRU and RNN.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_ONNX_RECURRENTSTEPS_H
#define MPC_LIB_IMPORT_ONNX_RECURRENTSTEPS_H

#include "Activation.h"

namespace mpc::onnx {

/// Cell variant: everything except the matmuls.
struct CellForm {
  RecurrentCell kind = RecurrentCell::lstm;
  /// The functions f, g, h of ONNX: lstm has three, gru two, rnn one.
  llvm::SmallVector<Activation, 3> activations;
  /// Clipping bound of gate pre-activations.
  std::optional<double> clip;
  /// lstm: the forget gate is 1 - the input gate (`input_forget`).
  bool couplesForget = false;

  /// Returns true if the ops `lstm`, `gru` and `rnn` compute this form.
  bool isDefault() const;
};

/// Returns the cell variants of a node's directions from its attributes
/// `activations`, `activation_alpha`, `activation_beta`, `clip` and
/// `input_forget`. Unspecified after an error in `n`.
llvm::SmallVector<CellForm, 2> readCellForms(NodeImport &n, RecurrentCell kind,
                                             int64_t directions);

/// Returns input 4 of a node, `sequence_lens`: [batch], checked to be between 0
/// and `steps`. Null if all are known to be `steps`, and after an error.
mlir::Value readSequenceLengths(NodeImport &n, int64_t steps, int64_t batch);

/// Returns entry `index` of the first dimension, which is dropped.
mlir::Value entryOf(NodeImport &n, mlir::Value value, int64_t index);

/// Reverses the first `lengths[b]` positions of dimension `time` for each index
/// b of dimension `batch` (ONNX ReverseSequence). `lengths` is [batch].
mlir::Value reverseSequence(NodeImport &n, mlir::Value x, mlir::Value lengths,
                            int64_t time, int64_t batch);

/// One direction of an unrolled layer.
struct UnrolledDirection {
  CellForm form;
  bool reverse = false;
  /// Input part of all gates, all biases that are not in `candidateBias`
  /// included: [steps, batch, gates * hidden].
  mlir::Value gates;
  /// Returns the recurrent part of `count` gates from gate `first` on, for a
  /// state [batch, hidden]: [batch, count * hidden].
  std::function<mlir::Value(mlir::Value state, int64_t first, int64_t count)>
      recur;
  /// linear_gru: recurrent bias of the candidate, [hidden]; null: zeros.
  mlir::Value candidateBias;
  /// lstm: peephole weights of input, output and forget gate, [hidden]; null:
  /// zeros.
  mlir::Value peephole[3];
  /// Initial states; after run() the states after the last step of each
  /// sequence: [batch, hidden]; null: zeros. `c` for lstm only.
  mlir::Value h, c;
  /// Sequence lengths, [batch]; null: all steps.
  mlir::Value lengths;

  /// Emits all steps. Returns the sequence of hidden states, 0 past the end of
  /// a sequence: [steps, 1, batch, hidden].
  mlir::Value run(NodeImport &n);

private:
  void step(NodeImport &n, mlir::Value input, int64_t hidden);
};

} // namespace mpc::onnx

#endif // MPC_LIB_IMPORT_ONNX_RECURRENTSTEPS_H
