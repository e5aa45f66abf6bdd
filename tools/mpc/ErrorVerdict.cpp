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

std::string tool::errorCell(double number, const Tensor &tensor) {
  return tensor.isFloat() ? shortNumber(number) : "-";
}

std::string tool::verdict(const OutputError &error, const Tensor &tensor,
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
  if (error.storageMismatches)
    text += ", " + std::to_string(error.storageMismatches) +
            " in the oracle's storage-rounding mode";
  return text;
}

void tool::addErrorFields(Json &entry, const OutputError &error,
                          const Tensor &tensor) {
  if (tensor.isFloat()) {
    entry["componentwise_error"] = jsonNumber(error.componentwiseError);
    entry["componentwise_tolerance"] = jsonNumber(error.componentwiseTolerance);
    entry["largest_error"] = jsonNumber(error.largestError);
    entry["largest_tolerance"] = jsonNumber(error.largestTolerance);
    return;
  }
  entry["elements"] = tensor.size();
  entry["mismatches"] = error.mismatches;
  entry["declared_mismatches"] = error.storageMismatches;
}
