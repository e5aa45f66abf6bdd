//===- TorchMovement.cpp - data movement functions of torch ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "TorchOps.h"

#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

using G = TorchGraph;

Value concat(G &g, ArrayRef<Value> in, int64_t axis) {
  return g.op<ConcatOp>(
      in, {g.attribute("axis", g.builder.getI64IntegerAttr(axis))});
}

/// Positions 0, 1, ... of axis `axis`, as integers.
Value positions(G &g, const Shape &shape, int64_t axis) {
  return g.typed(IotaOp::getOperationName(),
                 RankedTensorType::get(shape, g.builder.getI64Type()), {},
                 {g.attribute("axis", g.builder.getI64IntegerAttr(axis))});
}

void addPermutation(
    TorchFunctions &functions, const std::string &name,
    const std::function<Shape(const Arguments &, Value)> &order) {
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    Value x = a.tensor(0);
    Shape permutation = order(a, x);
    return g.view(name, x,
                  [&](Value v) { return g.transpose(v, permutation); });
  };
}

/// The integer arguments from `index` on, which methods accept as a shape.
Shape trailing(const Arguments &a, size_t index) {
  if (a.positional.size() > index &&
      a.positional[index].kind == Object::Kind::Sequence)
    return a.integers(index, "", {});
  Shape values;
  for (size_t i = index; i < a.positional.size(); ++i)
    values.push_back(int64_t(a.number(i, "", 0)));
  return values;
}

/// Replaces a -1 by what is left of the elements.
Shape resolved(Shape shape, Value x) {
  int64_t known = 1;
  for (int64_t extent : shape)
    known *= extent == -1 ? 1 : extent;
  for (int64_t &extent : shape)
    if (extent == -1)
      extent = productOf(G::shapeOf(x)) / std::max<int64_t>(known, 1);
  return shape;
}

} // namespace

static void addViews(TorchFunctions &f) {
  f["reshape"] = f["view"] = [](G &g, const Arguments &a) -> Object {
    Shape shape = resolved(trailing(a, 1), a.tensor(0));
    return g.view("view", a.tensor(0),
                  [&](Value x) { return g.reshape(x, shape); });
  };
  f["expand"] = [](G &g, const Arguments &a) -> Object {
    Shape shape = trailing(a, 1);
    return g.view("expand", a.tensor(0),
                  [&](Value x) { return g.broadcast(x, shape); });
  };
  addPermutation(f, "t", [](const Arguments &, Value) { return Shape{1, 0}; });
  addPermutation(f, "permute",
                 [](const Arguments &a, Value) { return trailing(a, 1); });
  addPermutation(f, "transpose", [](const Arguments &a, Value x) {
    Shape order = G::allAxes(x);
    std::swap(order[wrapAxis(a.number(1, "", 0), order.size())],
              order[wrapAxis(a.number(2, "", 0), order.size())]);
    return order;
  });
  f["repeat_interleave"] = [](G &g, const Arguments &a) -> Object {
    int64_t times = int64_t(a.number(1, "repeats", 1));
    return g.view("repeat_interleave", a.tensor(0), [&](Value x) {
      int64_t count = productOf(G::shapeOf(x));
      return g.reshape(g.broadcast(g.reshape(x, {count, 1}), {count, times}),
                       {count * times});
    });
  };
}

static void addJoins(TorchFunctions &f) {
  auto join = [](const std::string &name, int64_t defaultAxis) {
    return [=](G &g, const Arguments &a) -> Object {
      std::vector<Value> tensors = a.tensors(0);
      int64_t axis = int64_t(a.number(1, "dim", double(defaultAxis)));
      return g.call("cat", tensors, [&](ArrayRef<Value> in) {
        return concat(g, in, wrapAxis(axis, G::shapeOf(in[0]).size()));
      });
    };
  };
  f["cat"] = join("cat", 0);
  f["hstack"] = join("hstack", 1);
  f["stack"] = [](G &g, const Arguments &a) -> Object {
    return g.call("stack", a.tensors(0), [&](ArrayRef<Value> in) {
      SmallVector<Value> parts;
      for (Value part : in) {
        Shape shape = G::shapeOf(part);
        shape.insert(shape.begin(), 1);
        parts.push_back(g.reshape(part, shape));
      }
      return concat(g, parts, 0);
    });
  };
}

