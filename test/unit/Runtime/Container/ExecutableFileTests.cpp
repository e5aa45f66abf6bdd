//===- ExecutableFileTests.cpp - tests of .mpcx files ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/ExecutableFile.h"

#include "Container/CodeObject.h"
#include "Container/Container.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::container;

namespace {

using Bytes = std::vector<std::byte>;

Bytes readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

void writeFile(const std::string &path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(bytes.data()),
             std::streamsize(bytes.size()));
}

/// y = 2 * (x + c) in two launches.
Program makeProgram(const std::string &target) {
  TensorType type{ElementType::F32, {8}};
  Program program;
  program.name = "main";
  program.target = target;
  program.arguments = {{"x", type}};
  program.results = {{"y", type}};
  std::shared_ptr<void> data = allocateAligned(32);
  for (int i = 0; i < 8; ++i)
    static_cast<float *>(data.get())[i] = float(i);
  program.constants = {{"c", type, data, 32}};
  program.arenaBytes = 64;
  Launch add;
  add.kernel = "k_add";
  add.kind = "elementwise";
  add.ops = {"sum", "shared"};
  add.buffers = {{BufferRef::Kind::Argument, 0, 0, 32, false},
                 {BufferRef::Kind::Constant, 0, 0, 32, false},
                 {BufferRef::Kind::Arena, 0, 0, 32, true}};
  add.items = 8;
  add.grain = 4;
  add.laterItems = 2;
  add.sharedBytes = 24;
  add.flops = 8;
  add.bytes = 96;
  Launch twice = add;
  twice.kernel = "k_double";
  twice.ops = {"shared"};
  twice.buffers = {{BufferRef::Kind::Arena, 0, 0, 32, false},
                   {BufferRef::Kind::Result, 0, 0, 32, true}};
  program.launches = {add, twice};
  program.checks = {
      {RunCheck::Kind::FiniteResult, "", 0, -1, NonFinite::kNegativeInfinity},
      {RunCheck::Kind::IndexInRange, "gather", 5, 0},
      {RunCheck::Kind::LengthInRange, "lstm", 3, -1}};
  program.layers = {{"a/b",
                     "mixed",
                     {{"bf16", 2, 64}},
                     {{"f32", 1, 0}},
                     {{"f32", 1, 32}},
                     {{"w", "constant", "f32", {"bf16", "f32"}}}}};
  return program;
}

class ExecutableFileTest : public testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("mpc-file-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    path = (folder / "m.mpcx").string();
    code = readFile(MPC_TEST_KERNELS);
    ASSERT_FALSE(code.empty()) << MPC_TEST_KERNELS;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Contents makeContents(const std::vector<std::string> &targets) {
    Contents contents;
    contents.specialisations.emplace_back();
    contents.name = "main";
    contents.model = "m.onnx";
    contents.policy = "float32";
    contents.compiler = "mpc test";
    TensorType type{ElementType::F32, {8}};
    contents.specialisations[0].arguments = {{"x", type, "input", 0}};
    contents.specialisations[0].results = {{"y", type, "output", 0}};
    for (const std::string &target : targets)
      contents.specialisations[0].programs.push_back(
          {makeProgram(target), code});
    return contents;
  }
  /// A file with code for every CPU.
  Bytes makeFile() {
    return *encode(makeContents({"cpu:avx2", "cpu:avx512", "cpu:avx512bf16"}));
  }

  std::filesystem::path folder;
  std::string path;
  Bytes code;
  Device cpu = *Device::cpu({.threads = 2});
  Buffer input = *Buffer::fromValues<float>(
      {ElementType::F32, {8}}, std::array<float, 8>{1, 1, 1, 1, 1, 1, 1, 1});
};

/// Updates size and digest in the header.
void sign(Bytes &file) {
  auto size = uint64_t(file.size());
  std::memcpy(file.data() + kFileBytesAt, &size, sizeof(size));
  Digest digest = digestOf(file);
  std::memcpy(file.data() + kDigestAt, digest.data(), digest.size());
}

std::string refusal(std::span<const std::byte> bytes) {
  Result<ExecutableFile> file = ExecutableFile::fromBytes(bytes, "m.mpcx");
  return file.ok() ? "" : file.status().toString();
}

} // namespace

