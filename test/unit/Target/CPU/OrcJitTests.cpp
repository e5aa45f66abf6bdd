//===- OrcJitTests.cpp - machine code from LLVM dialect -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JIT/OrcJit.h"
#include "mpc/Target/CPU/Codegen.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;

namespace {
class OrcJitTest : public testing::Test {
protected:
  OrcJitTest() {
    DialectRegistry registry;
    registerCodegenDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    if (std::optional<TargetInfo> native = TargetInfo::native())
      if (auto created =
              OrcJit::create(*CpuTarget::of(*native), /*compileThreads=*/2))
        jit = std::move(*created);
  }

  std::string add(StringRef text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    return module ? llvm::toString(jit->add(*module)) : "does not parse";
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::unique_ptr<OrcJit> jit;
};
} // namespace

TEST_F(OrcJitTest, RunsFunctionsOfSeveralModules) {
  ASSERT_TRUE(jit);
  std::string text;
  for (int i = 0; i < 8; ++i) {
    std::string n = std::to_string(i);
    text +=
        "llvm.func internal @add" + n +
        "(%x: i64) -> i64 {\n%0 = llvm.mlir.constant(" + n +
        " : i64) : i64\n%1 = llvm.add %x, %0 : i64\nllvm.return %1 : i64 }\n" +
        "llvm.func @f" + n + "(%x: i64) -> i64 {\n%0 = llvm.call @add" + n +
        "(%x) : (i64) -> i64\nllvm.return %0 : i64 }\n";
  }
  ASSERT_EQ(add(text), "");
  EXPECT_FALSE(jit->objects().empty());
  for (int64_t i = 0; i < 8; ++i) {
    auto address = jit->lookup("f" + std::to_string(i));
    ASSERT_TRUE(static_cast<bool>(address))
        << llvm::toString(address.takeError());
    EXPECT_EQ(reinterpret_cast<int64_t (*)(int64_t)>(*address)(100), 100 + i);
  }
}

// A function of libm would be found in this process; generated code may not use
// it.
TEST_F(OrcJitTest, RefusesCallsOutsideOfTheAllowList) {
  ASSERT_TRUE(jit);
  std::string message =
      add("llvm.func @sinf(f32) -> f32\n"
          "llvm.func @f(%x: f32) -> f32 {\n"
          "%0 = llvm.call @sinf(%x) : (f32) -> f32\nllvm.return %0 : f32 }");
  EXPECT_NE(message.find("sinf"), std::string::npos) << message;
}

TEST_F(OrcJitTest, RefusesIntrinsicsThatBecomeCalls) {
  ASSERT_TRUE(jit);
  std::string message =
      add("llvm.func @f(%x: f32) -> f32 {\n"
          "%0 = llvm.intr.exp(%x) : (f32) -> f32\nllvm.return %0 : f32 }");
  EXPECT_NE(message.find("expf"), std::string::npos) << message;
}

TEST_F(OrcJitTest, UnknownNameIsAnError) {
  ASSERT_TRUE(jit);
  auto address = jit->lookup("nowhere");
  EXPECT_FALSE(static_cast<bool>(address));
  EXPECT_NE(llvm::toString(address.takeError()).find("nowhere"),
            std::string::npos);
}

TEST(CpuTargetTest, LevelsWithCodeAreCpuTargets) {
  for (CpuIsa isa : {CpuIsa::Avx2, CpuIsa::AvxVnni, CpuIsa::Avx512,
                     CpuIsa::Avx512Vnni, CpuIsa::Avx512Bf16, CpuIsa::Amx}) {
    CpuTarget level = {isa};
    std::optional<TargetInfo> info =
        TargetInfo::parse("cpu:" + level.name().str());
    ASSERT_TRUE(info);
    ASSERT_TRUE(CpuTarget::of(*info));
    EXPECT_EQ(CpuTarget::of(*info)->isa, isa);
    EXPECT_EQ(info->facts().lanes, level.lanes());
    EXPECT_EQ(info->facts().registers, level.registers());
    EXPECT_EQ(info->kernels().panelColumns, level.blockColumns());
  }
  EXPECT_FALSE(CpuTarget::of(*TargetInfo::parse("cuda:sm_80")));
}
