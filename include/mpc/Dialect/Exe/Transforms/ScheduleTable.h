//===- ScheduleTable.h - tuned kernel schedules -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_EXE_TRANSFORMS_SCHEDULETABLE_H
#define MPC_DIALECT_EXE_TRANSFORMS_SCHEDULETABLE_H

#include "mpc/Runtime/Status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <string>

namespace mpc {

/// Schedules of one target, keyed by the computation of their kernels, that a
/// tuner measured to be faster than the cost model's. File format: a JSON
/// object
///   {"target": "cpu:avx512", "kernels": {KEY: {"name": "k_fc",
///    "schedule": "#tile.blocks<...>", "ms": 1.0, "model_ms": 1.1}}}
/// A value type.
class ScheduleTable {
public:
  struct Entry {
    /// Name of the kernel in the tuned model, for readers.
    std::string name;
    /// The attribute `mpc.schedule` as text.
    std::string schedule;
    /// Launch time with this schedule, and with the cost model's, in
    /// milliseconds.
    double milliseconds = 0, modelMilliseconds = 0;
  };

  explicit ScheduleTable(std::string target) : target(std::move(target)) {}

  /// Reads a table; fails with a message that names the file if it cannot be
  /// read or is invalid.
  static Result<ScheduleTable> read(const std::string &path);
  /// Writes the file, replacing it.
  Status write(const std::string &path) const;

  /// Returns a hash of the kernel's computation in hexadecimal: ops, types,
  /// shapes and constants; ignores names, locations and schedules.
  static std::string keyOf(mlir::func::FuncOp kernel);

  const std::string &targetName() const { return target; }
  const Entry *find(const std::string &key) const;
  void set(const std::string &key, Entry entry) {
    entries[key] = std::move(entry);
  }
  void erase(const std::string &key) { entries.erase(key); }
  size_t size() const { return entries.size(); }

private:
  std::string target;
  std::map<std::string, Entry> entries;
};

} // namespace mpc

#endif // MPC_DIALECT_EXE_TRANSFORMS_SCHEDULETABLE_H
