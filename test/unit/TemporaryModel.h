//===- TemporaryModel.h - a folder and a model file for a test --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TEMPORARYMODEL_H
#define MPC_TEST_UNIT_TEMPORARYMODEL_H

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace mpc {

/// A test with a temporary folder, which is removed with it.
class TemporaryFolder : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "mpc-XXXXXX").string();
    const char *made = mkdtemp(pattern.data());
    ASSERT_TRUE(made) << pattern;
    folder = made;
  }
  void TearDown() override {
    if (!folder.empty())
      std::filesystem::remove_all(folder);
  }

  std::string path(std::string_view name) const {
    return (folder / name).string();
  }
  void write(std::string_view name, std::string_view bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  /// Writes a model as mpc text; returns its path.
  std::string writeModel(std::string_view text,
                         const char *name = "model.mlir") const {
    write(name, text);
    return path(name);
  }

  std::filesystem::path folder;
};

} // namespace mpc

#endif // MPC_TEST_UNIT_TEMPORARYMODEL_H
