// The passes of each stage, pinned: a change of a stage is visible here. The printed
// pipeline can be run.
// RUN: mpc-opt %s --mpc-pipeline-simplify --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=SIMPLIFY
// RUN: mpc-opt %s --mpc-pipeline-precision --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PRECISION
// RUN: mpc-opt %s "--mpc-pipeline-precision=policy=mixed_bfloat16 set=op:relu=float32,name:fc/Add=bfloat16 target=cpu:avx2" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=OPTIONS
// RUN: mpc-opt %s --mpc-pipeline-pad=target=cuda:sm_80 --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PAD
// RUN: mpc-opt %s --mpc-pipeline-layout=target=cuda:sm_80 --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=CUDA --implicit-check-not=mpc-pack
// RUN: mpc-opt %s --mpc-pipeline-layout --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=LAYOUT -DCOLUMNS=32
// RUN: mpc-opt %s --mpc-pipeline-layout=target=cpu:avx2 --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=LAYOUT -DCOLUMNS=16
// RUN: mpc-opt %s --mpc-pipeline-fuse --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=FUSE
// RUN: mpc-opt %s --mpc-pipeline-fuse --mpc-pipeline-plan=target=cpu:avx2 --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: mpc-opt %s "--mpc-pipeline-lift=training=step dropout=fc/Add=0.5" "--mpc-pipeline-differentiate=training=evaluate loss=huber delta=0.5" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=EVALUATE
// RUN: mpc-opt %s "--mpc-pipeline-loss-scale=training=forward-backward policy=mixed_float16 loss-scale=torch,init=1024 clip-norm=1" --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=SCALE

// RUN: mpc-opt %s --mpc-pipeline-simplify "--mpc-pipeline-precision=policy=mixed_bfloat16 set=op:relu=float32,name:fc/Add=bfloat16" --mpc-pipeline-pad --mpc-pipeline-layout --mpc-pipeline-fuse --mpc-pipeline-plan --dump-pass-pipeline -o %t.direct.mlir 2> %t.pipeline
// RUN: bash -c "mpc-opt %s --pass-pipeline=\"$(grep -v 'Pass Manager' %t.pipeline)\"" | diff - %t.direct.mlir

// Option values that mean "none".
// RUN: mpc-opt %s --mpc-pipeline-lift=training=step --mpc-pipeline-loss-scale=training=step --dump-pass-pipeline -o /dev/null 2> %t.plain
// RUN: mpc-opt %s "--mpc-pipeline-lift=training=step init-seed=-2" "--mpc-pipeline-loss-scale=training=step clip-norm=0 clip-value=0" --dump-pass-pipeline -o /dev/null 2>&1 | diff - %t.plain

// SIMPLIFY: builtin.module(
// SIMPLIFY-NEXT: mpc-set-target{target=cpu:avx512},
// SIMPLIFY-NEXT: func.func(
// SIMPLIFY-NEXT: canonicalize{
// SIMPLIFY-NEXT: mpc-sink-dequantization,
// SIMPLIFY-NEXT: mpc-recognize-quantized-matmuls{integers=true},
// SIMPLIFY-NEXT: cse,
// SIMPLIFY-NEXT: mpc-fold-constants{max-bytes=67108864 max-flops=1073741824},
// SIMPLIFY-NEXT: cse,
// SIMPLIFY-NEXT: mpc-recognize-softmax,
// SIMPLIFY-NEXT: mpc-recognize-layer-norm,
// SIMPLIFY-NEXT: mpc-recognize-gelu,
// SIMPLIFY-NEXT: mpc-recognize-attention,
// SIMPLIFY-NEXT: mpc-fold-batch-norm,
// SIMPLIFY-NEXT: mpc-fold-constants{max-bytes=67108864 max-flops=1073741824},
// SIMPLIFY-NEXT: canonicalize{
// SIMPLIFY-NEXT: mpc-split-attention,
// SIMPLIFY-NEXT: cse,
// SIMPLIFY-NEXT: mpc-verify-stage{stage=simplify}
// SIMPLIFY-NEXT: )
// SIMPLIFY-NEXT: )

// PRECISION: builtin.module(
// PRECISION-NEXT: mpc-set-target{target=cpu:avx512},
// PRECISION-NEXT: mpc-assign-precision{cast-placement=mincut library-products=false part-of-model=false policy=float32 remarks=false  target=},
// PRECISION-NEXT: func.func(
// PRECISION-NEXT: cse,
// PRECISION-NEXT: mpc-multiply-float8{target=},
// PRECISION-NEXT: mpc-verify-stage{stage=precision}
// PRECISION-NEXT: )
// PRECISION-NEXT: )

// OPTIONS: mpc-assign-precision{cast-placement=mincut library-products=false part-of-model=false policy=mixed_bfloat16 remarks=false set={op:relu=float32,name:fc/Add=bfloat16} target=},

