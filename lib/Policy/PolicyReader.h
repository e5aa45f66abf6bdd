//===- PolicyReader.h - parsing of policies ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the JSON of a policy: types, lists, maps, overrides, weights and
// measured data.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_POLICY_POLICYREADER_H
#define MPC_LIB_POLICY_POLICYREADER_H

#include "mpc/Policy/Policy.h"

#include "llvm/ADT/Twine.h"

#include <nlohmann/json.hpp>

#include <set>

namespace mpc {

/// "float32, float16 or bfloat16".
std::string joinTypes(llvm::ArrayRef<PolicyType> types);

/// Fills a policy from a JSON object.
class PolicyReader {
public:
  using Json = nlohmann::json;

  PolicyReader(Policy &policy, llvm::StringRef where, int depth)
      : policy(policy), where(where), depth(depth) {}

  llvm::Error read(const Json &root);

private:
  /// A list field: replaces the list of the base policy (`isPlain`, by `set`)
  /// or adds to and removes from it.
  struct ListEdit {
    bool isPlain = false;
    std::vector<std::string> set, add, remove;
  };

  llvm::Error error(const llvm::Twine &path, const llvm::Twine &message);
  llvm::Error unknownField(const Json &object, llvm::StringRef path,
                           llvm::ArrayRef<llvm::StringRef> known);

  // Single fields: each sets `out` if the field is present.
  llvm::Error readString(const Json &root, const char *key, std::string &out);
  llvm::Error readBool(const Json &root, const char *key, bool &out);
  llvm::Error readType(const Json &root, const char *key,
                       llvm::ArrayRef<PolicyType> allowed, PolicyType &out);
  llvm::Error readTypes(const Json &root);
  llvm::Error readWeights(const Json &value);
  llvm::Error readWeightFormat(const Json &value, const std::string &path,
                               WeightFormat &out);
  llvm::Error readCache(const Json &value);
  llvm::Error readOperands(const Json &value);
  // Options of `operands`; absent ones change nothing.
  llvm::Error readOperandName(const Json &fields, const char *option,
                              llvm::StringRef known,
                              llvm::function_ref<bool(llvm::StringRef)> parse);
  llvm::Error readOperandNumber(const Json &fields, const char *option,
                                int64_t least, int64_t most, int64_t &out);
  llvm::Error readOperandTypes(const Json &fields, OperandFormat &format);
  llvm::Error readOperandKinds(const Json &fields, OperandFormat &format);
  llvm::Error readMoments(const Json &value);
  llvm::Error readDefault(const Json &root);
  llvm::Error readAlgorithm(const Json &root);
  llvm::Error readExtends(const Json &root);

  // Lists and maps.
  llvm::Error readStrings(const Json &value, const llvm::Twine &path,
                          std::vector<std::string> &out);
  llvm::Error readListEdit(const Json &value, const std::string &path,
                           ListEdit &out);
  llvm::Error readClasses(const Json &value);
  llvm::Error readSystem(const Json &value);
  llvm::Error readSystemLists(const Json &value);
  llvm::Error readSystemKinds(const Json &value);
  llvm::Error readOverrides(const Json &value);
  llvm::Error readLayers(const Json &value);

  llvm::Error readProducts(const Json &value);
  llvm::Error readValues(const Json &value);
  llvm::Error readRanges(const Json &value);
  llvm::Error readModel(const Json &value);
  llvm::Error readTuning(const Json &value);

  Policy &policy;
  llvm::StringRef where;
  int depth;
};

} // namespace mpc

#endif // MPC_LIB_POLICY_POLICYREADER_H
