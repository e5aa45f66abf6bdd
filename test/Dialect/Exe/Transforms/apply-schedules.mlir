// Kernels in a schedule table, keyed by what they compute, get its schedules; names,
// locations and layers are ignored. The target applies them.
// RUN: rm -rf %t && split-file %s %t
// RUN: mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/table.json --mpc-schedule-cpu-kernels | FileCheck %t/kernels.mlir
// RUN: not mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/none.json 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/other.json 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/list.json 2>&1 | FileCheck %s --check-prefix=LIST
// RUN: not mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/bad.json 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: %python -c "open('%t/deep.json', 'w').write(open('%t/bad.json').read().replace('#tile.blocks<rows', '[' * 50000))"
// RUN: not mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/deep.json 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: not mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/lacks.json 2>&1 | FileCheck %s --check-prefix=LACKS
// RUN: not mpc-opt %t/kernels.mlir --mpc-apply-schedules=file=%t/large.json --mpc-schedule-cpu-kernels 2>&1 | FileCheck %s --check-prefix=LARGE

// NONE: error: {{.*}}none.json: cannot be opened: No such file or directory
// OTHER: error: {{.*}}other.json: holds schedules for 'cpu:avx2', but the target is 'cpu:avx512'; tune for the target
// LIST: error: {{.*}}list.json: is not a schedule table (a JSON object with 'target' and 'kernels'); write one with mpc tune-kernels
// BAD: error: {{.*}}bad.json: the schedule of 'k_fc' is not an attribute: #tile.blocks<rows
// DEEP: error: {{.*}}deep.json: the schedule of 'k_fc' is not an attribute: {{\[{60}$}}
// LACKS: error: {{.*}}lacks.json: kernel 215afca49273d6bf82d8bd43dd8af18b has no 'schedule'
// LARGE: error: the schedule has blocks of 30 rows and 64 columns, which exceed the 32 registers of 'avx512'

//--- kernels.mlir
module attributes {exe.target = #exe.target<"cpu:avx512">} {
  // CHECK-LABEL: func.func private @k_fc
  // CHECK-SAME: mpc.schedule = #tile.blocks<rows = 5, columns = 32
  func.func private @k_fc(%a: tensor<64x96xf32>, %b: tensor<96x32xf32>) -> tensor<64x32xf32> attributes {mpc.kernel_kind = "contraction"} {
    %0 = mpc.matmul %a, %b {mpc.layer = "fc"} : (tensor<64x96xf32>, tensor<96x32xf32>) -> tensor<64x32xf32>
    return %0 : tensor<64x32xf32>
  }
  // CHECK-LABEL: func.func private @k_other_name
  // CHECK-SAME: mpc.schedule = #tile.blocks<rows = 5, columns = 32
  func.func private @k_other_name(%x: tensor<64x96xf32>, %y: tensor<96x32xf32>) -> tensor<64x32xf32> attributes {mpc.kernel_kind = "contraction"} {
    %z = mpc.matmul %x, %y : (tensor<64x96xf32>, tensor<96x32xf32>) -> tensor<64x32xf32>
    return %z : tensor<64x32xf32>
  }
  // A kernel that already has a schedule keeps it.
  // CHECK-LABEL: func.func private @k_given
  // CHECK-SAME: mpc.schedule = #tile.blocks<rows = 3, columns = 32
  func.func private @k_given(%a: tensor<64x96xf32>, %b: tensor<96x32xf32>) -> tensor<64x32xf32> attributes {mpc.kernel_kind = "contraction", mpc.schedule = #tile.blocks<rows = 3, columns = 32, pack = right>} {
    %0 = mpc.matmul %a, %b : (tensor<64x96xf32>, tensor<96x32xf32>) -> tensor<64x32xf32>
    return %0 : tensor<64x32xf32>
  }
  // Another shape is another kernel.
  // CHECK-LABEL: func.func private @k_larger
  // CHECK-NOT: rows = 5
  func.func private @k_larger(%a: tensor<65x96xf32>, %b: tensor<96x32xf32>) -> tensor<65x32xf32> attributes {mpc.kernel_kind = "contraction"} {
    %0 = mpc.matmul %a, %b : (tensor<65x96xf32>, tensor<96x32xf32>) -> tensor<65x32xf32>
    return %0 : tensor<65x32xf32>
  }
}

//--- table.json
{"target": "cpu:avx512", "kernels": {"215afca49273d6bf82d8bd43dd8af18b": {"name": "k_fc", "schedule": "#tile.blocks<rows = 5, columns = 32, pack = right>"}}}
//--- other.json
{"target": "cpu:avx2", "kernels": {}}
//--- list.json
[1, 2]
//--- bad.json
{"target": "cpu:avx512", "kernels": {"215afca49273d6bf82d8bd43dd8af18b": {"name": "k_fc", "schedule": "#tile.blocks<rows"}}}
//--- lacks.json
{"target": "cpu:avx512", "kernels": {"215afca49273d6bf82d8bd43dd8af18b": {"name": "k_fc"}}}
//--- large.json
{"target": "cpu:avx512", "kernels": {"215afca49273d6bf82d8bd43dd8af18b": {"name": "k_fc", "schedule": "#tile.blocks<rows = 30, columns = 64, pack = right>"}}}
