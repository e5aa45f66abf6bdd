//===- UnknownNames.cpp - unknown names in a policy -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of single products, values and weights, as mpc tune writes them: a name
// that no op has is an editing mistake, or belongs to another model.
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/PrecisionPlan.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;

template <typename Entries>
static void warn(Location loc, const Policy &policy, StringRef field,
                 const Entries &entries, const llvm::StringSet<> &known) {
  std::string first;
  size_t count = 0;
  for (const auto &[name, entry] : entries) {
    StringRef ofOp = name;
    ofOp.consume_front(Policy::kBackward);
    if (known.contains(name) || known.contains(ofOp))
      continue;
    if (count++ == 0)
      first = name;
  }
  if (count == 0)
    return;
  InFlightDiagnostic diag = emitWarning(loc);
  diag << "policy '" << policy.getName() << "' names '" << first << "'";
  if (count > 1)
    diag << " and " << count - 1 << " more";
  diag << " under " << field
       << ", which match no op; mpc explain lists the names of a model";
}

void mpc::warnOfUnknownNames(Location loc, const Policy &policy,
                             ArrayRef<func::FuncOp> functions) {
  if (policy.getProducts().empty() && policy.getValues().empty() &&
      policy.getNamedWeights().empty())
    return;
  llvm::StringSet<> known;
  for (func::FuncOp function : functions)
    function.walk([&](Operation *op) {
      for (StringRef name : opNames(op))
        known.insert(name);
    });
  warn(loc, policy, "products", policy.getProducts(), known);
  warn(loc, policy, "values", policy.getValues(), known);
  warn(loc, policy, "weights.names", policy.getNamedWeights(), known);
}
