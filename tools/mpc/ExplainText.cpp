//===- ExplainText.cpp - report as text -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The summary first, then warnings, then tables.
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"

#include "mpc/Runtime/Program.h"
#include "mpc/Support/EscapedText.h"

#include <algorithm>
#include <map>
#include <set>

using namespace mpc;
using namespace mpc::tool;

/// Maximum line width, in columns.
static constexpr size_t kWidth = 100;

/// Shortens `text` to `width` columns by dropping its middle, since names
/// differ at their ends.
static std::string clipped(const std::string &text, size_t width) {
  if (text.size() <= width)
    return text;
  size_t tail = (width - 2) / 2, head = width - 2 - tail;
  return text.substr(0, head) + ".." + text.substr(text.size() - tail);
}

/// Word-wraps `sentence`, made printable; continuation lines are indented by
/// `indent`.
static std::string wrapped(const std::string &sentence,
                           const std::string &indent) {
  std::string text = printable(sentence);
  size_t margin = std::min(text.find_first_not_of(' '), text.size());
  std::string result = text.substr(0, margin);
  size_t column = margin, at = margin;
  bool starts = true;
  while (at < text.size()) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    if (!starts && column + 1 + word.size() > kWidth) {
      result += "\n" + indent;
      column = indent.size();
      starts = true;
    }
    result += (starts ? "" : " ") + word;
    column += word.size() + (starts ? 0 : 1);
    starts = false;
    at = end + 1;
  }
  return result;
}

