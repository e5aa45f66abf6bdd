// One dense layer with softmax through the stages: the decisions of each stage are
// visible in the text. Every stage's output round-trips, and the stages one by one
// give the result of the whole pipeline.
// RUN: mpc-opt %s --mpc-verify-stage=stage=import --mlir-print-debuginfo | mpc-opt --mlir-print-debuginfo | FileCheck %s --check-prefix=IMPORTED
// RUN: mpc-opt %s --mpc-pipeline-simplify --mpc-pipeline-precision=policy=mixed_float16 --mlir-print-debuginfo > %t.precision.mlir
// RUN: FileCheck %s --check-prefix=PRECISION --input-file=%t.precision.mlir
// RUN: mpc-opt %t.precision.mlir --mpc-pipeline-layout=target=cpu:avx2 --mlir-print-debuginfo > %t.layout.mlir
// RUN: FileCheck %s --check-prefix=LAYOUT --input-file=%t.layout.mlir
// RUN: mpc-opt %t.layout.mlir --mpc-pipeline-fuse --mlir-print-debuginfo > %t.fuse.mlir
// RUN: FileCheck %s --check-prefix=FUSED --input-file=%t.fuse.mlir
// RUN: mpc-opt %t.fuse.mlir --mpc-pipeline-plan=target=cpu:avx2 --mlir-print-debuginfo > %t.plan.mlir
// RUN: FileCheck %s --check-prefix=PROGRAM --input-file=%t.plan.mlir
// RUN: mpc-opt %t.plan.mlir --mlir-print-debuginfo | diff - %t.plan.mlir
// RUN: mpc-opt %s --mpc-pipeline-simplify --mpc-pipeline-precision=policy=mixed_float16 --mpc-pipeline-layout=target=cpu:avx2 --mpc-pipeline-fuse --mpc-pipeline-plan=target=cpu:avx2 --mlir-print-debuginfo | diff - %t.plan.mlir

// Imported: f32; roles, names and locations preserved.
// IMPORTED-LABEL: func.func @main(
// IMPORTED-SAME: %[[X:[a-z0-9]+]]: tensor<32x16xf32> {mpc.name = "x", mpc.role = #mpc.role<input>}
// IMPORTED-SAME: -> (tensor<32x10xf32> {mpc.name = "probabilities", mpc.role = #mpc.role<output>})
// IMPORTED: %[[W:.*]] = mpc.constant dense_resource<fc.weight> : tensor<16x10xf32> loc(#[[WEIGHT:.*]])
// IMPORTED-NEXT: %[[B:.*]] = mpc.constant dense<{{.*}}> : tensor<10xf32> loc(#[[BIAS:.*]])
// IMPORTED-NEXT: %[[P:.*]] = mpc.matmul %[[X]], %[[W]] : (tensor<32x16xf32>, tensor<16x10xf32>) -> tensor<32x10xf32> loc(#[[MATMUL:.*]])
// IMPORTED-NEXT: %[[S:.*]] = mpc.add %[[P]], %[[B]] : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> loc(#[[ADD:.*]])
// IMPORTED-NEXT: %[[R:.*]] = mpc.softmax %[[S]] axis(1) : tensor<32x10xf32> loc(#[[SOFTMAX:.*]])
// IMPORTED-NEXT: return %[[R]] : tensor<32x10xf32>
// IMPORTED-DAG: #[[WEIGHT]] = loc("fc/weight")
// IMPORTED-DAG: #[[BIAS]] = loc("fc/bias")
// IMPORTED-DAG: #[[MATMUL]] = loc("fc/MatMul")
// IMPORTED-DAG: #[[ADD]] = loc("fc/Add")
// IMPORTED-DAG: #[[SOFTMAX]] = loc("Softmax")

