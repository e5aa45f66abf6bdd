//===- FilesTests.cpp - tests of reading and writing whole files ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Files.h"

#include "../TemporaryModel.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;
namespace fs = std::filesystem;

namespace {

class Files : public TemporaryFolder {
protected:
  size_t entries() const {
    return size_t(std::distance(fs::directory_iterator(folder),
                                fs::directory_iterator()));
  }
};

TEST_F(Files, PartsAreContiguous) {
  std::string file = path("a");
  ASSERT_TRUE(writeWholeFile(file, {"first ", "", "second"}).ok());
  EXPECT_EQ(*readWholeFile(file), "first second");
  ASSERT_TRUE(writeWholeFile(file, {"new"}).ok());
  EXPECT_EQ(*readWholeFile(file), "new");
  EXPECT_EQ(entries(), 1u) << "a temporary file stayed";
}

TEST_F(Files, AFailureLeavesNothing) {
  fs::create_directory(folder / "taken");
  Status status = writeWholeFile(path("taken"), {"bytes"});
  EXPECT_NE(status.toString().find("is a folder; name a file"),
            std::string::npos);
  status = writeWholeFile(path("missing/file"), {"bytes"});
  EXPECT_NE(status.toString().find("cannot be written"), std::string::npos);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, ModelFilesStayInsideTheirFolder) {
  fs::create_directories(folder / "snapshots" / "1");
  fs::create_directories(folder / "blobs");
  write("blobs/x", "bytes");
  write("outside", "secret");
  std::string model = path("snapshots/1");
  auto link = [&](const char *target) {
    fs::remove(model + "/file");
    fs::create_symlink(target, model + "/file");
  };
  // The layout of Hugging Face's download cache.
  link("../../blobs/x");
  Result<InputFile> file = InputFile::openInside(model, "file");
  ASSERT_TRUE(file.ok()) << file.status().toString();
  EXPECT_EQ(file->size(), 5u);
  auto expectRefusal = [&](const std::string &name, const char *text) {
    Result<InputFile> opened = InputFile::openInside(model, name);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.status().toString().find(text), std::string::npos)
        << opened.status().toString();
  };
  for (const char *target :
       {"../../outside", "../../blobs/../outside", "/etc/passwd", "file"}) {
    link(target);
    expectRefusal("file", "is a symbolic link");
  }
  // A link to a link.
  fs::create_symlink("../outside", folder / "blobs" / "y");
  link("../../blobs/y");
  expectRefusal("file", "is a symbolic link");
  for (const char *name : {"../../outside", "/etc/passwd", "..", "a\\b"})
    expectRefusal(name, "is not inside the model's folder");
  expectRefusal("", "has no valid name");
  expectRefusal("missing", "cannot be opened");
  fs::create_hard_link(folder / "outside", model + "/hard");
  expectRefusal("hard", "has several hard links");
}

// A file in the place of /dev/null would fill with what all programs discard.
TEST_F(Files, WhatIsNoFileIsNotReplaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(writeWholeFile(path("pipe"), {"by", "tes"}).ok());
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof(got)), 5);
  EXPECT_STREQ(got, "bytes");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  EXPECT_TRUE(writeWholeFile("/dev/null", {"bytes"}).ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(Files, FoldersAreMadeWithThoseAboveThem) {
  EXPECT_TRUE(makeFolder(path("a/b")).ok());
  EXPECT_TRUE(makeFolder(path("a/b")).ok());
  EXPECT_TRUE(fs::is_directory(folder / "a" / "b"));
  ASSERT_TRUE(writeWholeFile(path("file"), {"bytes"}).ok());
  EXPECT_NE(makeFolder(path("file/c")).toString().find("cannot be created"),
            std::string::npos);
}

TEST_F(Files, ReadingEndsWhereTheFileDoes) {
  ASSERT_TRUE(writeWholeFile(path("a"), {"12345"}).ok());
  Result<InputFile> file = InputFile::open(path("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 5u);
  char out[4];
  EXPECT_TRUE(file->read(out, 3).ok());
  EXPECT_FALSE(file->read(out, 3).ok());
}

TEST_F(Files, OnlyRegularFilesAreRead) {
  EXPECT_EQ(InputFile::open(path("none")).status().code(),
            StatusCode::NotFound);
  EXPECT_EQ(InputFile::open(folder.string()).status().code(),
            StatusCode::InvalidArgument);
}

} // namespace
