// RUN: mpc-opt %s --mpc-assign-precision=policy=torch_autocast_cuda_float16 --split-input-file | FileCheck %s --check-prefixes=BOTH,CUDA
// RUN: mpc-opt %s --mpc-assign-precision=policy=torch_autocast_cpu_bfloat16 --split-input-file | FileCheck %s --check-prefixes=BOTH,CPU
// RUN: sed 's/func.func @/func.func private @/' %s | mpc-opt --mpc-assign-precision=policy=torch_autocast_cpu_bfloat16 --mpc-verify-stage=stage=precision --split-input-file -o /dev/null
// The numbered rules of lib/Analysis/TorchAutocastPlanner.cpp.

// R1: operands are cast, the matmul accumulates in f32 and rounds once; the
// signature keeps f32.
// BOTH-LABEL: @lower_precision_fp
// BOTH-DAG: %[[X:.*]] = mpc.cast %{{.*}} : tensor<4x8xf32> to tensor<4x8x[[LOW:b?f16]]>
// BOTH-DAG: %[[W:.*]] = mpc.cast %{{.*}} : tensor<8x2xf32> to tensor<8x2x{{b?f16}}>
// BOTH: %[[Y:.*]] = mpc.matmul %[[X]], %[[W]] {{.*}}rule = "low"{{.*}} -> tensor<4x2xf32>
// BOTH: %[[N:.*]] = mpc.cast %[[Y]] : tensor<4x2xf32> to tensor<4x2x[[LOW]]>
// BOTH: %[[R:.*]] = mpc.cast %[[N]] : tensor<4x2x[[LOW]]> to tensor<4x2xf32>
// BOTH: return %[[R]]
func.func @lower_precision_fp(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

// R1 on a group: a layer with its bias is one torch op. The bias is
// rounded, the accumulator is f32, one cast ends the group.
// BOTH-LABEL: @linear
// BOTH-SAME: (%{{[^:]*}}: tensor<4x8xf32>, %[[B:[^:]*]]: tensor<2xf32>
// BOTH-DAG: %[[P:.*]] = mpc.matmul {{.*}} -> tensor<4x2xf32>
// BOTH-DAG: %[[BL:.*]] = mpc.cast %[[B]] : tensor<2xf32> to tensor<2x[[LOW:b?f16]]>
// BOTH-DAG: %[[BW:.*]] = mpc.cast %[[BL]] : tensor<2x[[LOW]]> to tensor<2xf32>
// BOTH: %[[Y:.*]] = mpc.add %[[P]], %[[BW]] {{.*}} -> tensor<4x2xf32>
// BOTH-NEXT: mpc.cast %[[Y]] : tensor<4x2xf32> to tensor<4x2x[[LOW]]>
// BOTH: mpc.relu {{.*}} : tensor<4x2x[[LOW]]>
func.func @linear(%x: tensor<4x8xf32>, %b: tensor<2xf32>) -> tensor<4x2xf32> {
  %w = mpc.constant dense<0.5> : tensor<8x2xf32>
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %1 = mpc.add %0, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %2 = mpc.relu %1 : tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// -----

// R2: exp is in the CUDA list. R6: on CPU it is in no list and runs in its input
// type.
// BOTH-LABEL: @fp32
// CUDA: mpc.exp {{.*}}rule = "high"{{.*}} : tensor<4x4xf32>
// CPU: mpc.exp {{.*}}rule = "follow"{{.*}} : tensor<4x4xbf16>
func.func @fp32(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.exp %0 : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// R3: softmax returns f32 on CUDA, for any input type.
// BOTH-LABEL: @fp32_set_opt_dtype
// CUDA: mpc.softmax {{.*}}rule = "high_result"{{.*}} : tensor<4x4xf32>
// CPU: mpc.softmax {{.*}}rule = "follow"{{.*}} : tensor<4x4xbf16>
func.func @fp32_set_opt_dtype(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.softmax %0 axis(1) : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// R3 by the framework's name: a norm.
// BOTH-LABEL: @fp32_append_dtype
// CUDA: mpc.reduce_sum {{.*}} : tensor<4x4xf32> -> tensor<4xf32>
// CUDA: mpc.sqrt {{.*}} : tensor<4xf32>
// CPU: %[[S:.*]] = mpc.sqrt {{.*}} : tensor<4xf32>
// CPU: mpc.cast %[[S]] : tensor<4xf32> to tensor<4xbf16>
func.func @fp32_append_dtype(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.mul %0, %0 {mpc.source = #mpc.source<op = "norm", id = 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = mpc.reduce_sum %1 axes([1]) {mpc.source = #mpc.source<op = "norm", id = 1>} : tensor<4x4xf32> -> tensor<4xf32>
  %3 = mpc.sqrt %2 {mpc.source = #mpc.source<op = "norm", id = 1>} : tensor<4xf32>
  return %3 : tensor<4xf32>
}

// -----

// R4: any f32 operand makes addcmul f32; 16-bit operands only leave it at 16 bits.
// The product inside the group stays f32.
// BOTH-LABEL: @promote
// CUDA: mpc.mul {{.*}}rule = "widest"{{.*}} -> tensor<4x4xf32>
// CUDA: %[[M:.*]] = mpc.add {{.*}}rule = "widest"{{.*}} -> tensor<4x4xf32>
// CUDA: mpc.add %[[M]], {{.*}} -> tensor<4x4xf32>
// CUDA: mpc.mul {{.*}} -> tensor<4x4xf32>
// CUDA: %[[L:.*]] = mpc.add {{.*}} -> tensor<4x4xf32>
// CUDA: mpc.cast %[[L]] : tensor<4x4xf32> to tensor<4x4xf16>
func.func @promote(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.mul %0, %0 {mpc.source = #mpc.source<op = "addcmul", id = 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = mpc.add %x, %1 {mpc.source = #mpc.source<op = "addcmul", id = 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = mpc.add %2, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = mpc.mul %0, %0 {mpc.source = #mpc.source<op = "addcmul", id = 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = mpc.add %0, %4 {mpc.source = #mpc.source<op = "addcmul", id = 2>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3, %5 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// R4 for ops of the other list: cat, whose operands have one type on any device.
// BOTH-LABEL: @cat
// BOTH: mpc.concat {{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
// BOTH: mpc.concat {{.*}} : (tensor<4x4x[[LOW:b?f16]]>, tensor<4x4x[[LOW]]>) -> tensor<8x4x[[LOW]]>
func.func @cat(%x: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.concat %0, %x axis(0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %2 = mpc.concat %0, %0 axis(0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// R6: 16-bit and f32 promote to f32; a scalar tensor does not promote.
// BOTH-LABEL: @promotion
// BOTH: mpc.add {{.*}} -> tensor<4x4xf32>
// BOTH: mpc.mul {{.*}} : (tensor<4x4x[[LOW:b?f16]]>, tensor<[[LOW]]>) -> tensor<4x4x[[LOW]]>
// BOTH: mpc.mul {{.*}} : (tensor<4x4x[[LOW]]>, tensor<[[LOW]]>) -> tensor<4x4x[[LOW]]>
func.func @promotion(%x: tensor<4x4xf32>, %s: tensor<f32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %half = mpc.constant dense<0.5> : tensor<f32>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.add %0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = mpc.mul %0, %s : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %3 = mpc.mul %0, %half : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %1, %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// R7: on CPU a layer norm has its input's type and f32 parameters.
// BOTH-LABEL: @norm
// BOTH: %[[Y:.*]] = mpc.layer_norm {{.*}} -> tensor<4x4xf32>
// CUDA-NEXT: return %[[Y]]
// CPU-NEXT: mpc.cast %[[Y]] : tensor<4x4xf32> to tensor<4x4xbf16>
func.func @norm(%x: tensor<4x4xf32>, %s: tensor<4xf32>) -> tensor<4x4xf32> {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.layer_norm %0, %s, %s axis(1) epsilon(1.0e-5) : (tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// R8: a transpose keeps 16 bits and costs no cast. A reflecting pad is in the
// CPU list.
// BOTH-LABEL: @moves
// BOTH: mpc.transpose {{.*}} : tensor<4x4x[[LOW:b?f16]]> to tensor<4x4x[[LOW]]>
// CUDA: mpc.pad {{.*}} -> tensor<6x6xf16>
// CPU: mpc.pad {{.*}} -> tensor<6x6xf32>
func.func @moves(%x: tensor<4x4xf32>) -> tensor<6x6xf32> {
  %zero = mpc.constant dense<0.0> : tensor<f32>
  %0 = mpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mpc.transpose %0 [1, 0] : tensor<4x4xf32> to tensor<4x4xf32>
  %2 = mpc.pad %1, %zero low([1, 1]) high([1, 1]) mode(reflect) : (tensor<4x4xf32>, tensor<f32>) -> tensor<6x6xf32>
  return %2 : tensor<6x6xf32>
}

// -----

// A cast that a torch call inserted is promotion: relu of a 16-bit
// input stays 16 bits.
// BOTH-LABEL: @own_promotion
// CUDA: mpc.relu {{.*}} : tensor<4xf16>
// CPU: mpc.relu {{.*}} : tensor<4xf32>
func.func @own_promotion(%x: tensor<4xf16>) -> tensor<4xf32> {
  %0 = mpc.cast %x {mpc.source = #mpc.source<op = "relu", id = 1>} : tensor<4xf16> to tensor<4xf32>
  %1 = mpc.relu %0 {mpc.source = #mpc.source<op = "relu", id = 1>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// R9: f64 and the model's own 16-bit values are unchanged.
// BOTH-LABEL: @own_types
// BOTH: mpc.matmul {{.*}} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
// BOTH: mpc.exp {{.*}} : tensor<4xf16>
func.func @own_types(%x: tensor<4x4xf64>, %y: tensor<4xf16>) -> (tensor<4x4xf64>, tensor<4xf16>) {
  %0 = mpc.matmul %x, %x : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  %1 = mpc.exp %y : tensor<4xf16>
  return %0, %1 : tensor<4x4xf64>, tensor<4xf16>
}