static void addIndexing(TorchFunctions &f) {
  auto gather = [](const std::string &name, size_t table, size_t index,
                   bool elements) {
    return [=](G &g, const Arguments &a) -> Object {
      Value x = a.tensor(table), indices = a.tensor(index);
      int64_t axis = table == 0 ? int64_t(a.number(1, "dim", 0)) : 0;
      Attributes attributes = {
          g.attribute("axis", g.builder.getI64IntegerAttr(axis))};
      return g.call(name, {x, indices}, [&](ArrayRef<Value> in) {
        return elements ? g.op<GatherElementsOp>(in, attributes)
                        : g.op<GatherOp>(in, attributes);
      });
    };
  };
  f["gather"] = gather("gather", 0, 2, true);
  f["index_select"] = gather("index_select", 0, 2, false);
  f["embedding"] = gather("embedding", 1, 0, false);

  auto scatter = [](const std::string &name, ScatterReduction reduction) {
    return [=](G &g, const Arguments &a) -> Object {
      return g.call(
          name, {a.tensor(0), a.tensor(2), a.tensor(3)},
          [&](ArrayRef<Value> in) {
            return g.same<ScatterElementsOp>(
                in, {g.attribute("axis", g.builder.getI64IntegerAttr(
                                             int64_t(a.number(1, "dim", 0)))),
                     g.attribute("reduction",
                                 ScatterReductionAttr::get(
                                     g.builder.getContext(), reduction))});
          });
    };
  };
  f["scatter_add"] = scatter("scatter_add", ScatterReduction::add);
  f["scatter"] = scatter("scatter", ScatterReduction::none);

  // Rows of the first axis, written or added.
  auto rows = [](const std::string &name, ScatterReduction reduction,
                 bool indicesInTuple, size_t values) {
    return [=](G &g, const Arguments &a) -> Object {
      Value indices =
          indicesInTuple ? a.tensors(1).at(0) : a.tensor(values - 1);
      return g.call(
          name, {a.tensor(0), indices, a.tensor(values)},
          [&](ArrayRef<Value> in) {
            Value tuples = g.reshape(in[1], {G::shapeOf(in[1])[0], 1});
            return g.same<ScatterNdOp>(
                {in[0], tuples, in[2]},
                {g.attribute("reduction",
                             ScatterReductionAttr::get(g.builder.getContext(),
                                                       reduction))});
          });
    };
  };
  f["index_put"] = rows("index_put", ScatterReduction::none, true, 2);
  f["index_copy"] = rows("index_copy", ScatterReduction::none, false, 3);
  f["index_add"] = rows("index_add", ScatterReduction::add, false, 3);
}

static void addMoves(TorchFunctions &f) {
  f["tril"] = [](G &g, const Arguments &a) -> Object {
    return g.call("tril", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      Shape shape = G::shapeOf(in[0]);
      Value below = g.compare(ComparePredicate::ge, positions(g, shape, 0),
                              positions(g, shape, 1));
      return g.op<SelectOp>({below, in[0], g.number(0, in[0])});
    });
  };
  f["flip"] = [](G &g, const Arguments &a) -> Object {
    Shape axes = a.integers(1, "dims", {});
    return g.call("flip", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      return g.same<ReverseOp>(
          in, {g.attribute("axes", g.builder.getDenseI64ArrayAttr(axes))});
    });
  };
  f["roll"] = [](G &g, const Arguments &a) -> Object {
    int64_t by = int64_t(a.number(1, "shifts", 0));
    return g.call("roll", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      Shape shape = G::shapeOf(in[0]);
      int64_t count = productOf(shape);
      Value flat = g.reshape(in[0], {count});
      Value rolled = concat(
          g,
          {g.slice(flat, 0, count - by, by), g.slice(flat, 0, 0, count - by)},
          0);
      return g.reshape(rolled, shape);
    });
  };
  f["diag"] = [](G &g, const Arguments &a) -> Object {
    return g.call("diag", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      Shape shape = G::shapeOf(in[0]);
      Value flat = g.reshape(in[0], {shape[0] * shape[1]});
      auto ints = [&](int64_t value) {
        return g.builder.getDenseI64ArrayAttr({value});
      };
      return g.op<SliceOp>({flat},
                           {g.attribute("offsets", ints(0)),
                            g.attribute("sizes", ints(shape[0])),
                            g.attribute("strides", ints(shape[1] + 1))});
    });
  };
  f["pad"] = [](G &g, const Arguments &a) -> Object {
    Shape amounts = a.integers(1, "pad", {});
    std::string mode = a.text("mode", "constant");
    if (mode != "constant" && mode != "reflect")
      throw NotCovered("padding mode '" + mode + "'");
    bool reflects = mode == "reflect";
    std::string name =
        reflects ? "reflection_pad" + std::to_string(amounts.size() / 2) + "d"
                 : "constant_pad_nd";
    return g.call(name, {a.tensor(0)}, [&](ArrayRef<Value> in) {
      size_t rank = G::shapeOf(in[0]).size();
      // torch gives the last axis first.
      Shape low(rank, 0), high(rank, 0);
      for (size_t i = 0; i + 1 < amounts.size(); i += 2) {
        low[rank - 1 - i / 2] = amounts[i];
        high[rank - 1 - i / 2] = amounts[i + 1];
      }
      PadMode padMode = reflects ? PadMode::reflect : PadMode::constant;
      return g.op<PadOp>(
          {in[0], g.number(0, in[0])},
          {g.attribute("low", g.builder.getDenseI64ArrayAttr(low)),
           g.attribute("high", g.builder.getDenseI64ArrayAttr(high)),
           g.attribute("mode",
                       PadModeAttr::get(g.builder.getContext(), padMode))});
    });
  };
  f["pixel_shuffle"] = [](G &g, const Arguments &a) -> Object {
    int64_t by = int64_t(a.number(1, "upscale_factor", 1));
    return g.call("pixel_shuffle", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      Shape s = G::shapeOf(in[0]);
      int64_t channels = s[1] / (by * by);
      Value parts = g.reshape(in[0], {s[0], channels, by, by, s[2], s[3]});
      parts = g.transpose(parts, {0, 1, 4, 2, 5, 3});
      return g.reshape(parts, {s[0], channels, s[2] * by, s[3] * by});
    });
  };
}

void mpc::replay::addMovement(TorchFunctions &f) {
  addViews(f);
  addJoins(f);
  addIndexing(f);
  addMoves(f);
}
