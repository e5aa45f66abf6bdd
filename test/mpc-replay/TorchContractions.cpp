//===- TorchContractions.cpp - matmuls and convolutions of torch ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "TorchOps.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

using G = TorchGraph;

/// torch.matmul of any ranks.
Value product(G &g, Value lhs, Value rhs) {
  Shape left = G::shapeOf(lhs), right = G::shapeOf(rhs);
  if (left.empty() || right.empty())
    throw NotCovered("a product of numbers");
  bool isRow = left.size() == 1, isColumn = right.size() == 1;
  if (isRow)
    lhs = g.reshape(lhs, {1, left[0]});
  if (isColumn)
    rhs = g.reshape(rhs, {right[0], 1});
  Value result = g.op<MatmulOp>({lhs, rhs});
  Shape shape = G::shapeOf(result);
  if (isColumn)
    shape.pop_back();
  if (isRow)
    shape.erase(shape.end() - (isColumn ? 1 : 2));
  return isRow || isColumn ? g.reshape(result, shape) : result;
}

Value transposedLast(G &g, Value value) {
  Shape order = G::allAxes(value);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return g.transpose(value, order);
}

/// x @ weight^T (+ bias)
Value linear(G &g, ArrayRef<Value> in) {
  Value result = product(g, in[0], transposedLast(g, in[1]));
  return in.size() > 2 ? g.op<AddOp>({result, in[2]}) : result;
}

void addProduct(TorchFunctions &functions, const std::string &name,
                const std::string &op) {
  functions[name] = [op](G &g, const Arguments &a) -> Object {
    return g.call(op, {a.tensor(0), a.tensor(1)},
                  [&](ArrayRef<Value> in) { return product(g, in[0], in[1]); });
  };
}

Value chain(G &g, const std::string &name, const std::vector<Value> &factors) {
  if (factors.size() != 2)
    throw NotCovered("a chain of other than two products");
  return g.call(g.isListed(name) ? name : "mm", factors,
                [&](ArrayRef<Value> in) { return product(g, in[0], in[1]); });
}

/// input + matmul: addmm and similar.
void addSum(TorchFunctions &functions, const std::string &name,
            const std::function<Value(G &, Value, Value)> &multiply) {
  functions[name] = [name, multiply](G &g, const Arguments &a) -> Object {
    return g.call(name, {a.tensor(0), a.tensor(1), a.tensor(2)},
                  [&](ArrayRef<Value> in) {
                    return g.op<AddOp>({multiply(g, in[1], in[2]), in[0]});
                  });
  };
}

Value outer(G &g, Value lhs, Value rhs) {
  return g.op<MulOp>({g.reshape(lhs, {G::shapeOf(lhs)[0], 1}), rhs});
}

/// Convolution of stride 1 without padding.
Value convolution(G &g, ArrayRef<Value> in, int64_t rank, bool transposed) {
  Shape ones(rank, 1), zeros(rank, 0);
  auto ints = [&](const Shape &values) {
    return g.builder.getDenseI64ArrayAttr(values);
  };
  Attributes attributes = {g.attribute("strides", ints(ones)),
                           g.attribute("pad_low", ints(zeros)),
                           g.attribute("pad_high", ints(zeros)),
                           g.attribute("dilations", ints(ones))};
  if (transposed)
    attributes.push_back(g.attribute("output_padding", ints(zeros)));
  Value input = in[0], filter = in[1];
  Value result = transposed ? g.op<ConvTransposeOp>({input, filter}, attributes)
                            : g.op<ConvOp>({input, filter}, attributes);
  if (in.size() < 3)
    return result;
  Shape bias(rank + 2, 1);
  bias[1] = G::shapeOf(in[2])[0];
  return g.op<AddOp>({result, g.reshape(in[2], bias)});
}