// After precision: the weight is cast once, at compile time; the input is cast;
// the matmul returns its accumulator type; bias and softmax stay in f32.
// PRECISION-LABEL: func.func @main(
// PRECISION-SAME: %[[X:[a-z0-9]+]]: tensor<32x16xf32>
// PRECISION-SAME: -> (tensor<32x10xf32>
// PRECISION-DAG: %[[W:.*]] = mpc.constant dense_resource<fc.weight.f16> : tensor<16x10xf16>
// PRECISION-DAG: %[[B:.*]] = mpc.constant dense<{{.*}}> : tensor<10xf32>
// PRECISION-DAG: %[[XH:.*]] = mpc.cast %[[X]] : tensor<32x16xf32> to tensor<32x16xf16>
// PRECISION: %[[P:.*]] = mpc.matmul %[[XH]], %[[W]] {mpc.decision = #mpc.decision<rule = "low", list = "mixed_float16">} : (tensor<32x16xf16>, tensor<16x10xf16>) -> tensor<32x10xf32>
// PRECISION-NEXT: %[[S:.*]] = mpc.add %[[P]], %[[B]] {mpc.decision = #mpc.decision<rule = "follow", list = "mixed_float16"{{.*}}>} : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32>
// PRECISION-NEXT: %[[R:.*]] = mpc.softmax %[[S]] axis(1) {mpc.decision = #mpc.decision<rule = "high", list = "mixed_float16"{{.*}}>} : tensor<32x10xf32>
// PRECISION-NEXT: return %[[R]] : tensor<32x10xf32>

// After layout: the weight is one panel of the micro-kernel's width; two columns
// share a 32-bit lane.
// LAYOUT-LABEL: func.func @main(
// LAYOUT: %[[W:.*]] = mpc.constant dense_resource<fc.weight.f16.packed> : tensor<1x16x16xf16>
// LAYOUT: mpc.matmul %{{.*}}, %[[W]] packed<columns = 16, interleave = 2>

// After fusion: one region, one kernel. The bias is in the matmul's epilogue.
// FUSED-LABEL: func.func @main(
// FUSED-SAME: %[[X:[a-z0-9]+]]: tensor<32x16xf32>
// FUSED-DAG: %[[W:.*]] = mpc.constant dense_resource<fc.weight.f16.packed>
// FUSED-DAG: %[[B:.*]] = mpc.constant dense<{{.*}}> : tensor<10xf32>
// FUSED: %[[XH:.*]] = mpc.fusion kind(elementwise) name("input_cast") (%[[XA:.*]] = %[[X]] : tensor<32x16xf32>
// FUSED-SAME: -> tensor<32x16xf16> {
// FUSED-NEXT: mpc.cast %[[XA]] :
// FUSED-NEXT: mpc.yield
// FUSED: %[[S:.*]] = mpc.fusion kind(contraction) name("fc_MatMul") (%[[A:.*]] = %[[XH]] : tensor<32x16xf16>, %[[WA:.*]] = %[[W]] : tensor<1x16x16xf16>, %[[BA:.*]] = %[[B]] : tensor<10xf32>) -> tensor<32x10xf32> {
// FUSED-NEXT: %[[P:.*]] = mpc.matmul %[[A]], %[[WA]] packed<columns = 16, interleave = 2>
// FUSED-NEXT: %[[SUM:.*]] = mpc.add %[[P]], %[[BA]]
// FUSED-NEXT: mpc.yield %[[SUM]] : tensor<32x10xf32>
// FUSED: %[[R:.*]] = mpc.fusion kind(row) name("Softmax") (%[[SA:.*]] = %[[S]] : tensor<32x10xf32>
// FUSED-NEXT: mpc.softmax %[[SA]] axis(1)
// FUSED: return %[[R]] : tensor<32x10xf32>

// The device program: buffers with offsets, launches in order, the names of the
// model's ops.
// PROGRAM-LABEL: exe.program @main target("cpu:avx2") arena({{[0-9]+}}) {
// PROGRAM-NEXT: exe.argument @x : tensor<32x16xf32> input(0) name("x")
// PROGRAM-NEXT: exe.result @probabilities : tensor<32x10xf32> output(0) name("probabilities")
// PROGRAM-NEXT: exe.constant @"fc/weight" dense_resource<fc.weight.f16.packed> : tensor<1x16x16xf16>
// PROGRAM-NEXT: exe.constant @"fc/bias" dense<{{.*}}> : tensor<10xf32>
// PROGRAM-NEXT: exe.launch @k_input_cast kind(elementwise) ops([{{.*}}]) flops({{[0-9]+}}) bytes(3072) (read @x, write arena[[XH:.*: 1024.]])
// PROGRAM-NEXT: exe.launch @k_fc_MatMul kind(contraction) ops(["fc/MatMul", "fc/Add"]) flops(10560) bytes({{[0-9]+}}) (read arena[[XH]], read @"fc/weight", read @"fc/bias", write arena[[SUM:.*: 1280.]])
// PROGRAM-NEXT: exe.launch @k_Softmax kind(row) ops(["Softmax"]) flops({{[0-9]+}}) bytes(2560) (read arena[[SUM]], write @probabilities)
// PROGRAM-NEXT: }
// PROGRAM: func.func private @k_input_cast(
// PROGRAM: func.func private @k_fc_MatMul(
// PROGRAM-SAME: attributes {mpc.kernel_kind =
// PROGRAM: func.func private @k_Softmax(

