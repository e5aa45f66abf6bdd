//===- Handles.cpp - errors and arguments of the C API --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

#include <algorithm>
#include <cassert>

using namespace mpc;
using namespace mpc::c;

//===----------------------------------------------------------------------===//
// Versions and errors
//===----------------------------------------------------------------------===//

static_assert(MPC_HEADER_VERSION == MPC_BUILD_VERSION,
              "mpc.h and CMakeLists.txt have different versions");
static_assert(int(StatusCode::Internal) == MPC_INTERNAL &&
              int(StatusCode::Unavailable) == MPC_UNAVAILABLE);
static_assert(int(ElementType::F8E5M2) + 1 == MPC_F8E5M2 &&
              int(ElementType::F16) + 1 == MPC_F16);

namespace {

/// Outcome of a thread's last call.
struct LastError {
  Status status;
  std::string text;
};

} // namespace

static LastError &lastError() {
  thread_local LastError error;
  return error;
}

mpc_status mpc::c::record(Status status) noexcept {
  LastError &error = lastError();
  auto code = mpc_status(status.code());
  error.status = std::move(status);
  error.text.clear();
  try {
    if (code != MPC_OK)
      error.text = error.status.toString();
  } catch (const std::bad_alloc &) {
    // The code alone is left.
    error.text.clear();
  }
  return code;
}

uint32_t mpc_version(void) { return MPC_HEADER_VERSION; }

const char *mpc_status_name(mpc_status status) {
  if (status < MPC_OK || status > MPC_INTERNAL)
    return "unknown";
  return statusCodeName(StatusCode(status));
}

const char *mpc_error_text(void) { return lastError().text.c_str(); }

const char *mpc_error_note(size_t index) {
  const std::vector<std::string> &notes = lastError().status.notes();
  return index < notes.size() ? notes[index].c_str() : nullptr;
}

/// Returns the element type of a number, or nullopt.
static std::optional<ElementType> elementOf(mpc_element element) {
  if (element < MPC_I1 || element > MPC_F8E5M2)
    return std::nullopt;
  return ElementType(element - 1);
}

const char *mpc_element_name(mpc_element element) {
  std::optional<ElementType> type = elementOf(element);
  // The names are literals.
  return type ? elementTypeName(*type).data() : nullptr;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Reads the leading member `size` of a versioned struct.
static Status sizeOf(const char *name, const void *given, size_t &size) {
  std::memcpy(&size, given, sizeof(size));
  // Uninitialized structs have any size; no version will come near the limit.
  constexpr size_t kMostBytes = 4096;
  if (size < sizeof(size_t) || size > kMostBytes || size % sizeof(size_t) != 0)
    return invalid(name, "has size " + std::to_string(size) +
                             "; set it to sizeof(" + name +
                             ") and other members to 0, as MPC_INIT does");
  return {};
}

Status mpc::c::readBytes(const char *name, const void *given, void *own,
                         size_t size) {
  if (!given)
    return {};
  size_t theirs = 0;
  MPC_RETURN_IF_FAILED(sizeOf(name, given, theirs));
  std::memcpy(own, given, std::min(size, theirs));
  std::memcpy(own, &size, sizeof(size));
  const auto *bytes = static_cast<const unsigned char *>(given);
  if (theirs > size &&
      std::any_of(bytes + size, bytes + theirs, [](int byte) { return byte; }))
    return invalid(name, "sets a member that this version of libmpc_c lacks; "
                         "set it to 0 or install a newer libmpc_c");
  return {};
}

Status mpc::c::writeBytes(const char *name, void *given, const void *own,
                          size_t size) {
  MPC_RETURN_IF_FAILED(checkPointer(name, given));
  size_t theirs = 0;
  MPC_RETURN_IF_FAILED(sizeOf(name, given, theirs));
  auto *bytes = static_cast<unsigned char *>(given);
  size_t both = std::min(size, theirs);
  std::memcpy(bytes, own, both);
  std::memset(bytes + both, 0, theirs - both);
  std::memcpy(bytes, &theirs, sizeof(theirs));
  return {};
}

Status mpc::c::checkPointer(const char *name, const void *pointer) {
  if (!pointer)
    return invalid(name, "is NULL");
  return {};
}

Status mpc::c::checkReserved(const char *name, int32_t reserved) {
  if (reserved)
    return invalid(name, "is " + std::to_string(reserved) + ", but must be 0");
  return {};
}

Status mpc::c::checkIndex(const char *what, size_t index, size_t count) {
  if (index < count)
    return {};
  return invalid("index", "is " + std::to_string(index) + ", but there are " +
                              std::to_string(count) + " " + what);
}

Status
mpc::c::readExtents(const char *name, const mpc_extents *data, size_t count,
                    std::map<std::string, std::vector<int64_t>> &extents) {
  std::span<const mpc_extents> lists;
  MPC_RETURN_IF_FAILED(readArray(name, data, count, lists));
  for (size_t i = 0; i < lists.size(); ++i) {
    std::string where = std::string(name) + "[" + std::to_string(i) + "]";
    MPC_RETURN_IF_FAILED(
        checkPointer((where + ".name").c_str(), lists[i].name));
    std::span<const int64_t> values;
    MPC_RETURN_IF_FAILED(readArray((where + ".extents").c_str(),
                                   lists[i].extents, lists[i].count, values));
    extents[lists[i].name].assign(values.begin(), values.end());
  }
  return {};
}

Result<Buffer> mpc::c::borrow(const TensorType &type,
                              const mpc_buffer &buffer) {
  if (!buffer.data && buffer.bytes)
    return invalid("", "is NULL");
  Result<Buffer> made = Buffer::fromHost(
      type, {static_cast<const std::byte *>(buffer.data), buffer.bytes},
      HostMemory::Borrow);
  if (!made.ok())
    return Status(made.status().code(), "", made.status().text());
  return made;
}

Result<Buffer> mpc::c::borrow(const mpc_tensor &tensor) {
  if (tensor.reserved)
    return invalid("", "has a member reserved that is not 0");
  TensorType type;
  std::optional<ElementType> element = elementOf(tensor.element);
  if (!element)
    return invalid("", "has the element type " +
                           std::to_string(tensor.element) +
                           ", which does not exist");
  type.element = *element;
  std::span<const int64_t> shape;
  if (!readArray("shape", tensor.shape, tensor.rank, shape).ok())
    return invalid("", "has no shape for its rank");
  type.shape.assign(shape.begin(), shape.end());
  return borrow(type, tensor.buffer);
}

mpc_value_info mpc::c::describe(const ProgramValue &value) {
  mpc_value_info info = {};
  info.size = sizeof(info);
  info.name = value.name.c_str();
  info.element = elementNumber(value.type.element);
  info.shape = value.type.shape.data();
  info.rank = value.type.shape.size();
  info.bytes = size_t(value.type.byteCount().value_or(0));
  info.role = value.role.c_str();
  info.alias = value.alias;
  info.integer_bound = value.integerBound;
  // The initial value of a shard is that of the whole tensor.
  info.initial = value.shardOf ? nullptr : value.initial.get();
  return info;
}