// EVALUATE: builtin.module(
// EVALUATE-NEXT: mpc-set-target{target=cpu:avx512},
// EVALUATE-NEXT: func.func(
// EVALUATE-NEXT: mpc-lift-parameters{constants=true momentum=1.000000e-01 seed=-1 statistics=true },
// EVALUATE-NEXT: mpc-insert-dropout{at={fc/Add=0.5}},
// EVALUATE-NEXT: mpc-verify-stage{stage=lift}
// EVALUATE-NEXT: ),
// EVALUATE-NEXT: mpc-set-target{target=cpu:avx512},
// EVALUATE-NEXT: func.func(
// EVALUATE-NEXT: mpc-attach-loss{bypass=true delta=5.000000e-01 ignore-index= label-smoothing=0.000000e+00 labels= loss=huber output=},
// EVALUATE-NEXT: canonicalize{
// EVALUATE-NEXT: cse,
// EVALUATE-NEXT: mpc-verify-stage{stage=differentiate}
// EVALUATE-NEXT: )
// EVALUATE-NEXT: )

// SCALE: builtin.module(
// SCALE-NEXT: mpc-set-target{target=cpu:avx512},
// SCALE-NEXT: mpc-scale-loss{accumulate=1 clip-norm=1.000000e+00 clip-value=0.000000e+00 loss-scale=torch,init=1024},
// SCALE-NEXT: func.func(
// SCALE-NEXT: canonicalize{
// SCALE-NEXT: cse,
// SCALE-NEXT: mpc-verify-stage{stage=loss-scale}
// SCALE-NEXT: )
// SCALE-NEXT: )

// PAD: builtin.module(
// PAD-NEXT: mpc-set-target{target=cuda:sm_80},
// PAD-NEXT: func.func(
// PAD-NEXT: mpc-split-recurrent{target=},
// PAD-NEXT: mpc-pad-contractions{target=},
// PAD-NEXT: cse,
// PAD-NEXT: mpc-verify-stage{stage=pad}
// PAD-NEXT: )
// PAD-NEXT: )

// Panels are a CPU layout: no constant is packed for another target.
// CUDA: mpc-assign-layout,
// CUDA: cse,
// CUDA-NEXT: mpc-fuse-gated-matmuls{block=8},
// CUDA-NEXT: mpc-compress-matrices{target=},
// CUDA-NEXT: mpc-compress-tables,
// CUDA-NEXT: cse,
// CUDA-NEXT: mpc-verify-stage{stage=layout}

// LAYOUT: builtin.module(
// LAYOUT-NEXT: mpc-set-target{target=cpu:{{avx512|avx2}}},
// LAYOUT-NEXT: func.func(
// LAYOUT-NEXT: mpc-decompose{{[{] ?}}max-steps=1024},
// LAYOUT-NEXT: mpc-fold-constants{max-bytes=67108864 max-flops=1073741824},
// LAYOUT-NEXT: canonicalize{
// LAYOUT-NEXT: cse,
// LAYOUT-NEXT: mpc-merge-contractions{parameters=false},
// LAYOUT-NEXT: mpc-assign-layout,
// LAYOUT-NEXT: mpc-fold-constants{max-bytes=67108864 max-flops=1073741824},
// LAYOUT-NEXT: canonicalize{
// LAYOUT-NEXT: cse,
// LAYOUT-NEXT: mpc-fuse-gated-matmuls{block={{8|16}}},
// LAYOUT-NEXT: mpc-pack-constants{bf16-depth={{[12]}} columns=[[COLUMNS]] f16-depth={{[12]}} int8-depth={{[24]}} other-int8-depth={{[24]}}},
// LAYOUT-NEXT: mpc-compress-panels{int8-depth={{[14]}} most-byte-rows=64 most-rows=8},
// LAYOUT-NEXT: mpc-compress-tables,
// LAYOUT-NEXT: cse,
// LAYOUT-NEXT: mpc-verify-stage{stage=layout}
// LAYOUT-NEXT: )
// LAYOUT-NEXT: )

// FUSE: builtin.module(
// FUSE-NEXT: mpc-set-target{target=cpu:avx512},
// FUSE-NEXT: func.func(
// FUSE-NEXT: mpc-prepare-fusion{target=},
// FUSE-NEXT: mpc-select-fusion-groups{report=false target=},
// FUSE-NEXT: mpc-fuse-horizontal{target=},
// FUSE-NEXT: mpc-outline-fusions,
// FUSE-NEXT: mpc-pack-operands{target=},
// FUSE-NEXT: cse,
// FUSE-NEXT: mpc-add-index-checks,
// FUSE-NEXT: mpc-verify-stage{stage=fuse}
// FUSE-NEXT: )
// FUSE-NEXT: )

// PLAN: mpc-verify-stage{stage=fuse}
// PLAN: ),
// PLAN-NEXT: mpc-set-target{target=cpu:avx2},
// PLAN-NEXT: mpc-plan{target=}
// PLAN-NEXT: )

func.func @main(%x: tensor<4x3xf32> {mpc.role = #mpc.role<input>, mpc.name = "x"})
    -> (tensor<4x3xf32> {mpc.role = #mpc.role<output>, mpc.name = "y"}) {
  %0 = mpc.add %x, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("fc/Add")
  %1 = mpc.relu %0 : tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
