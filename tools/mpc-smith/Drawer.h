//===- Drawer.h - what graphs are made of -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds pieces of models to a graph: layers, masks, recurrences, arithmetic on
// whole numbers. Every piece reads what earlier ones gave, and keeps to numbers
// on which correct programs of every precision agree: a divisor is not next to
// zero, what is compared is not next to equal, nothing overflows in float16.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_SMITH_DRAWER_H
#define MPC_TOOLS_SMITH_DRAWER_H

#include "Graph.h"

#include <functional>
#include <optional>

namespace mpc::smith {

struct DrawOptions {
  /// Ops that a graph has at least, up to one piece more.
  int ops = 20;
  /// Largest number of elements of a value, and of products in a contraction.
  int64_t mostElements = 6000, mostProducts = 400000;
  /// Leaves out what has no derivative, and what integers decide.
  bool differentiable = false;
  /// Arithmetic whose bits every target has to give.
  bool exact = false;
};

class Drawer {
public:
  Drawer(Random &random, Graph &graph, const DrawOptions &options)
      : random(random), graph(graph), options(options) {}

  /// Draws pieces until there are enough ops, and names the results.
  void draw();

private:
  using Piece = void (Drawer::*)();

  // Elementwise.cpp
  void unaryChain();
  void arithmetic();
  void choices();
  void conversions();
  void integerArithmetic();
  void wholeFloats();
  void activationForms();

  // Layers.cpp
  void denseLayers();
  void productOfValues();
  void convolution();
  void transposedConvolution();
  void pooling();
  void recurrent();

  // Quantized.cpp
  void quantizedLayers();

  // Attention.cpp
  void attentionOp();
  void attentionOfOps();
  void attentionLayer();

  // Rows.cpp
  void norms();
  void normOfOps();
  void softmaxes();
  void reductions();
  void positions();
  void losses();

  // Movement.cpp
  void movement();
  void padding();
  void gathers();
  void scatters();
  void embedding();

  //===--------------------------------------------------------------------===//
  // Choices
  //===--------------------------------------------------------------------===//

  std::vector<Value> chooseResults();
  /// The one result of a graph that is trained: all that is drawn leads to it,
  /// through parameters at its end at the least.
  Value judgedOutput();
  int64_t extent();
  Shape drawShape(int64_t rank);
  std::string floatElement();
  std::string layerPath();
  void keep(const Value &value) { pool.push_back(value); }

  /// A value that `accept` takes, mostly a late one.
  std::optional<Value> find(const std::function<bool(const Value &)> &accept);
  /// An f32 value of at least (or, with `exactly`, just) this rank, made where
  /// there is none.
  Value floats(int64_t rank, bool exactly = false);
  /// The same with extents to multiply: [..., rows, columns].
  Value rows() { return floats(2); }
  /// Images [N, C, spatial...].
  Value image(int64_t spatial);
  /// The same numbers within about [-2, 2].
  Value tame(const Value &x);
  /// Numbers of at least 0.1 of the shape of `x`.
  Value positive(const Value &x);
  /// A value of `x`'s type for arithmetic with it; its shape broadcasts to x's.
  Value partner(const Value &x);
  /// A flag per element, of a shape that broadcasts to `shape`.
  Value flags(const Shape &shape);
  /// Numbers to compare and sort: Distinct or Exact.
  Value ordered(int64_t leastRank);
  /// Weights: mostly constants, sometimes arguments.
  Value parameter(const Shape &shape, double scale, double mean = 0,
                  const std::string &element = "f32");
  /// A mask of attention for scores of this shape: i1, or added floats.
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
  DrawOptions options;
  std::vector<Value> pool;
};

/// A graph that `options` and the draws decide.
std::string drawGraph(Random &random, const DrawOptions &options, Graph &graph);

} // namespace mpc::smith

#endif // MPC_TOOLS_SMITH_DRAWER_H
