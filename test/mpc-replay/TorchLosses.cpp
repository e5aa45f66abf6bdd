//===- TorchLosses.cpp - losses of torch ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"

#include "TorchOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

namespace {

using G = TorchGraph;
using Loss = std::function<Value(G &, ArrayRef<Value>)>;

Value mean(G &g, Value x) {
  return g.reduce<ReduceMeanOp>(x, G::allAxes(x), false);
}
Value negated(G &g, Value x) { return g.same<NegOp>({x}); }
Value hinge(G &g, Value x) { return g.same<ReluOp>({x}); }
Value difference(G &g, ArrayRef<Value> in) {
  return g.op<SubOp>({in[0], in[1]});
}

/// A loss of `count` tensors that a list contains as one op.
void addLoss(TorchFunctions &functions, const std::string &name, size_t count,
             Loss body) {
  functions[name] = [=](G &g, const Arguments &a) -> Object {
    if (!g.isListed(name))
      throw NotCovered("torch takes '" + name + "' apart");
    SmallVector<Value> tensors;
    for (size_t i = 0; i < count; ++i)
      tensors.push_back(a.tensor(i));
    return g.call(name, tensors, [&](ArrayRef<Value> in) {
      Value each = body(g, in);
      return a.text("reduction", "mean") == "none" ? each : mean(g, each);
    });
  };
}

/// Quadratic below 1, linear above.
Value smooth(G &g, ArrayRef<Value> in) {
  Value gap = g.same<AbsOp>({difference(g, in)});
  Value small = g.compare(ComparePredicate::lt, gap, g.number(1, gap));
  Value square = g.op<MulOp>({g.op<MulOp>({gap, gap}), g.number(0.5, gap)});
  return g.op<SelectOp>(
      {small, square, g.op<SubOp>({gap, g.number(0.5, gap)})});
}

Value length(G &g, Value x) {
  Value sum = g.reduce<ReduceSumOp>(g.op<MulOp>({x, x}), {1}, false);
  return g.op<SqrtOp>({sum});
}

Value cosine(G &g, Value x, Value y) {
  Value products = g.reduce<ReduceSumOp>(g.op<MulOp>({x, y}), {1}, false);
  return g.op<DivOp>({products, g.op<MulOp>({length(g, x), length(g, y)})});
}

/// y where sign is 1, n where it is -1.
Value bySign(G &g, Value sign, Value y, Value n) {
  Value positive = g.compare(ComparePredicate::gt, sign, g.number(0, sign));
  return g.op<SelectOp>({positive, y, n});
}

/// Minus the mean log probability of each row's class.
Value classLoss(G &g, Value logs, Value classes) {
  int64_t rows = G::shapeOf(classes)[0];
  Value picked = g.op<GatherElementsOp>(
      {logs, g.reshape(classes, {rows, 1})},
      {g.attribute("axis", g.builder.getI64IntegerAttr(1))});
  return negated(g, mean(g, picked));
}

Value logSoftmax(G &g, Value x) {
  return g.same<LogSoftmaxOp>(
      {x}, {g.attribute("axis", g.builder.getI64IntegerAttr(1))});
}

} // namespace

static void addCrossEntropy(TorchFunctions &f) {
  f["nll_loss"] = [](G &g, const Arguments &a) -> Object {
    return g.call(
        "nll_loss", {a.tensor(0), a.tensor(1)},
        [&](ArrayRef<Value> in) { return classLoss(g, in[0], in[1]); });
  };
  // One op of the CPU list; elsewhere a log_softmax with its input's type and
  // the ops after it.
  f["cross_entropy"] = [](G &g, const Arguments &a) -> Object {
    if (a.keywords.count("label_smoothing"))
      throw NotCovered("label smoothing");
    Value x = a.tensor(0), target = a.tensor(1);
    bool byClass = !isa<FloatType>(getElementTypeOrSelf(target.getType()));
    if (g.isListed("cross_entropy_loss"))
      return g.call("cross_entropy_loss", {x, target}, [&](ArrayRef<Value> in) {
        Value logs = logSoftmax(g, in[0]);
        return byClass ? classLoss(g, logs, in[1])
                       : negated(g, mean(g, g.op<MulOp>({logs, in[1]})));
      });
    Value logs = g.call("_log_softmax", {x}, [&](ArrayRef<Value> in) {
      return logSoftmax(g, in[0]);
    });
    if (byClass)
      return g.call("nll_loss", {logs, target}, [&](ArrayRef<Value> in) {
        return classLoss(g, in[0], in[1]);
      });
    Value products = g.call("mul", {logs, target}, [&](ArrayRef<Value> in) {
      return g.op<MulOp>({in[0], in[1]});
    });
    Value sum = g.call("sum", {products}, [&](ArrayRef<Value> in) {
      return g.reduce<ReduceSumOp>(in[0], G::allAxes(in[0]), false);
    });
    double rows = G::shapeOf(x)[0];
    return g.call("div", {sum}, [&](ArrayRef<Value> in) {
      return g.op<DivOp>({negated(g, in[0]), g.number(rows, in[0])});
    });
  };
}