func.func @main(%x: tensor<32x16xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<32x10xf32> {mpc.role = #mpc.role<output>, mpc.name = "probabilities"}) {
  %w = mpc.constant dense_resource<fc.weight> : tensor<16x10xf32> loc("fc/weight")
  %b = mpc.constant dense<[0.2978, 0.0166, -0.2768, 0.1485, -0.1051, 0.0758, -0.1788, 0.1309, -0.4412, -0.2014]> : tensor<10xf32> loc("fc/bias")
  %0 = mpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x10xf32>) -> tensor<32x10xf32> loc("fc/MatMul")
  %1 = mpc.add %0, %b : (tensor<32x10xf32>, tensor<10xf32>) -> tensor<32x10xf32> loc("fc/Add")
  %2 = mpc.softmax %1 axis(1) : tensor<32x10xf32> loc("Softmax")
  return %2 : tensor<32x10xf32>
}

{-#
  dialect_resources: {
    builtin: {
      fc.weight: "0x04000000EC2FBBBE6ADEB13ECB10873E11C77ABE99BB96BB17D94EBD083D1B3E7DD0933E57ECCFBEAA82F1BEFAEDAB3E27A089BD304C863EC0ECFEBE40A45FBDE5D0623EBADA8ABE5DFEE33E4D84CD3E3255F0BEC5FEF2BE0C93293DB7D1E03E6A4DF3BDCE1991BE098A9FBDE926F1BE567D8EBE925C7EBD27A089BB1EA788BE7AC789BE72F98FBE787A25BDAB3E57BEF4FDF4BEE8D9AC3E8B6C673D17B7113EB7D1A0BEF628FC3ED044B83E6519C2BEB1502BBEE5D0623ED044583ED26FDF3E098A9FBDC3F5A83E20632E3E835149BEA167B33D0AD7C33E2041B13E9FABAD3BA245B63D0456EEBED3BC83BED044983E7B83AFBD8B6CA7BE82E2473D3BDF4F3E21B0323EA54E00BE23DB79BD27A0093C728A8E3E7A36AB3C8885DABD55C128BC45D8F0BE5EBAE9BE1748503EFE65F73EA4DFBE3D3EE8D9BD70CEA8BEE02D103BD0D5F63EFA7E8A3E9C33223D3E79B83E151D89BE6519623C14AEE73E9B559F3DC28627BD9F3C6CBEA69B443D0309EA3EE414FDBE2041913E9318A43E02BCC53EA245763E5B429E3EBE30993C917E7B3DE25897BDDC46E3BEA470BD3E295C8F3DD0B399BE75029A3BFE6577BC05A312BEF6971DBE2DB21D3D91EDFC3D6666E63D569F2BBDFCA9F1BEDE718ABE0B46A5BE560EAD3DFED4B83EE3C7983E7E1D983E2EFFA13EA3927ABE4DF3AE3E2041313ECF66D5BE1973F7BE5986F8BE01DE823E6E3480BE9EEFC7BE2497FF3D9B551FBE7F6ADCBEE948AEBEF775E03CCCEEA9BEE78C68BEACAD583E7E8C39BDA24536BE62A1D6BCB3EAF3BE423EE8BD2EFFA1BD77BE9FBE5E4BC8BE96B2CC3E787A253CD8F094BED044D83DD34DA23EB459F5BED0D5F6BEF4FDB4BE1B0D603E44FAADBEAA82513E107A363E5917373D840D8FBED881F33E"
    }
  }
#-}
