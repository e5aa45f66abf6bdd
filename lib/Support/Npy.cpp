//===- Npy.cpp - NumPy array files ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header is a Python dictionary literal. Supports the subset that NumPy
// writes for plain arrays: three known keys, a type string, a boolean and a
// tuple of integers.
//
//===----------------------------------------------------------------------===//

#include "mpc/Support/Npy.h"

#include "mpc/Support/Files.h"

#include <array>
#include <bit>
#include <cctype>
#include <cstdio>
#include <cstring>

using namespace mpc;

static_assert(std::endian::native == std::endian::little,
              "arrays are kept in little-endian order");

static Status badArray(const std::string &where, std::string text) {
  return Status(StatusCode::InvalidArgument, where, std::move(text));
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {

struct TypeCode {
  std::string_view code;
  ElementType type;
};

/// Supported type codes; other spellings of byte order and of one-byte types
/// are normalized first.
constexpr std::array<TypeCode, 13> kTypeCodes{{
    {"|b1", ElementType::I1},
    {"|i1", ElementType::I8},
    {"<i2", ElementType::I16},
    {"<i4", ElementType::I32},
    {"<i8", ElementType::I64},
    {"|u1", ElementType::UI8},
    {"<u2", ElementType::UI16},
    {"<u4", ElementType::UI32},
    {"<u8", ElementType::UI64},
    {"<f2", ElementType::F16},
    {"<V2", ElementType::BF16},
    {"<f4", ElementType::F32},
    {"<f8", ElementType::F64},
}};

Result<ElementType> parseTypeCode(std::string_view code,
                                  const std::string &where) {
  std::string normal(code);
  if (normal.size() >= 2 && std::isalpha(static_cast<unsigned char>(normal[0])))
    normal = "=" + normal;
  if (normal.size() == 3 && normal[0] == '>' && normal[2] != '1')
    return badArray(where,
                    "array of type '" + std::string(code) +
                        "' is big-endian; save it in little-endian order");
  if (normal.size() == 3) {
    bool oneByte = normal[2] == '1';
    normal[0] = oneByte ? '|' : '<';
  }
  for (const TypeCode &entry : kTypeCodes)
    if (entry.code == normal)
      return entry.type;
  return badArray(
      where, "array of type '" + std::string(code) +
                 "' is not supported; use bool, int8..64, uint8..64, float16, "
                 "bfloat16 (as <V2 or uint16), float32 or float64");
}

std::string_view typeCode(ElementType type) {
  for (const TypeCode &entry : kTypeCodes)
    if (entry.type == type)
      return entry.code;
  return "|V1";
}

//===----------------------------------------------------------------------===//
// Header
//===----------------------------------------------------------------------===//

/// Parses the dictionary literal of a header.
class HeaderParser {
public:
  HeaderParser(std::string_view text, std::string where)
      : text(text), where(std::move(where)) {}

  Result<NpyHeader> parse() {
    NpyHeader header;
    bool sawType = false, sawOrder = false, sawShape = false;
    if (!eat('{'))
      return fail("does not start with '{'");
    while (!eat('}')) {
      std::string key;
      if (!parseString(key) || !eat(':'))
        return fail("lacks a key");
      if (key == "descr" && !sawType) {
        std::string code;
        if (peek() == '[')
          return fail("describes a structured array; save one array per field");
        if (!parseString(code))
          return fail("has a type that is not a string");
        Result<ElementType> type = parseTypeCode(code, where);
        if (!type.ok())
          return type.status();
        header.type.element = *type;
        sawType = true;
      } else if (key == "fortran_order" && !sawOrder) {
        if (!parseBool(header.fortranOrder))
          return fail("has a fortran_order that is neither True nor False");
        sawOrder = true;
      } else if (key == "shape" && !sawShape) {
        if (Status status = parseShape(header.type.shape); !status.ok())
          return status;
        sawShape = true;
      } else {
        return fail("has the unexpected key '" + key.substr(0, 40) + "'");
      }
      if (!eat(',') && peek() != '}')
        return fail("has no ',' after the value of '" + key + "'");
    }
    skipSpace();
    if (at != text.size())
      return fail("has data after '}'");
    if (!sawType || !sawOrder || !sawShape)
      return fail("lacks descr, fortran_order or shape");
    return header;
  }

private:
  Status fail(const std::string &why) {
    return badArray(where, "the .npy header " + why);
  }
  void skipSpace() {
    while (at < text.size() &&
           std::isspace(static_cast<unsigned char>(text[at])))
      ++at;
  }
  char peek() {
    skipSpace();
    return at < text.size() ? text[at] : '\0';
  }
  bool eat(char wanted) {
    if (peek() != wanted)
      return false;
    ++at;
    return true;
  }
  bool parseString(std::string &out) {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      return false;
    size_t end = text.find(quote, at + 1);
    if (end == std::string_view::npos)
      return false;
    out = std::string(text.substr(at + 1, end - at - 1));
    at = end + 1;
    return out.find('\\') == std::string::npos;
  }
  bool parseBool(bool &out) {
    skipSpace();
    for (auto [word, value] :
         {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text.substr(at, word.size()) == word) {
        at += word.size();
        out = value;
        return true;
      }
    return false;
  }
  Status parseShape(std::vector<int64_t> &shape) {
    if (!eat('('))
      return fail("has a shape that is not a tuple");
    while (!eat(')')) {
      skipSpace();
      size_t start = at;
      int64_t extent = 0;
      for (; at < text.size() &&
             std::isdigit(static_cast<unsigned char>(text[at]));
           ++at)
        if (__builtin_mul_overflow(extent, int64_t(10), &extent) ||
            __builtin_add_overflow(extent, int64_t(text[at] - '0'), &extent))
          return fail("has an extent that does not fit in 63 bits");
      if (at == start)
        return fail("has a shape with an entry that is not an extent");
      if (at < text.size() && text[at] == 'L')
        ++at;
      shape.push_back(extent);
      if (shape.size() > 32)
        return fail("has more than 32 dimensions");
      if (!eat(',') && peek() != ')')
        return fail("has no ',' between two extents");
    }
    return {};
  }

  std::string_view text;
  std::string where;
  size_t at = 0;
};

} // namespace

Result<NpyHeader> mpc::parseNpyHeader(std::string_view prefix,
                                      const std::string &where) {
  constexpr std::string_view kMagic("\x93NUMPY", 6);
  if (prefix.size() < 10 || prefix.substr(0, 6) != kMagic)
    return badArray(
        where,
        "is not a .npy array: it does not start with NumPy's magic string");
  auto byte = [&](size_t i) {
    return size_t(static_cast<unsigned char>(prefix[i]));
  };
  size_t major = byte(6), lengthBytes = major == 1 ? 2 : 4;
  if (major < 1 || major > 3)
    return badArray(where, "is a .npy array of version " +
                               std::to_string(major) +
                               ", but versions 1 to 3 are supported");
  size_t start = 8 + lengthBytes;
  if (prefix.size() < start)
    return badArray(where, "ends inside the .npy header");
  size_t length = 0;
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= byte(8 + i) << (8 * i);
  if (length > kMostNpyHeader - start)
    return badArray(where, "has a .npy header of " + std::to_string(length) +
                               " bytes; at most " +
                               std::to_string(kMostNpyHeader - start) +
                               " are read");
  if (prefix.size() - start < length)
    return badArray(where, "ends inside the .npy header");
  Result<NpyHeader> header =
      HeaderParser(prefix.substr(start, length), where).parse();
  if (!header.ok())
    return header;
  header->dataOffset = start + length;
  return header;
}

std::string mpc::makeNpyHeader(const TensorType &type) {
  std::string dictionary = "{'descr': '" + std::string(typeCode(type.element)) +
                           "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < type.shape.size(); ++i)
    dictionary += (i ? ", " : "") + std::to_string(type.shape[i]);
  dictionary += type.shape.size() == 1 ? ",), }" : "), }";
  size_t unpadded = 10 + dictionary.size() + 1;
  dictionary.append((64 - unpadded % 64) % 64, ' ');
  dictionary += '\n';
  // 32 extents of 19 digits are far below the 65,535 bytes of version 1.
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Converts column-major elements to row-major order.
static Result<Buffer> toRowMajor(const Buffer &columns) {
  Result<Buffer> rows = Buffer::allocate(columns.type());
  if (!rows.ok())
    return rows;
  const std::vector<int64_t> &shape = columns.type().shape;
  size_t rank = shape.size(),
         width = size_t(elementBytes(columns.type().element));
  std::vector<int64_t> index(rank, 0), strides(rank, 1);
  for (size_t i = 1; i < rank; ++i)
    strides[i] = strides[i - 1] * shape[i - 1];
  int64_t count = *columns.type().elementCount(), from = 0;
  auto *out = static_cast<char *>(rows->data());
  const auto *in = static_cast<const char *>(columns.data());
  for (int64_t to = 0; to < count; ++to) {
    std::memcpy(out + to * width, in + from * width, width);
    for (size_t i = rank; i-- > 0;) {
      from += strides[i];
      if (++index[i] < shape[i])
        break;
      from -= strides[i] * shape[i];
      index[i] = 0;
    }
  }
  return rows;
}

Result<Buffer> mpc::readNpyFrom(const ByteSource &source, uint64_t totalBytes,
                                const std::string &where, uint64_t mostBytes) {
  // Read magic and length first, then exactly the header.
  std::string prefix(size_t(std::min<uint64_t>(totalBytes, 12)), '\0');
  if (Status status = source(prefix.data(), prefix.size()); !status.ok())
    return status;
  size_t wanted = prefix.size();
  if (prefix.size() == 12) {
    auto byte = [&](size_t i) {
      return size_t(static_cast<unsigned char>(prefix[i]));
    };
    size_t length =
        byte(6) == 1 ? byte(8) | byte(9) << 8
                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
    wanted = std::min<uint64_t>(
        std::min(length + (byte(6) == 1 ? 10 : 12), kMostNpyHeader),
        totalBytes);
  }
  if (wanted > prefix.size()) {
    prefix.resize(wanted);
    if (Status status = source(prefix.data() + 12, wanted - 12); !status.ok())
      return status;
  }
  Result<NpyHeader> header = parseNpyHeader(prefix, where);
  if (!header.ok())
    return header.status();
  std::optional<int64_t> bytes = header->type.byteCount();
  if (!bytes || uint64_t(*bytes) != totalBytes - header->dataOffset)
    return badArray(where, "declares " + header->type.toString() +
                               ", but has " +
                               std::to_string(totalBytes - header->dataOffset) +
                               " bytes of elements");
  if (uint64_t(*bytes) > mostBytes)
    return Status(StatusCode::ResourceExhausted, where,
                  "has " + std::to_string(*bytes) + " bytes (" +
                      header->type.toString() + "), but at most " +
                      std::to_string(mostBytes) +
                      " are allowed for it; allow more memory");
  Result<Buffer> data = Buffer::allocate(header->type);
  if (!data.ok())
    return Status(data.status().code(), where, data.status().text());
  // Bytes read beyond a short header are elements.
  size_t early = std::min<size_t>(
      prefix.size() - std::min(header->dataOffset, prefix.size()),
      data->size());
  std::memcpy(data->data(), prefix.data() + prefix.size() - early, early);
  if (Status status = source(static_cast<char *>(data->data()) + early,
                             data->size() - early);
      !status.ok())
    return status;
  if (header->type.element == ElementType::I1)
    for (uint8_t &value : data->as<uint8_t>())
      value = value != 0;
  if (header->fortranOrder && header->type.shape.size() > 1)
    return toRowMajor(*data);
  return data;
}

Result<Buffer> mpc::readNpy(const std::string &path, uint64_t mostBytes) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  auto source = [&](void *out, size_t bytes) { return file->read(out, bytes); };
  return readNpyFrom(source, file->size(), path, mostBytes);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

Status mpc::writeNpy(const std::string &path, const Buffer &data) {
  return writeWholeFile(
      path, {makeNpyHeader(data.type()),
             {static_cast<const char *>(data.data()), data.size()}});
}
