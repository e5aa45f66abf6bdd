//===- Dataset.cpp - data sets --------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Training/Dataset.h"

#include "ElementConversion.h"
#include "IdxFile.h"
#include "TokenFile.h"

#include "mpc/Support/Npy.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

using namespace mpc;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Result<Dataset> Dataset::fromArrays(std::vector<NamedTensor> inputs,
                                    Buffer labels) {
  auto bad = [](const std::string &name, const std::string &text) {
    return Status(StatusCode::InvalidArgument, name, text);
  };
  auto examples = [](const Buffer &data) {
    bool usable = data && !data.onDevice() && !data.type().shape.empty();
    return usable ? data.type().shape.front() : 0;
  };
  Dataset dataset;
  dataset.count = examples(labels);
  if (dataset.count == 0)
    return bad("labels", "must be in host memory and have at least one example "
                         "along their first dimension");
  if (inputs.empty())
    return bad("data set", "has labels but no inputs");
  for (const NamedTensor &input : inputs)
    if (int64_t size = examples(input.data); size != dataset.count)
      return bad("input '" + input.name + "'",
                 "has " + std::to_string(size) + " examples, but there are " +
                     std::to_string(dataset.count) + " labels");
  dataset.arrays = std::move(inputs);
  dataset.labelArray = std::move(labels);
  dataset.origin = "data set";
  return dataset;
}

Result<Dataset> Dataset::fromTokens(Buffer tokens, int64_t length) {
  auto bad = [](const std::string &text) {
    return Status(StatusCode::InvalidArgument, "tokens", text);
  };
  if (!tokens || tokens.onDevice() || tokens.type().shape.size() != 1 ||
      isFloat(tokens.type().element))
    return bad("must be integers in one dimension, in host memory");
  if (length < 1)
    return bad("need the length of an example, but it is " +
               std::to_string(length));
  // The last label of an example is the token after it.
  int64_t size = tokens.type().shape.front(), count = (size - 1) / length;
  if (count < 1)
    return bad("are " + std::to_string(size) + ", but an example of " +
               std::to_string(length) + " and the next token need " +
               std::to_string(length + 1));
  mpc::TensorType type{tokens.type().element, {count, length}};
  auto from = [&](int64_t first) {
    auto bytes = size_t(elementBytes(type.element));
    std::span<const std::byte> all(
        static_cast<const std::byte *>(std::as_const(tokens).data()),
        tokens.size());
    return Buffer::fromHost(
        type,
        all.subspan(size_t(first) * bytes, size_t(count * length) * bytes),
        HostMemory::Borrow, [tokens] {});
  };
  Result<Buffer> inputs = from(0), labels = from(1);
  if (!inputs.ok() || !labels.ok())
    return inputs.ok() ? labels.status() : inputs.status();
  Result<Dataset> dataset =
      fromArrays({{"", std::move(*inputs)}}, std::move(*labels));
  if (dataset.ok())
    dataset->text = true;
  return dataset;
}

/// Returns the idx file with that stem in `folder`, plain or gzipped; empty if
/// there is none. Some copies have a dot before "idx".
static std::string findIdx(const fs::path &folder, const std::string &stem,
                           int rank) {
  std::string kind = "idx" + std::to_string(rank) + "-ubyte";
  std::error_code ignored;
  for (const char *mark : {"-", "."})
    for (const char *end : {"", ".gz"}) {
      fs::path path = folder / (stem + mark + kind + end);
      if (fs::is_regular_file(path, ignored))
        return path.string();
    }
  return {};
}

/// Creates a data set from the arrays of an .npz, with those named like labels
/// as labels.
static Result<Dataset> fromNamed(std::vector<NamedArray> arrays,
                                 const std::string &path) {
  Buffer labels;
  std::vector<NamedTensor> inputs;
  for (NamedArray &array : arrays)
    if (array.name == "label" || array.name == "labels" || array.name == "y")
      labels = std::move(array.data);
    else
      inputs.push_back({array.name, std::move(array.data)});
  if (!labels)
    return Status(StatusCode::InvalidArgument, path,
                  "has no array 'label' (nor 'labels' nor 'y')");
  return Dataset::fromArrays(std::move(inputs), std::move(labels));
}

