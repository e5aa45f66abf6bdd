// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=magic 2>&1 | FileCheck %s --check-prefix=PRESET
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=torch=2 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=static=-1 2>&1 | FileCheck %s --check-prefix=STATIC
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=torch,speed=3 2>&1 | FileCheck %s --check-prefix=FIELD
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=torch,growth=0.5 2>&1 | FileCheck %s --check-prefix=GROWTH
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=torch,interval=0 2>&1 | FileCheck %s --check-prefix=INTERVAL
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=torch,unscale=twice 2>&1 | FileCheck %s --check-prefix=CHOICE
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=torch,min=4,max=2 2>&1 | FileCheck %s --check-prefix=LIMITS
// RUN: not mpc-opt %s --mpc-scale-loss=loss-scale=torch,check=none 2>&1 | FileCheck %s --check-prefix=CHECKS
// RUN: not mpc-opt %s --mpc-scale-loss="loss-scale=torch accumulate=0" 2>&1 | FileCheck %s --check-prefix=WINDOW
// RUN: not mpc-opt %s --mpc-scale-loss="loss-scale=torch clip-norm=-1" 2>&1 | FileCheck %s --check-prefix=CLIP
// RUN: not mpc-opt %s --mpc-scale-loss="loss-scale=torch accumulate=2" 2>&1 | FileCheck %s --check-prefix=TOGETHER
// RUN: mpc-opt %s --mpc-scale-loss=loss-scale=none 2>&1 | FileCheck %s --check-prefix=HALF

// PRESET: error: loss scale 'magic' does not exist; use torch (also called dynamic), keras3, tf_keras, tf2.1, apex, deepspeed, static=N, none
// VALUE: error: loss scale 'torch=2' does not exist
// STATIC: error: field 'static' takes a positive number, found '-1'
// FIELD: error: field 'speed' does not exist; use init, growth,
// GROWTH: error: field 'growth' takes a number of at least 1, found '0.5'
// INTERVAL: error: field 'interval' takes a number from 1 to 2147483647, found '0'
// CHOICE: error: field 'unscale' takes one of reciprocal64, reciprocal32, divide, found 'twice'
// LIMITS: error: the smallest loss scale 4.000000 is above the largest 2.000000
// CHECKS: error: a dynamic loss scale needs check=scaled or check=unscaled
// WINDOW: error: gradient accumulation needs a window of at least 1 micro step, found 0
// CLIP: error: clipping needs a positive limit, found -1
// TOGETHER: error: accumulation over a window of 2 needs backward pass and optimizers in two functions; compile the parts separately or choose accumulation=micro_step
// HALF: warning: has f16 values and no loss scale: gradients below 2^-24 become 0; the loss scale 'dynamic' keeps them
func.func @half(%x: tensor<2xf16>, %w: tensor<2xf32>, %t: tensor<i64>) -> tensor<2xf32> {
  %seed = mpc.gradient_seed : tensor<f32>
  %low = mpc.cast %seed : tensor<f32> to tensor<f16>
  %g = mpc.mul %x, %low : (tensor<2xf16>, tensor<f16>) -> tensor<2xf16>
  %lr = mpc.constant dense<0.1> : tensor<f32>
  %nw = mpc.optimizer.sgd %w, %g step(%t) learning_rate(%lr) : (tensor<2xf32>, tensor<2xf16>, tensor<i64>, tensor<f32>) -> tensor<2xf32>
  return %nw : tensor<2xf32>
}
