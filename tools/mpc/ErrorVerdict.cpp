//===- ErrorVerdict.cpp - check results in reports ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ErrorVerdict.h"

using namespace mpc;
using namespace mpc::tool;
using mpc::reference::OutputError;
using mpc::reference::Tensor;

/// Formats the last cell of a row.
static std::string verdict(const OutputError &error, const Tensor &tensor,
                           bool holds) {
  if (tensor.isFloat() && holds && error.compared == 0 && tensor.size() > 0)
    return "ok, but the reference has no finite element";
  if (tensor.isFloat())
    return holds ? "ok" : "OVER TOLERANCE";
  if (error.mismatches == 0)
    return "ok";
  std::string text = std::to_string(error.mismatches) + " of " +
                     std::to_string(tensor.size()) +
                     (holds ? " differ" : " DIFFER");
  if (!holds && error.mismatchTolerance >= 0)
    text += ", but rounding explains " +
            std::to_string(error.mismatchTolerance) + " at most";
  if (error.storageMismatches)
    text += ", " + std::to_string(error.storageMismatches) +
            " in the oracle's storage-rounding mode";
  return text;
}

std::vector<std::string> tool::headingOf(std::vector<std::string> first) {
  for (const char *column : {"rms rel error", "tolerance", "max abs error", ""})
    first.emplace_back(column);
  return first;
}

std::vector<std::string> tool::rowOf(std::vector<std::string> first,
                                     const OutputError &error,
                                     const Tensor &tensor, bool holds) {
  for (double number :
       {error.rmsRelativeError, error.tolerance, error.maxAbsError})
    first.push_back(tensor.isFloat() ? shortNumber(number) : "-");
  first.push_back(verdict(error, tensor, holds));
  return first;
}

std::string tool::describeWeakTolerance(const OutputError &error,
                                        const Tensor &tensor) {
  if (!tensor.isFloat() || error.compared == 0)
    return "";
  if (error.tolerance >= 1)
    return "the tolerance is " + shortNumber(error.tolerance) +
           ", so zeros would pass: with the types of this policy, rounding may "
           "change all of its value";
  if (error.flips > 0 && error.largestTolerance >= 1)
    return "a discrete decision (an index, a branch) falls otherwise with the "
           "types of this policy in " +
           std::to_string(error.flips) + " of " +
           std::to_string(tensor.size()) +
           " elements, so a single element may be off by " +
           shortNumber(error.largestTolerance) + " times its terms";
  return "";
}

void tool::addErrorFields(Json &entry, const OutputError &error,
                          const Tensor &tensor) {
  if (tensor.isFloat()) {
    entry["componentwise_error"] = jsonNumber(error.componentwiseError);
    entry["componentwise_tolerance"] = jsonNumber(error.componentwiseTolerance);
    entry["largest_error"] = jsonNumber(error.largestError);
    entry["largest_tolerance"] = jsonNumber(error.largestTolerance);
    if (error.flips > 0)
      entry["flips"] = error.flips;
    return;
  }
  entry["elements"] = tensor.size();
  entry["mismatches"] = error.mismatches;
  entry["declared_mismatches"] = error.storageMismatches;
}
