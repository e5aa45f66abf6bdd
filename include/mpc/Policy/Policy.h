//===- Policy.h - precision policies ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy says in which type each kind of op computes. Policies are data: the
// built-in ones are the files of lib/Policy/data, a user's is a JSON file of
// the same form. Knows no MLIR: types are names, ops are (kind, layer, names).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_POLICY_POLICY_H
#define MPC_POLICY_POLICY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace mpc {

/// Float types that a policy can name.
enum class PolicyType { Float32, Float16, BFloat16 };

/// "float32", "float16", "bfloat16".
llvm::StringRef stringify(PolicyType type);
/// Parses a type's name; f32, f16, bf16, half, fp16 ... are accepted as well.
std::optional<PolicyType> parsePolicyType(llvm::StringRef name);

/// What a policy's lists say about a kind of op.
enum class PrecisionClass {
  Low,        ///< compute in the policy's compute type
  High,       ///< compute in float32
  Follow,     ///< narrow where its inputs are and nothing forbids
  Clear,      ///< no numeric effect, takes any type
  Widest,     ///< operands meet in the widest of their types
  HighResult, ///< only the result type is set to float32
  Ban,        ///< an error
};

/// "low", "high", "follow", "clear", "widest", "high_result", "ban".
llvm::StringRef stringify(PrecisionClass cls);
/// Parses a class; TensorFlow's (allow, deny, infer) and torch's
/// (lower_precision_fp, fp32, promote, fp32_set_opt_dtype, banned) names are
/// accepted as well.
std::optional<PrecisionClass> parsePrecisionClass(llvm::StringRef name);

/// One `KEY=TYPE` override.
struct PolicyOverride {
  enum class Key { Kind, Layer, Name };
  /// Where it was given; later sources beat earlier ones.
  enum class Source { File, CommandLine };

  Key key = Key::Kind;
  Source source = Source::File;
  PolicyType type = PolicyType::Float32;
  std::string pattern;
  /// As the user wrote it: `layer:encoder/.*=float32`.
  std::string text;
  /// Compiled form of a layer's pattern.
  std::shared_ptr<re2::RE2> regex;
};

/// A precision policy. A value; copies are independent.
class Policy {
public:
  /// Reads a policy from JSON text. `where` names the text in messages; an
  /// error's message starts with it and the line (syntax) or the field's path
  /// (meaning).
  static llvm::Expected<Policy> parse(llvm::StringRef json,
                                      llvm::StringRef where);

  /// A built-in policy by name, or a file where the name ends in `.json`.
  static llvm::Expected<Policy> load(llvm::StringRef nameOrPath);

  /// Names of the built-in policies, sorted.
  static std::vector<llvm::StringRef> builtinNames();

  /// Adds an override `op:KIND=TYPE`, `layer:PATH-OR-REGEX=TYPE` or
  /// `name:NAME=TYPE`.
  llvm::Error addOverride(
      llvm::StringRef text,
      PolicyOverride::Source source = PolicyOverride::Source::CommandLine);

  /// The override that decides about an op, or null. The command line beats the
  /// file; within one source a name beats an exact layer, beats a layer regex,
  /// beats a kind. Two regexes, or two names, of one source that match the same
  /// op and disagree are an error.
  llvm::Expected<const PolicyOverride *>
  findOverride(llvm::StringRef kind, llvm::StringRef layer,
               llvm::ArrayRef<llvm::StringRef> names) const;

  /// The class of a kind.
  PrecisionClass classOf(llvm::StringRef kind) const;

  llvm::StringRef getName() const { return name; }
  llvm::StringRef getDescription() const { return description; }
  /// Type that `low` ops compute in.
  PolicyType getCompute() const { return compute; }
  /// Type in which values between kernels are stored.
  PolicyType getStore() const { return store; }
  /// Type of the running sum of `low` contractions, which is their result's
  /// type.
  PolicyType getAccumulate() const { return accumulate; }
  /// Every kind that a list names, with its class.
  const std::map<std::string, PrecisionClass> &getClasses() const {
    return classes;
  }
  llvm::ArrayRef<PolicyOverride> getOverrides() const { return overrides; }

private:
  friend class PolicyReader;

  std::string name, description;
  PolicyType compute = PolicyType::Float32, store = PolicyType::Float32,
             accumulate = PolicyType::Float32;
  PrecisionClass defaultClass = PrecisionClass::High;
  std::map<std::string, PrecisionClass> classes;
  std::vector<PolicyOverride> overrides;
};

} // namespace mpc

#endif // MPC_POLICY_POLICY_H
