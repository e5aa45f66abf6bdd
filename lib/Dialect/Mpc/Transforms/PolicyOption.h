//===- PolicyOption.h - policies as pass options ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_DIALECT_MPC_TRANSFORMS_POLICYOPTION_H
#define MPC_LIB_DIALECT_MPC_TRANSFORMS_POLICYOPTION_H

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Policy/NamedPolicy.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassOptions.h"

#include <string>

/// Reads the name of a policy, or the path of its file.
template <>
class llvm::cl::parser<mpc::NamedPolicy>
    : public llvm::cl::basic_parser<mpc::NamedPolicy> {
public:
  using basic_parser::basic_parser;

  bool parse(Option &, StringRef, StringRef text, mpc::NamedPolicy &policy) {
    policy = mpc::NamedPolicy(text.str());
    return false;
  }
  static void print(raw_ostream &os, const mpc::NamedPolicy &policy) {
    mlir::detail::pass_options::printOptionValue<parser<std::string>>(
        os, policy.name());
  }
  StringRef getValueName() const override { return "policy"; }
  void printOptionDiff(const Option &option, const mpc::NamedPolicy &,
                       const OptionValue<mpc::NamedPolicy> &,
                       size_t width) const {
    printOptionName(option, width);
  }
};

namespace mpc {

/// Returns a pass's policy with the overrides `sets` ("KEY=TYPE") of its
/// options. Emits an error without location if it could not be read.
inline mlir::FailureOr<Policy> policyWith(const NamedPolicy &named,
                                          llvm::ArrayRef<std::string> sets,
                                          mlir::MLIRContext *context) {
  llvm::Expected<Policy> policy = named.with(sets);
  if (policy)
    return std::move(*policy);
  return mlir::emitError(mlir::UnknownLoc::get(context),
                         llvm::toString(policy.takeError()));
}

/// A policy's entries for an op.
struct OpPolicy {
  /// Policy of the op's layer.
  const Policy *policy;
  /// Null if there is none.
  const PolicyOverride *override;
};

/// Returns the entries of `policy` for `op`, an op of the backward pass or not;
/// emits an error at the op if they are ambiguous.
inline mlir::FailureOr<OpPolicy>
policyOf(mlir::Operation *op, const Policy &policy, bool isBackward) {
  llvm::StringRef layer = layerPath(op);
  llvm::Expected<const Policy *> own = policy.policyOfLayer(layer);
  if (!own)
    return op->emitError(llvm::toString(own.takeError()));
  llvm::Expected<const PolicyOverride *> override = policy.findOverride(
      llvm::cast<PrecisionOpInterface>(op).getPrecisionKind(), layer,
      opNames(op), isBackward);
  if (!override)
    return op->emitError(llvm::toString(override.takeError()));
  return OpPolicy{*own, *override};
}

} // namespace mpc

#endif // MPC_LIB_DIALECT_MPC_TRANSFORMS_POLICYOPTION_H
