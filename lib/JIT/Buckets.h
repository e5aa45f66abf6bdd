//===- Buckets.h - padded calls of models whose shapes vary -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_BUCKETS_H
#define MPC_LIB_JIT_BUCKETS_H

#include "Compiler.h"

#include "mpc/JIT/Model.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mpc::detail {

/// A dimension of a buffer that holds so many rows, one after the other each as
/// `width` elements, several times over.
struct BufferRows {
  unsigned dim = 0;
  int64_t width = 1;
  /// In the caller's buffer, and in the program's.
  int64_t few = 0, many = 0;
};

/// How one call is padded.
struct BucketPlan {
  /// Of each input or output that is padded or cut, by name: what happens to
  /// it, in the order in which inputs are padded.
  std::map<std::string, std::vector<BufferRows>> inputs, outputs;

  bool isExact() const { return inputs.empty(); }
  /// The arguments with their rows padded with zeros, those that have none as
  /// they are. Fails for buffers that are not in host memory.
  Result<NamedBuffers> pad(const NamedBuffers &arguments,
                           const std::string &model) const;
  /// The results without the rows of padding.
  Result<NamedBuffers> cut(NamedBuffers results) const;
};

/// Plans the calls of one model whose options have buckets, and remembers the
/// plans by the shapes of the arguments. Thread-safe.
class Buckets {
public:
  Buckets(const ModelSource &source, const CompileOptions &options)
      : source(source), options(options) {}

  /// The plan of a call. `key` tells the arguments' shapes. The first call with
  /// new shapes imports the model once, and once more for each dimension that
  /// is padded. Fails where rows are not independent, at the op that mixes
  /// them; a call whose program is another one than the bucket's is planned
  /// exact. Where values of inputs decide shapes every call is planned anew.
  Result<BucketPlan> plan(const std::string &key,
                          const NamedBuffers &arguments);

private:
  /// `readsValues` tells whether values of inputs decided shapes.
  Result<BucketPlan> make(const NamedBuffers &arguments,
                          bool &readsValues) const;
  Status checkOptions() const;

  ModelSource source;
  CompileOptions options;
  std::mutex mutex;
  std::map<std::string, Result<BucketPlan>> plans;
};

} // namespace mpc::detail

#endif // MPC_LIB_JIT_BUCKETS_H
