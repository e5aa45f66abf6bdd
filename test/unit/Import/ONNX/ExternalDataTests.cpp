//===- ExternalDataTests.cpp - weights in external data files -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Import/ExternalFiles.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::testing;
namespace fs = std::filesystem;

namespace {

/// A model folder with `data.bin` (16 floats) and, outside of it, `secret.bin`.
class ExternalData : public ::testing::Test {
protected:
  void SetUp() override {
    root = fs::temp_directory_path() /
           ("mpc-external-" + std::to_string(::getpid()));
    folder = root / "model";
    fs::create_directories(folder / "sub");
    write(folder / "data.bin");
    write(folder / "sub" / "data.bin");
    write(root / "secret.bin");
  }
  void TearDown() override { fs::remove_all(root); }

  static void write(const fs::path &path) {
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 16; ++i) {
      float value = float(i);
      file.write(reinterpret_cast<const char *>(&value), sizeof(value));
    }
  }

  /// A model whose only constant is stored in the file `location`.
  static ModelBuilder model(const std::string &location,
                            const std::string &offset = "0",
                            const std::string &length = "") {
    ModelBuilder b;
    mpc_onnx::TensorProto &tensor = b.floats("w", {4}, {});
    tensor.clear_raw_data();
    tensor.set_data_location(1);
    auto entry = [&](const char *key, const std::string &value) {
      mpc_onnx::StringStringEntryProto &pair = *tensor.add_external_data();
      pair.set_key(key);
      pair.set_value(value);
    };
    entry("location", location);
    entry("offset", offset);
    if (!length.empty())
      entry("length", length);
    b.output("w");
    return b;
  }

  void expectError(const ModelBuilder &b, const std::string &text) {
    Import import;
    EXPECT_FALSE(import.run(b, folder));
    ASSERT_EQ(import.errors.size(), 1u);
    EXPECT_NE(import.errors[0].find(text), std::string::npos)
        << import.errors[0];
  }

  fs::path root, folder;
};

} // namespace

TEST_F(ExternalData, IsRead) {
  Import import;
  ASSERT_TRUE(import.run(model("data.bin", "16", "16"), folder))
      << import.firstError();
  auto constant = import.first<ConstantOp>();
  auto bytes = ConstantBytes::get(constant.getValue());
  ASSERT_TRUE(mlir::succeeded(bytes));
  EXPECT_EQ(bytes->as<float>().vec(), (std::vector<float>{4, 5, 6, 7}));
}

TEST_F(ExternalData, InASubfolder) {
  Import import;
  EXPECT_TRUE(import.run(model("sub/data.bin"), folder)) << import.firstError();
  EXPECT_TRUE(import.run(model("./data.bin"), folder)) << import.firstError();
}

TEST_F(ExternalData, Missing) {
  expectError(model("other.bin"), "'other.bin' cannot be opened");
}

TEST_F(ExternalData, ParentFolder) {
  expectError(model("../secret.bin"), "is not inside the model's folder");
  expectError(model("sub/../../secret.bin"),
              "is not inside the model's folder");
}

TEST_F(ExternalData, AbsolutePath) {
  expectError(model((root / "secret.bin").string()),
              "is not inside the model's folder");
}

TEST_F(ExternalData, SymbolicLink) {
  fs::create_symlink("../secret.bin", folder / "link.bin");
  expectError(model("link.bin"), "symbolic link");
}

TEST_F(ExternalData, LinkedFolder) {
  fs::create_directory_symlink("..", folder / "up");
  Import import;
  EXPECT_FALSE(import.run(model("up/secret.bin"), folder));
}

TEST_F(ExternalData, HardLink) {
  fs::create_hard_link(root / "secret.bin", folder / "hard.bin");
  expectError(model("hard.bin"), "several hard links");
}

TEST_F(ExternalData, Folder) {
  expectError(model("sub"), "is not a regular file");
}

TEST_F(ExternalData, Device) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expectError(model("pipe"), "is not a regular file");
}

TEST_F(ExternalData, EmptyName) { expectError(model(""), "no valid name"); }

TEST_F(ExternalData, NameWithNul) {
  expectError(model(std::string("data.bin\0x", 10)), "no valid name");
}

TEST_F(ExternalData, BeyondTheEnd) {
  expectError(model("data.bin", "56"), "needs 16 bytes at offset 56");
}

