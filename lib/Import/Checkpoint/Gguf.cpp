//===- Gguf.cpp - verified reader of GGUF files ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gguf.h"

#include "mpc/Support/EscapedText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mpc;
using namespace mpc::checkpoint;
using llvm::ArrayRef;
using llvm::StringRef;

static constexpr StringRef kMagic = "GGUF";
/// Nesting of arrays in metadata, and dimensions of a tensor in ggml.
static constexpr unsigned kMostNesting = 8;
static constexpr uint32_t kMostDims = 4;
static constexpr uint64_t kDefaultAlignment = 32;

/// Returns the bytes of a number of `type`; 0 for strings and arrays.
static uint64_t sizeOf(GgufType type) {
  switch (type) {
  case GgufType::UInt8:
  case GgufType::Int8:
  case GgufType::Bool:
    return 1;
  case GgufType::UInt16:
  case GgufType::Int16:
    return 2;
  case GgufType::UInt32:
  case GgufType::Int32:
  case GgufType::Float32:
    return 4;
  case GgufType::UInt64:
  case GgufType::Int64:
  case GgufType::Float64:
    return 8;
  case GgufType::String:
  case GgufType::Array:
    break;
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

template <typename T> static T readAs(const uint8_t *bytes) {
  return llvm::support::endian::read<T, llvm::endianness::little>(bytes);
}

static std::optional<int64_t> integerAt(GgufType type, const uint8_t *bytes) {
  switch (type) {
  case GgufType::UInt8:
    return readAs<uint8_t>(bytes);
  case GgufType::Int8:
    return readAs<int8_t>(bytes);
  case GgufType::UInt16:
    return readAs<uint16_t>(bytes);
  case GgufType::Int16:
    return readAs<int16_t>(bytes);
  case GgufType::UInt32:
    return readAs<uint32_t>(bytes);
  case GgufType::Int32:
    return readAs<int32_t>(bytes);
  case GgufType::Int64:
    return readAs<int64_t>(bytes);
  case GgufType::UInt64: {
    auto value = readAs<uint64_t>(bytes);
    if (value > uint64_t(std::numeric_limits<int64_t>::max()))
      return std::nullopt;
    return int64_t(value);
  }
  default:
    return std::nullopt;
  }
}

static std::optional<double> numberAt(GgufType type, const uint8_t *bytes) {
  if (type == GgufType::Float32)
    return llvm::bit_cast<float>(readAs<uint32_t>(bytes));
  if (type == GgufType::Float64)
    return llvm::bit_cast<double>(readAs<uint64_t>(bytes));
  if (std::optional<int64_t> integer = integerAt(type, bytes))
    return double(*integer);
  return std::nullopt;
}

std::optional<int64_t> GgufValue::integer() const {
  return integerAt(type, bytes.data());
}

std::optional<double> GgufValue::number() const {
  return numberAt(type, bytes.data());
}

std::optional<bool> GgufValue::flag() const {
  if (type != GgufType::Bool)
    return std::nullopt;
  return bytes[0] != 0;
}

std::optional<StringRef> GgufValue::text() const {
  if (type != GgufType::String)
    return std::nullopt;
  return llvm::toStringRef(bytes);
}

std::optional<std::vector<double>> GgufValue::numbers() const {
  uint64_t size = sizeOf(element);
  if (type != GgufType::Array || size == 0)
    return std::nullopt;
  std::vector<double> result;
  result.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint8_t *at = bytes.data() + i * size;
    std::optional<double> number =
        element == GgufType::Bool ? double(*at != 0) : numberAt(element, at);
    if (!number)
      return std::nullopt;
    result.push_back(*number);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

namespace {

/// Reads the header front to back; the first failure ends the parse.
class Parser {
public:
  Parser(ArrayRef<uint8_t> bytes, const std::string &where)
      : bytes(bytes), where(where) {}

  Result<GgufFile> parse();

private:
  Status bad(const llvm::Twine &text) const {
    return Status(StatusCode::InvalidArgument, where, text.str());
  }
  /// The failure to read `what` at the current offset.
  Status truncated(const llvm::Twine &what) const {
    return bad("ends within " + what + " at byte " + llvm::Twine(offset) +
               " of " + llvm::Twine(bytes.size()) +
               "; the file is truncated or corrupt");
  }
  uint64_t rest() const { return bytes.size() - offset; }

  /// Each takes bytes of the file, or returns nullopt if it ends before.
  std::optional<ArrayRef<uint8_t>> take(uint64_t size);
  template <typename T> std::optional<T> take();
  std::optional<StringRef> takeText();

  Status checkStart();
  Status parseMetadata();
  Status parseValue(GgufValue &value, const std::string &key);
  Status skipElements(GgufValue &array, const std::string &key,
                      unsigned nesting);
  Status parseTensor();
  Status locateTensors();

  ArrayRef<uint8_t> bytes;
  std::string where;
  uint64_t offset = 0;
  uint64_t tensorCount = 0, valueCount = 0;
  GgufFile file;
};

} // namespace

static std::string quotedName(StringRef name) {
  constexpr size_t kMost = 100;
  return "'" + printable(std::string_view(name.take_front(kMost))) + "'";
}

std::optional<ArrayRef<uint8_t>> Parser::take(uint64_t size) {
  if (size > rest())
    return std::nullopt;
  ArrayRef<uint8_t> taken = bytes.slice(offset, size);
  offset += size;
  return taken;
}

template <typename T> std::optional<T> Parser::take() {
  std::optional<ArrayRef<uint8_t>> taken = take(sizeof(T));
  if (!taken)
    return std::nullopt;
  return readAs<T>(taken->data());
}

std::optional<StringRef> Parser::takeText() {
  uint64_t before = offset;
  std::optional<uint64_t> size = take<uint64_t>();
  std::optional<ArrayRef<uint8_t>> text;
  if (size)
    text = take(*size);
  if (!text) {
    offset = before;
    return std::nullopt;
  }
  return llvm::toStringRef(*text);
}

Status Parser::checkStart() {
  if (!isGguf(bytes))
    return bad("is not a GGUF file: it does not start with 'GGUF'");
  offset = kMagic.size();
  std::optional<uint32_t> version = take<uint32_t>();
  if (!version)
    return truncated("the version");
  if (*version != 2 && *version != 3) {
    uint32_t swapped = llvm::byteswap(*version);
    if (swapped == 2 || swapped == 3)
      return bad("is a big-endian GGUF file; only little-endian files are "
                 "supported");
    return bad("has GGUF version " + llvm::Twine(*version) +
               "; versions 2 and 3 are supported");
  }
  std::optional<uint64_t> tensors = take<uint64_t>(), values = take<uint64_t>();
  if (!tensors || !values)
    return truncated("the header");
  tensorCount = *tensors;
  valueCount = *values;
  // A value takes at least the length of its key, its type and a byte; a
  // tensor the length of its name, its rank, its type and its offset.
  constexpr uint64_t kLeastValue = 8 + 4 + 1, kLeastTensor = 8 + 4 + 4 + 8;
  if (valueCount > rest() / kLeastValue)
    return bad("has " + llvm::Twine(valueCount) +
               " metadata values, more than its " + llvm::Twine(bytes.size()) +
               " bytes can hold");
  if (tensorCount > rest() / kLeastTensor)
    return bad("has " + llvm::Twine(tensorCount) + " tensors, more than its " +
               llvm::Twine(bytes.size()) + " bytes can hold");
  return {};
}

Status Parser::skipElements(GgufValue &array, const std::string &key,
                            unsigned nesting) {
  std::string what = "the array " + quotedName(key);
  std::optional<uint32_t> element = take<uint32_t>();
  std::optional<uint64_t> count = take<uint64_t>();
  if (!element || !count)
    return truncated(what);
  if (*element > uint32_t(GgufType::Float64))
    return bad("array " + quotedName(key) + " has elements of type " +
               llvm::Twine(*element) + ", which GGUF does not have");
  array.element = GgufType(*element);
  array.count = *count;
  uint64_t first = offset, size = sizeOf(array.element);
  if (size) {
    if (*count > rest() / size || !take(*count * size))
      return truncated(what);
  } else if (array.element == GgufType::String) {
    for (uint64_t i = 0; i < *count; ++i)
      if (!takeText())
        return truncated(what);
  } else {
    if (nesting == kMostNesting)
      return bad("array " + quotedName(key) + " nests deeper than " +
                 llvm::Twine(kMostNesting) + " levels");
    GgufValue inner;
    for (uint64_t i = 0; i < *count; ++i)
      if (Status status = skipElements(inner, key, nesting + 1); !status.ok())
        return status;
  }
  array.bytes = bytes.slice(first, offset - first);
  return {};
}

Status Parser::parseValue(GgufValue &value, const std::string &key) {
  std::optional<uint32_t> type = take<uint32_t>();
  if (!type)
    return truncated("the type of " + quotedName(key));
  if (*type > uint32_t(GgufType::Float64))
    return bad("value " + quotedName(key) + " has type " + llvm::Twine(*type) +
               ", which GGUF does not have");
  value.type = GgufType(*type);
  if (value.type == GgufType::Array)
    return skipElements(value, key, /*nesting=*/1);
  if (value.type == GgufType::String) {
    std::optional<StringRef> text = takeText();
    if (!text)
      return truncated("the string " + quotedName(key));
    value.bytes = llvm::arrayRefFromStringRef(*text);
    return {};
  }
  std::optional<ArrayRef<uint8_t>> number = take(sizeOf(value.type));
  if (!number)
    return truncated("the number " + quotedName(key));
  value.bytes = *number;
  return {};
}

Status Parser::parseMetadata() {
  for (uint64_t i = 0; i < valueCount; ++i) {
    std::optional<StringRef> key = takeText();
    if (!key)
      return truncated("the key of metadata value " + llvm::Twine(i));
    auto [it, isNew] = file.metadata.try_emplace(key->str());
    if (!isNew)
      return bad("has two metadata values " + quotedName(*key));
    if (Status status = parseValue(it->second, it->first); !status.ok())
      return status;
  }
  return {};
}

Status Parser::parseTensor() {
  std::optional<StringRef> name = takeText();
  if (!name)
    return truncated("the name of tensor " + llvm::Twine(file.tensors.size()));
  std::string what = "tensor " + quotedName(*name);
  auto [it, isNew] = file.tensors.try_emplace(name->str());
  if (!isNew)
    return bad("has two tensors " + quotedName(*name));
  GgufTensor &tensor = it->second;
  tensor.name = it->first;
  std::optional<uint32_t> rank = take<uint32_t>();
  if (!rank)
    return truncated("the shape of " + what);
  if (*rank > kMostDims)
    return bad(what + " has " + llvm::Twine(*rank) +
               " dimensions; GGUF has at most " + llvm::Twine(kMostDims));
  int64_t count = 1;
  for (uint32_t i = 0; i < *rank; ++i) {
    std::optional<uint64_t> extent = take<uint64_t>();
    if (!extent)
      return truncated("the shape of " + what);
    if (*extent > uint64_t(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(count, int64_t(*extent), &count))
      return bad(what + " has more elements than a 64-bit number counts");
    tensor.shape.insert(tensor.shape.begin(), int64_t(*extent));
  }
  std::optional<uint32_t> type = take<uint32_t>();
  std::optional<uint64_t> place = take<uint64_t>();
  if (!type || !place)
    return truncated(what);
  tensor.format = findBlockFormat(*type);
  if (!tensor.format)
    return bad(what + " has ggml type " + llvm::Twine(*type) +
               "; supported are " + blockFormatNames());
  tensor.offset = *place;
  // Checked against the file in locateTensors(); here, that it is a number.
  int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % tensor.format->elements)
    return bad(what + " has rows of " + llvm::Twine(row) + " elements, but " +
               tensor.format->name + " has blocks of " +
               llvm::Twine(tensor.format->elements));
  if (uint64_t(count / tensor.format->elements) >
      bytes.size() / uint64_t(tensor.format->bytes))
    return bad(what + " has " + llvm::Twine(count) + " elements of type " +
               tensor.format->name + ", more than the file's " +
               llvm::Twine(bytes.size()) + " bytes hold");
  // The length of `bytes`; its place is not known before the last tensor.
  tensor.bytes =
      bytes.take_front(count / tensor.format->elements * tensor.format->bytes);
  return {};
}

Status Parser::locateTensors() {
  uint64_t alignment = kDefaultAlignment;
  if (const GgufValue *value = file.find("general.alignment")) {
    std::optional<int64_t> number = value->integer();
    if (!number || *number <= 0 || !llvm::isPowerOf2_64(*number) ||
        *number % 8 || *number > std::numeric_limits<uint32_t>::max())
      return bad("'general.alignment' must be a power of two from 8 on");
    alignment = uint64_t(*number);
  }
  uint64_t start = llvm::alignTo(offset, alignment);
  std::vector<const GgufTensor *> sorted;
  for (auto &[name, tensor] : file.tensors) {
    uint64_t size = tensor.bytes.size();
    if (tensor.offset % alignment)
      return bad("tensor " + quotedName(name) + " has the offset " +
                 llvm::Twine(tensor.offset) +
                 ", which is not a multiple of the alignment " +
                 llvm::Twine(alignment));
    uint64_t data = start < bytes.size() ? bytes.size() - start : 0;
    if (size > data || tensor.offset > data - size)
      return bad("tensor " + quotedName(name) + " has " + llvm::Twine(size) +
                 " bytes at offset " + llvm::Twine(tensor.offset) +
                 " of the tensor data, which has " + llvm::Twine(data) +
                 " bytes; the file is truncated or corrupt");
    // A tensor without elements may be at the end of the file's bytes.
    tensor.offset += size ? start : 0;
    tensor.bytes =
        size ? bytes.slice(tensor.offset, size) : bytes.take_front(0);
    if (size)
      sorted.push_back(&tensor);
  }
  llvm::sort(sorted, [](const GgufTensor *left, const GgufTensor *right) {
    return left->offset < right->offset;
  });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes.size())
      return bad("tensors " + quotedName(sorted[i - 1]->name) + " and " +
                 quotedName(sorted[i]->name) + " overlap at byte " +
                 llvm::Twine(sorted[i]->offset));
  return {};
}

Result<GgufFile> Parser::parse() {
  if (Status status = checkStart(); !status.ok())
    return status;
  if (Status status = parseMetadata(); !status.ok())
    return status;
  for (uint64_t i = 0; i < tensorCount; ++i)
    if (Status status = parseTensor(); !status.ok())
      return status;
  if (Status status = locateTensors(); !status.ok())
    return status;
  return std::move(file);
}

Result<GgufFile> GgufFile::parse(ArrayRef<uint8_t> bytes,
                                 const std::string &name) {
  return Parser(bytes, name).parse();
}

const GgufValue *GgufFile::find(StringRef key) const {
  auto found = metadata.find(std::string_view(key));
  return found == metadata.end() ? nullptr : &found->second;
}

bool checkpoint::isGguf(ArrayRef<uint8_t> bytes) {
  return llvm::toStringRef(bytes).starts_with(kMagic);
}
