// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a --mpc-schedule-kernels | FileCheck %s
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a --mpc-schedule-kernels --mpc-lower-kernels-to-gpu | FileCheck %s --check-prefix=LOWERED
// RUN: mpc-opt %s --mpc-set-target=target=cuda:sm_90a --mpc-schedule-kernels --mpc-lower-kernels-to-gpu | mpc-translate --mpc-to-cuda | FileCheck %s --check-prefix=CUDA

// 512 KB of weights are distributed over many blocks, each with its fragments in registers
// for all steps. Blocks that share rows synchronize in each step except the last.
// CHECK-LABEL: func.func private @spread
// CHECK-SAME: cooperative = 1
// CHECK-SAME: family = "recurrence"
// CHECK-SAME: matrix_units = 1
// CHECK-SAME: scratch_bytes
// CHECK-SAME: weights_in_registers = 1
// LOWERED-LABEL: gpu.func @spread
// LOWERED-SAME: mpc.cooperative
// LOWERED: cuda.load_matrix
// LOWERED: scf.for
// LOWERED: cuda.load_matrix
// LOWERED: cuda.mma {{.*}} type(bf16)
// LOWERED: gpu.barrier
// LOWERED: cuda.call "sigmoid"
// LOWERED: cuda.grid_barrier
// LOWERED: gpu.barrier
// CUDA-LABEL: void spread(
// CUDA: int [[HELD:.+]][2][5][4];
// CUDA: for (int [[STEP:.+]] = 0; [[STEP]] < 20; ++[[STEP]])
// CUDA: mpc::mma<mpc::bfloat16>({{.*}}, [[HELD]]
// CUDA: mpc::barrier();
// CUDA: if ([[STEP]] < 19)
// CUDA: mpc::gridBarrier({{.*}}, 13, {{.*}});
// CUDA: mpc::barrier();
func.func private @spread(%p: tensor<20x4x1024xf32>, %r: tensor<1x1024x256xbf16>, %b: tensor<1x1024xf32>) -> tensor<20x1x4x256xbf16>
    attributes {mpc.kernel_kind = "recurrence"} {
  %0:3 = mpc.recurrence lstm %p, %r bias(%b)
    : (tensor<20x4x1024xf32>, tensor<1x1024x256xbf16>, tensor<1x1024xf32>) -> (tensor<20x1x4x256xf32>, tensor<1x4x256xf32>, tensor<1x4x256xf32>)
  %1 = mpc.cast %0#0 : tensor<20x1x4x256xf32> to tensor<20x1x4x256xbf16>
  return %1 : tensor<20x1x4x256xbf16>
}

// A block that has all units needs no grid barrier and no memory of other blocks.
// CHECK-LABEL: func.func private @alone
// CHECK-NOT: cooperative
// CHECK-NOT: scratch_bytes
// CHECK: return
// CUDA-LABEL: void alone(
// CUDA-NOT: gridBarrier
// CUDA: mpc::fma(
// CUDA-NOT: gridBarrier
func.func private @alone(%p: tensor<20x4x32xf32>, %r: tensor<1x32x32xf32>) -> tensor<20x1x4x32xf32>
    attributes {mpc.kernel_kind = "recurrence"} {
  %0:2 = mpc.recurrence rnn %p, %r : (tensor<20x4x32xf32>, tensor<1x32x32xf32>) -> (tensor<20x1x4x32xf32>, tensor<1x4x32xf32>)
  return %0#0 : tensor<20x1x4x32xf32>
}

// Backward over the steps: a step reads the stored state of the previous one, and no barrier
// follows the last step where the initial state's gradient has no reader.
// CHECK-LABEL: func.func private @back
// CHECK-SAME: cooperative = 1
// CHECK-SAME: family = "recurrence"
// LOWERED-LABEL: gpu.func @back
// LOWERED-SAME: mpc.cooperative
// LOWERED: cuda.grid_barrier
// LOWERED-NOT: cuda.grid_barrier
// LOWERED: gpu.return
// CUDA-LABEL: void back(
// CUDA: for (int [[BACK:.+]] = 0; [[BACK]] < 20; ++[[BACK]])
// CUDA: mpc::mma<mpc::bfloat16>(
// CUDA: mpc::barrier();
// CUDA: if ([[BACK]] < 19)
// CUDA: mpc::gridBarrier(
func.func private @back(%r: tensor<1x1024x256xbf16>, %k: tensor<20x4x1280xf32>, %d: tensor<20x1x4x256xf32>) -> tensor<20x4x1024xbf16>
    attributes {mpc.kernel_kind = "recurrence"} {
  %0:3 = mpc.recurrence_gradient lstm %r, %k result(%d)
    : (tensor<1x1024x256xbf16>, tensor<20x4x1280xf32>, tensor<20x1x4x256xf32>) -> (tensor<20x4x1024xf32>, tensor<1x4x256xf32>, tensor<1x4x256xf32>)
  %1 = mpc.cast %0#0 : tensor<20x4x1024xf32> to tensor<20x4x1024xbf16>
  return %1 : tensor<20x4x1024xbf16>
}
