//===- TorchReductions.cpp - reductions and norms of torch ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "TorchOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

using G = TorchGraph;
using Reduction = std::function<Value(G &, Value, const Shape &, bool)>;

template <typename OpTy>
Value reduce(G &g, Value x, const Shape &axes, bool keepDims) {
  return g.reduce<OpTy>(x, axes, keepDims);
}

Value squares(G &g, Value x) { return g.op<MulOp>({x, x}); }

/// Sum of squared distances from the mean, over the number of elements less
/// one.
Value variance(G &g, Value x, const Shape &axes, bool keepDims) {
  Value centred =
      g.op<SubOp>({x, g.reduce<ReduceMeanOp>(x, axes, /*keepDims=*/true)});
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= G::shapeOf(x)[axis];
  Value sum = g.reduce<ReduceSumOp>(squares(g, centred), axes, keepDims);
  return g.op<MulOp>({sum, g.number(1.0 / (count - 1), sum)});
}

Value euclidean(G &g, Value x, const Shape &axes, bool keepDims) {
  return g.op<SqrtOp>({g.reduce<ReduceSumOp>(squares(g, x), axes, keepDims)});
}

Value logSumExp(G &g, Value x, const Shape &axes, bool keepDims) {
  Value largest = g.reduce<ReduceMaxOp>(x, axes, /*keepDims=*/true);
  Value sum = g.reduce<ReduceSumOp>(g.op<ExpOp>({g.op<SubOp>({x, largest})}),
                                    axes, keepDims);
  Value log = g.op<LogOp>({sum});
  return g.op<AddOp>(
      {log, keepDims ? largest : g.reshape(largest, G::shapeOf(log))});
}

/// The operand, converted where the call names a type.
Value operandOf(G &g, const Arguments &a) {
  auto type = a.keywords.find("dtype");
  return type == a.keywords.end()
             ? a.tensor(0)
             : g.convert(a.tensor(0), parseShortName(type->second.text,
                                                     g.builder.getContext()));
}

/// Axes of argument `index`; all where it is absent.
Shape axesOf(const Arguments &a, size_t index, Value x) {
  Shape axes = a.integers(index, "dim", G::allAxes(x));
  for (int64_t &axis : axes)
    axis = wrapAxis(axis, G::shapeOf(x).size());
  llvm::sort(axes);
  return axes;
}

void addReduction(TorchFunctions &functions, const std::string &name,
                  const std::string &op, Reduction body) {
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    Value x = operandOf(g, a);
    Shape axes = axesOf(a, 1, x);
    bool keepDims = a.flag(2, "keepdim", false);
    return g.call(op, {x}, [&](ArrayRef<Value> in) {
      return body(g, in[0], axes, keepDims);
    });
  };
}

/// A norm of order 2, the default.
void addNorm(TorchFunctions &functions, const std::string &name,
             const std::string &op) {
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    Value x = a.tensor(0);
    if (a.keywords.count("p") && a.number(99, "p", 2) != 2)
      throw NotCovered("a norm of other order than 2");
    return g.call(op, {x}, [&](ArrayRef<Value> in) {
      return euclidean(g, in[0], axesOf(a, 99, x), false);
    });
  };
}

/// Both results of an op along one axis; the second is outside the graph.
Object withIndices(Value values) {
  return Object::makeSequence({Object(values)});
}

Value topK(G &g, Value x, int64_t k, int64_t axis, bool largest) {
  Builder &b = g.builder;
  return g.op<TopKOp>({x}, {g.attribute("k", b.getI64IntegerAttr(k)),
                            g.attribute("axis", b.getI64IntegerAttr(axis)),
                            g.attribute("largest", b.getBoolAttr(largest))});
}

Value along(G &g, StringRef name, Value x, int64_t axis) {
  return g.typed(name, x.getType(), {x},
                 {g.attribute("axis", g.builder.getI64IntegerAttr(axis))});
}

void addSoftmax(TorchFunctions &functions, const std::string &name,
                StringRef op) {
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    Value x = operandOf(g, a);
    int64_t axis = wrapAxis(a.number(1, "dim", -1), G::shapeOf(x).size());
    return g.call(name, {x}, [&](ArrayRef<Value> in) {
      return along(g, op, in[0], axis);
    });
  };
}

} // namespace

static void addSelections(TorchFunctions &f) {
  f["max"] = [](G &g, const Arguments &a) {
    return withIndices(g.call("max", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      return g.reduce<ReduceMaxOp>(in[0], axesOf(a, 1, in[0]), false);
    }));
  };
  f["sort"] = [](G &g, const Arguments &a) {
    return withIndices(g.call("sort", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      int64_t axis = G::shapeOf(in[0]).size() - 1;
      return topK(g, in[0], G::shapeOf(in[0])[axis], axis, /*largest=*/false);
    }));
  };
  f["topk"] = [](G &g, const Arguments &a) {
    return withIndices(g.call("topk", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      int64_t axis = G::shapeOf(in[0]).size() - 1;
      return topK(g, in[0], int64_t(a.number(1, "k", 1)), axis,
                  /*largest=*/true);
    }));
  };
  f["argmax"] = [](G &g, const Arguments &a) -> Object {
    return g.call("argmax", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      return g.op<ArgmaxOp>({in[0]},
                            {g.attribute("axis", g.builder.getI64IntegerAttr(
                                                     axesOf(a, 1, in[0])[0]))});
    });
  };
}

