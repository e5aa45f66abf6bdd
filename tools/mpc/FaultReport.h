//===- FaultReport.h - reasons for failed checks ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reports, in text and JSON, faults found by compareOutput() that an output's
// overall error and tolerance do not show: non-finite values, and wrong
// elements next to larger ones.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_FAULTREPORT_H
#define MPC_TOOLS_MPC_FAULTREPORT_H

#include "Reporter.h"

#include "JIT/OpTrace.h"

#include "mpc/Reference/Compare.h"

#include <optional>
#include <set>

namespace mpc::tool {

/// Values of one check that are unexpectedly non-finite or exceed their
/// componentwise tolerance.
class FaultReport {
public:
  /// Adds the "reason" to `row`, the entry of a value, if `error` has one.
  void add(Json &row, const std::string &name,
           const reference::OutputError &error, llvm::ArrayRef<int64_t> shape);

  /// True if a value is non-finite where the reference is finite, so that an op
  /// must have overflowed.
  bool overflowed() const { return anyOverflow; }

  /// Prints a line per value and `first`, the op that overflowed first, if
  /// known; `document` gets it as "first_overflow".
  void report(Reporter &reporter, Json &document,
              const std::optional<Overflow> &first) const;

private:
  std::vector<std::string> lines;
  std::set<std::string> known;
  bool anyOverflow = false;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_FAULTREPORT_H