static std::string counted(int64_t count, const std::string &thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

static std::string joined(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

//===----------------------------------------------------------------------===//
// Summary
//===----------------------------------------------------------------------===//

/// Formats counts: "17 in bf16, 40 in f32".
static std::string typeCounts(const std::map<std::string, int64_t> &counts) {
  std::vector<std::string> parts;
  parts.reserve(counts.size());
  for (const auto &[type, count] : counts)
    parts.push_back(std::to_string(count) + " in " + type);
  return joined(parts);
}

static std::string summary(const Explanation &explanation) {
  std::map<std::string, int64_t> computed, stored;
  std::set<std::string> overrides;
  for (const ExplainedOp &op : explanation.ops) {
    ++computed[op.compute];
    if (!op.storage.empty())
      ++stored[op.storage.front()];
    if (op.override)
      overrides.insert(*op.override);
  }
  int64_t bytes = 0, flops = 0, alone = 0, inputs = 0;
  for (const ExplainedKernel &kernel : explanation.kernels) {
    bytes += kernel.bytes;
    flops += kernel.flops;
  }
  for (const ExplainedCast &cast : explanation.castList) {
    bool ofInput = explanation.kernels[cast.launch].kind == "input_cast";
    inputs += ofInput;
    alone += cast.standsAlone && !ofInput;
  }
  std::string text =
      printable(explanation.model + ": policy " + explanation.policy +
                ", target " + explanation.target) +
      "\n";
  std::string_view bitClass = bitClassOf(explanation.target);
  auto add = [&](const std::string &line) {
    text += wrapped("  " + line, "    ") + "\n";
  };
  if (!bitClass.empty())
    add("reproducible results of bit class " + std::string(bitClass));
  add(counted(int64_t(explanation.ops.size()), "op") + ": computed " +
      typeCounts(computed) + "; stored " + typeCounts(stored));
  add(counted(int64_t(explanation.kernels.size()), "kernel") + " move " +
      shortBytes(double(bytes)) + " for " + shortNumber(double(flops)) +
      " flops");
  add(counted(explanation.casts, "cast") + " (" +
      shortBytes(double(explanation.castBytes)) +
      " if each were a separate pass); kernels execute " +
      std::to_string(explanation.castList.size()) + ": " +
      std::to_string(inputs) + " of inputs, " + std::to_string(alone) +
      " alone");
  add(counted(explanation.constantsPrecast, "constant") +
      " rounded at compile time, " +
      counted(int64_t(explanation.padding.size()), "contraction") + " padded");
  add(counted(int64_t(overrides.size()), "override") + " applied, " +
      counted(int64_t(explanation.warnings.size()), "warning"));
  if (explanation.errors)
    add("predicted error " + explanation.errors->measure + " " +
        shortNumber(explanation.errors->predicted) + " over " +
        counted(explanation.errors->samples, "sample"));
  return text;
}

//===----------------------------------------------------------------------===//
// Warnings
//===----------------------------------------------------------------------===//

static std::string warningLines(const Explanation &explanation) {
  std::string text;
  for (const ExplainedWarning &warning : explanation.warnings) {
    std::string line = "  " + warning.code + ": ";
    if (!warning.location.empty())
      line += warning.location + ": ";
    line += warning.text;
    if (!warning.fix.empty())
      line += "; " + warning.fix;
    text += wrapped(line, "    ") + "\n";
  }
  return text.empty() ? text : "\nwarnings\n" + text;
}

static std::string overrideLines(const Explanation &explanation) {
  std::map<std::string, std::vector<std::string>> opsOf;
  for (const ExplainedOp &op : explanation.ops)
    if (op.override)
      opsOf[*op.override].push_back(op.name);
  std::string text;
  for (const auto &[override, ops] : opsOf)
    text += wrapped("  " + override + ": " + joined(ops), "    ") + "\n";
  return text.empty() ? text : "\noverrides\n" + text;
}

/// Lists casts that are separate kernels, each with a pass over memory.
static std::string castLines(const Explanation &explanation) {
  std::string text;
  for (const ExplainedCast &cast : explanation.castList)
    if (cast.standsAlone)
      text +=
          wrapped("  " + cast.kernel + ": " + cast.of + " from " + cast.from +
                      " to " + cast.to + ", " + shortBytes(double(cast.bytes)),
                  "    ") +
          "\n";
  return text.empty() ? text : "\nunfused casts\n" + text;
}

/// Lists constants with overflow or underflow; the JSON has the others.
static std::string constantLines(const Explanation &explanation) {
  std::string text;
  for (const ExplainedConstant &constant : explanation.constants)
    if (constant.weights.empty() && (constant.overflowed || constant.flushed))
      text += wrapped("  " + constant.name + " (" + constant.type + "): of " +
                          std::to_string(constant.count) + " values " +
                          std::to_string(constant.overflowed) +
                          " became infinite and " +
                          std::to_string(constant.flushed) + " zero",
                      "    ") +
              "\n";
  return text.empty() ? text : "\nconstants that lost values\n" + text;
}

/// Lists quantized weights with their relative rms error.
static std::string weightsTable(const Explanation &explanation) {
  std::vector<std::vector<std::string>> table = {
      {"weights", "stored as", "values", "rms error"}};
  for (const ExplainedConstant &constant : explanation.constants)
    if (!constant.weights.empty())
      table.push_back({constant.name, constant.weights,
                       std::to_string(constant.count),
                       shortNumber(100 * constant.rmsError) + " %"});
  return table.size() == 1
             ? ""
             : "\n" + formatTable(table, {false, false, true, true}) + "\n";
}

/// Lists quantized operands: scales, and shares of their elements.
static std::string operandTable(const Explanation &explanation) {
  if (explanation.operands.empty())
    return "";
  std::vector<std::vector<std::string>> table = {
      {"quantized operand", "format", "scales", "saturated", "to zero"}};
  for (const ExplainedOperand &operand : explanation.operands) {
    std::string scales =
        operand.mostScale > 0 ? shortNumber(operand.leastScale) : "-";
    if (operand.mostScale > operand.leastScale)
      scales += " to " + shortNumber(operand.mostScale);
    table.push_back(
        {clipped(operand.op, 28) + (operand.operand == 0 ? "/lhs" : "/rhs"),
         clipped(operand.format, 22), scales,
         shortNumber(100 * operand.saturated) + " %",
         shortNumber(100 * operand.flushed) + " %"});
  }
  return "\n" + formatTable(table, {false, false, false, true, true}) + "\n";
}

/// Lists a decoder's KV caches.
static std::string cacheTable(const Explanation &explanation) {
  if (explanation.caches.empty())
    return "";
  std::vector<std::vector<std::string>> table = {
      {"cache", "stored as", "bytes per token"}};
  for (const ExplainedCache &cache : explanation.caches)
    table.push_back({cache.name, cache.type, std::to_string(cache.rowBytes)});
  return "\n" + formatTable(table, {false, false, true}) + "\n";
}

static std::string extents(const std::vector<int64_t> &list) {
  std::string text;
  for (int64_t extent : list)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text;
}

static std::string paddingTable(const Explanation &explanation) {
  if (explanation.padding.empty())
    return "";
  std::vector<std::vector<std::string>> table = {
      {"padded", "batch x M x N x K", "to", "extra flops"}};
  for (const ExplainedPadding &padding : explanation.padding)
    table.push_back({clipped(padding.op, 36), extents(padding.from),
                     extents(padding.to),
                     shortNumber(double(padding.extraFlops))});
  return "\n" + formatTable(table, {false, false, false, true}) + "\n";
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static std::string opTable(const Explanation &explanation) {
  std::vector<std::vector<std::string>> table = {
      {"op", "kind", "compute", "stored", "rule", "kernel"}};
  for (const ExplainedOp &op : explanation.ops) {
    std::string compute = op.compute;
    if (op.accumulate && *op.accumulate != op.compute)
      compute += "+" + *op.accumulate;
    table.push_back({clipped(op.name, 28), clipped(op.kind, 14), compute,
                     op.storage.empty() ? "" : op.storage.front(),
                     op.rule.value_or(""),
                     clipped(op.kernel.value_or(""), 22)});
  }
  return formatTable(table, std::vector<bool>(6, false)) + "\n";
}

static std::string kernelTable(const Explanation &explanation) {
  std::vector<std::vector<std::string>> table = {
      {"kernel", "kind", "bytes", "flops", "casts", "ops"}};
  for (const ExplainedKernel &kernel : explanation.kernels)
    table.push_back({clipped(kernel.name, 24), kernel.kind,
                     shortBytes(double(kernel.bytes)),
                     shortNumber(double(kernel.flops)),
                     std::to_string(kernel.casts), joined(kernel.ops)});
  std::vector<bool> right = {false, false, true, true, true, false};
  // Names get the remaining width.
  size_t widths = 0;
  for (size_t column = 0; column + 1 < right.size(); ++column) {
    size_t width = 0;
    for (const auto &row : table)
      width = std::max(width, row[column].size());
    widths += width + 2;
  }
  size_t left = kWidth > widths + 20 ? kWidth - widths : 20;
  for (auto &row : table)
    if (row.back().size() > left)
      row.back() = row.back().substr(0, left - 2) + "..";
  return formatTable(table, right) + "\n";
}

std::string tool::explanationToText(const Explanation &explanation) {
  std::string text = summary(explanation) + warningLines(explanation) +
                     overrideLines(explanation) + castLines(explanation) +
                     constantLines(explanation) + weightsTable(explanation) +
                     operandTable(explanation) + cacheTable(explanation) +
                     paddingTable(explanation) + "\n" + opTable(explanation) +
                     "\n" + kernelTable(explanation);
  text.pop_back();
  return text;
}

std::string tool::whyToText(const Explanation &explanation) {
  const ExplainedWhy &why = *explanation.why;
  std::string text = printable(why.name + ": " + why.type) + "\n";
  for (const ExplainedWhy::Step &step : why.steps)
    text += wrapped("  " + step.text, "    ") + "\n";
  if (why.bytesSaved || why.castBytes)
    text += "  the minimum cut saved " + shortBytes(double(why.bytesSaved)) +
            " of memory traffic for " + shortBytes(double(why.castBytes)) +
            " of casts\n";
  if (why.becomes.empty())
    return text +
           wrapped("no override of one or two ops changes it; the reason is " +
                       why.keeps,
                   "  ");
  std::string change;
  if (!why.drop.empty())
    change = "without --set " + shellQuoted(why.drop);
  for (const std::string &set : why.add)
    change += (change.empty() ? "with --set " : " and with --set ") +
              shellQuoted(set);
  return text + wrapped(change + " it becomes " + why.becomes, "  ");
}
