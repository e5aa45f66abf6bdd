//===- NamedArrays.cpp - input arrays from files --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NamedArrays.h"

#include "InitialState.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

using namespace mpc;
using namespace mpc::tool;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static bool endsWith(const std::string &text, const char *end) {
  size_t size = std::strlen(end);
  return text.size() >= size &&
         text.compare(text.size() - size, size, end) == 0;
}

Result<std::vector<NamedArray>>
tool::loadArrays(const std::vector<std::string> &arguments, int64_t maxMemory) {
  std::vector<NamedArray> arrays;
  uint64_t left = maxMemory > 0 ? uint64_t(maxMemory) : kAnyBytes;
  for (const std::string &argument : arguments) {
    std::vector<NamedArray> more;
    size_t equals = argument.find('=');
    if (endsWith(argument, ".npz") && equals == std::string::npos) {
      Result<std::vector<NamedArray>> read = readNpz(argument, left);
      if (!read.ok())
        return read;
      more = std::move(*read);
    } else if (equals != std::string::npos && equals > 0 &&
               endsWith(argument, ".npy")) {
      std::string path = argument.substr(equals + 1);
      Result<Buffer> read = readNpy(path, left);
      if (!read.ok())
        return read.status();
      more.push_back({argument.substr(0, equals), std::move(*read), path});
    } else {
      return Status(StatusCode::InvalidArgument, argument,
                    "is not a data file; use FILE.npz or NAME=FILE.npy");
    }
    for (NamedArray &array : more) {
      for (const NamedArray &other : arrays)
        if (other.name == array.name)
          return Status(StatusCode::InvalidArgument, array.where,
                        "array '" + array.name + "' is also in " + other.where);
      left -= array.data.size();
      arrays.push_back(std::move(array));
    }
  }
  return arrays;
}

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

const NamedArray *tool::findArray(const std::vector<NamedArray> &arrays,
                                  const std::string &name,
                                  const std::string &prefix, size_t index) {
  for (const std::string &wanted : {name, prefix + std::to_string(index)})
    for (const NamedArray &array : arrays)
      if (array.name == wanted)
        return &array;
  return nullptr;
}

Result<const NamedArray *>
tool::wantedArray(const std::vector<NamedArray> &arrays,
                  const ProgramValue &output, size_t index,
                  const std::string &file) {
  const NamedArray *array = findArray(arrays, output.name, "out", index);
  if (!array)
    return Status(StatusCode::InvalidArgument, file,
                  "has no array for output '" + output.name + "'");
  const mpc::TensorType &type = array->data.type();
  if (type.shape != output.type.shape)
    return Status(StatusCode::InvalidArgument, array->where,
                  "has shape " + shapeToString(type.shape) + ", but output '" +
                      output.name + "' has " +
                      shapeToString(output.type.shape));
  if (isFloat(type.element) != isFloat(output.type.element))
    return Status(StatusCode::InvalidArgument, array->where,
                  "is " + std::string(elementTypeName(type.element)) +
                      ", but output '" + output.name + "' is " +
                      std::string(elementTypeName(output.type.element)));
  return array;
}

/// Converts `data` to bf16, or returns nullopt if a value would change.
static std::optional<Buffer> asBrainFloat(const Buffer &data,
                                          const mpc::TensorType &type) {
  Result<Buffer> narrow = Buffer::allocate(type);
  if (!narrow.ok())
    return std::nullopt;
  std::span<uint16_t> out = narrow->as<uint16_t>();
  if (data.type().element == ElementType::UI16) {
    std::memcpy(out.data(), data.data(), data.size());
    return std::move(*narrow);
  }
  std::span<const uint32_t> in = data.as<uint32_t>();
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] & 0xffff)
      return std::nullopt;
    out[i] = static_cast<uint16_t>(in[i] >> 16);
  }
  return std::move(*narrow);
}

static Status bindArray(const NamedArray &array, const ProgramValue &value,
                        Buffer &bound) {
  const mpc::TensorType &have = array.data.type();
  if (have == value.type) {
    bound = array.data;
    return {};
  }
  if (have.shape != value.type.shape)
    return Status(StatusCode::InvalidArgument, array.where,
                  "array '" + array.name + "' has shape " +
                      shapeToString(have.shape) + ", but the model expects " +
                      shapeToString(value.type.shape));
  if (isFloat8(value.type.element) && have.element == ElementType::UI8) {
    Result<Buffer> copy = Buffer::allocate(value.type);
    if (!copy.ok())
      return copy.status();
    std::memcpy(copy->data(), array.data.data(), array.data.size());
    bound = std::move(*copy);
    return {};
  }
  bool carriesBrainFloat =
      have.element == ElementType::UI16 || have.element == ElementType::F32;
  if (value.type.element == ElementType::BF16 && carriesBrainFloat) {
    std::optional<Buffer> narrow = asBrainFloat(array.data, value.type);
    if (!narrow)
      return Status(StatusCode::InvalidArgument, array.where,
                    "array '" + array.name +
                        "' is f32 with values that bf16 cannot represent; "
                        "round them to bf16");
    bound = std::move(*narrow);
    return {};
  }
  return Status(StatusCode::InvalidArgument, array.where,
                "array '" + array.name + "' is " +
                    std::string(elementTypeName(have.element)) +
                    ", but the model expects " +
                    std::string(elementTypeName(value.type.element)));
}

/// Names the arrays that belong to no value, a likely cause of a missing one.
static std::string describeOthers(const std::vector<NamedArray> &arrays,
                                  const std::vector<ProgramValue> &values,
                                  const std::string &prefix) {
  std::set<std::string> known;
  for (size_t i = 0; i < values.size(); ++i)
    known.insert({values[i].name, prefix + std::to_string(i)});
  std::string names;
  for (const NamedArray &array : arrays)
    if (!known.contains(array.name))
      names += (names.empty() ? "'" : ", '") + array.name + "'";
  return names.empty() ? "" : "; no input is called " + names;
}

std::vector<Status> tool::bindArrays(const std::vector<NamedArray> &arrays,
                                     const std::vector<ProgramValue> &values,
                                     const std::string &prefix,
                                     std::vector<Buffer> &bound) {
  std::vector<Status> problems;
  bound.assign(values.size(), Buffer());
  for (size_t i = 0; i < values.size(); ++i) {
    const NamedArray *array = findArray(arrays, values[i].name, prefix, i);
    // The array at this position may belong to another value by name.
    if (array && array->name != values[i].name &&
        std::any_of(values.begin(), values.end(),
                    [&](const ProgramValue &value) {
                      return value.name == array->name;
                    }))
      array = nullptr;
    if (!array) {
      if (isSelfInitialized(values[i]))
        continue;
      problems.emplace_back(
          StatusCode::InvalidArgument, "input '" + values[i].name + "'",
          "has no array; add " + values[i].type.toString() +
              " with that name or as '" + prefix + std::to_string(i) +
              (arrays.empty() ? "' to a file of --input" : "'") +
              describeOthers(arrays, values, prefix));
      continue;
    }
    if (Status status = bindArray(*array, values[i], bound[i]); !status.ok())
      problems.push_back(std::move(status));
  }
  if (problems.empty())
    if (Status status = makeInitialState(values, bound); !status.ok())
      problems.push_back(std::move(status));
  return problems;
}
