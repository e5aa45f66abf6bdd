//===- RecurrentTests.cpp - lstm, gru, rnn --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compared with scalar recurrences written from the ONNX equations.
//
//===----------------------------------------------------------------------===//

#include "ReferenceTest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::reference;

namespace {

using RecurrentTest = ReferenceTest;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One unit, one feature: every weight is a scalar.
TEST_F(RecurrentTest, LstmOfOneUnit) {
  Tensor x = random("tensor<3x1x1xf64>"), w = random("tensor<1x4x1xf64>"),
         r = random("tensor<1x4x1xf64>"), b = random("tensor<1x8xf64>"),
         h0 = random("tensor<1x1x1xf64>"), c0 = random("tensor<1x1x1xf64>"),
         p = random("tensor<1x3xf64>");
  SmallVector<Tensor> results = run(
      "mpc.lstm %0, %1, %2 bias(%3) initial_h(%4) initial_c(%5) peephole(%6) : "
      "(tensor<3x1x1xf64>, tensor<1x4x1xf64>, tensor<1x4x1xf64>, "
      "tensor<1x8xf64>, "
      "tensor<1x1x1xf64>, tensor<1x1x1xf64>, tensor<1x3xf64>) -> "
      "(tensor<3x1x1x1xf64>, "
      "tensor<1x1x1xf64>, tensor<1x1x1xf64>)",
      {x, w, r, b, h0, c0, p},
      {"tensor<3x1x1x1xf64>", "tensor<1x1x1xf64>", "tensor<1x1x1xf64>"});
  double h = h0.floats()[0], c = c0.floats()[0];
  std::vector<double> states;
  auto W = w.floats(), R = r.floats(), B = b.floats(), P = p.floats();
  for (double input : x.floats()) {
    auto gate = [&](int g) {
      return W[g] * input + R[g] * h + B[g] + B[4 + g];
    };
    double i = sigmoid(gate(0) + P[0] * c), f = sigmoid(gate(2) + P[2] * c);
    double candidate = std::tanh(gate(3));
    double next = f * c + i * candidate;
    double o = sigmoid(gate(1) + P[1] * next);
    c = next;
    h = o * std::tanh(c);
    states.push_back(h);
  }
  ASSERT_EQ(results.size(), 3u);
  expectNear(results[0], states, 1e-14);
  expectNear(results[1], {h}, 1e-14);
  expectNear(results[2], {c}, 1e-14);
}

TEST_F(RecurrentTest, GruOfOneUnitInBothForms) {
  Tensor x = random("tensor<3x1x1xf64>"), w = random("tensor<1x3x1xf64>"),
         r = random("tensor<1x3x1xf64>"), b = random("tensor<1x6xf64>");
  auto W = w.floats(), R = r.floats(), B = b.floats();
  for (bool linear : {false, true}) {
    SmallVector<Tensor> results =
        run(std::string("mpc.gru %0, %1, %2 bias(%3)") +
                (linear ? " linear_before_reset" : "") +
                " : (tensor<3x1x1xf64>, tensor<1x3x1xf64>, tensor<1x3x1xf64>, "
                "tensor<1x6xf64>) -> "
                "(tensor<3x1x1x1xf64>, tensor<1x1x1xf64>)",
            {x, w, r, b}, {"tensor<3x1x1x1xf64>", "tensor<1x1x1xf64>"});
    double h = 0;
    std::vector<double> states;
    for (double input : x.floats()) {
      double z = sigmoid(W[0] * input + R[0] * h + B[0] + B[3]);
      double reset = sigmoid(W[1] * input + R[1] * h + B[1] + B[4]);
      double inner =
          linear ? reset * (R[2] * h + B[5]) : R[2] * (reset * h) + B[5];
      double candidate = std::tanh(W[2] * input + inner + B[2]);
      h = (1 - z) * candidate + z * h;
      states.push_back(h);
    }
    ASSERT_EQ(results.size(), 2u);
    expectNear(results[0], states, 1e-14);
    expectNear(results[1], {h}, 1e-14);
  }
}

// Two features, two units, two samples, both directions.
TEST_F(RecurrentTest, BidirectionalRnnIteratesBothWays) {
  Tensor x = random("tensor<4x2x2xf64>"), w = random("tensor<2x2x2xf64>"),
         r = random("tensor<2x2x2xf64>"), h0 = random("tensor<2x2x2xf64>");
  SmallVector<Tensor> results =
      run("mpc.rnn %0, %1, %2 initial_h(%3) direction(bidirectional) : "
          "(tensor<4x2x2xf64>, "
          "tensor<2x2x2xf64>, tensor<2x2x2xf64>, tensor<2x2x2xf64>) -> "
          "(tensor<4x2x2x2xf64>, "
          "tensor<2x2x2xf64>)",
          {x, w, r, h0}, {"tensor<4x2x2x2xf64>", "tensor<2x2x2xf64>"});
  ASSERT_EQ(results.size(), 2u);
  std::vector<double> states(32), last(8);
  for (int d = 0; d < 2; ++d)
    for (int b = 0; b < 2; ++b) {
      double h[2] = {h0.floats()[(d * 2 + b) * 2],
                     h0.floats()[(d * 2 + b) * 2 + 1]};
      for (int step = 0; step < 4; ++step) {
        int t = d == 0 ? step : 3 - step;
        double next[2];
        for (int unit = 0; unit < 2; ++unit) {
          double sum = 0;
          for (int i = 0; i < 2; ++i)
            sum += w.floats()[(d * 2 + unit) * 2 + i] *
                       x.floats()[(t * 2 + b) * 2 + i] +
                   r.floats()[(d * 2 + unit) * 2 + i] * h[i];
          next[unit] = std::tanh(sum);
        }
        for (int unit = 0; unit < 2; ++unit)
          states[((t * 2 + d) * 2 + b) * 2 + unit] = h[unit] = next[unit];
      }
      last[(d * 2 + b) * 2] = h[0];
      last[(d * 2 + b) * 2 + 1] = h[1];
    }
  expectNear(results[0], states, 1e-14);
  expectNear(results[1], last, 1e-14);
}

} // namespace