TEST_F(ExternalData, OffsetOverflows) {
  expectError(model("data.bin", "9223372036854775807"), "needs 16 bytes");
}

TEST_F(ExternalData, NegativeOffset) {
  expectError(model("data.bin", "-4"), "not a natural number");
}

TEST_F(ExternalData, OffsetNoNumber) {
  expectError(model("data.bin", "0x10"), "not a natural number");
}

TEST_F(ExternalData, LengthDiffersFromShape) {
  expectError(model("data.bin", "0", "12"),
              "needs 16 bytes, but its external data has 12");
}

TEST_F(ExternalData, NoLocation) {
  ModelBuilder b = model("data.bin");
  b.graph().mutable_initializer(0)->clear_external_data();
  expectError(b, "external data without a location");
}

TEST_F(ExternalData, UnknownLocationKind) {
  ModelBuilder b = model("data.bin");
  b.graph().mutable_initializer(0)->set_data_location(5);
  expectError(b, "unknown data location 5");
}

TEST_F(ExternalData, WithoutAFolder) {
  Import import;
  EXPECT_FALSE(import.run(model("data.bin"), ""));
  EXPECT_NE(import.firstError().find("without a folder"), std::string::npos);
}

// A small file cannot be multiplied into a large program.
TEST_F(ExternalData, OverlapIsBounded) {
  ModelBuilder b;
  for (int i = 0; i < 400; ++i) {
    ModelBuilder one = model("data.bin");
    mpc_onnx::TensorProto &tensor = *b.graph().add_initializer();
    tensor = one.graph().initializer(0);
    tensor.set_name("w" + std::to_string(i));
    b.output(tensor.name());
  }
  expectError(b, "overlap more than");
}

TEST_F(ExternalData, UnknownKeyIsIgnoredWithAWarning) {
  ModelBuilder b = model("data.bin");
  mpc_onnx::StringStringEntryProto &pair =
      *b.graph().mutable_initializer(0)->add_external_data();
  pair.set_key("command");
  pair.set_value("rm");
  Import import;
  EXPECT_TRUE(import.run(b, folder));
  ASSERT_EQ(import.warnings.size(), 1u);
  EXPECT_NE(import.warnings[0].find("'command' is ignored"), std::string::npos);
}

TEST_F(ExternalData, FilesAreListedWhereverTensorsAre) {
  auto files = [](const ModelBuilder &b) {
    std::string bytes = b.bytes();
    auto found = onnxExternalFiles({bytes.data(), bytes.size()});
    EXPECT_TRUE(found);
    std::vector<std::string> names;
    if (found)
      for (const OnnxExternalFile &file : *found)
        names.push_back(file.name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(files(model("data.bin")), Names{"data.bin"});
  // Weights may spell anything.
  ModelBuilder own;
  own.floats("w", {4}, {}).set_raw_data("location        ");
  EXPECT_EQ(files(own), Names{});
  // In an attribute of a node, after the weights.
  mpc_onnx::AttributeProto &value = *own.graph().add_node()->add_attribute();
  *value.mutable_t() = model("sub/data.bin").graph().initializer(0);
  EXPECT_EQ(files(own), Names{"sub/data.bin"});
  // In a function's.
  ModelBuilder function;
  *function.model.add_functions()->add_node()->add_attribute()->mutable_t() =
      model("data.bin").graph().initializer(0);
  EXPECT_EQ(files(function), Names{"data.bin"});
  // Bytes as shapes and types have them, whatever the file has.
  ModelBuilder two = model("data.bin", "64");
  *two.graph().add_initializer() =
      model("data.bin", "72").graph().initializer(0);
  *two.graph().add_initializer() =
      model("data.bin", "4096").graph().initializer(0);
  std::string bytes = two.bytes();
  auto ranges = onnxExternalFiles({bytes.data(), bytes.size()});
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->size(), 1u);
  using Ranges = llvm::SmallVector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(ranges->front().ranges, (Ranges{{64, 24}, {4096, 16}}));
  EXPECT_EQ(ranges->front().bytes(), 40);
  std::string cut = model("data.bin").bytes();
  EXPECT_FALSE(onnxExternalFiles({cut.data(), cut.size() - 3}));
}
