//===- ScheduleTable.h - schedules that were measured -----------*- C++ -*-===//
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

/// Schedules by what their kernels compute, for one target: what a tuner found
/// to be faster than the cost model's choice. As a file, a JSON object
///   {"target": "cpu:avx512", "kernels": {KEY: {"name": "k_fc",
///    "schedule": "#tile.blocks<...>", "ms": 1.0, "model_ms": 1.1}}}
/// A plain value.
class ScheduleTable {
public:
  struct Entry {
    /// The kernel's name in the model that it was tuned in, for readers.
    std::string name;
    /// The attribute `mpc.schedule` as text.
    std::string schedule;
    /// Milliseconds of a launch with it, and with what the model had chosen.
    double milliseconds = 0, modelMilliseconds = 0;
  };

  explicit ScheduleTable(std::string target) : target(std::move(target)) {}

  /// Fails with one sentence that names the file where it cannot be read or is
  /// no such table.
  static Result<ScheduleTable> read(const std::string &path);
  /// Replaces the file as a whole.
  Status write(const std::string &path) const;

  /// What the kernel computes, in hexadecimal digits: its ops, types, shapes
  /// and constants; names, places and a schedule do not count.
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