void addConvolution(TorchFunctions &functions, int64_t rank, bool transposed) {
  std::string name =
      (transposed ? "conv_transpose" : "conv") + std::to_string(rank) + "d";
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    SmallVector<Value> tensors = {a.tensor(0), a.tensor(1)};
    if (a.find(2, "bias"))
      tensors.push_back(a.tensor(2, "bias"));
    int64_t extra = a.keywords.size() - a.keywords.count("bias");
    if (a.positional.size() > 3 || extra)
      throw NotCovered("strides or padding of '" + name + "'");
    return g.call(name, tensors, [&](ArrayRef<Value> in) {
      return convolution(g, in, rank, transposed);
    });
  };
}

/// The two matmuls of a recurrent cell as torch runs them.
Value cellSum(G &g, const Arguments &a) {
  auto layer = [&](size_t x, size_t weight, size_t bias) {
    return g.call("linear", {a.tensor(x), a.tensor(weight), a.tensor(bias)},
                  [&](ArrayRef<Value> in) { return linear(g, in); });
  };
  return g.call(
      "add", {layer(0, 2, 4), layer(1, 3, 5)},
      [&](ArrayRef<Value> in) { return g.op<AddOp>({in[0], in[1]}); });
}

} // namespace

static void addProducts(TorchFunctions &f) {
  addProduct(f, "mm", "mm");
  addProduct(f, "matmul", "matmul");
  addProduct(f, "bmm", "bmm");
  addProduct(f, "mv", "mv");
  addProduct(f, "dot", "dot");
  addProduct(f, "vdot", "vdot");
  // A chain of two is one matmul, which is the op that torch sees if no list
  // contains the chain.
  f["chain_matmul"] = [](G &g, const Arguments &a) -> Object {
    return chain(g, "chain_matmul", {a.tensor(0), a.tensor(1)});
  };
  f["linalg.multi_dot"] = [](G &g, const Arguments &a) -> Object {
    return chain(g, "linalg_multi_dot", a.tensors(0));
  };
  f["outer"] = f["ger"] = [](G &g, const Arguments &a) -> Object {
    return g.call("mul", {a.tensor(0), a.tensor(1)},
                  [&](ArrayRef<Value> in) { return outer(g, in[0], in[1]); });
  };
  f["kron"] = [](G &g, const Arguments &a) -> Object {
    return g.call("mul", {a.tensor(0), a.tensor(1)}, [&](ArrayRef<Value> in) {
      Shape x = G::shapeOf(in[0]), y = G::shapeOf(in[1]);
      if (x.size() != 2 || y.size() != 2)
        throw NotCovered("kron of other than matrices");
      Value blocks = g.op<MulOp>({g.reshape(in[0], {x[0], 1, x[1], 1}),
                                  g.reshape(in[1], {1, y[0], 1, y[1]})});
      return g.reshape(blocks, {x[0] * y[0], x[1] * y[1]});
    });
  };
  f["linalg.vecdot"] = [](G &g, const Arguments &a) -> Object {
    return g.call("linalg_vecdot", {a.tensor(0), a.tensor(1)},
                  [&](ArrayRef<Value> in) {
                    Value products = g.op<MulOp>({in[0], in[1]});
                    int64_t axis = G::shapeOf(products).size() - 1;
                    return g.reduce<ReduceSumOp>(products, {axis}, false);
                  });
  };
  // torch.einsum is one op of the CUDA list; elsewhere its matmul is seen.
  f["einsum"] = [](G &g, const Arguments &a) -> Object {
    const std::string &text = a.positional.at(0).text;
    if (text != "ij,jk->ik" && text != "bij,bjk->bik")
      throw NotCovered("the equation '" + text + "'");
    return g.call(g.isListed("einsum") ? "einsum" : "bmm",
                  {a.tensor(1), a.tensor(2)},
                  [&](ArrayRef<Value> in) { return product(g, in[0], in[1]); });
  };
  auto contract = [](const std::string &name, bool transposeRhs) {
    return [=](G &g, const Arguments &a) -> Object {
      if (a.find(2, "dims") && a.number(2, "dims", 1) != 1)
        throw NotCovered("tensordot over other than one axis");
      return g.call(g.isListed("tensordot") ? "tensordot" : "mm",
                    {a.tensor(0), a.tensor(1)}, [&](ArrayRef<Value> in) {
                      return product(g, in[0],
                                     transposeRhs ? transposedLast(g, in[1])
                                                  : in[1]);
                    });
    };
  };
  f["tensordot"] = contract("tensordot", false);
  f["inner"] = contract("inner", true);
}

