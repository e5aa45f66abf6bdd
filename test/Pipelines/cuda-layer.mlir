// A hand-written step goes through every stage for a GPU and comes out as CUDA C++.
// RUN: mpc-opt %s --mpc-pipeline-simplify --mpc-pipeline-precision="policy=mixed_bfloat16 target=cuda:sm_80" \
// RUN:   --mpc-pipeline-pad=target=cuda:sm_80 --mpc-pipeline-layout=target=cuda:sm_80 \
// RUN:   --mpc-pipeline-fuse=target=cuda:sm_80 --mpc-pipeline-plan=target=cuda:sm_80 \
// RUN:   --mlir-print-debuginfo -o %t.mlir
// RUN: FileCheck %s --check-prefix=PLAN < %t.mlir
// RUN: mpc-translate --mpc-to-cuda --target cuda:sm_80 %t.mlir | FileCheck %s
// RUN: mpc-opt %t.mlir --mpc-set-target=target=cuda:sm_80 --mpc-schedule-kernels | FileCheck %s --check-prefix=SCHEDULE

// Two launches: the dense layer with its activation, the softmax with the padding's slice.
// PLAN: exe.program @main target("cuda:sm_80")
// PLAN: exe.launch @k_fc kind(contraction)
// PLAN: exe.launch @k_Softmax kind(row)
// PLAN-NOT: exe.launch

// SCHEDULE-DAG: func.func private @k_fc{{.*}}mpc.schedule = {{.*}}family = "gemm"
// SCHEDULE-DAG: func.func private @k_Softmax{{.*}}mpc.schedule = {{.*}}family = "row"

// CHECK: // {{.*}}fc
// CHECK: MPC_KERNEL({{[0-9]+}}) void k_fc(
// CHECK: const float *__restrict__ x
// CHECK: mpc::mma<mpc::bfloat16>(sums
// CHECK: // {{.*}}Softmax
// CHECK: MPC_KERNEL({{[0-9]+}}) void k_Softmax(
// CHECK: mpc::warpMax(
// CHECK: mpc::exp(
func.func @main(%x: tensor<32x64xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "probabilities"}) {
  %w = mpc.constant dense<0.5> : tensor<64x10xf32> loc("weight")
  %b = mpc.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]> : tensor<10xf32> loc("bias")
  %0 = mpc.matmul %x, %w : (tensor<32x64xf32>, tensor<64x10xf32>) -> tensor<32x10xf32> loc("fc")
  %1 = mpc.add %0, %b : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> loc("fc_bias")
  %2 = mpc.relu %1 : tensor<32x10xf32> loc("Relu")
  %3 = mpc.softmax %2 axis(1) : tensor<32x10xf32> loc("Softmax")
  return %3 : tensor<32x10xf32>
}
