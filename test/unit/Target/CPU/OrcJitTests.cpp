//===- OrcJitTests.cpp - machine code from LLVM dialect -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JIT/OptimizeKernels.h"
#include "JIT/OrcJit.h"
#include "mpc/Target/CPU/Codegen.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

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

// This process has the functions of libm, but generated code must not use
// them.
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

//===----------------------------------------------------------------------===//
// Passes over LLVM IR
//===----------------------------------------------------------------------===//

/// Number of frozen values in a loop nest whose inner loop adds rows of `%x`
/// to `sums` vectors.
static int64_t frozenIn(int64_t sums) {
  std::string phis, adds;
  for (int64_t i = 0; i < sums; ++i) {
    phis += llvm::formatv(
        "%s{0} = phi <4 x float> [zeroinitializer, %outer], [%t{0}, %inner]\n",
        i);
    adds += llvm::formatv("%p{0} = getelementptr i8, ptr %p, i64 {1}\n"
                          "%v{0} = load <4 x float>, ptr %p{0}, align 4\n"
                          "%t{0} = fadd <4 x float> %s{0}, %v{0}\n"
                          "%q{0} = getelementptr i8, ptr %line, i64 {1}\n",
                          i, 16 * i);
  }
  std::string stores;
  for (int64_t i = 0; i < sums; ++i)
    stores += llvm::formatv("store <4 x float> %t{0}, ptr %q{0}, align 4\n", i);
  std::string text = "define void @f(ptr %x, ptr noalias %y, i64 %n) {\n"
                     "entry:\nbr label %outer\nouter:\n"
                     "%i = phi i64 [0, %entry], [%i.next, %last]\n"
                     "%at = mul i64 %i, 4096\n"
                     "%base = getelementptr i8, ptr %x, i64 %at\n"
                     "%line = getelementptr i8, ptr %y, i64 %at\n"
                     "br label %inner\ninner:\n"
                     "%k = phi i64 [0, %outer], [%k.next, %inner]\n" +
                     phis +
                     "%far = mul i64 %k, 192\n"
                     "%p = getelementptr i8, ptr %base, i64 %far\n" +
                     adds +
                     "%k.next = add i64 %k, 1\n"
                     "%done = icmp eq i64 %k.next, 20\n"
                     "br i1 %done, label %last, label %inner\nlast:\n" +
                     stores +
                     "%i.next = add i64 %i, 1\n"
                     "%all = icmp eq i64 %i.next, %n\n"
                     "br i1 %all, label %exit, label %outer\nexit:\n"
                     "ret void\n}\n";
  llvm::InitializeNativeTarget();
  auto machine = llvm::cantFail(
      llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost())
          .createTargetMachine());
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  auto module = llvm::parseAssemblyString(text, error, context);
  if (!module)
    return -1;
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  optimizeKernels(*module, *machine);
  return llvm::count_if(
      llvm::instructions(*module->getFunction("f")),
      [](llvm::Instruction &i) { return llvm::isa<llvm::FreezeInst>(i); });
}

// The base address of a matmul loop is frozen, so that code generation holds it
// in one register and does not split it; loops with few accumulators are not.
TEST(OptimizeKernelsTest, BasesOfProductsAreFrozen) {
  EXPECT_EQ(frozenIn(8), 1);
  EXPECT_EQ(frozenIn(2), 0);
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
