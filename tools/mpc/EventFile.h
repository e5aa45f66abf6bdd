//===- EventFile.h - TensorBoard event files --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_EVENTFILE_H
#define MPC_TOOLS_MPC_EVENTFILE_H

#include "mpc/Runtime/Status.h"

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tool {

/// An event file with curves over steps. Each call of `add` writes a complete
/// record, so that a run can be watched.
class EventFile {
public:
  /// Creates a file in `folder`, which is created if missing.
  static Result<EventFile> create(const std::string &folder);

  /// Values by tag, such as "train/loss"; absent values are skipped.
  using Numbers = std::vector<std::pair<std::string, std::optional<double>>>;
  Status add(int64_t step, const Numbers &numbers);

private:
  explicit EventFile(std::string path);
  Status write(const std::string &message);

  std::string path;
  std::ofstream file;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_EVENTFILE_H
