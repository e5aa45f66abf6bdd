//===- ProgressLine.h - progress bar on a terminal --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_PROGRESSLINE_H
#define MPC_TOOLS_MPC_PROGRESSLINE_H

#include <string>
#include <vector>

namespace mpc::tool {

/// A text of a progress line.
struct ProgressPart {
  std::string text;
  /// Parts of a lower rank are dropped last on narrow terminals.
  int rank = 0;
};

/// One line of stderr, overwritten in place. Prints nothing if stderr is not a
/// terminal, or one that cannot move its cursor.
class ProgressLine {
public:
  explicit ProgressLine(bool enabled);
  ~ProgressLine() { clear(); }
  bool shown() const { return enabled; }
  /// Shows a bar of the completed `share` and the parts that fit the terminal;
  /// no bar if it is narrow or `share` is negative.
  void show(double share, const std::vector<ProgressPart> &parts);
  /// Clears the line before other output.
  void clear();

private:
  bool enabled;
  bool visible = false;
};

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_PROGRESSLINE_H