void mpc::replay::addLosses(TorchFunctions &f) {
  addLoss(f, "l1_loss", 2, [](G &g, ArrayRef<Value> in) {
    return g.same<AbsOp>({difference(g, in)});
  });
  addLoss(f, "mse_loss", 2, [](G &g, ArrayRef<Value> in) {
    Value gap = difference(g, in);
    return g.op<MulOp>({gap, gap});
  });
  addLoss(f, "smooth_l1_loss", 2, smooth);
  addLoss(f, "huber_loss", 2, smooth);
  addLoss(f, "kl_div", 2, [](G &g, ArrayRef<Value> in) {
    Value logs = g.op<SubOp>({g.op<LogOp>({in[1]}), in[0]});
    return g.op<MulOp>({in[1], logs});
  });
  addLoss(f, "poisson_nll_loss", 2, [](G &g, ArrayRef<Value> in) {
    return g.op<SubOp>({g.op<ExpOp>({in[0]}), g.op<MulOp>({in[0], in[1]})});
  });
  addLoss(f, "binary_cross_entropy", 2, [](G &g, ArrayRef<Value> in) {
    Value rest = g.op<LogOp>({g.op<SubOp>({g.number(1, in[0]), in[0]})});
    Value no = g.op<MulOp>({g.op<SubOp>({g.number(1, in[1]), in[1]}), rest});
    Value yes = g.op<MulOp>({in[1], g.op<LogOp>({in[0]})});
    return negated(g, g.op<AddOp>({yes, no}));
  });
  addLoss(f, "binary_cross_entropy_with_logits", 2,
          [](G &g, ArrayRef<Value> in) {
            return g.op<SubOp>(
                {g.same<SoftplusOp>({in[0]}), g.op<MulOp>({in[0], in[1]})});
          });
  addLoss(f, "soft_margin_loss", 2, [](G &g, ArrayRef<Value> in) {
    return g.same<SoftplusOp>({negated(g, g.op<MulOp>({in[0], in[1]}))});
  });
  addLoss(f, "hinge_embedding_loss", 2, [](G &g, ArrayRef<Value> in) {
    Value margin = hinge(g, g.op<SubOp>({g.number(1, in[0]), in[0]}));
    return bySign(g, in[1], in[0], margin);
  });
  addLoss(f, "margin_ranking_loss", 3, [](G &g, ArrayRef<Value> in) {
    return hinge(g, negated(g, g.op<MulOp>({in[2], difference(g, in)})));
  });
  addLoss(f, "cosine_embedding_loss", 3, [](G &g, ArrayRef<Value> in) {
    Value near = cosine(g, in[0], in[1]);
    return bySign(g, in[2], g.op<SubOp>({g.number(1, near), near}),
                  hinge(g, near));
  });
  addLoss(f, "triplet_margin_loss", 3, [](G &g, ArrayRef<Value> in) {
    Value near = length(g, g.op<SubOp>({in[0], in[1]}));
    Value far = length(g, g.op<SubOp>({in[0], in[2]}));
    Value gap = g.op<SubOp>({near, far});
    return hinge(g, g.op<AddOp>({gap, g.number(1, gap)}));
  });
  addCrossEntropy(f);
}
