//===- Handles.h - objects and arguments of the C API -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by the files that define the C API: the objects behind its handles,
// its error state, and checked conversions of its arguments.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_BINDINGS_C_HANDLES_H
#define MPC_BINDINGS_C_HANDLES_H

#include "mpc/C/mpc.h"
#include "mpc/JIT/Engine.h"
#include "mpc/Runtime/Executable.h"

#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mpc::c {

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Makes `status` the outcome of this thread's call and returns its code.
mpc_status record(Status status) noexcept;

/// Returns MPC_INVALID_ARGUMENT's status for the argument `where`.
inline Status invalid(std::string where, std::string text) {
  return Status(StatusCode::InvalidArgument, std::move(where), std::move(text));
}

/// Runs the body of an API function, which returns a Status, and records the
/// outcome. Converts exceptions of the standard library, which code without
/// exceptions does not handle.
template <typename Body> mpc_status call(Body body) noexcept {
  try {
    return record(body());
  } catch (const std::bad_alloc &) {
    return record(Status(StatusCode::ResourceExhausted, "mpc",
                         "no memory for the objects of this call"));
  } catch (const std::exception &error) {
    return record(Status(StatusCode::Internal, "mpc", error.what()));
  }
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Sets `own` to the versioned struct `given` (null: all defaults), whose size
/// may be that of another version of the header. `name` is the struct's.
Status readBytes(const char *name, const void *given, void *own, size_t size);
template <typename T>
Status readStruct(const char *name, const T *given, T &own) {
  static_assert(std::is_trivially_copyable_v<T>);
  own = {};
  own.size = sizeof(T);
  return readBytes(name, given, &own, sizeof(T));
}

/// The same for a struct that the caller receives: copies `own` to `given`.
Status writeBytes(const char *name, void *given, const void *own, size_t size);
template <typename T>
Status writeStruct(const char *name, T *given, const T &own) {
  return writeBytes(name, given, &own, sizeof(T));
}

/// Returns `text`, or `other` if it is null.
inline std::string textOr(const char *text, const char *other) {
  return text ? text : other;
}

/// Fails if `pointer` is null.
Status checkPointer(const char *name, const void *pointer);

/// Fails unless a member for later versions is 0.
Status checkReserved(const char *name, int32_t reserved);

/// Fails unless `index` is below the number `count` of `what`.
Status checkIndex(const char *what, size_t index, size_t count);

/// Sets `span` to `count` elements; fails if they are null but not none.
template <typename T>
Status readArray(const char *name, const T *data, size_t count,
                 std::span<const T> &span) {
  if (!data && count)
    return invalid(name,
                   "is NULL, but has " + std::to_string(count) + " elements");
  // An address space has fewer; a larger count is a negative number.
  if (count > SIZE_MAX / 2 / sizeof(T))
    return invalid(name, "has " + std::to_string(count) + " elements");
  span = {data, count};
  return {};
}

/// Adds named lists of extents to a map.
Status readExtents(const char *name, const mpc_extents *data, size_t count,
                   std::map<std::string, std::vector<int64_t>> &extents);

/// Returns a buffer of that type, without a copy. Failures have no location.
Result<Buffer> borrow(const mpc_tensor &tensor);
Result<Buffer> borrow(const TensorType &type, const mpc_buffer &buffer);

/// Number of an element type in C.
inline mpc_element elementNumber(ElementType type) {
  return mpc_element(type) + 1;
}

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

/// Base of the objects behind handles. The tag tells handles of another type
/// and, where their memory is not yet reused, destroyed ones.
template <uint32_t Tag> struct Object {
  static constexpr uint32_t kTag = Tag;
  uint32_t tag = Tag;

  Object() = default;
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;
  ~Object() { *const_cast<volatile uint32_t *>(&tag) = 0; }
};

/// Fails unless `handle` is an object of its type.
template <typename T> Status check(const char *name, const T *handle) {
  if (!handle)
    return invalid(name, "is NULL");
  if (handle->tag != T::kTag)
    return invalid(name, "is another object or was destroyed");
  return {};
}

/// Sets `handle`, which is not null, to a new object of `arguments`.
template <typename T, typename... Arguments>
Status give(T **handle, Arguments &&...arguments) {
  *handle = new T{{}, std::forward<Arguments>(arguments)...};
  return {};
}

/// Sets the result of a function that creates an object to NULL.
template <typename T> Status clear(const char *name, T **handle) {
  if (!handle)
    return invalid(name, "is NULL");
  *handle = nullptr;
  return {};
}

template <typename T> void destroy(T *handle) noexcept {
  if (handle && handle->tag == T::kTag)
    delete handle;
}

/// Describes an argument or result of a program.
mpc_value_info describe(const ProgramValue &value);

/// Sets `engine` to an engine for `device`, if this library has the compiler.
Status createEngine(const Device &device, EngineLimits limits,
                    std::optional<Engine> &engine);

} // namespace mpc::c

/// Returns the status of `expression` if it is a failure.
#define MPC_RETURN_IF_FAILED(expression)                                       \
  do {                                                                         \
    if (::mpc::Status failure = (expression); !failure.ok())                   \
      return failure;                                                          \
  } while (false)

struct mpc_device : mpc::c::Object<0x64657669> {
  mpc::Device device;
  std::optional<mpc::Engine> engine;
};

struct mpc_program : mpc::c::Object<0x70726f67> {
  mpc::Executable executable;
  /// Of a loaded file.
  std::string policy, compiler;
  /// Compute, storage and variable type of each layer.
  std::vector<std::array<std::string, 3>> layerTypes;

  /// Sets `program` to a new program.
  static mpc::Status create(mpc::Executable executable, mpc_program **program,
                            std::string policy = {}, std::string compiler = {});
};

#endif // MPC_BINDINGS_C_HANDLES_H