static void addSums(TorchFunctions &f) {
  addSum(f, "addmm", product);
  addSum(f, "addmv", product);
  addSum(f, "baddbmm", product);
  addSum(f, "addr", outer);
  addSum(f, "addbmm", [](G &g, Value lhs, Value rhs) {
    return g.reduce<ReduceSumOp>(product(g, lhs, rhs), {0}, false);
  });
  f["linear"] = [](G &g, const Arguments &a) -> Object {
    SmallVector<Value> tensors = {a.tensor(0), a.tensor(1)};
    if (a.find(2, "bias"))
      tensors.push_back(a.tensor(2, "bias"));
    return g.call("linear", tensors,
                  [&](ArrayRef<Value> in) { return linear(g, in); });
  };
  // sum over i and j of a_i w_kij b_j
  f["bilinear"] = [](G &g, const Arguments &a) -> Object {
    return g.call("bilinear", {a.tensor(0), a.tensor(1), a.tensor(2)},
                  [&](ArrayRef<Value> in) {
                    Shape x = G::shapeOf(in[0]), w = G::shapeOf(in[2]);
                    Value pairs = g.op<MulOp>(
                        {g.reshape(in[0], {x[0], x[1], 1}),
                         g.reshape(in[1], {x[0], 1, G::shapeOf(in[1])[1]})});
                    Value flat = g.reshape(pairs, {x[0], w[1] * w[2]});
                    Value weight = g.reshape(in[2], {w[0], w[1] * w[2]});
                    return product(g, flat, transposedLast(g, weight));
                  });
  };
}

void mpc::replay::addContractions(TorchFunctions &f) {
  addProducts(f);
  addSums(f);
  for (int64_t rank : {1, 2, 3})
    for (bool transposed : {false, true})
      addConvolution(f, rank, transposed);
  f["conv_tbc"] = [](G &g, const Arguments &a) -> Object {
    return g.call("conv_tbc", {a.tensor(0), a.tensor(1), a.tensor(2)},
                  [&](ArrayRef<Value> in) {
                    Value input = g.transpose(in[0], {1, 2, 0});
                    Value filter = g.transpose(in[1], {2, 1, 0});
                    Value result =
                        convolution(g, {input, filter, in[2]}, 1, false);
                    return g.transpose(result, {2, 0, 1});
                  });
  };
  f["scaled_dot_product_attention"] = [](G &g, const Arguments &a) -> Object {
    return g.call(
        "scaled_dot_product_attention", {a.tensor(0), a.tensor(1), a.tensor(2)},
        [&](ArrayRef<Value> in) {
          double scale = 1 / std::sqrt(double(G::shapeOf(in[0]).back()));
          return g.op<AttentionOp>(
              in, {g.attribute("scale", g.builder.getF64FloatAttr(scale))});
        });
  };
  f["rnn_tanh_cell"] = [](G &g, const Arguments &a) -> Object {
    return g.call("tanh", {cellSum(g, a)},
                  [&](ArrayRef<Value> in) { return g.op<TanhOp>({in[0]}); });
  };
  f["rnn_relu_cell"] = [](G &g, const Arguments &a) -> Object {
    return g.call("relu", {cellSum(g, a)},
                  [&](ArrayRef<Value> in) { return g.same<ReluOp>({in[0]}); });
  };
}
