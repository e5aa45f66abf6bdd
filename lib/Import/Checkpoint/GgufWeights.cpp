//===- GgufWeights.cpp - weights of a GGUF file ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GgufWeights.h"

#include "mpc/Support/Files.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

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

/// Returns the identity of the file, or a digest of its bytes if it may still
/// change unnoticed.
static std::string identityOf(const InputFile &file,
                              llvm::ArrayRef<uint8_t> bytes) {
  std::string identity = file.identity();
  if (!identity.empty())
    return identity;
  auto digest = llvm::BLAKE3::hash(bytes);
  return "blake3 " + llvm::toHex(digest, /*LowerCase=*/true);
}

GgufWeights::GgufWeights(std::shared_ptr<const std::byte> bytes, GgufFile file,
                         const std::string &identity)
    : bytes(std::move(bytes)), file(std::move(file)) {
  for (const auto &[name, tensor] : this->file.tensors)
    tensors[name] = {{elementOf(*tensor.format), tensor.shape},
                     "gguf " + identity + " at " +
                         std::to_string(tensor.offset) + " " +
                         tensor.format->name.str()};
}

Result<std::shared_ptr<const GgufWeights>>
GgufWeights::open(const std::string &path) {
  Result<InputFile> input = InputFile::open(path);
  if (!input.ok())
    return input.status();
  Result<std::shared_ptr<const std::byte>> mapped = input->map();
  if (!mapped.ok())
    return mapped.status();
  llvm::ArrayRef<uint8_t> bytes(
      reinterpret_cast<const uint8_t *>(mapped->get()), input->size());
  Result<GgufFile> file = GgufFile::parse(bytes, path);
  if (!file.ok())
    return file.status();
  return std::shared_ptr<const GgufWeights>(new GgufWeights(
      std::move(*mapped), std::move(*file), identityOf(*input, bytes)));
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
  const auto *stored = reinterpret_cast<const std::byte *>(tensor.bytes.data());
  if (!tensor.format->isQuantized())
    return std::shared_ptr<const std::byte>(bytes, stored);
  size_t count = tensor.bytes.size() / tensor.format->bytes *
                 size_t(tensor.format->elements);
  std::shared_ptr<float[]> numbers(new (std::nothrow) float[count]);
  if (!numbers)
    return Status(StatusCode::ResourceExhausted, "tensor '" + name.str() + "'",
                  "does not fit into memory as f32: " +
                      std::to_string(count * sizeof(float)) + " bytes");
  dequantize(*tensor.format, tensor.bytes, {numbers.get(), count});
  return std::shared_ptr<const std::byte>(
      numbers, reinterpret_cast<const std::byte *>(numbers.get()));
}