TEST_F(ExecutableFileTest, RunsWhatWasWritten) {
  writeFile(path, makeFile());
  for (int i = 0; i < 3; ++i) {
    // Again and again: every load maps code of its own.
    Result<Executable> loaded = loadExecutable(cpu, path, {.trusted = true});
    ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
    std::array inputs = {input};
    Result<std::vector<Buffer>> results = loaded->run(inputs);
    ASSERT_TRUE(results.ok()) << results.status().toString();
    for (int j = 0; j < 8; ++j)
      EXPECT_EQ(results->front().as<float>()[j], 2.0f * float(j + 1));
  }
}

TEST_F(ExecutableFileTest, KeepsEveryFact) {
  Contents contents = makeContents({"cpu:avx2", "cpu:avx512"});
  contents.specialisations[0].arguments[0].integerBound = 7;
  contents.specialisations[0].longestReduction = 784;
  contents.specialisations[0].narrowest = ElementType::BF16;
  contents.specialisations[0].longestChain = 12;
  Result<ExecutableFile> file =
      ExecutableFile::fromBytes(*encode(contents), "m.mpcx");
  ASSERT_TRUE(file.ok()) << file.status().toString();
  EXPECT_EQ(file->model(), "m.onnx");
  EXPECT_EQ(file->policy(), "float32");
  EXPECT_EQ(file->compiler(), "mpc test");
  EXPECT_EQ(file->longestReduction(), 784);
  EXPECT_EQ(file->narrowestType(), ElementType::BF16);
  EXPECT_EQ(file->longestChain(), 12);
  ASSERT_EQ(file->arguments().size(), 1u);
  EXPECT_EQ(file->arguments()[0].name, "x");
  EXPECT_EQ(file->arguments()[0].role, "input");
  EXPECT_EQ(file->arguments()[0].integerBound, 7);
  EXPECT_EQ(file->results()[0].type.toString(), "f32[8]");
  ASSERT_EQ(file->targets().size(), 2u);
  EXPECT_EQ(file->targets()[1].name, "cpu:avx512");
  EXPECT_EQ(file->targets()[1].kernels, 2);
  EXPECT_EQ(file->targets()[1].codeBytes, int64_t(code.size()));
  EXPECT_EQ(file->targets()[1].constantBytes, 32);
  EXPECT_EQ(file->targets()[1].arenaBytes, 64);
  EXPECT_EQ(file->targets()[1].layers, makeProgram("").layers);
  // The null device needs neither trust nor a level that this machine has.
  Executable loaded = *file->load(Device::null());
  const Launch &add = loaded.program().launches[0];
  EXPECT_EQ(add.kernel, "k_add");
  EXPECT_EQ(add.kind, "elementwise");
  EXPECT_EQ(add.ops, (std::vector<std::string>{"sum", "shared"}));
  EXPECT_EQ(add.items, 8);
  EXPECT_EQ(add.grain, 4);
  EXPECT_EQ(add.laterItems, 2);
  EXPECT_EQ(add.sharedBytes, 24);
  EXPECT_EQ(add.flops, 8);
  EXPECT_EQ(add.bytes, 96);
  EXPECT_EQ(add.function, nullptr);
  EXPECT_EQ(loaded.program().layers, makeProgram("").layers);
  EXPECT_EQ(loaded.program().checks, makeProgram("").checks);
  EXPECT_EQ(loaded.layer("a")->variableType(), "f32");
}

