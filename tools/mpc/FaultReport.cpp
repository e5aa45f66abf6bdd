//===- FaultReport.cpp - reasons for failed checks -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FaultReport.h"

using namespace mpc;
using namespace mpc::tool;

void FaultReport::add(Json &row, const std::string &name,
                      const reference::OutputError &error,
                      llvm::ArrayRef<int64_t> shape) {
  std::string reason = reference::describeFinitenessError(error, shape);
  if (reason.empty())
    reason = reference::describeComponentError(error, shape);
  if (reason.empty())
    return;
  row["reason"] = reason;
  anyOverflow |= error.overflows > 0;
  // An output may be compared with the oracle and with a file.
  if (std::string line = name + ": " + reason; known.insert(line).second)
    lines.push_back(std::move(line));
}

void FaultReport::report(Reporter &reporter, Json &document,
                         const std::optional<Overflow> &first) const {
  for (const std::string &line : lines)
    reporter.line(line);
  if (!first)
    return;
  reporter.line("first overflow: " + first->text());
  document["first_overflow"] = {{"op", first->op},
                                {"kind", first->kind},
                                {"layer", first->layer},
                                {"type", first->type}};
}
