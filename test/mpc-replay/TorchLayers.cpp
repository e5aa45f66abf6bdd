//===- TorchLayers.cpp - norms, pools and resampling of torch -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "TorchOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

using G = TorchGraph;

NamedAttribute epsilon(G &g, double value) {
  return g.attribute("epsilon", g.builder.getF64FloatAttr(value));
}
NamedAttribute integer(G &g, StringRef name, int64_t value) {
  return g.attribute(name, g.builder.getI64IntegerAttr(value));
}

/// Tensor arguments `from` to `to`, without absent ones.
SmallVector<Value> tensorsFrom(const Arguments &a, size_t from, size_t to) {
  SmallVector<Value> values;
  for (size_t i = from; i <= to && i < a.positional.size(); ++i)
    if (a.positional[i].kind == Object::Kind::Tensor)
      values.push_back(a.positional[i].tensor);
  return values;
}

/// torch's own decomposition: float32 throughout, then the input's type.
Value rmsNormInParts(G &g, Value x, Value weight, const Shape &extents) {
  Type element = getElementTypeOrSelf(x.getType());
  Type wide = element.isF64() ? element : Type(g.builder.getF32Type());
  int64_t rank = G::shapeOf(x).size();
  Shape axes;
  for (int64_t axis = rank - extents.size(); axis < rank; ++axis)
    axes.push_back(axis);
  x = g.convert(x, wide);
  Value mean = g.call("mean", {x}, [&](ArrayRef<Value> in) {
    return g.reduce<ReduceMeanOp>(g.op<MulOp>({in[0], in[0]}), axes, true);
  });
  Value scale = g.call("rsqrt", {mean}, [&](ArrayRef<Value> in) {
    return g.op<RsqrtOp>({g.op<AddOp>({in[0], g.number(1e-5, in[0])})});
  });
  auto times = [&](Value lhs, Value rhs) {
    return g.call("mul", {lhs, rhs}, [&](ArrayRef<Value> in) {
      return g.op<MulOp>({in[0], in[1]});
    });
  };
  return g.convert(times(times(x, scale), weight), element);
}

using Pool =
    std::function<Value(G &, Value, const Shape &window, const Shape &strides)>;

Attributes poolAttributes(G &g, const Shape &window, const Shape &strides) {
  auto ints = [&](const Shape &values) {
    return g.builder.getDenseI64ArrayAttr(values);
  };
  Shape zeros(window.size(), 0), ones(window.size(), 1);
  return {g.attribute("window", ints(window)),
          g.attribute("strides", ints(strides)),
          g.attribute("pad_low", ints(zeros)),
          g.attribute("pad_high", ints(zeros)),
          g.attribute("dilations", ints(ones))};
}

template <typename OpTy>
Value pool(G &g, Value x, const Shape &window, const Shape &strides) {
  return g.op<OpTy>({x}, poolAttributes(g, window, strides));
}

void addPool(TorchFunctions &functions, const std::string &name, size_t rank,
             Pool body) {
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    Shape window = a.integers(1, "kernel_size", {1});
    window.resize(rank, window[0]);
    return g.call(name, {a.tensor(0)}, [&](ArrayRef<Value> in) {
      return body(g, in[0], window, window);
    });
  };
}

/// Pooling to a given extent that divides the input's.
void addAdaptivePool(TorchFunctions &functions, const std::string &name,
                     size_t rank, Pool body) {
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    Shape size = a.integers(1, "output_size", {1});
    size.resize(rank, size[0]);
    // torch takes the mean if one element remains.
    bool isMean = name == "adaptive_avg_pool2d" && size == Shape{1, 1};
    return g.call(isMean ? "mean" : name, {a.tensor(0)},
                  [&](ArrayRef<Value> in) {
                    Shape shape = G::shapeOf(in[0]), window;
                    for (size_t i = 0; i < rank; ++i) {
                      int64_t extent = shape[shape.size() - rank + i];
                      if (extent % size[i])
                        throw NotCovered("pooling windows of unequal size");
                      window.push_back(extent / size[i]);
                    }
                    return body(g, in[0], window, window);
                  });
  };
}

} // namespace

