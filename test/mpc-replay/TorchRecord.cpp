//===- TorchRecord.cpp - parser of torch recordings -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TorchRecord.h"

#include <algorithm>
#include <set>

using namespace mpc::replay;

static std::vector<std::string> splitTypes(std::string text) {
  std::vector<std::string> types;
  while (!text.empty()) {
    size_t end = text.find(", ");
    types.push_back(text.substr(0, end));
    text = end == std::string::npos ? "" : text.substr(end + 2);
  }
  return types;
}

std::vector<AtenOp> mpc::replay::parseAten(const Json &lines) {
  std::vector<AtenOp> ops;
  for (const Json &line : lines) {
    std::string text = line.get<std::string>();
    size_t open = text.find(" ("), close = text.find(") ->");
    if (open == std::string::npos || close == std::string::npos)
      throw std::runtime_error("'" + text +
                               "' is not of the form NAME (TYPES) -> TYPES");
    AtenOp op;
    op.name = text.substr(0, std::min(text.find('.'), open));
    op.inputs = splitTypes(text.substr(open + 2, close - open - 2));
    if (close + 5 < text.size())
      op.outputs = splitTypes(text.substr(close + 5));
    ops.push_back(std::move(op));
  }
  return ops;
}

static bool isLowName(const std::string &type) {
  return type == "f16" || type == "bf16";
}
static bool isFloatName(const std::string &type) {
  return isLowName(type) || type == "f32" || type == "f64";
}

/// Ops that only show their operand in another shape, or copy it as it is.
static bool isView(const std::string &name) {
  static const std::set<std::string> views = {
      "view",      "_unsafe_view", "permute",   "t",
      "transpose", "transpose_",   "unsqueeze", "squeeze",
      "expand",    "slice",        "select",    "split",
      "unbind",    "unsafe_split", "clone",     "empty_like"};
  return views.count(name) != 0;
}

/// A norm reads its parameters in their own type and has its input's.
static bool isNorm(const std::string &name) {
  return name.find("_norm") != std::string::npos;
}

/// Folds decomposed attention. On tensors without data, torch runs attention by
/// its definition: the ops from the upcasts of query, key and value to the
/// downcast of the product replace the kernel.
static void foldAttention(std::vector<AtenOp> &ops) {
  auto widens = [&](size_t i) {
    return ops[i].name == "_to_copy" && isLowName(ops[i].inputs[0]) &&
           ops[i].outputs[0] == "f32";
  };
  for (size_t i = 0; i + 3 < ops.size(); ++i) {
    if (!widens(i) || !widens(i + 1) || !widens(i + 2) ||
        ops[i + 3].name != "mul")
      continue;
    size_t end = i;
    auto advance = [&](const std::string &name) {
      while (end < ops.size() && ops[end].name != name)
        ++end;
    };
    advance("_safe_softmax");
    advance("bmm");
    advance("_to_copy");
    if (end == ops.size())
      return;
    std::string low = ops[i].inputs[0];
    AtenOp whole = {"scaled_dot_product_attention", {low, low, low}, {low}};
    ops.erase(ops.begin() + i, ops.begin() + end + 1);
    ops.insert(ops.begin() + i, whole);
  }
}

Trace mpc::replay::traceOf(std::vector<AtenOp> ops) {
  foldAttention(ops);
  Trace trace;
  for (const AtenOp &op : ops) {
    if (isView(op.name) || op.outputs.empty())
      continue;
    if (op.name == "_to_copy") {
      trace.narrowed += op.inputs[0] == "f32" && isLowName(op.outputs[0]);
      trace.widened += isLowName(op.inputs[0]) && op.outputs[0] == "f32";
      continue;
    }
    std::string computes;
    auto widen = [&](const std::string &type) {
      if (isFloatName(type) && (computes.empty() || type == "f64" ||
                                (type == "f32" && computes != "f64")))
        computes = type;
    };
    if (op.inputs.empty())
      continue;
    std::for_each(op.inputs.begin(), op.inputs.end(), widen);
    bool hasFloat = !computes.empty();
    widen(op.outputs[0]);
    if (!hasFloat)
      continue;
    // A scalar takes the type of the other operands, and an op with an explicit
    // type converts its operands.
    bool toLow = isLowName(op.outputs[0]) && computes == "f32";
    if ((toLow || (op.outputs[0] == "f32" && computes == "f64")) &&
        !isNorm(op.name)) {
      if (toLow)
        trace.narrowed +=
            std::count(op.inputs.begin(), op.inputs.end(), std::string("f32"));
      computes = op.outputs[0];
    }
    if (computes == "f32")
      trace.widened +=
          std::count_if(op.inputs.begin(), op.inputs.end(), isLowName);
    trace.compute(computes);
  }
  return trace;
}
