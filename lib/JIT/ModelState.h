//===- ModelState.h - what a model's handles share --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_MODELSTATE_H
#define MPC_LIB_JIT_MODELSTATE_H

#include "Buckets.h"
#include "Specialisations.h"

namespace mpc {

struct Model::State {
  ModelSource source;
  CompileOptions options;
  Device device;
  std::shared_ptr<detail::Specialisations> kept;
  /// Tells it from the engine's other models.
  int64_t number = 0;
  /// Null without buckets.
  std::shared_ptr<detail::Buckets> buckets;

  /// Names and types of all arguments: which specialisation they need, but for
  /// values.
  std::string shapeKey(const NamedBuffers &arguments) const;
  /// The values of `names`, as digests.
  std::string valueKey(const std::set<std::string> &names,
                       const NamedBuffers &arguments) const;
  Result<detail::Specialisations::Made>
  compile(const NamedBuffers &arguments) const;
  /// Whether the program takes just `arguments`, but for those compiled in.
  Status checkNames(const detail::Specialisations::Made &made,
                    const NamedBuffers &arguments) const;
};

} // namespace mpc

#endif // MPC_LIB_JIT_MODELSTATE_H
