//===- ConfigReader.h - typed reading of JSON configurations ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_IMPORT_CHECKPOINT_CONFIGREADER_H
#define MPC_LIB_IMPORT_CHECKPOINT_CONFIGREADER_H

#include "mpc/Runtime/Status.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mpc::checkpoint {

/// Reads the entries of an untrusted JSON object. Each function returns the
/// fallback if the key is missing or null. The first wrong value is a failure,
/// which status() and finish() return.
class ConfigReader {
public:
  using Json = nlohmann::json;

  /// `object` must outlive the reader; `where` is the file. `path` precedes
  /// keys in messages ("rope_scaling.").
  ConfigReader(const Json &object, std::string where, std::string path = "")
      : object(object), where(std::move(where)), path(std::move(path)) {}

  /// Returns the value, or null if it is missing or null.
  const Json *find(llvm::StringRef key);
  bool has(llvm::StringRef key) { return find(key) != nullptr; }
  /// Returns true if the key is missing, rather than null.
  bool isMissing(llvm::StringRef key) const {
    return !object.contains(key.str());
  }
  /// An integer from `low` to `high`; without a fallback the key is required.
  int64_t integer(llvm::StringRef key, int64_t low, int64_t high,
                  std::optional<int64_t> fallback = {});
  /// A number above zero that is finite in f32, in which models compute.
  double positive(llvm::StringRef key, std::optional<double> fallback = {});
  std::optional<double> optionalPositive(llvm::StringRef key);
  bool flag(llvm::StringRef key, bool fallback);
  std::string text(llvm::StringRef key, llvm::StringRef fallback);
  /// A list of strings or of such numbers; empty if missing.
  std::vector<std::string> texts(llvm::StringRef key);
  std::vector<double> numbers(llvm::StringRef key);

  /// Records a failure at a key.
  void fail(llvm::StringRef key, const std::string &text);
  /// Fails unless a key has the only supported value.
  void require(llvm::StringRef key, const Json &value);
  void ignore(llvm::ArrayRef<const char *> keys);
  /// Records the failure of a nested reader.
  void adopt(const Status &status);

  const Status &status() const { return failure; }
  /// Returns the failure, or one that names a key that was neither read nor
  /// ignored.
  Status finish() const;

private:
  const Json &object;
  std::string where, path;
  Status failure;
  std::set<std::string> known;
};

} // namespace mpc::checkpoint

#endif // MPC_LIB_IMPORT_CHECKPOINT_CONFIGREADER_H