static void addNorms(TorchFunctions &f) {
  f["layer_norm"] = [](G &g, const Arguments &a) -> Object {
    SmallVector<Value> tensors = tensorsFrom(a, 0, 3);
    Shape extents = a.integers(1, "normalized_shape", {});
    return g.call("layer_norm", tensors, [&](ArrayRef<Value> in) {
      SmallVector<Value> operands(in);
      int64_t axis = G::shapeOf(in[0]).size() - extents.size();
      if (operands.size() < 2)
        operands.push_back(g.filled(1, extents, in[0]));
      return g.same<LayerNormOp>(operands,
                                 {integer(g, "axis", axis), epsilon(g, 1e-5)});
    });
  };
  f["rms_norm"] = [](G &g, const Arguments &a) -> Object {
    Shape extents = a.integers(1, "normalized_shape", {});
    if (!g.isListed("rms_norm"))
      return rmsNormInParts(g, a.tensor(0), a.tensor(2), extents);
    return g.call("rms_norm", {a.tensor(0), a.tensor(2)},
                  [&](ArrayRef<Value> in) {
                    int64_t axis = G::shapeOf(in[0]).size() - extents.size();
                    return g.same<RmsNormOp>(
                        in, {integer(g, "axis", axis), epsilon(g, 1e-5)});
                  });
  };
  f["group_norm"] = [](G &g, const Arguments &a) -> Object {
    int64_t groups = int64_t(a.number(1, "num_groups", 1));
    return g.call("group_norm", {a.tensor(0), a.tensor(2), a.tensor(3)},
                  [&](ArrayRef<Value> in) {
                    return g.same<GroupNormOp>(
                        in, {integer(g, "groups", groups), epsilon(g, 1e-5)});
                  });
  };
  f["instance_norm"] = [](G &g, const Arguments &a) -> Object {
    return g.call("instance_norm", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      Shape channels = {G::shapeOf(in[0])[1]};
      return g.same<InstanceNormOp>(
          {in[0], g.filled(1, channels, in[0]), g.filled(0, channels, in[0])},
          {epsilon(g, 1e-5)});
    });
  };
  // torch's order: input, mean, variance, scale, bias.
  f["batch_norm"] = [](G &g, const Arguments &a) -> Object {
    bool training = a.flag(5, "training", false);
    for (size_t i : {1, 2})
      if (training &&
          getElementTypeOrSelf(a.tensor(i).getType()).getIntOrFloatBitWidth() <
              32)
        throw NotCovered("running statistics in 16 bits: their update is no "
                         "part of the graph");
    return g.call("batch_norm", tensorsFrom(a, 0, 4), [&](ArrayRef<Value> in) {
      if (in.size() != 5)
        throw NotCovered("batch_norm without scale and bias");
      Value mean = in[1], variance = in[2];
      if (training) { // statistics of the batch; the running ones are state
        Shape axes = {0};
        for (size_t i = 2; i < G::shapeOf(in[0]).size(); ++i)
          axes.push_back(i);
        Value kept = g.reduce<ReduceMeanOp>(in[0], axes, true);
        Value centred = g.op<SubOp>({in[0], kept});
        variance = g.reduce<ReduceMeanOp>(g.op<MulOp>({centred, centred}), axes,
                                          false);
        mean = g.reshape(kept, G::shapeOf(variance));
      }
      return g.same<BatchNormOp>({in[0], in[3], in[4], mean, variance},
                                 {epsilon(g, 1e-5)});
    });
  };
}

void mpc::replay::addLayers(TorchFunctions &f) {
  addNorms(f);
  for (size_t rank : {1, 2, 3}) {
    std::string suffix = std::to_string(rank) + "d";
    addPool(f, "max_pool" + suffix, rank, pool<MaxPoolOp>);
    addPool(f, "avg_pool" + suffix, rank, pool<AvgPoolOp>);
    addAdaptivePool(f, "adaptive_max_pool" + suffix, rank, pool<MaxPoolOp>);
    addAdaptivePool(f, "adaptive_avg_pool" + suffix, rank, pool<AvgPoolOp>);
  }
  f["interpolate"] = [](G &g, const Arguments &a) -> Object {
    if (a.text("mode", "nearest") != "nearest")
      throw NotCovered("resampling with weights");
    int64_t by = int64_t(a.number(99, "scale_factor", 1));
    return g.call("upsample_nearest2d", {a.tensor(0)}, [&](ArrayRef<Value> in) {
      Shape s = G::shapeOf(in[0]);
      Value parts = g.reshape(in[0], {s[0], s[1], s[2], 1, s[3], 1});
      parts = g.broadcast(parts, {s[0], s[1], s[2], by, s[3], by});
      return g.reshape(parts, {s[0], s[1], s[2] * by, s[3] * by});
    });
  };
}
