//===- ExplainJson.cpp - report as JSON -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"

#include "mpc/Runtime/Program.h"

using namespace mpc;
using namespace mpc::tool;

template <typename T> static Json valueOrNull(const std::optional<T> &value) {
  return value ? Json(*value) : Json(nullptr);
}

static Json textOrNull(const std::string &text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

static Json toJson(const ExplainedOp &op) {
  Json json = {{"name", op.name},
               {"kind", op.kind},
               {"layer", op.layer},
               {"location", op.location},
               {"compute", op.compute},
               {"accumulate", valueOrNull(op.accumulate)},
               {"operands", op.operands},
               {"results", op.results},
               {"shape", op.shape},
               {"storage", op.storage},
               {"rule", valueOrNull(op.rule)},
               {"override", valueOrNull(op.override)},
               {"reason", valueOrNull(op.reason)},
               {"cost", valueOrNull(op.cost)},
               {"kernel", valueOrNull(op.kernel)},
               {"launch", valueOrNull(op.launch)}};
  if (op.errorOfResults || op.errorOfOperands) {
    double results = op.errorOfResults.value_or(0);
    double operands = op.errorOfOperands.value_or(0);
    json["error_share"] = results + operands;
    json["error_share_operands"] = operands;
  }
  return json;
}

static Json toJson(const ExplainedEdge &edge) {
  auto end = [](const auto &end) {
    return std::visit([](const auto &value) { return Json(value); }, end);
  };
  return {{"from", end(edge.from)},
          {"to", end(edge.to)},
          {"type", edge.type},
          {"shape", edge.shape}};
}

static Json toJson(const ExplainedCast &cast) {
  return {{"of", cast.of},         {"from", cast.from},
          {"to", cast.to},         {"shape", cast.shape},
          {"bytes", cast.bytes},   {"kernel", cast.kernel},
          {"launch", cast.launch}, {"stands_alone", cast.standsAlone},
          {"model", cast.ofModel}};
}

static Json toJson(const ExplainedConstant &constant) {
  Json json = {{"name", constant.name},
               {"type", constant.type},
               {"count", constant.count},
               {"overflowed", constant.overflowed},
               {"flushed", constant.flushed},
               {"max_error", jsonNumber(constant.maxError)},
               {"rms_error", jsonNumber(constant.rmsError)}};
  if (!constant.weights.empty())
    json["weights"] = constant.weights;
  return json;
}

static Json toJson(const ExplainedCache &cache) {
  return {{"name", cache.name},
          {"type", cache.type},
          {"bytes_per_token", cache.rowBytes}};
}

static Json toJson(const ExplainedPadding &padding) {
  return {{"op", padding.op},
          {"from", padding.from},
          {"to", padding.to},
          {"extra_flops", padding.extraFlops}};
}

static Json toJson(const ExplainedSass &sass) {
  Json loop = nullptr;
  if (!sass.mainLoop.empty()) {
    loop = {{"runs", jsonNumber(sass.runs)}};
    for (const auto &[unit, count] : sass.mainLoop)
      loop[unit] = count;
  }
  return {{"blocks", sass.blocks},
          {"threads", sass.threads},
          {"registers", sass.registers},
          {"spill_bytes", sass.spillBytes},
          {"shared_memory", sass.sharedMemory},
          {"resident_blocks", sass.residentBlocks},
          {"main_loop", loop},
          {"outside_per_element", jsonNumber(sass.outsidePerElement)},
          {"l2_bytes", jsonNumber(sass.l2Bytes)},
          {"shared_bytes", jsonNumber(sass.sharedBytes)},
          {"bound_by", sass.boundBy},
          {"microseconds", jsonNumber(sass.seconds * 1e6)},
          {"floor_microseconds", jsonNumber(sass.floorSeconds * 1e6)},
          {"share_of_floor", jsonNumber(sass.share())}};
}

static Json toJson(const ExplainedKernel &kernel) {
  Json document = {{"name", kernel.name},   {"kind", kernel.kind},
                   {"ops", kernel.ops},     {"bytes", kernel.bytes},
                   {"flops", kernel.flops}, {"casts", kernel.casts}};
  if (kernel.seconds)
    document["model_ms"] = *kernel.seconds * 1e3;
  if (kernel.sass)
    document["sass"] = toJson(*kernel.sass);
  return document;
}

static Json toJson(const ExplainedWarning &warning) {
  return {{"code", warning.code},
          {"op", warning.op},
          {"location", warning.location},
          {"text", warning.text},
          {"value", textOrNull(warning.value)},
          {"fix", textOrNull(warning.fix)}};
}

static Json toJson(const ExplainedWhy &why) {
  Json steps = Json::array();
  for (const ExplainedWhy::Step &step : why.steps)
    steps.push_back({{"text", step.text},
                     {"op", textOrNull(step.op)},
                     {"location", textOrNull(step.location)}});
  Json flip = nullptr;
  if (!why.becomes.empty())
    flip = {{"op", textOrNull(why.flippedOp)},
            {"sets", why.add},
            {"drop", textOrNull(why.drop)},
            {"becomes", why.becomes}};
  return {{"name", why.name},
          {"type", why.type},
          {"steps", steps},
          {"flip", flip},
          {"keeps", textOrNull(why.keeps)},
          {"bytes_saved", why.bytesSaved},
          {"cast_bytes", why.castBytes}};
}

static Json toJson(const ExplainedErrors &errors) {
  Json inputs = Json::object();
  for (const auto &[name, share] : errors.inputs)
    inputs[name] = share;
  return {{"measure", errors.measure},
          {"predicted", jsonNumber(errors.predicted)},
          {"samples", errors.samples},
          {"inputs", inputs}};
}

static Json toJson(const ExplainedOperand &operand) {
  return {{"op", operand.op},
          {"operand", operand.operand},
          {"format", operand.format},
          {"least_scale", jsonNumber(operand.leastScale)},
          // Without a scale the least one is infinite, and both are null.
          {"largest_scale",
           jsonNumber(std::max(operand.leastScale, operand.mostScale))},
          {"saturated", operand.saturated},
          {"flushed", operand.flushed}};
}

template <typename T> static Json toJson(const std::vector<T> &list) {
  Json array = Json::array();
  for (const T &entry : list)
    array.push_back(toJson(entry));
  return array;
}

Json tool::explanationToJson(const Explanation &explanation) {
  std::string_view name = bitClassOf(explanation.target);
  Json bitClass = name.empty() ? Json() : Json(name);
  Json document = {{"model", explanation.model},
                   {"policy", explanation.policy},
                   {"target", explanation.target},
                   {"bit_class", bitClass},
                   {"ops", toJson(explanation.ops)},
                   {"edges", toJson(explanation.edges)},
                   {"casts", explanation.casts},
                   {"cast_bytes", explanation.castBytes},
                   {"cast_list", toJson(explanation.castList)},
                   {"constants_precast", explanation.constantsPrecast},
                   {"constants", toJson(explanation.constants)},
                   {"caches", toJson(explanation.caches)},
                   {"padding", toJson(explanation.padding)},
                   {"kernels", toJson(explanation.kernels)},
                   {"arena_bytes", explanation.arenaBytes},
                   {"arena_live_bytes", explanation.arenaLiveBytes},
                   {"warnings", toJson(explanation.warnings)}};
  if (explanation.errors)
    document["error"] = toJson(*explanation.errors);
  if (!explanation.operands.empty())
    document["quantized_operands"] = toJson(explanation.operands);
  if (!explanation.ranges.is_null())
    document["ranges"] = explanation.ranges;
  if (explanation.why)
    document["why"] = toJson(*explanation.why);
  return document;
}
