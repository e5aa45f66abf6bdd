//===- QuantizedRecurrent.cpp - DynamicQuantizeLSTM -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An LSTM with 8-bit weights. The input is quantized once for all steps, the
// hidden state dynamically at each step, so the steps are unrolled.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"

#include "Quantization.h"
#include "RecurrentSteps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

namespace {

/// A weight matrix [input or hidden, 4 * hidden] minus its zero point, and its
/// scale, per tensor or per column.
struct Weight {
  Value factor, scale;
};

} // namespace

/// Returns the weight matrix of direction `d`, shared by all steps.
static Weight readWeight(NodeImport &n, size_t values, size_t scale,
                         size_t zeroPoint, int64_t d) {
  QuantizedTensor weight = {entryOf(n, n.in(values), d),
                            entryOf(n, n.in(scale), d),
                            entryOf(n, n.in(zeroPoint), d)};
  return {centredFactor(n, weight), weight.scale};
}

/// Quantizes `x` and multiplies it by `weight`; returns floats.
static Value project(NodeImport &n, Value x, const Weight &weight) {
  QuantizedTensor quantized = quantizeDynamically(n, x);
  Value product =
      multiplyIntegers(n, centredFactor(n, quantized), weight.factor);
  return n.op<MulOp>({n.cast(product, n.element(x)),
                      n.op<MulOp>({quantized.scale, weight.scale})});
}

/// Checks operands and shapes.
static LogicalResult checkLstm(NodeImport &n, int64_t directions) {
  for (size_t i : {1, 2, 8, 9, 10, 11})
    if (!n.has(i))
      return n.error() << "input " << i << " is missing";
  Value x = n.in(0), weight = n.in(1), recurrence = n.in(2);
  if (n.failed())
    return failure();
  int64_t hidden = n.dim(recurrence, 1);
  if (n.rank(x) != 3 ||
      n.shape(weight) !=
          ArrayRef<int64_t>({directions, n.dim(x, 2), 4 * hidden}) ||
      n.shape(recurrence) !=
          ArrayRef<int64_t>({directions, hidden, 4 * hidden}) ||
      hidden != n.intAttr("hidden_size", hidden))
    return n.error() << "input, weight and recurrence are " << x.getType()
                     << ", " << weight.getType() << " and "
                     << recurrence.getType()
                     << ", expected [steps, batch, input], [directions, input, "
                        "4 * hidden] and [directions, hidden, 4 * hidden]";
  return n.status();
}

static LogicalResult convertDynamicQuantizeLstm(NodeImport &n) {
  std::string name = n.stringAttr("direction", "forward");
  int64_t directions = name == "bidirectional" ? 2 : 1;
  if (directions == 1 && name != "forward" && name != "reverse")
    return n.error() << "attribute 'direction' is '" << name
                     << "', expected forward, reverse or bidirectional";
  if (failed(checkLstm(n, directions)))
    return failure();
  SmallVector<CellForm, 2> forms =
      readCellForms(n, RecurrentCell::lstm, directions);
  Value x = n.in(0);
  int64_t steps = n.dim(x, 0), batch = n.dim(x, 1), hidden = n.dim(n.in(2), 1);
  Value lengths = n.has(4) ? readSequenceLengths(n, steps, batch) : Value();
  if (n.failed())
    return failure();
  Value flat = n.reshape(x, {steps * batch, n.dim(x, 2)});
  SmallVector<Value> sequences, lastH, lastC;
  for (int64_t d = 0; d < directions && !n.failed(); ++d) {
    UnrolledDirection direction;
    direction.form = forms[d];
    direction.reverse = d == 1 || name == "reverse";
    direction.lengths = lengths;
    Value gates = project(n, flat, readWeight(n, 1, 8, 9, d));
    if (n.has(3)) {
      Value both = entryOf(n, n.in(3), d);
      Value bias = n.op<AddOp>({n.sliceAxis(both, 0, 0, 4 * hidden),
                                n.sliceAxis(both, 0, 4 * hidden, 4 * hidden)});
      gates = n.op<AddOp>({gates, bias});
    }
    direction.gates = n.reshape(gates, {steps, batch, 4 * hidden});
    Weight recurrence = readWeight(n, 2, 10, 11, d);
    direction.recur = [&](Value state, int64_t, int64_t) {
      return project(n, state, recurrence);
    };
    if (n.has(5))
      direction.h = entryOf(n, n.in(5), d);
    if (n.has(6))
      direction.c = entryOf(n, n.in(6), d);
    if (n.has(7)) {
      Value all = entryOf(n, n.in(7), d);
      for (int64_t i = 0; i < 3; ++i)
        direction.peephole[i] = n.sliceAxis(all, 0, i * hidden, hidden);
    }
    sequences.push_back(direction.run(n));
    lastH.push_back(n.reshape(direction.h, {1, batch, hidden}));
    lastC.push_back(n.reshape(direction.c, {1, batch, hidden}));
  }
  if (n.failed())
    return failure();
  n.set(0, n.concat(sequences, 1));
  n.set(1, n.concat(lastH, 0));
  n.set(2, n.concat(lastC, 0));
  return n.status();
}

OpFamily mpc::onnx::quantizedRecurrentOps() {
  static const OpEntry entries[] = {
      {"com.microsoft:DynamicQuantizeLSTM 1 3-12 activation_alpha "
       "activation_beta activations clip direction hidden_size input_forget",
       convertDynamicQuantizeLstm},
  };
  return entries;
}
