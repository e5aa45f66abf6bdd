//===- SassListingTests.cpp - machine code as nvdisasm prints it ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/Sass/SassListing.h"

#include "gtest/gtest.h"

using namespace mpc;
using namespace mpc::cuda;

/// Excerpt of a GEMM for sm_90a as nvdisasm 13.0 prints it; most instructions
/// of each section are omitted.
static constexpr const char *kListing = R"(
	.target	sm_90a

//--------------------- .text.k_dense           --------------------------
	.section	.text.k_dense,"ax",@progbits
	.align	128
        .global         k_dense
        .type           k_dense,@function
        .size           k_dense,(.L_x_431 - k_dense)
k_dense:
.text.k_dense:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*11f0*/                   LDGSTS.E.BYPASS.128 [R85+0x2400], desc[UR6][R38.64] ;
        /*1220*/                   LDGDEPBAR ;
.L_x_106:
        /*1260*/                   VIADD R4, R103.reuse, 0xfffffffd ;
        /*1270*/                   ISETP.GT.U32.AND P0, PT, R103, 0x5f, PT ;
        /*1330*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*1340*/               @P0 BRA `(.L_x_105) ;
        /*1350*/                   LOP3.LUT R6, R103, 0x3, RZ, 0xc0, !PT ;
        /*1400*/              @!PT LDS RZ, [RZ] ;
        /*1550*/                   LDGSTS.E.BYPASS.128 [R25], desc[UR6][R6.64] ;
.L_x_105:
        /*1580*/                   LDSM.16.M88.4 R80, [R80] ;
        /*15c0*/                   LDSM.16.MT88.4 R12, [R14] ;
        /*1670*/                   LDGDEPBAR ;
        /*19e0*/                   HMMA.16816.F32.BF16 R44, R88.reuse, R14, R44 ;
        /*19f0*/                   HMMA.16816.F32.BF16 R48, R88.reuse, R24, R48 ;
        /*1a40*/                   HMMA.16816.F32.BF16 R28, R4, R26, R28 ;
        /*1a60*/               @P0 BRA `(.L_x_106) ;
        /*1a80*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_107:
        /*24a0*/                   LDS.128 R20, [R4] ;
        /*25a0*/                   IMAD.U32 R5, R5, 0x10000, RZ ;
        /*2500*/                   FADD R17, R18, R6 ;
        /*2520*/                   MUFU.EX2 R17, R17 ;
        /*2530*/               @P1 BRA `(.L_x_109) ;
        /*2540*/                   LDG.E.64.CONSTANT R2, desc[UR6][R2.64] ;
        /*2550*/                   BRA `(.L_x_110) ;
.L_x_109:
        /*2560*/                   LDG.E.64.CONSTANT R2, desc[UR6][R4.64] ;
.L_x_110:
        /*2630*/                   STG.E.128 desc[UR6][R2.64], R20 ;
        /*2640*/                   STG.E.U16 desc[UR6][R2.64+0x10], R8 ;
        /*2650*/              @!P0 BRA `(.L_x_107) ;
.L_x_416:
        /*2660*/                   EXIT ;
.L_x_108:
        /*2670*/                   BRA `(.L_x_108);
        /*2680*/                   NOP;
.L_x_431:

//--------------------- .nv.shared.k_dense      --------------------------
	.section	.nv.shared.k_dense,"aw",@nobits
	.sectionflags	@""

//--------------------- .text.k_nested          --------------------------
	.section	.text.k_nested,"ax",@progbits
k_nested:
.text.k_nested:
.L_x_1:
        /*0010*/                   MOV R2, R3 ;
.L_x_2:
        /*0020*/                   FFMA R4, R5, R6, R4 ;
        /*0030*/               @P0 BRA `(.L_x_2) ;
        /*0040*/                   STL [R1], R4 ;
        /*0050*/               @P1 BRA `(.L_x_1) ;
        /*0060*/                   CALL.REL.NOINC `($__internal_0_$__cuda_sm20_rcp_rn_f32_slowpath) ;
        /*0070*/                   EXIT ;
        .size           $__internal_0_$__cuda_sm20_rcp_rn_f32_slowpath,(.L_x_4 - $__internal_0)
        /*0080*/                   FFMA R4, R5, R6, R4 ;
        /*0090*/                   RET.REL.NODEC R2 `(k_nested) ;
)";

TEST(SassListing, FindsKernelsAndTheirLoops) {
  std::vector<SassKernel> kernels = SassKernel::parse(kListing);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "k_dense");
  ASSERT_EQ(kernels[0].loops.size(), 2u);
  EXPECT_EQ(kernels[0].loops[0].parent, -1);
  EXPECT_EQ(kernels[0].loops[1].parent, -1);
  EXPECT_EQ(kernels[0].mainLoop(), 0);
  EXPECT_EQ(kernels[0].instructions.back().opcode, "EXIT");
}

TEST(SassListing, CountsTheMainLoopByUnit) {
  SassKernel kernel = SassKernel::parse(kListing)[0];
  SassMix mix = kernel.mixOf(kernel.mainLoop());
  EXPECT_EQ(mix[SassUnit::Tensor], 3);
  EXPECT_EQ(mix[SassUnit::Shared], 2);
  EXPECT_EQ(mix[SassUnit::Global], 1);
  EXPECT_EQ(mix[SassUnit::Integer], 3);
  // Barrier, two branches, LDGDEPBAR.
  EXPECT_EQ(mix[SassUnit::Control], 4);
  EXPECT_EQ(mix.instructions(), 13);
  EXPECT_EQ(mix.barriers, 1);
  EXPECT_EQ(mix.flops, 3 * 2 * 16 * 8 * 16);
}

TEST(SassListing, CountsBytesOfWarps) {
  SassKernel kernel = SassKernel::parse(kListing)[0];
  // Two ldmatrix of four matrices, and 16 bytes per lane by LDGSTS.
  SassMix main = kernel.mixOf(0);
  EXPECT_EQ(main.sharedBytes, 3 * 512);
  EXPECT_EQ(main.loadedBytes, 512);
  SassMix last = kernel.mixOf(1);
  EXPECT_EQ(last.sharedBytes, 512);
  EXPECT_EQ(last.storedBytes, 512 + 64);
  EXPECT_EQ(last[SassUnit::Special], 1);
}

TEST(SassListing, LanesTakeOneSideOfABranch) {
  SassKernel kernel = SassKernel::parse(kListing)[0];
  // Two loads of 8 bytes per lane, each by half of the lanes.
  EXPECT_EQ(kernel.mixOf(1).loadedBytes, 256);
  EXPECT_EQ(kernel.mixOf(1)[SassUnit::Global], 4);
}

TEST(SassListing, NestsLoopsAndLeavesSubroutinesOut) {
  SassKernel kernel = SassKernel::parse(kListing)[1];
  ASSERT_EQ(kernel.loops.size(), 2u);
  EXPECT_EQ(kernel.loops[1].parent, 0);
  EXPECT_EQ(kernel.mixOf(0)[SassUnit::Local], 1);
  EXPECT_EQ(kernel.mixOf(0)[SassUnit::Float], 0);
  EXPECT_EQ(kernel.mixOf(1)[SassUnit::Float], 1);
  EXPECT_EQ(kernel.mainLoop(), 1);
  EXPECT_EQ(kernel.mixOf(-1).instructions(), 2);
}