TEST_F(ExecutableFileTest, HoldsSeveralSetsOfShapes) {
  Contents contents = makeContents({"cpu:avx2"});
  contents.specialisations[0].dims = {{"n", 8}};
  size_t single = encode(contents)->size();
  contents.specialisations.push_back(contents.specialisations[0]);
  StoredSpecialisation &wide = contents.specialisations[1];
  wide.dims = {{"n", 16}};
  wide.longestReduction = 9;
  wide.arguments[0].type.shape = {16};
  // Reads no more of it than before.
  Bytes bytes = *encode(contents);
  // Code and constants are there once.
  EXPECT_LT(bytes.size(), single + 2048);
  Result<ExecutableFile> file = ExecutableFile::fromBytes(bytes, "m.mpcx");
  ASSERT_TRUE(file.ok()) << file.status().toString();
  ASSERT_EQ(file->specialisations().size(), 2u);
  EXPECT_EQ(file->dims().at("n"), 8);
  EXPECT_EQ(file->longestReduction(), 1);
  Result<ExecutableFile> other = file->forShapes({{"x", {16}}});
  ASSERT_TRUE(other.ok()) << other.status().toString();
  EXPECT_EQ(other->dims().at("n"), 16);
  EXPECT_EQ(other->longestReduction(), 9);
  EXPECT_EQ(other->load(Device::null())->program().arguments[0].type.shape,
            (std::vector<int64_t>{16}));
  // Names that are no argument decide nothing.
  EXPECT_EQ(file->forShapes({{"z", {3}}})->dims().at("n"), 8);
  EXPECT_EQ(file->forShapes({{"x", {4}}}).status().toString(),
            "m.mpcx: was compiled for x f32[8]; x f32[16], not for x [4]; "
            "also compile the model for that");

  contents.specialisations.clear();
  EXPECT_NE(refusal(*encode(contents)).find("contains no program"),
            std::string::npos);
}

TEST_F(ExecutableFileTest, KeepsWhatAStepNeeds) {
  Contents contents = makeContents({"cpu:avx2", "cpu:avx512"});
  std::shared_ptr<void> initial = allocateAligned(32);
  std::memset(initial.get(), 1, 32);
  contents.specialisations[0].arguments[0].role = "loss_scale_state";
  contents.specialisations[0].arguments[0].field = "scale";
  contents.specialisations[0].arguments[0].initial = initial;
  contents.specialisations[0].arguments[0].labels = {"fc1.weight (op fc1)",
                                                     "fc1.bias"};
  contents.specialisations[0].results[0].alias = 0;
  Bytes bytes = *encode(contents);
  // One copy of the value for both targets.
  std::array<std::byte, 32> value;
  value.fill(std::byte{1});
  auto found =
      std::search(bytes.begin(), bytes.end(), value.begin(), value.end());
  ASSERT_NE(found, bytes.end());
  EXPECT_EQ(std::search(found + 1, bytes.end(), value.begin(), value.end()),
            bytes.end());
  Result<ExecutableFile> file = ExecutableFile::fromBytes(bytes, "m.mpcx");
  ASSERT_TRUE(file.ok()) << file.status().toString();
  EXPECT_EQ(file->arguments()[0].field, "scale");
  EXPECT_EQ(file->results()[0].alias, 0);
  Result<Executable> loaded = file->load(Device::null());
  ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
  const ProgramValue &argument = loaded->program().arguments[0];
  EXPECT_EQ(argument.role, "loss_scale_state");
  EXPECT_EQ(argument.field, "scale");
  EXPECT_EQ(argument.alias, -1);
  EXPECT_EQ(argument.labels, contents.specialisations[0].arguments[0].labels);
  ASSERT_TRUE(argument.initial);
  EXPECT_EQ(std::memcmp(argument.initial.get(), initial.get(), 32), 0);
  EXPECT_EQ(loaded->program().results[0].alias, 0);

  contents.specialisations[0].results[0].alias = 1;
  EXPECT_NE(refusal(*encode(contents)), "");
  contents.specialisations[0].results[0].alias = 0;
  contents.specialisations[0].arguments[0].type.shape = {16};
  EXPECT_NE(refusal(*encode(contents)), "");
}

TEST_F(ExecutableFileTest, RecordsTheTensorOfAShardedArgument) {
  Contents contents = makeContents({"cpu:avx2"});
  std::shared_ptr<void> initial = allocateAligned(60);
  std::memset(initial.get(), 1, 60);
  contents.specialisations[0].arguments[0].shardOf = {{3, 5}};
  contents.specialisations[0].arguments[0].initial = initial;
  Bytes bytes = *encode(contents);
  Result<ExecutableFile> file = ExecutableFile::fromBytes(bytes, "m.mpcx");
  ASSERT_TRUE(file.ok()) << file.status().toString();
  Result<Executable> loaded = file->load(Device::null());
  ASSERT_TRUE(loaded.ok()) << loaded.status().toString();
  const ProgramValue &argument = loaded->program().arguments[0];
  EXPECT_EQ(argument.shardOf, (std::vector<int64_t>{3, 5}));
  ASSERT_TRUE(argument.initial);
  EXPECT_EQ(std::memcmp(argument.initial.get(), initial.get(), 60), 0);
  EXPECT_FALSE(loaded->program().results[0].shardOf);

  // A shard is no larger than the whole tensor.
  contents.specialisations[0].arguments[0].initial = nullptr;
  contents.specialisations[0].arguments[0].shardOf = {{7}};
  file = ExecutableFile::fromBytes(*encode(contents), "m.mpcx");
  EXPECT_FALSE(file.ok() && file->load(Device::null()).ok());
}