static void addDistances(TorchFunctions &f) {
  f["dist"] = [](G &g, const Arguments &a) -> Object {
    return g.call("dist", {a.tensor(0), a.tensor(1)}, [&](ArrayRef<Value> in) {
      return euclidean(g, g.op<SubOp>({in[0], in[1]}), G::allAxes(in[0]),
                       false);
    });
  };
  // Rows against rows.
  f["cdist"] = [](G &g, const Arguments &a) -> Object {
    return g.call("cdist", {a.tensor(0), a.tensor(1)}, [&](ArrayRef<Value> in) {
      Shape x = G::shapeOf(in[0]), y = G::shapeOf(in[1]);
      Value gaps = g.op<SubOp>({g.reshape(in[0], {x[0], 1, x[1]}),
                                g.reshape(in[1], {1, y[0], y[1]})});
      return euclidean(g, gaps, {2}, false);
    });
  };
  f["cosine_similarity"] = [](G &g, const Arguments &a) -> Object {
    if (!g.isListed("cosine_similarity"))
      throw NotCovered("torch takes it apart into in-place ops");
    return g.call("cosine_similarity", {a.tensor(0), a.tensor(1)},
                  [&](ArrayRef<Value> in) {
                    Value x = euclidean(g, in[0], {1}, true);
                    Value y = euclidean(g, in[1], {1}, true);
                    Value products = g.op<MulOp>(
                        {g.op<DivOp>({in[0], x}), g.op<DivOp>({in[1], y})});
                    return g.reduce<ReduceSumOp>(products, {1}, false);
                  });
  };
  f["pairwise_distance"] = [](G &g, const Arguments &a) -> Object {
    Value gap =
        g.call("sub", {a.tensor(0), a.tensor(1)},
               [&](ArrayRef<Value> in) { return g.op<SubOp>({in[0], in[1]}); });
    gap = g.call("add", {gap}, [&](ArrayRef<Value> in) {
      return g.op<AddOp>({in[0], g.number(1e-6, in[0])});
    });
    return g.call("norm", {gap}, [&](ArrayRef<Value> in) {
      return euclidean(g, in[0], {1}, false);
    });
  };
  f["normalize"] = [](G &g, const Arguments &a) -> Object {
    Value x = a.tensor(0);
    Value length = g.call("linalg_vector_norm", {x}, [&](ArrayRef<Value> in) {
      return euclidean(g, in[0], {1}, true);
    });
    length = g.call("clamp_min", {length}, [&](ArrayRef<Value> in) {
      return g.op<MaxOp>({in[0], g.number(1e-12, in[0])});
    });
    return g.call("div", {x, length}, [&](ArrayRef<Value> in) {
      return g.op<DivOp>({in[0], in[1]});
    });
  };
}

void mpc::replay::addReductions(TorchFunctions &f) {
  addReduction(f, "sum", "sum", reduce<ReduceSumOp>);
  addReduction(f, "mean", "mean", reduce<ReduceMeanOp>);
  addReduction(f, "prod", "prod", reduce<ReduceProdOp>);
  addReduction(f, "amax", "amax", reduce<ReduceMaxOp>);
  addReduction(f, "amin", "amin", reduce<ReduceMinOp>);
  addReduction(f, "var", "var", variance);
  addReduction(f, "std", "std",
               [](G &g, Value x, const Shape &axes, bool keepDims) {
                 return g.op<SqrtOp>({variance(g, x, axes, keepDims)});
               });
  addReduction(f, "logsumexp", "logsumexp", logSumExp);
  addReduction(f, "nansum", "nansum",
               [](G &g, Value x, const Shape &axes, bool keepDims) {
                 Value clean =
                     g.op<SelectOp>({g.op<IsNanOp>({x}), g.number(0, x), x});
                 return g.reduce<ReduceSumOp>(clean, axes, keepDims);
               });
  addReduction(f, "frobenius_norm", "frobenius_norm", euclidean);
  addNorm(f, "norm", "linalg_vector_norm");
  addNorm(f, "linalg.norm", "linalg_vector_norm");
  addNorm(f, "linalg.vector_norm", "linalg_vector_norm");
  addNorm(f, "linalg.matrix_norm", "linalg_vector_norm");
  f["var_mean"] = [](G &g, const Arguments &a) {
    return withIndices(
        g.call("var_mean", {a.tensor(0)}, [&](ArrayRef<Value> in) {
          return variance(g, in[0], axesOf(a, 1, in[0]), false);
        }));
  };
  f["cumsum"] = [](G &g, const Arguments &a) -> Object {
    Value x = a.tensor(0);
    int64_t axis = wrapAxis(a.number(1, "dim", 0), G::shapeOf(x).size());
    return g.call("cumsum", {x}, [&](ArrayRef<Value> in) {
      return along(g, CumsumOp::getOperationName(), in[0], axis);
    });
  };
  f["trace"] = [](G &g, const Arguments &a) -> Object {
    return g.call("trace", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      Shape shape = G::shapeOf(in[0]);
      Value flat = g.reshape(in[0], {shape[0] * shape[1]});
      Value diagonal = g.op<SliceOp>(
          {flat},
          {g.attribute("offsets", g.builder.getDenseI64ArrayAttr({0})),
           g.attribute("sizes", g.builder.getDenseI64ArrayAttr({shape[0]})),
           g.attribute("strides",
                       g.builder.getDenseI64ArrayAttr({shape[1] + 1}))});
      return g.reduce<ReduceSumOp>(diagonal, {0}, false);
    });
  };
  addSoftmax(f, "softmax", SoftmaxOp::getOperationName());
  addSoftmax(f, "log_softmax", LogSoftmaxOp::getOperationName());
  f["softmin"] = [](G &g, const Arguments &a) -> Object {
    Value x = g.call("neg", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      return g.same<NegOp>({in[0]});
    });
    Arguments inner = a;
    inner.positional[0] = x;
    return torchFunctions().at("softmax")(g, inner);
  };
  addSelections(f);
  addDistances(f);
}
