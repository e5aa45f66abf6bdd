//===- GgufWeights.cpp - weights of a GGUF file ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GgufWeights.h"

#include <new>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::StringRef;

/// The element type of tensors of `format` as read() returns them.
static ElementType elementOf(const BlockFormat &format) {
  if (format.name == "F16")
    return ElementType::F16;
  if (format.name == "BF16")
    return ElementType::BF16;
  return ElementType::F32;
}

static llvm::ArrayRef<uint8_t> bytesOf(const FileContents &contents) {
  return {reinterpret_cast<const uint8_t *>(contents.bytes.get()),
          size_t(contents.size)};
}

GgufWeights::GgufWeights(FileContents contents, GgufFile file)
    : contents(std::move(contents)), file(std::move(file)) {
  for (const auto &[name, tensor] : this->file.tensors) {
    TensorType type{elementOf(*tensor.format), tensor.shape};
    std::string identity =
        tensor.format->name.str() + " " +
        tensorIdentity(name, type, this->contents, tensor.offset);
    tensors[name] = {std::move(type), std::move(identity)};
  }
}

Result<std::unique_ptr<GgufWeights>>
GgufWeights::open(const std::string &path) {
  Result<InputFile> input = InputFile::open(path);
  if (!input.ok())
    return input.status();
  Result<FileContents> contents = readContents(*input, path);
  if (!contents.ok())
    return contents.status();
  Result<GgufFile> file = GgufFile::parse(bytesOf(*contents), path);
  if (!file.ok())
    return file.status();
  return std::unique_ptr<GgufWeights>(
      new GgufWeights(std::move(*contents), std::move(*file)));
}

const StoredTensor *GgufWeights::find(StringRef name) const {
  auto found = tensors.find(std::string_view(name));
  return found == tensors.end() ? nullptr : &found->second;
}

std::vector<std::string> GgufWeights::names() const {
  std::vector<std::string> result;
  for (const auto &[name, tensor] : tensors)
    result.push_back(name);
  return result;
}

Result<std::shared_ptr<const std::byte>>
GgufWeights::read(StringRef name) const {
  const GgufTensor &tensor = file.tensors.find(std::string_view(name))->second;
  if (!tensor.format->isQuantized())
    return contents.tensor(find(name)->type, tensor.offset);
  size_t count = tensor.bytes.size() / tensor.format->bytes *
                 size_t(tensor.format->elements);
  std::shared_ptr<float[]> numbers(new (std::nothrow) float[count]);
  if (!numbers)
    return Status(StatusCode::ResourceExhausted, "tensor '" + name.str() + "'",
                  "does not fit into memory as f32: " +
                      std::to_string(count * sizeof(float)) + " bytes");
  compute(name,
          {reinterpret_cast<char *>(numbers.get()), count * sizeof(float)});
  return std::shared_ptr<const std::byte>(
      numbers, reinterpret_cast<const std::byte *>(numbers.get()));
}

bool GgufWeights::isComputed(StringRef name) const {
  return file.tensors.find(std::string_view(name))
      ->second.format->isQuantized();
}

void GgufWeights::compute(StringRef name,
                          llvm::MutableArrayRef<char> target) const {
  const GgufTensor &tensor = file.tensors.find(std::string_view(name))->second;
  dequantize(*tensor.format, tensor.bytes,
             {reinterpret_cast<float *>(target.data()),
              target.size() / sizeof(float)});
}
