//===- RecurrenceVjps.cpp - the derivative of a recurrence ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backpropagation through time: one op computes the cotangents of all gates;
// the gradients of weights and biases are one GEMM, or reduction, over all
// steps.
//
//===----------------------------------------------------------------------===//

#include "VjpBuilder.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcRecurrenceOps.h"

using namespace mlir;
using namespace mpc;

namespace {

class RecurrenceVjp {
public:
  RecurrenceVjp(RecurrenceTrainingOp op, VjpBuilder &v)
      : op(op), v(v), cell(op.getCell()), wide(v.elementOf(op.getKept())),
        steps(op.getSteps()), batch(op.getBatch()), hidden(op.getHidden()),
        directions(op.getDirections()) {}

  void write() {
    bool isLstm = cell == RecurrentCell::lstm;
    Value initial = isLstm ? op.getInitialC() : op.getInitialH();
    SmallVector<Type> types = {op.getProjected().getType(),
                               op.getFinalH().getType()};
    if (isLstm)
      types.push_back(op.getFinalC().getType());
    else if (cell == RecurrentCell::linear_gru)
      types.push_back(op.getProjected().getType());
    gradient = v.create<RecurrenceGradientOp>(
        types, op.getRecurrence(), op.getKept(), v.dy(0), v.dy(1),
        isLstm ? v.dy(2) : Value(), initial, op.getPeephole(), cell,
        op.getDirection());
    gates = gradient.getProjectedGradient();
    recurrent = gradient.getRecurrentGradient();
    give(op.getProjectedMutable(), [&] { return gates; });
    give(op.getRecurrenceMutable(), [&] { return ofWeights(); });
    give(op.getBiasMutable(), [&] { return ofBias(); });
    give(op.getInitialHMutable(),
         [&] { return gradient.getInitialHGradient(); });
    give(op.getInitialCMutable(), [&] { return gradient.getOtherGradient(); });
    give(op.getPeepholeMutable(), [&] { return ofPeephole(); });
  }

private:
  /// Sets the cotangent of an operand to the result of `make` if needed.
  template <typename Fn> void give(OpOperand &operand, Fn make) {
    if (v.needs(operand.getOperandNumber()))
      v.give(operand.getOperandNumber(), make());
  }
  template <typename Fn> void give(const MutableOperandRange &range, Fn make) {
    if (!range.empty())
      give(range[0], make);
  }

  bool isBackwards(int64_t direction) {
    return op.getDirection() == RecurrentDirection::reverse || direction == 1;
  }
  /// Slice `[T, B, count * H]` of `[T, B, D * each * H]`.
  Value part(Value value, int64_t direction, int64_t each, int64_t first,
             int64_t count) {
    return v.sliceAxis(value, 2, (direction * each + first) * hidden,
                       count * hidden);
  }
  static bool isZero(Value value) {
    if (!value)
      return true;
    ElementsAttr constant = constantOf(value);
    return constant && splatValue(constant) == 0.0;
  }

  /// States `[T, B, H]` before each step; without an initial state, those of
  /// all steps but the first in time.
  Value before(Value states, Value initial, int64_t direction) {
    bool backwards = isBackwards(direction);
    Value later = v.sliceAxis(states, 0, backwards ? 1 : 0, steps - 1);
    if (isZero(initial))
      return later;
    Value first = v.cast(v.sliceAxis(initial, 0, direction, 1), wide);
    return backwards ? v.concat({later, first}, 0)
                     : v.concat({first, later}, 0);
  }
  /// The steps of `[T, B, ...]` that match before().
  Value behind(Value sequence, Value initial, int64_t direction) {
    if (!isZero(initial))
      return sequence;
    return v.sliceAxis(sequence, 0, isBackwards(direction) ? 0 : 1, steps - 1);
  }

  Value rows(Value sequence) {
    ArrayRef<int64_t> shape = shapeOf(sequence);
    return v.reshape(sequence, {shape[0] * shape[1], shape[2]});
  }
  /// `gates^T * states` over all steps: [gates, H].
  Value product(Value gates, Value states) {
    return v.create<MatmulOp>(
        RankedTensorType::get({shapeOf(gates)[2], hidden}, wide), rows(gates),
        rows(states), /*transpose_lhs=*/true, /*transpose_rhs=*/false,
        TypeAttr(), ComputeMode::native, PackedAttr());
  }

  Value ofWeights() {
    int64_t each = op.getGates();
    SmallVector<Value> parts;
    for (int64_t d = 0; d < directions; ++d) {
      Value initial = op.getInitialH();
      if (isZero(initial) && steps == 1) {
        parts.push_back(v.splat({1, each * hidden, hidden}, wide, 0.0));
        continue;
      }
      Value all = v.reshape(v.sliceAxis(op.getResult(), 1, d, 1),
                            {steps, batch, hidden});
      Value states = before(all, initial, d);
      Value cotangents = behind(part(recurrent, d, each, 0, each), initial, d);
      Value sum;
      if (cell == RecurrentCell::gru) {
        // The recurrent input of gate h passed the reset gate.
        Value reset =
            behind(part(op.getKept(), d, op.getKeptValues(), 1, 1), initial, d);
        sum = v.concat(
            {product(v.sliceAxis(cotangents, 2, 0, 2 * hidden), states),
             product(v.sliceAxis(cotangents, 2, 2 * hidden, hidden),
                     v.mul(reset, states))},
            0);
      } else {
        sum = product(cotangents, states);
      }
      parts.push_back(v.reshape(sum, {1, each * hidden, hidden}));
    }
    return v.concat(parts, 0);
  }

  Value ofBias() {
    return v.reshape(v.sum(recurrent, {0, 1}), shapeOf(op.getBias()));
  }

  Value ofPeephole() {
    SmallVector<Value> parts;
    for (int64_t d = 0; d < directions; ++d) {
      Value cells = part(op.getKept(), d, op.getKeptValues(), 4, 1);
      auto gate = [&](int64_t number) {
        return part(gates, d, op.getGates(), number, 1);
      };
      Value initial = op.getInitialC();
      auto look = [&](int64_t number, bool isOut) {
        if (!isOut && isZero(initial) && steps == 1)
          return v.splat({1, hidden}, wide, 0.0);
        Value product = isOut ? v.mul(gate(number), cells)
                              : v.mul(behind(gate(number), initial, d),
                                      before(cells, initial, d));
        return v.reshape(v.sum(product, {0, 1}), {1, hidden});
      };
      parts.push_back(
          v.concat({look(0, false), look(1, true), look(2, false)}, 1));
    }
    return v.concat(parts, 0);
  }

  RecurrenceTrainingOp op;
  VjpBuilder &v;
  RecurrentCell cell;
  Type wide;
  int64_t steps, batch, hidden, directions;
  RecurrenceGradientOp gradient;
  Value gates, recurrent;
};

} // namespace

void mpc::attachRecurrenceVjps(MLIRContext *context) {
  attachVjp<RecurrenceTrainingOp>(context,
                                  [](RecurrenceTrainingOp op, VjpBuilder &v) {
                                    RecurrenceVjp(op, v).write();
                                  });
}
