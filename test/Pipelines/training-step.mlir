// One dense layer with softmax becomes a training step: the additions of each stage of
// training are visible in the text. The stages one by one give the result of the pipeline.
// RUN: mpc-opt %s "--mpc-pipeline-lift=training=step" --mlir-print-debuginfo -o %t.lift.mlir
// RUN: FileCheck %s --check-prefix=LIFT < %t.lift.mlir
// RUN: mpc-opt %t.lift.mlir --mpc-pipeline-simplify "--mpc-pipeline-differentiate=training=step optimizer=adam learning-rate=0.002" --mlir-print-debuginfo -o %t.step.mlir
// RUN: FileCheck %s --check-prefix=STEP < %t.step.mlir
// RUN: mpc-opt %t.step.mlir "--mpc-pipeline-precision=training=step policy=mixed_float16" --mlir-print-debuginfo -o %t.precision.mlir
// RUN: FileCheck %s --check-prefix=PRECISION < %t.precision.mlir
// RUN: mpc-opt %t.precision.mlir "--mpc-pipeline-loss-scale=training=step policy=mixed_float16" --mlir-print-debuginfo -o %t.scaled.mlir
// RUN: FileCheck %s --check-prefix=SCALED < %t.scaled.mlir
// RUN: mpc-opt %t.precision.mlir "--mpc-pipeline-loss-scale=training=step policy=mixed_bfloat16" | FileCheck %s --check-prefix=UNSCALED
// RUN: mpc-opt %t.scaled.mlir --mpc-pipeline-pad --mpc-pipeline-layout --mpc-pipeline-fuse --mpc-pipeline-plan | FileCheck %s --check-prefix=PLAN
// RUN: mpc dump %s --training "step optimizer=adam learning-rate=0.002" --policy mixed_float16 --target cpu:avx512 --after loss-scale --with-weights | mpc-opt > %t.together.mlir
// RUN: mpc-opt %t.scaled.mlir | diff - %t.together.mlir
// RUN: not mpc dump %s --training "half" 2>&1 | FileCheck %s --check-prefix=PART
// RUN: not mpc dump %s --training "step speed=fast" 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: not mpc dump %s --after lift 2>&1 | FileCheck %s --check-prefix=STAGE

// STAGE: --after lift: is a training stage; add --training step
// PART: --training half: the part of a step is 'half'; use step, forward-backward, apply or evaluate
// FLAG: no such option speed

// Weights are arguments.
// LIFT: func.func @main(
// LIFT-SAME: mpc.name = "x", mpc.role = #mpc.role<input>
// LIFT-SAME: mpc.initial = dense<5.000000e-01> : tensor<784x10xf32>, mpc.name = "fc/weight", mpc.role = #mpc.role<parameter>
// LIFT-SAME: mpc.name = "fc/bias", mpc.role = #mpc.role<parameter>
// LIFT: mpc.matmul %{{.*}}, %arg1

// The label, the loss first among the results, the cotangent that starts at 1, the
// matmuls of the backward pass, one update for each parameter.
// STEP: func.func @main(
// STEP-SAME: %arg3: tensor<32xi32> {mpc.name = "label", mpc.role = #mpc.role<label>}
// STEP-SAME: %arg4: tensor<i64> {mpc.name = "step", mpc.role = #mpc.role<optimizer_step>}
// STEP-SAME: mpc.name = "fc/weight.exp_avg", mpc.role = #mpc.role<optimizer_state>
// STEP-SAME: -> (tensor<f32> {mpc.name = "loss", mpc.role = #mpc.role<loss>}, tensor<32x10xf32> {mpc.name = "probabilities", mpc.role = #mpc.role<output>}, tensor<784x10xf32> {mpc.alias = 1 : i64, mpc.name = "fc/weight", mpc.role = #mpc.role<parameter>}
// STEP: %[[LOGITS:.*]] = mpc.add
// STEP: %[[LOSS:.*]] = mpc.softmax_cross_entropy %[[LOGITS]], %arg3
// STEP: mpc.gradient_seed
// STEP: mpc.matmul %arg0, %{{.*}} transpose_lhs
// STEP: mpc.learning_rate %arg4 base(2.000000e-03)
// STEP: mpc.optimizer.adam %arg1,
// STEP: mpc.optimizer.adam %arg2,
// STEP-NOT: mpc.optimizer

// The 16-bit weight is a copy that the update writes.
// PRECISION: func.func @main(
// PRECISION-SAME: %[[COPY:arg[0-9]+]]: tensor<784x10xf16> {mpc.name = "fc/weight.copy", mpc.role = #mpc.role<parameter_copy>}
// PRECISION-NOT: mpc.cast %arg1
// PRECISION: mpc.matmul %{{.*}}, %[[COPY]] {{.*}} : (tensor<32x784xf16>, tensor<784x10xf16>) -> tensor<32x10xf32>
// PRECISION: mpc.softmax_cross_entropy {{.*}} : (tensor<32x10xf32>, tensor<32xi32>) -> tensor<f32>
// PRECISION: mpc.optimizer.adam %arg1, {{.*}} : (tensor<784x10xf32>, tensor<784x10xf16>, {{.*}}) -> (tensor<784x10xf32>, tensor<784x10xf32>, tensor<784x10xf32>, tensor<784x10xf16>)

// Policies that multiply f16 scale the loss by default.
// SCALED: func.func @main(
// SCALED-SAME: mpc.role = #mpc.role<loss_scale_state, "scale">
// SCALED-NOT: mpc.gradient_seed
// SCALED: mpc.all_finite {{.*}} names([{{.*}}"fc/
// SCALED: mpc.loss_scale.update
// SCALED: mpc.optimizer.adam {{.*}} when(
// UNSCALED-NOT: loss_scale
// UNSCALED-NOT: mpc.all_finite
// UNSCALED: return

// The whole step is one program.
// PLAN: exe.program @main
// PLAN: exe.launch
func.func @main(%x: tensor<32x784xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "probabilities"}) {
  %w = mpc.constant dense<0.5> : tensor<784x10xf32> loc("fc/weight")
  %b = mpc.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]> : tensor<10xf32> loc("fc/bias")
  %0 = mpc.matmul %x, %w : (tensor<32x784xf32>, tensor<784x10xf32>) -> tensor<32x10xf32> loc("fc/MatMul")
  %1 = mpc.add %0, %b : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> loc("fc/Add")
  %2 = mpc.softmax %1 axis(1) : tensor<32x10xf32> loc("Softmax")
  return %2 : tensor<32x10xf32>
}
