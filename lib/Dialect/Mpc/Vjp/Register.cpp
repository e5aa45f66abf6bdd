//===- Register.cpp - registration of the derivatives ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers all families of derivatives and lists the ops without one.
//
//===----------------------------------------------------------------------===//

#include "VjpBuilder.h"

#include "mpc/Dialect/Mpc/Vjp/Vjp.h"

using namespace mlir;
using namespace mpc;

void mpc::registerVjpModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, MpcDialect *) {
    attachUnaryVjps(context);
    attachBinaryVjps(context);
    attachContractionVjps(context);
    attachPoolVjps(context);
    attachAttentionVjps(context);
    attachReductionVjps(context);
    attachNormalizationVjps(context);
    attachMovementVjps(context);
    attachGatherVjps(context);
    attachScatterVjps(context);
    attachLossVjps(context);
    attachRecurrenceVjps(context);
  });
}

ArrayRef<StringRef> mpc::nonDifferentiableOps() {
  static constexpr StringRef kNames[] = {
      // No float operand.
      "mpc.and", "mpc.constant", "mpc.decode_float", "mpc.gradient_seed",
      "mpc.iota", "mpc.learning_rate", "mpc.not", "mpc.or", "mpc.random_bits",
      "mpc.shift_left", "mpc.shift_right", "mpc.xor",
      // No float result.
      "mpc.all_finite", "mpc.argmax", "mpc.argmin", "mpc.compare",
      "mpc.encode_float", "mpc.is_inf", "mpc.is_nan",
      // End of a training step.
      "mpc.global_norm", "mpc.loss_scale.update", "mpc.optimizer.adagrad",
      "mpc.optimizer.adam", "mpc.optimizer.rmsprop", "mpc.optimizer.sgd",
      // First derivatives: second ones are not supported.
      "mpc.attention_gradient", "mpc.avg_pool_gradient",
      "mpc.batch_norm_gradient", "mpc.conv_filter_gradient",
      "mpc.max_pool_gradient", "mpc.norm_gradient", "mpc.recurrence_gradient",
      // Unrolled or split before differentiation.
      "mpc.gru", "mpc.lstm", "mpc.rnn",
      // Ops of later stages.
      "mpc.all_gather", "mpc.all_reduce", "mpc.collective_broadcast",
      "mpc.reduce_scatter", "mpc.dequantize", "mpc.fusion", "mpc.pack",
      "mpc.recurrence", "mpc.yield"};
  return kNames;
}