TEST_F(ExecutableFileTest, EqualContentsGiveEqualBytes) {
  EXPECT_EQ(makeFile(), makeFile());
}

TEST_F(ExecutableFileTest, StoresSharedConstantsOnce) {
  Bytes one = *encode(makeContents({"cpu:avx2"}));
  Bytes two = *encode(makeContents({"cpu:avx2", "cpu:avx512"}));
  // The constant and the code are the same in both levels.
  EXPECT_LT(two.size(), one.size() + 1000);
}

TEST_F(ExecutableFileTest, RunsCodeOnlyWhereItIsTrusted) {
  ExecutableFile file = *ExecutableFile::fromBytes(makeFile(), "m.mpcx");
  Result<Executable> loaded = file.load(cpu);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().text().find("trusted"), std::string::npos);
  EXPECT_TRUE(file.load(cpu, {.trusted = true}).ok());
}

TEST_F(ExecutableFileTest, TakesTheBestLevelOfThisMachine) {
  std::span<const std::string_view> levels = detail::cpuLevels();
  ASSERT_FALSE(levels.empty());
  ExecutableFile file = *ExecutableFile::fromBytes(makeFile(), "m.mpcx");
  // Levels of this machine are ordered from the best, which differs by vendor.
  auto best = std::ranges::find_first_of(
      levels, std::array<std::string_view, 3>{"avx2", "avx512", "avx512bf16"});
  ASSERT_NE(best, levels.end());
  EXPECT_EQ(file.load(cpu, {.trusted = true})->program().target,
            "cpu:" + std::string(*best));
  EXPECT_EQ(file.load(cpu, {.trusted = true, .isa = "avx2"})->program().target,
            "cpu:avx2");
}

TEST_F(ExecutableFileTest, SaysWhichLevelsItHasWhereNoneFits) {
  ExecutableFile file = *ExecutableFile::fromBytes(
      *encode(makeContents({"cpu:avx9", "cpu:avx10"})), "m.mpcx");
  Status status = file.load(cpu, {.trusted = true}).status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_NE(
      status.toString().find(
          "m.mpcx: contains code for cpu:avx9, cpu:avx10, but this machine "
          "runs cpu:"),
      std::string::npos)
      << status.toString();
  ExecutableFile other = *ExecutableFile::fromBytes(makeFile(), "m.mpcx");
  status = other.load(cpu, {.trusted = true, .isa = "amx"}).status();
  EXPECT_NE(status.text().find("cpu:amx was requested"), std::string::npos);
}

TEST_F(ExecutableFileTest, RefusesAnotherVersion) {
  Bytes file = makeFile();
  file[kVersionAt] = std::byte{1};
  sign(file);
  EXPECT_EQ(refusal(file), "m.mpcx: has format version 1, but this build "
                           "supports version 15; compile the model again");
}

TEST_F(ExecutableFileTest, RefusesCodeThatIsNone) {
  Contents contents = makeContents({"cpu:avx2"});
  Bytes noCode(100, std::byte{7});
  contents.specialisations[0].programs[0].code = noCode;
  ExecutableFile file = *ExecutableFile::fromBytes(*encode(contents), "m.mpcx");
  Status status = file.load(cpu, {.trusted = true}).status();
  EXPECT_EQ(status.code(), StatusCode::Unavailable) << status.toString();
  contents = makeContents({"cpu:avx2"});
  contents.specialisations[0].programs[0].program.launches[1].kernel =
      "k_other";
  file = *ExecutableFile::fromBytes(*encode(contents), "m.mpcx");
  EXPECT_EQ(file.load(cpu, {.trusted = true}).status().toString(),
            "m.mpcx: cpu:avx2: its code lacks kernel 'k_other'");
}

