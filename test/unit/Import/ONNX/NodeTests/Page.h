//===- Page.h - the table of node tests in a page ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_IMPORT_ONNX_NODETESTS_PAGE_H
#define MPC_TEST_UNIT_IMPORT_ONNX_NODETESTS_PAGE_H

#include <map>
#include <string>
#include <vector>

namespace mpc::nodetests {

/// One test as the page shows it.
struct PageEntry {
  /// "test_add".
  std::string test;
  /// The operator that it is about, "Add" or "ai.onnx.ml.Binarizer".
  std::string op;
  /// Why it does not pass; empty where it does.
  std::string reason;
};

/// The operator that the test in each folder is about, by the folder's name:
/// that of the model's first node that is no Constant; a test that spells an
/// operator out ("..._expanded") is about the same one as the test that does
/// not.
std::map<std::string, std::string>
operatorsOf(const std::vector<std::string> &folders);

/// Replaces the text between the two lines "<!-- onnx node tests -->" of the
/// page `path` with the table of `entries`. Returns false if the page lacks
/// these lines or cannot be written.
bool writePage(const std::string &path, const std::vector<PageEntry> &entries);

} // namespace mpc::nodetests

#endif // MPC_TEST_UNIT_IMPORT_ONNX_NODETESTS_PAGE_H
