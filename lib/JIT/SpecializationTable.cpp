//===- SpecializationTable.cpp - cache of executables by shape ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SpecializationTable.h"

#include <condition_variable>
#include <optional>

using namespace mpc;
using namespace mpc::detail;

struct SpecializationTable::Pending {
  std::condition_variable done;
  /// Result of the compile, set once under the cache's lock.
  std::optional<Result<Made>> result;
  /// For a failure: the key of all values it was given.
  std::string values;
};

std::optional<std::set<std::string>>
SpecializationTable::knownFixed(const std::string &shapes) const {
  auto known = fixedInputs.find(shapes);
  if (known == fixedInputs.end())
    return std::nullopt;
  return known->second;
}

Result<SpecializationTable::Made>
SpecializationTable::get(const std::string &shapes,
                         const std::set<std::string> &inputs,
                         const ValueKey &values, const Compile &compile) {
  std::unique_lock lock(mutex);
  while (true) {
    // Until the first compile for these shapes reports which values matter, all
    // callers wait for it.
    std::string key = shapes;
    if (auto names = knownFixed(shapes); names && !names->empty()) {
      // Unlocked: hashing values may take a while.
      lock.unlock();
      key += values(*names);
      lock.lock();
    }
    if (auto found = entries.find(key); found != entries.end()) {
      ++counted.hits;
      uses.splice(uses.begin(), uses, found->second.use);
      return found->second.made;
    }
    auto [place, isFirst] = pending.try_emplace(key);
    if (isFirst) {
      place->second = std::make_shared<Pending>();
      std::shared_ptr<Pending> mine = place->second;
      ++counted.compiles;
      lock.unlock();
      Result<Made> made = compile();
      if (!made.ok())
        mine->values = values(inputs);
      lock.lock();
      if (made.ok())
        keep(shapes, values, *made, lock);
      mine->result = made;
      pending.erase(key);
      mine->done.notify_all();
      return made;
    }
    std::shared_ptr<Pending> other = place->second;
    other->done.wait(lock, [&] { return other->result.has_value(); });
    if (!other->result->ok()) {
      // The failure may depend on the values: then this call compiles itself.
      if (other->values == values(inputs))
        return other->result->status();
      continue;
    }
    // Its values may differ from this call's: look up again, unless no values
    // matter.
    if ((*other->result)->fixed.empty()) {
      ++counted.hits;
      return *other->result;
    }
  }
}

void SpecializationTable::keep(const std::string &shapes,
                               const ValueKey &values, const Made &made,
                               std::unique_lock<std::mutex> &lock) {
  while (true) {
    std::optional<std::set<std::string>> before = knownFixed(shapes);
    std::set<std::string> all = before.value_or(std::set<std::string>());
    all.insert(made.fixed.begin(), made.fixed.end());
    lock.unlock();
    std::string key = shapes + values(all);
    lock.lock();
    // Another compile may have found further inputs meanwhile. Names and entry
    // are published together, so that a reader of one finds the other.
    if (knownFixed(shapes) != before)
      continue;
    fixedInputs[shapes] = std::move(all);
    insert(key, made);
    return;
  }
}

void SpecializationTable::insert(const std::string &key, const Made &made) {
  const Program &program = made.executable.program();
  uses.push_front(key);
  auto [place, isNew] = entries.try_emplace(
      key,
      Entry{made, program.constantBytes() + program.arenaBytes, uses.begin()});
  if (!isNew) {
    uses.pop_front();
    return;
  }
  ++counted.kept;
  counted.bytes += place->second.bytes;
  evict();
}

void SpecializationTable::evict() {
  while (counted.kept > 1 && (counted.kept > limits.specialisations ||
                              counted.bytes > limits.bytes)) {
    auto last = entries.find(uses.back());
    --counted.kept;
    ++counted.evictions;
    counted.bytes -= last->second.bytes;
    entries.erase(last);
    uses.pop_back();
  }
}

SpecialisationCounts SpecializationTable::counts() const {
  std::scoped_lock lock(mutex);
  return counted;
}