TEST_F(ExecutableFileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(ExecutableFile::open(path).status().code(), StatusCode::NotFound);
  EXPECT_EQ(ExecutableFile::open(folder.string()).status().code(),
            StatusCode::NotFound);
  std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ExecutableFile::open(pipe).status().code(), StatusCode::NotFound);
  writeFile(path, {});
  EXPECT_EQ(ExecutableFile::open(path).status().text(), "is not an .mpcx file");
  std::string text = "func.func @main() { return }\n";
  text.resize(200, ' ');
  writeFile(path, std::as_bytes(std::span(text)));
  EXPECT_EQ(ExecutableFile::open(path).status().text(), "is not an .mpcx file");
}

TEST_F(ExecutableFileTest, TakesNoMemoryForAHeaderThatLies) {
  Bytes file = makeFile();
  uint64_t size = uint64_t(1) << 60;
  std::memcpy(file.data() + kFileBytesAt, &size, sizeof(size));
  writeFile(path, file);
  EXPECT_NE(ExecutableFile::open(path).status().text().find("it is damaged"),
            std::string::npos);
}

TEST_F(ExecutableFileTest, RefusesEveryTruncation) {
  Bytes file = makeFile();
  for (size_t size = 0; size < file.size(); size += size < 2000 ? 1 : 997) {
    Bytes part(file.begin(), file.begin() + ptrdiff_t(size));
    EXPECT_NE(refusal(part), "") << size;
  }
  file.push_back(std::byte{0});
  EXPECT_NE(refusal(file), "");
}

TEST_F(ExecutableFileTest, RefusesEveryFlippedBit) {
  Bytes file = makeFile();
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    // The header and the table are small; they get their share.
    size_t at = random() % (i % 2 ? file.size() : size_t(2000));
    std::byte bit{uint8_t(1u << random() % 8)};
    file[at] ^= bit;
    EXPECT_NE(refusal(file), "") << at;
    file[at] ^= bit;
  }
  EXPECT_EQ(refusal(file), "");
}

/// Someone who writes files can sign them too. What is accepted then must be
/// harmless: a program whose references stay inside of what they refer to.
TEST_F(ExecutableFileTest, SignedMutantsAreRefusedOrHarmless) {
  Bytes original = makeFile();
  uint64_t tableBytes = 0;
  std::memcpy(&tableBytes, original.data() + kTableBytesAt, 8);
  std::mt19937_64 random(2);
  constexpr std::array<uint8_t, 6> kBytes = {0, 1, 0x7f, 0x80, 0xfe, 0xff};
  int refused = 0, accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    Bytes file = original;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      size_t at = kTableBytesAt + random() % (8 + 32 + tableBytes);
      size_t length = random() % 4 == 0 ? 8 : 1;
      for (size_t j = at; j < std::min(at + length, file.size()); ++j)
        file[j] = std::byte{random() % 2 ? uint8_t(random())
                                         : kBytes[random() % kBytes.size()]};
    }
    sign(file);
    Result<ExecutableFile> read = ExecutableFile::fromBytes(file, "m.mpcx");
    if (!read.ok()) {
      EXPECT_NE(read.status().where(), "");
      EXPECT_NE(read.status().code(), StatusCode::Internal);
      ++refused;
      continue;
    }
    ++accepted;
    Result<Executable> loaded = read->load(Device::null());
    if (!loaded.ok())
      continue;
    EXPECT_TRUE(validate(loaded->program(), /*needsCode=*/false).ok());
    int64_t bytes = loaded->program().arenaBytes;
    std::vector<Buffer> inputs;
    for (const auto *list :
         {&loaded->program().arguments, &loaded->program().results})
      for (const ProgramValue &value : *list)
        bytes += *value.type.byteCount();
    if (bytes > 1 << 20)
      continue;
    for (const ProgramValue &value : loaded->program().arguments)
      inputs.push_back(*Buffer::allocate(value.type));
    EXPECT_TRUE(loaded->run(inputs).ok());
  }
  // Both kinds occur, or the test looks at one thing only.
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 100);
}

