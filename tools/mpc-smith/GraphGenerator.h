//===- GraphGenerator.h - Random graph generation ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds model building blocks to a graph: layers, masks, recurrences, integer
// arithmetic. Each block reads results of earlier ones and stays well
// conditioned, so that correct programs of every precision agree: no divisor is
// close to zero, no compared values are nearly equal, nothing overflows in
// float16.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_GRAPHGENERATOR_H
#define MPC_TOOLS_SMITH_GRAPHGENERATOR_H

#include "TextGraphBuilder.h"

#include <functional>
#include <optional>

namespace mpc::smith {

struct GeneratorOptions {
  /// Minimum number of ops of a graph; at most one block more.
  int ops = 20;
  /// Largest number of elements of a value, and of products in a contraction.
  int64_t mostElements = 6000, mostProducts = 400000;
  /// Omits what is not differentiable or depends on integers.
  bool differentiable = false;
  /// Only arithmetic that is bit-exact on every target.
  bool exact = false;
};

class GraphGenerator {
public:
  GraphGenerator(Random &random, Graph &graph, const GeneratorOptions &options)
      : random(random), graph(graph), options(options) {}

  /// Adds blocks until there are enough ops, and names the results.
  void draw();

private:
  using Piece = void (GraphGenerator::*)();

  // GenerateElementwise.cpp
  void unaryChain();
  void arithmetic();
  void choices();
  void conversions();
  void integerArithmetic();
  void wholeFloats();
  void activationForms();

  // GenerateLayers.cpp
  void denseLayers();
  void productOfValues();
  void convolution();
  void transposedConvolution();
  void pooling();
  void recurrent();
  void quantizedLayers();

  // GenerateAttention.cpp
  void attentionOp();
  void attentionOfOps();
  void attentionLayer();

  // GenerateRowOps.cpp
  void norms();
  void normOfOps();
  void softmaxes();
  void reductions();
  void positions();
  void losses();

  // GenerateMovement.cpp
  void movement();
  void padding();
  void gathers();
  void scatters();
  void embedding();

  //===--------------------------------------------------------------------===//
  // Choices
  //===--------------------------------------------------------------------===//

  std::vector<Value> chooseResults();
  /// The only result of a training graph: depends on everything generated, and
  /// ends in parameters if nothing else does.
  Value lossOutput();
  int64_t extent();
  Shape drawShape(int64_t rank);
  std::string floatElement();
  std::string layerPath();
  void keep(const Value &value) { pool.push_back(value); }

  /// A value that `accept` accepts, with a bias towards late ones.
  std::optional<Value> find(const std::function<bool(const Value &)> &accept);
  /// An f32 value of at least (with `exactly`, exactly) this rank, created if
  /// there is none.
  Value floats(int64_t rank, bool exactly = false);
  /// An f32 matrix operand: [..., rows, columns].
  Value rows() { return floats(2); }
  /// Images [N, C, spatial...].
  Value image(int64_t spatial);
  /// The same values scaled to about [-2, 2].
  Value tame(const Value &x);
  /// Values of at least 0.1 with the shape of `x`.
  Value positive(const Value &x);
  /// A second operand of `x`'s type whose shape broadcasts to x's.
  Value partner(const Value &x);
  /// A boolean tensor of a shape that broadcasts to `shape`.
  Value flags(const Shape &shape);
  /// Values to compare and sort: Distinct or Exact.
  Value ordered(int64_t leastRank);
  /// Weights: mostly constants, sometimes arguments.
  Value parameter(const Shape &shape, double scale, double mean = 0,
                  const std::string &element = "f32");
  /// An attention mask for scores of this shape: i1, or additive floats.
  Value boolMask(int64_t batch, int64_t heads, int64_t rows, int64_t columns);
  Value addedMask(const Value &flags);
  Value activation(const Value &x);
  /// [rows, columns] split into [batch, heads, rows, depth], or the reverse.
  Value splitHeads(const Value &x, int64_t batch, int64_t heads);
  Value mergeHeads(const Value &x);
  Value dense(const Value &x, int64_t columns, bool bias);
  Value softmaxOfOps(const Value &x, int64_t axis, int form);
  Value indices(const Shape &shape, int64_t bound, bool negative);

  Random &random;
  Graph &graph;
  GeneratorOptions options;
  std::vector<Value> pool;
};

/// A random graph under `options`.
std::string drawGraph(Random &random, const GeneratorOptions &options,
                      Graph &graph);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_GRAPHGENERATOR_H
