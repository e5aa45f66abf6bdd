//===- TrainingCases.cpp - random losses, training-mode ops, recurrences --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "VjpCases.h"

using namespace mpc::vjptest;

namespace {

void regression(Draw &d, std::string name, std::string flags = "",
                Domain targets = normal) {
  Shape shape = d.shape(2, 2);
  d.parameter(shape);
  d.parameter(shape, targets);
  d.op("mpc." + name + " %0, %1" + flags, {{}});
}

void classes(Draw &d, std::string flags) {
  Shape shape = d.shape(3, 3);
  d.parameter(shape);
  d.integers({shape[0], shape[1]}, 0, shape[2] - 1, "i32");
  d.op("mpc.softmax_cross_entropy %0, %1" + flags, {{}});
}

/// lstm, gru or rnn with all optional operands.
void recurrent(Draw &d, std::string name, int64_t gates, std::string flags,
               int64_t directions, bool options) {
  int64_t steps = d.extent(2, 4), batch = d.extent(1, 3),
          inputs = d.extent(1, 3), hidden = d.extent(1, 3);
  Shape state = {directions, batch, hidden};
  d.parameter({steps, batch, inputs});
  d.parameter({directions, gates * hidden, inputs});
  d.parameter({directions, gates * hidden, hidden});
  std::string text = "mpc." + name + " %0, %1, %2";
  bool lstm = name == "lstm";
  if (options) {
    d.parameter({directions, 2 * gates * hidden});
    d.parameter(state);
    text += " bias(%3) initial_h(%4)";
    if (lstm) {
      d.parameter(state);
      d.parameter({directions, 3 * hidden});
      text += " initial_c(%5) peephole(%6)";
    }
  }
  std::vector<Shape> results = {{steps, directions, batch, hidden}, state};
  if (lstm)
    results.push_back(state);
  d.op(text + flags, results);
}

/// The decomposition of lstm, gru and rnn, with all optional operands.
void recurrence(Draw &d, std::string cell, int64_t gates, int64_t kept,
                std::string flags, int64_t directions, bool options) {
  int64_t steps = d.extent(1, 4), batch = d.extent(1, 3),
          hidden = d.extent(1, 3);
  Shape state = {directions, batch, hidden};
  d.parameter({steps, batch, directions * gates * hidden});
  d.parameter({directions, gates * hidden, hidden});
  std::string text = "mpc.recurrence_training " + cell + " %0, %1";
  bool lstm = cell == "lstm";
  if (options) {
    d.parameter({directions, gates * hidden});
    d.parameter(state);
    text += " bias(%2) initial_h(%3)";
    if (lstm) {
      d.parameter(state);
      d.parameter({directions, 3 * hidden});
      text += " initial_c(%4) peephole(%5)";
    }
  }
  std::vector<Shape> results = {{steps, directions, batch, hidden}, state};
  if (lstm)
    results.push_back(state);
  d.op(text + flags, results);
  // Saved activations have no cotangent.
  d.alsoGives(d.type({steps, batch, directions * kept * hidden}));
}

} // namespace

std::vector<OpCase> mpc::vjptest::trainingCases() {
  return {
      {"mpc.mean_squared_error",
       [](Draw &d) { regression(d, "mean_squared_error"); }},
      {"mpc.mean_absolute_error",
       [](Draw &d) { regression(d, "mean_absolute_error"); }},
      {"mpc.huber", [](Draw &d) { regression(d, "huber", " delta(0.6)"); }},
      {"mpc.sigmoid_cross_entropy",
       [](Draw &d) { regression(d, "sigmoid_cross_entropy", "", positive); }},
      {"mpc.softmax_cross_entropy", [](Draw &d) { classes(d, ""); }},
      {"mpc.softmax_cross_entropy smoothed",
       [](Draw &d) { classes(d, " label_smoothing(0.1)"); }},
      {"mpc.softmax_cross_entropy ignored",
       [](Draw &d) { classes(d, " label_smoothing(0.2) ignore_index(1)"); }},
      {"mpc.softmax_cross_entropy distributions",
       [](Draw &d) {
         regression(d, "softmax_cross_entropy",
                    d.coin() ? " label_smoothing(0.3)" : "", positive);
       }},
      {"mpc.batch_norm_training",
       [](Draw &d) {
         Shape shape = {d.extent(2, 3), d.extent(2, 3), d.extent(2, 3),
                        d.extent(1, 3)};
         Shape channels = {shape[1]};
         d.parameter(shape);
         d.parameter(channels);
         d.parameter(channels);
         // Statistics: f32 or f64 whatever the rest is.
         std::string type = d.element == "f64" ? "f64" : "f32";
         for (int i = 0; i < 2; ++i)
           d.arguments.push_back(
               {d.type(channels, type), false, positive, 0, 0});
         d.op("mpc.batch_norm_training %0, %1, %2, %3, %4 epsilon(0.01) "
              "momentum(0.1)",
              {shape});
         d.alsoGives(d.type(channels, type));
         d.alsoGives(d.type(channels, type));
       }},
      {"mpc.dropout",
       [](Draw &d) {
         Shape shape = d.shape(2, 4);
         d.parameter(shape);
         d.integers({2}, 0, 1000);
         d.op("mpc.dropout %0, %1 probability(0.4) stream(3)", {shape});
       }},
      {"mpc.lstm", [](Draw &d) { recurrent(d, "lstm", 4, "", 1, true); }},
      {"mpc.lstm both directions",
       [](Draw &d) {
         recurrent(d, "lstm", 4, " direction(bidirectional)", 2, false);
       }},
      {"mpc.gru", [](Draw &d) { recurrent(d, "gru", 3, "", 1, true); }},
      {"mpc.gru linear before reset, reverse",
       [](Draw &d) {
         recurrent(d, "gru", 3, " linear_before_reset direction(reverse)", 1,
                   true);
       }},
      {"mpc.rnn", [](Draw &d) { recurrent(d, "rnn", 1, "", 1, d.coin()); }},
      {"mpc.recurrence_training lstm",
       [](Draw &d) { recurrence(d, "lstm", 4, 5, "", 1, true); }},
      {"mpc.recurrence_training lstm, both directions",
       [](Draw &d) {
         recurrence(d, "lstm", 4, 5, " direction(bidirectional)", 2, d.coin());
       }},
      {"mpc.recurrence_training gru",
       [](Draw &d) {
         recurrence(d, "gru", 3, 4, " direction(reverse)", 1, d.coin());
       }},
      {"mpc.recurrence_training gru, both directions",
       [](Draw &d) {
         recurrence(d, "gru", 3, 4, " direction(bidirectional)", 2, true);
       }},
      {"mpc.recurrence_training gru linear before reset",
       [](Draw &d) {
         recurrence(d, "linear_gru", 3, 5, " direction(bidirectional)", 2,
                    d.coin());
       }},
      {"mpc.recurrence_training rnn",
       [](Draw &d) {
         recurrence(d, "rnn", 1, 1, d.coin() ? " direction(reverse)" : "", 1,
                    d.coin());
       }},
  };
}
