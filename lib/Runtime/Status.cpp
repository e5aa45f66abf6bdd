//===- Status.cpp - error handling ----------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Status.h"

using namespace mpc;

const char *mpc::statusCodeName(StatusCode code) {
  switch (code) {
  case StatusCode::Ok:
    return "ok";
  case StatusCode::InvalidArgument:
    return "invalid_argument";
  case StatusCode::NotFound:
    return "not_found";
  case StatusCode::Unavailable:
    return "unavailable";
  case StatusCode::ResourceExhausted:
    return "resource_exhausted";
  case StatusCode::Internal:
    return "internal";
  }
  return "internal";
}

const std::string &Status::emptyText() {
  static const std::string empty;
  return empty;
}

const std::vector<std::string> &Status::notes() const {
  static const std::vector<std::string> none;
  return detail ? detail->notes : none;
}

Status Status::withNote(std::string note) const {
  if (ok())
    return *this;
  Status noted;
  auto copy = std::make_shared<Detail>(*detail);
  copy->notes.push_back(std::move(note));
  noted.detail = std::move(copy);
  return noted;
}

std::string Status::toString() const {
  if (ok())
    return "ok";
  return where().empty() ? text() : where() + ": " + text();
}