TEST_F(ExecutableFileTest, RefusesSignedTablesOfAnotherSize) {
  Bytes file = makeFile();
  uint64_t tableBytes = 0;
  std::memcpy(&tableBytes, file.data() + kTableBytesAt, sizeof(tableBytes));
  for (uint64_t size = 0; size <= tableBytes + 1; ++size) {
    std::memcpy(file.data() + kTableBytesAt, &size, sizeof(size));
    sign(file);
    EXPECT_EQ(refusal(file).empty(), size == tableBytes) << size;
  }
  std::vector<std::string> targets(kMostPrograms + 1, "cpu:avx2");
  EXPECT_EQ(refusal(*encode(makeContents(targets))),
            "m.mpcx: holds code for 65 targets, more than 64");
}

TEST_F(ExecutableFileTest, RefusesNumbersThatReachOutside) {
  auto refused = [&](auto change) {
    Contents contents = makeContents({"cpu:avx2"});
    change(contents);
    return refusal(*encode(contents));
  };
  auto launch = [](Contents &contents) -> Launch & {
    return contents.specialisations[0].programs[0].program.launches[0];
  };
  EXPECT_EQ(refused([](Contents &) {}), "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).buffers[0].offset = 8; }), "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).buffers[0].index = -1; }), "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).buffers[1].bytes = 33; }), "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).buffers[1].written = true; }),
            "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).items = -1; }), "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).grain = 0; }), "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).scratchBytes = INT64_MAX; }),
            "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).sharedBytes = INT64_MAX; }),
            "");
  EXPECT_NE(refused([&](Contents &c) { launch(c).laterItems = 9; }), "");
  EXPECT_NE(refused([](Contents &c) {
              c.specialisations[0].programs[0].program.arenaBytes = -64;
            }),
            "");
  EXPECT_NE(refused([](Contents &c) {
              c.specialisations[0].programs[0].program.arenaBytes = int64_t(1)
                                                                    << 60;
            }),
            "");
  EXPECT_NE(refused([](Contents &c) {
              c.specialisations[0].arguments[0].type.shape = {int64_t(1) << 62,
                                                              4};
            }),
            "");
  EXPECT_NE(refused([](Contents &c) {
              c.specialisations[0].arguments[0].integerBound = -1;
            }),
            "");
  EXPECT_NE(
      refused([](Contents &c) { c.specialisations[0].longestReduction = 0; }),
      "");
  EXPECT_NE(refused([](Contents &c) {
              c.specialisations[0].narrowest = ElementType::I8;
            }),
            "");
  EXPECT_NE(refused([](Contents &c) { c.specialisations[0].programs.clear(); }),
            "");
}

TEST_F(ExecutableFileTest, RefusesLayersThatMakeNoSense) {
  auto refused = [&](auto change) {
    Contents contents = makeContents({"cpu:avx2"});
    change(contents.specialisations[0].programs[0].program.layers);
    return refusal(*encode(contents));
  };
  using Layers = std::vector<LayerTypes>;
  EXPECT_EQ(refused([](Layers &layers) { layers.clear(); }), "");
  EXPECT_EQ(refused([](Layers &layers) {
              layers.push_back({"", "mixed", {{"tf32", 1, 2}}, {}, {}, {}});
            }),
            "");
  EXPECT_EQ(refused([](Layers &layers) { layers.push_back(layers[0]); }),
            "m.mpcx: target 0: main: layer 'a/b': appears twice");
  EXPECT_EQ(refused([](Layers &layers) { layers[0].compute[0].type = "f99"; }),
            "m.mpcx: target 0: main: layer 'a/b': has 2 ops or values of type "
            "'f99' and weight 64, which is invalid");
  EXPECT_NE(refused([](Layers &layers) { layers[0].storage[0].weight = -1; }),
            "");
  EXPECT_NE(refused([](Layers &layers) { layers[0].gradient[0].count = -1; }),
            "");
  EXPECT_EQ(refused([](Layers &layers) { layers[0].variables[0].type = ""; }),
            "m.mpcx: target 0: main: layer 'a/b': has variable 'w' of an "
            "unknown type");
  EXPECT_NE(refused([](Layers &layers) {
              layers[0].variables[0].stored[0] = "no type";
            }),
            "");
}
