//===- Page.cpp - the table of node tests in a page -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Page.h"

#include "onnx.pb.h"

#include "llvm/ADT/StringRef.h"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mpc::nodetests;

static constexpr llvm::StringLiteral kMark = "<!-- onnx node tests -->\n";

static std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

static std::string firstOperator(const std::string &folder) {
  mpc_onnx::ModelProto model;
  if (!model.ParseFromString(readAll(folder + "/model.onnx")))
    return "?";
  for (const mpc_onnx::NodeProto &node : model.graph().node())
    if (node.op_type() != "Constant")
      return (node.domain().empty() ? "" : node.domain() + ".") +
             node.op_type();
  return "Constant";
}

std::map<std::string, std::string>
mpc::nodetests::operatorsOf(const std::vector<std::string> &folders) {
  std::map<std::string, std::string> operators;
  for (const std::string &folder : folders)
    operators[std::filesystem::path(folder).filename()] = firstOperator(folder);
  for (auto &[name, op] : operators) {
    size_t end = name.find("_expanded");
    if (end == std::string::npos)
      continue;
    auto whole = operators.find(name.substr(0, end));
    if (whole != operators.end())
      op = whole->second;
  }
  return operators;
}

/// `reason` without the node name.
static std::string withoutNode(llvm::StringRef reason) {
  return reason.take_front(reason.find(" (node '")).str();
}

bool mpc::nodetests::writePage(const std::string &path,
                               const std::vector<PageEntry> &entries) {
  std::string page = readAll(path);
  size_t begin = llvm::StringRef(page).find(kMark);
  size_t end = begin == std::string::npos
                   ? begin
                   : llvm::StringRef(page).find(kMark, begin + kMark.size());
  if (end == std::string::npos)
    return false;

  struct Count {
    int64_t tests = 0, passed = 0;
  };
  std::map<std::string, Count> counts;
  // Operator and reason to the tests.
  std::map<std::pair<std::string, std::string>, std::string> refusals;
  Count all;
  for (const PageEntry &entry : entries) {
    Count &count = counts[entry.op];
    for (Count *each : {&count, &all}) {
      ++each->tests;
      each->passed += entry.reason.empty();
    }
    if (entry.reason.empty())
      continue;
    std::string &tests = refusals[{entry.op, withoutNode(entry.reason)}];
    tests += (tests.empty() ? "" : ", ") +
             llvm::StringRef(entry.test).drop_front(sizeof("test_") - 1).str();
  }
  std::ostringstream text;
  text << page.substr(0, begin) << std::string(kMark) << "\n"
       << all.passed << " of " << all.tests
       << " tests pass, of so many for each operator:\n\n"
          "| operator | passed | tests |\n|---|---|---|\n";
  for (const auto &[op, count] : counts)
    text << "| `" << op << "` | " << count.passed << " | " << count.tests
         << " |\n";
  text << "\nThe others are refused, at their node or input, or have faulty "
          "data:\n\n"
          "| operator | reason | tests |\n|---|---|---|\n";
  for (const auto &[refusal, tests] : refusals)
    text << "| `" << refusal.first << "` | " << refusal.second << " | " << tests
         << " |\n";
  text << "\n" << page.substr(end);
  std::ofstream file(path, std::ios::binary);
  file << text.str();
  return bool(file.flush());
}
