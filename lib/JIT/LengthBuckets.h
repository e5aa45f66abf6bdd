//===- LengthBuckets.h - padding of calls to shape buckets ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_JIT_LENGTHBUCKETS_H
#define MPC_LIB_JIT_LENGTHBUCKETS_H

#include "Compiler.h"

#include "mpc/JIT/Model.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mpc::detail {

/// A padded dimension of a buffer: groups of rows of `width` elements each,
/// stored contiguously.
struct BufferRows {
  unsigned dim = 0;
  int64_t width = 1;
  /// Rows in the caller's buffer and in the program's.
  int64_t few = 0, many = 0;
};

/// Padding of one call.
struct BucketPlan {
  /// Padded dimensions of inputs and cut dimensions of outputs by name, in the
  /// order in which inputs are padded.
  std::map<std::string, std::vector<BufferRows>> inputs, outputs;

  bool isExact() const { return inputs.empty(); }
  /// Returns the arguments zero-padded; arguments without padded dimensions are
  /// passed through. Fails for buffers outside host memory.
  Result<NamedBuffers> pad(const NamedBuffers &arguments,
                           const std::string &model) const;
  /// Returns the results without the padding rows.
  Result<NamedBuffers> cut(NamedBuffers results) const;
};

/// Plans the bucket padding of calls of one model and caches the plans by
/// argument shapes. Thread-safe.
class Buckets {
public:
  Buckets(const ModelSource &source, const CompileOptions &options)
      : source(source), options(options) {}

  /// Returns the plan of a call; `key` encodes the arguments' shapes. The first
  /// call with new shapes imports the model once, and once more for each padded
  /// dimension, to prove that rows are independent. Fails at the op that mixes
  /// rows; a call whose program differs from the bucket's gets an exact plan.
  /// Plans are not cached if values of inputs determine shapes.
  Result<BucketPlan> plan(const std::string &key,
                          const NamedBuffers &arguments);

private:
  /// `readsValues` is set if values of inputs determined shapes.
  Result<BucketPlan> make(const NamedBuffers &arguments,
                          bool &readsValues) const;
  Status checkOptions() const;

  ModelSource source;
  CompileOptions options;
  std::mutex mutex;
  std::map<std::string, Result<BucketPlan>> plans;
};

} // namespace mpc::detail

#endif // MPC_LIB_JIT_LENGTHBUCKETS_H
