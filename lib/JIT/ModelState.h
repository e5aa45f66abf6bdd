//===- ModelState.h - state shared by a model's handles ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_MODELSTATE_H
#define MPC_LIB_JIT_MODELSTATE_H

#include "LengthBuckets.h"
#include "SpecializationTable.h"

namespace mpc {

struct Model::State {
  ModelSource source;
  CompileOptions options;
  Device device;
  std::shared_ptr<detail::SpecializationTable> kept;
  /// Id among the engine's models, part of the cache key.
  int64_t number = 0;
  /// Null if there are no buckets.
  std::shared_ptr<detail::Buckets> buckets;

  /// Returns a cache key of the names and types of all arguments.
  std::string shapeKey(const NamedBuffers &arguments) const;
  /// Returns digests of the values of `names`.
  std::string valueKey(const std::set<std::string> &names,
                       const NamedBuffers &arguments) const;
  Result<detail::SpecializationTable::Made>
  compile(const NamedBuffers &arguments) const;
  /// Fails unless the program takes exactly `arguments`, except those compiled
  /// in.
  Status checkNames(const detail::SpecializationTable::Made &made,
                    const NamedBuffers &arguments) const;
};

} // namespace mpc

#endif // MPC_LIB_JIT_MODELSTATE_H
