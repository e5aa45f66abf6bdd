//===- AttentionTesting.h - attention kernels under test --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_TARGET_CUDA_SCHEDULES_ATTENTIONTESTING_H
#define MPC_TEST_UNIT_TARGET_CUDA_SCHEDULES_ATTENTIONTESTING_H

#include "../../KernelValues.h"
#include "CudaKernelRunner.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/FormatVariadic.h"

namespace mpc {

/// Attributes of f32 attention that permits tf32.
inline const std::string kTf32 = "compute(tf32)";

inline std::string tensorType(llvm::ArrayRef<int64_t> shape,
                              const std::string &element) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + element + ">";
}

/// The types of query [batch, heads, s, d], key [batch, groups, t, d] and value
/// [batch, groups, t, e] of a case below, and how its mask is written.
struct AttentionTypes {
  template <typename Case>
  explicit AttentionTypes(const Case &c)
      : query(tensorType({c.batch, c.heads, c.s, c.d}, c.type)),
        key(tensorType({c.batch, c.groups, c.t, c.d}, c.type)),
        value(tensorType({c.batch, c.groups, c.t, c.e}, c.type)) {
    if (c.mask.empty())
      return;
    maskType = ", tensor<" + c.mask + ">";
    maskArgument = ", %m: tensor<" + c.mask + ">";
    maskUse = " mask(%m)";
  }

  std::string query, key, value, maskArgument, maskUse, maskType;
};

struct AttentionCase {
  int64_t batch, heads, groups, s, t, d, e;
  std::string type;
  /// The mask's tensor type without "tensor<>".
  std::string mask = "";
  std::string flags = "";
  /// Type to which the result is cast before it is stored.
  std::string stored = "f32";

  std::string text() const {
    AttentionTypes types(*this);
    std::string inner = type == "f64" ? "f64" : "f32";
    std::string r = tensorType({batch, heads, s, e}, inner),
                out = tensorType({batch, heads, s, e}, stored);
    std::string end = stored == inner ? "return %0 : " + r
                                      : "%1 = mpc.cast %0 : " + r + " to " +
                                            out + "\nreturn %1 : " + out;
    return llvm::formatv(
        "func.func private @k(%q: {0}, %k: {1}, %v: {2}{3}) -> {4} attributes "
        "{{mpc.kernel_kind = \"attention\"} {{\n%0 = mpc.attention %q, %k, "
        "%v{5} scale(2.500000e-01) {6} : ({0}, {1}, {2}{7}) -> {8}\n{9}\n}\n",
        types.query, types.key, types.value, types.maskArgument, out,
        types.maskUse, flags, types.maskType, r, end);
  }
};

/// With a gradient [batch, heads, s, e].
struct AttentionGradientCase {
  int64_t batch, heads, groups, s, t, d, e;
  std::string type, mask = "", flags = "";
  /// The gradient's element type; empty: that of the operands.
  std::string gradient = "";
  /// Numbers of the results that the kernel stores.
  std::string stored = "012";

  std::string text() const {
    AttentionTypes types(*this);
    std::string all[] = {types.query, types.key, types.value};
    std::string values, results;
    for (char number : stored) {
      std::string comma = values.empty() ? "" : ", ";
      values += comma + "%0#" + number;
      results += comma + all[number - '0'];
    }
    return llvm::formatv(
        "func.func private @k(%q: {0}, %k: {1}, %v: {2}, %g: {3}{4}) -> ({5}) "
        "attributes {{mpc.kernel_kind = \"attention\"} {{\n"
        "%0:3 = mpc.attention_gradient %q, %k, %v, %g{6} scale(2.500000e-01) "
        "{7} : ({0}, {1}, {2}, {3}{8}) -> ({0}, {1}, {2})\n"
        "return {9} : {5}\n}\n",
        types.query, types.key, types.value,
        tensorType({batch, heads, s, e}, gradient.empty() ? type : gradient),
        types.maskArgument, results, types.maskUse, flags, types.maskType,
        values);
  }
};

/// Cuts `%x`, a tensor [batch, length, 3 * heads * width] of query, key and
/// value side by side, into `%h0`, `%h1` and `%h2` with heads in front.
inline std::string splitIntoHeads(int64_t batch, int64_t length, int64_t heads,
                                  int64_t width, const std::string &type) {
  std::string split = tensorType({batch, length, 3 * heads, width}, type);
  std::string text = "%s = mpc.reshape %x : " +
                     tensorType({batch, length, 3 * heads * width}, type) +
                     " to " + split + "\n";
  for (int64_t i = 0; i < 3; ++i)
    text += llvm::formatv("%p{0} = mpc.slice %s [0, 0, {1}, 0] [{2}, {3}, {4}, "
                          "{5}] : {6} to {7}\n%h{0} = mpc.transpose %p{0} [0, "
                          "2, 1, 3] : {7} to {8}\n",
                          i, i * heads, batch, length, heads, width, split,
                          tensorType({batch, length, heads, width}, type),
                          tensorType({batch, heads, length, width}, type));
  return text;
}

inline CudaKernelCheck attentionCheck(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "attention";
  return check;
}

inline CudaKernelCheck attentionGradientCheck(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "attention_gradient";
  // Roles go by the order in which blocks run.
  check.orders = {ThreadOrder::Ascending, ThreadOrder::Shuffled,
                  ThreadOrder::Descending};
  return check;
}

/// A mask of the lowest finite number, which covers whole rows; and on the last
/// row a mask so large that its exponential has no f32, which represents all
/// larger ones.
inline void adjustToExtremeMask(unsigned index, reference::Tensor &tensor) {
  maskingRows(4, 2, -std::numeric_limits<float>::max())(index, tensor);
  if (index == 4)
    for (double &number : llvm::MutableArrayRef(tensor.floats())
                              .take_back(tensor.getShape().back()))
      number += 500;
}

template <typename Case>
void expectAttention(llvm::ArrayRef<Case> cases, const CudaKernelCheck &check) {
  CudaKernelBatch batch;
  for (const Case &each : cases)
    batch.add(each.text(), check);
  batch.expect();
}

} // namespace mpc

#endif // MPC_TEST_UNIT_TARGET_CUDA_SCHEDULES_ATTENTIONTESTING_H
