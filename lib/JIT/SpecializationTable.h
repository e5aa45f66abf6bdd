//===- SpecializationTable.h - cache of executables by shape ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_SPECIALIZATIONTABLE_H
#define MPC_LIB_JIT_SPECIALIZATIONTABLE_H

#include "mpc/JIT/Model.h"

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

namespace mpc::detail {

/// LRU cache of executables by specialization key; concurrent requests for one
/// key share a compile. Thread-safe; compiles run without the lock.
class SpecializationTable {
public:
  explicit SpecializationTable(EngineLimits limits) : limits(limits) {}

  /// An executable and the inputs whose value was compiled in.
  struct Made {
    Executable executable;
    std::set<std::string> fixed;
  };
  using Compile = std::function<Result<Made>()>;
  /// Returns a key of the values of these inputs.
  using ValueKey = std::function<std::string(const std::set<std::string> &)>;

  /// Returns the executable for `shapes` and for the values of those `inputs`
  /// that matter, which only a compile reports: `values` returns the key of
  /// those reported for `shapes` so far.
  Result<Made> get(const std::string &shapes,
                   const std::set<std::string> &inputs, const ValueKey &values,
                   const Compile &compile);

  SpecialisationCounts counts() const;

  /// Returns a unique id for a model.
  int64_t nextModel() {
    std::scoped_lock lock(mutex);
    return models++;
  }

private:
  /// A compile in progress.
  struct Pending;
  struct Entry {
    Made made;
    int64_t bytes = 0;
    std::list<std::string>::iterator use;
  };

  std::optional<std::set<std::string>>
  knownFixed(const std::string &shapes) const;
  /// Inserts an executable under the values that matter. Called with the lock
  /// held; releases it temporarily.
  void keep(const std::string &shapes, const ValueKey &values, const Made &made,
            std::unique_lock<std::mutex> &lock);
  void insert(const std::string &key, const Made &made);
  void evict();

  const EngineLimits limits;
  mutable std::mutex mutex;
  int64_t models = 0;
  SpecialisationCounts counted;
  /// Inputs whose values matter, by key of shapes.
  std::unordered_map<std::string, std::set<std::string>> fixedInputs;
  std::unordered_map<std::string, std::shared_ptr<Pending>> pending;
  std::unordered_map<std::string, Entry> entries;
  /// Keys, most recently used first.
  std::list<std::string> uses;
};

} // namespace mpc::detail

#endif // MPC_LIB_JIT_SPECIALIZATIONTABLE_H
