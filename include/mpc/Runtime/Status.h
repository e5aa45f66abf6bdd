//===- Status.h - error handling --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Return types of public functions that can fail. No exceptions.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_STATUS_H
#define MPC_RUNTIME_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc {

/// Category of a failure, by who can fix it.
enum class StatusCode {
  Ok,
  /// The model, the data, the policy or an argument of the call is invalid.
  InvalidArgument,
  /// A file or name does not exist, or a file cannot be read or written.
  NotFound,
  /// This machine or build lacks a requirement.
  Unavailable,
  /// Out of memory.
  ResourceExhausted,
  /// A bug in mpc.
  Internal,
};

/// Returns the code's name for scripts: "ok", "invalid_argument", "not_found",
/// "unavailable", "resource_exhausted", "internal".
const char *statusCodeName(StatusCode code);

/// Outcome of a call: success, or a code, a location and one sentence. Success
/// costs one pointer. Copies share the text; may be passed between threads.
class [[nodiscard]] Status {
public:
  Status() = default;
  /// A failure at `where` (a file, an op, an input; may be empty).
  Status(StatusCode code, std::string where, std::string text)
      : detail(std::make_shared<Detail>(
            Detail{code, std::move(where), std::move(text), {}})) {
    assert(code != StatusCode::Ok && "a failure needs a code");
  }

  bool ok() const { return !detail; }
  StatusCode code() const { return detail ? detail->code : StatusCode::Ok; }
  /// Location of the failure; empty on success.
  const std::string &where() const {
    return detail ? detail->where : emptyText();
  }
  /// One sentence, lower case, no full stop; empty on success.
  const std::string &text() const {
    return detail ? detail->text : emptyText();
  }
  /// Additional sentences: other problems of the same call, or context.
  const std::vector<std::string> &notes() const;
  /// Returns the same failure with one more note. No effect on success.
  Status withNote(std::string note) const;
  /// "WHERE: text", or "ok".
  std::string toString() const;

private:
  struct Detail {
    StatusCode code;
    std::string where;
    std::string text;
    std::vector<std::string> notes;
  };
  static const std::string &emptyText();

  std::shared_ptr<const Detail> detail;
};

/// A `T`, or the failure to compute it.
template <typename T> class [[nodiscard]] Result {
public:
  /// Both conversions are implicit so that `return value;` and `return
  /// Status(...);` read alike.
  Result(T value) : held(std::move(value)) {}
  Result(Status failure) : failure(std::move(failure)) {
    assert(!this->failure.ok() && "a Result without a value needs a failure");
  }

  bool ok() const { return held.has_value(); }
  const Status &status() const { return failure; }
  /// The value; requires ok().
  T &operator*() & { return *held; }
  const T &operator*() const & { return *held; }
  T &&operator*() && { return std::move(*held); }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }

private:
  std::optional<T> held;
  Status failure;
};

} // namespace mpc

#endif // MPC_RUNTIME_STATUS_H