static Result<Dataset> readArrays(const std::string &path,
                                  const std::string &part) {
  Result<std::vector<NamedArray>> arrays = readNpz(path);
  if (!arrays.ok())
    return arrays.status();
  Buffer x, y;
  for (NamedArray &array : *arrays) {
    if (array.name == "x_" + part)
      x = array.data;
    if (array.name == "y_" + part)
      y = array.data;
  }
  if (!x || !y)
    return Status(StatusCode::NotFound, path,
                  "lacks an array 'x_" + part + "' or 'y_" + part + "'");
  return Dataset::fromArrays({{"", std::move(x)}}, std::move(y));
}

static Result<Dataset> readTokens(const std::string &path, int64_t length) {
  Result<Buffer> tokens = training::mapTokens(path);
  if (!tokens.ok())
    return tokens.status();
  Result<Dataset> dataset = Dataset::fromTokens(std::move(*tokens), length);
  if (!dataset.ok())
    return Status(dataset.status().code(), path + ": tokens",
                  dataset.status().text());
  return dataset;
}

static Result<Dataset> readFolder(const std::string &path,
                                  const std::string &part) {
  std::string stem = part == "test" ? "t10k" : part;
  std::string images = findIdx(path, stem + "-images", 3);
  std::string labels = findIdx(path, stem + "-labels", 1);
  if (!images.empty() && !labels.empty()) {
    Result<Buffer> x = training::readIdx(images);
    if (!x.ok())
      return x.status();
    Result<Buffer> y = training::readIdx(labels);
    if (!y.ok())
      return y.status();
    return Dataset::fromArrays({{"", std::move(*x)}}, std::move(*y));
  }
  fs::path file = fs::path(path) / (part + ".npz");
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    return Status(StatusCode::NotFound, path,
                  "contains neither " + stem + "-images-idx3-ubyte and " +
                      stem + "-labels-idx1-ubyte (plain or .gz) nor " + part +
                      ".npz, " + part + ".npy or " + part + ".bin");
  Result<std::vector<NamedArray>> arrays = readNpz(file.string());
  if (!arrays.ok())
    return arrays.status();
  return fromNamed(std::move(*arrays), file.string());
}

bool Dataset::holdsTokens(const std::string &path) {
  std::error_code ignored;
  return !training::findTokens(path, "train").empty() &&
         !fs::exists(fs::path(path) / "train.npz", ignored);
}

Result<Dataset> Dataset::read(const std::string &path, const std::string &part,
                              int64_t length) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    return Status(StatusCode::NotFound, path,
                  "there is no such folder or file");
  std::string file = path;
  auto readPart = [&]() -> Result<Dataset> {
    if (holdsTokens(path)) {
      file = training::findTokens(path, part);
      if (file.empty())
        return Status(StatusCode::NotFound, path,
                      "contains no tokens for the part " + part);
      return readTokens(file, length);
    }
    return fs::is_directory(status) ? readFolder(path, part)
                                    : readArrays(path, part);
  };
  Result<Dataset> data = readPart();
  if (!data.ok()) {
    const Status &failure = data.status();
    bool placed = failure.where().rfind(path, 0) == 0;
    return placed ? failure
                  : Status(failure.code(), path + ": " + failure.where(),
                           failure.text());
  }
  data->origin = file;
  return data;
}

//===----------------------------------------------------------------------===//
// Normalization and order
//===----------------------------------------------------------------------===//

Normalization Dataset::unitRange() const {
  bool bytes = std::any_of(arrays.begin(), arrays.end(), [](const auto &array) {
    return array.data.type().element == ElementType::UI8;
  });
  return bytes ? Normalization::ofBytes() : Normalization();
}

Normalization Dataset::standard() const {
  Normalization result = unitRange();
  double sum = 0, squares = 0, elements = 0;
  for (const NamedTensor &array : arrays) {
    training::readElements(array.data, 0, array.data.size(), [&](double value) {
      value *= result.scale;
      sum += value;
      squares += value * value;
      elements += 1;
    });
  }
  if (elements == 0)
    return result;
  result.mean = sum / elements;
  double variance = squares / elements - result.mean * result.mean;
  result.deviation = variance > 0 ? std::sqrt(variance) : 1;
  return result;
}

static uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

std::vector<int64_t> mpc::epochOrder(int64_t count, uint64_t seed,
                                     int64_t epoch) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  uint64_t start = mix(seed + uint64_t(epoch) * kStep);
  std::vector<uint64_t> keys(static_cast<size_t>(count));
  for (size_t i = 0; i < keys.size(); ++i)
    keys[i] = mix(start + i * kStep);
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    uint64_t keyA = keys[size_t(a)], keyB = keys[size_t(b)];
    return keyA != keyB ? keyA < keyB : a < b;
  });
  return order;
}
