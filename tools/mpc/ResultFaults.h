//===- ResultFaults.h - why results failed a check --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// compareOutput() judges; this reports, in the text and in the document of a
// check, what a tolerance and an error of a whole output do not show: values
// that are not finite, and elements that are wrong beside larger ones.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_RESULTFAULTS_H
#define MPC_TOOLS_MPC_RESULTFAULTS_H

#include "Reporter.h"

#include "JIT/OpTrace.h"

#include "mpc/Reference/Compare.h"

#include <optional>
#include <set>

namespace mpc::tool {

/// The values of one check that disagree with the reference about finiteness or
/// are over their componentwise tolerance.
class ResultFaults {
public:
  /// Adds the "reason" to `row`, the entry of a value, where `error` has one.
  void add(Json &row, const std::string &name,
           const reference::OutputError &error, llvm::ArrayRef<int64_t> shape);

  /// Whether a value is not finite where the reference is, so that an op must
  /// have overflowed.
  bool overflowed() const { return anyOverflow; }

  /// Prints a line per value and `first`, the op that overflowed first, where
  /// it is known; `document` gets it as "first_overflow".
  void report(Reporter &reporter, Json &document,
              const std::optional<Overflow> &first) const;

private:
  std::vector<std::string> lines;
  std::set<std::string> known;
  bool anyOverflow = false;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_RESULTFAULTS_H
