//===- Specialisations.h - executables by shape -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_SPECIALISATIONS_H
#define MPC_LIB_JIT_SPECIALISATIONS_H

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

/// Executables by what they were compiled for, the least recently used one
/// given up first, and one compile for all that ask for the same thing at once.
/// Thread-safe; compiles run without the lock.
class Specialisations {
public:
  explicit Specialisations(EngineLimits limits) : limits(limits) {}

  /// An executable and the inputs whose value was compiled in.
  struct Made {
    Executable executable;
    std::set<std::string> fixed;
  };
  using Compile = std::function<Result<Made>()>;
  /// The text that tells apart the values of these inputs.
  using ValueKey = std::function<std::string(const std::set<std::string> &)>;

  /// What was made for `shapes` and for the values of those `inputs` that
  /// matter, which only a compile tells: `values` is asked for the key of those
  /// that compiles for `shapes` named so far.
  Result<Made> get(const std::string &shapes,
                   const std::set<std::string> &inputs, const ValueKey &values,
                   const Compile &compile);

  SpecialisationCounts counts() const;

  /// A number that tells one model from another.
  int64_t nextModel() {
    std::scoped_lock lock(mutex);
    return models++;
  }

private:
  /// A compile that others wait for.
  struct Pending;
  struct Entry {
    Made made;
    int64_t bytes = 0;
    std::list<std::string>::iterator use;
  };

  std::optional<std::set<std::string>>
  knownFixed(const std::string &shapes) const;
  /// Enters what was made under the values that matter. The lock is held, but
  /// not throughout.
  void keep(const std::string &shapes, const ValueKey &values, const Made &made,
            std::unique_lock<std::mutex> &lock);
  void insert(const std::string &key, const Made &made);
  void evict();

  const EngineLimits limits;
  mutable std::mutex mutex;
  int64_t models = 0;
  SpecialisationCounts counted;
  /// The inputs that compiles for a key of shapes found to matter.
  std::unordered_map<std::string, std::set<std::string>> fixedInputs;
  std::unordered_map<std::string, std::shared_ptr<Pending>> pending;
  std::unordered_map<std::string, Entry> entries;
  /// Keys, the one used last in front.
  std::list<std::string> uses;
};

} // namespace mpc::detail

#endif // MPC_LIB_JIT_SPECIALISATIONS_H
