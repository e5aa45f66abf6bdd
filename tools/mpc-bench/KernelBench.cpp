//===- KernelBench.cpp - Speed of single contraction kernels --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: mpc-kernel-bench [LEVEL] [filter | MxKxN | FILE.mlir] [object file]
// LEVEL is avx2, avxvnni, avx512, avx512vnni, avx512bf16, amx or amxfp16.
// Prints GFLOP/s of one thread and the peak rate of the unit for its operand
// types, measured in the same run. FILE holds a plan (mpc dump --after plan):
// each of its kernels is timed.
//
//===----------------------------------------------------------------------===//

#include "JIT/OrcJit.h"
#include "Target/CPU/KernelEmitters.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Runtime/Buffer.h"
#include "mpc/Support/PeakBenchmarks.h"
#include "mpc/Target/CPU/Codegen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

namespace {
struct Case {
  std::string name, text;
  double flops;
};

using Kernel = void (*)(void *const *, int64_t, int64_t, void *);

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// CPU time of this process.
double cpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

/// Best and median time of one call.
template <typename Body> std::pair<double, double> measure(Body body) {
  body();
  std::vector<double> times;
  double begin = seconds();
  while (times.size() < 7 || seconds() - begin < 0.25) {
    double start = seconds();
    body();
    times.push_back(seconds() - start);
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

/// Operand and accumulator types.
struct Types {
  StringRef lhs, rhs, sum;
  bool isFloat() const { return sum == "f32"; }
  std::string name() const {
    return lhs == rhs ? lhs.str() : (lhs + " by " + rhs).str();
  }
};

constexpr Types kFloats[] = {
    {"f32", "f32", "f32"}, {"bf16", "bf16", "f32"}, {"f16", "f16", "f32"}};
constexpr Types kAll[] = {kFloats[0],
                          kFloats[1],
                          kFloats[2],
                          {"ui8", "i8", "i32"},
                          {"i8", "i8", "i32"}};

/// Padded depth of a packed constant right operand, as in the layout stage.
int64_t depthOf(const Types &types, const CpuTarget &target) {
  TargetInfo info = target.info();
  if (!types.isFloat()) {
    const MathUnit *unit = info.unit(MathType::Int8);
    bool isFor = unit && (types.lhs == "ui8" || unit->tiles.count);
    return isFor ? unit->depth : 2;
  }
  const MathUnit *unit = types.rhs == "bf16"  ? info.unit(MathType::BFloat16)
                         : types.rhs == "f16" ? info.unit(MathType::Float16)
                                              : nullptr;
  return unit ? unit->depth : 1;
}
std::string layoutOf(const Types &types, const CpuTarget &target) {
  if (int64_t depth = depthOf(types, target); depth > 1)
    return llvm::formatv("depth = {0}", depth);
  return llvm::formatv("interleave = {0}", types.rhs == "f32" ? 1 : 2);
}

std::string matmul(int64_t m, int64_t k, int64_t n, const Types &types,
                   const CpuTarget &target, StringRef epilogue,
                   StringRef resultType) {
  int64_t columns = target.blockColumns(), panels = (n + columns - 1) / columns;
  return llvm::formatv(R"(
func.func private @k(%x: tensor<{0}x{1}x{3}>, %w: tensor<{4}x{9}x{10}x{11}>, %b: tensor<{2}xf32>)
    -> tensor<{0}x{2}x{8}> attributes {{mpc.kernel_kind = "contraction"} {{
  %0 = mpc.matmul %x, %w packed <columns = {5}, {6}>
    : (tensor<{0}x{1}x{3}>, tensor<{4}x{9}x{10}x{11}>) -> tensor<{0}x{2}x{12}>
{7}
}
)",
                       m, k, n, types.lhs, panels, columns,
                       layoutOf(types, target), epilogue, resultType,
                       llvm::divideCeil(k, depthOf(types, target)),
                       columns * depthOf(types, target), types.rhs, types.sum)
      .str();
}

/// The same with the sums as results.
std::string plainSums(int64_t m, int64_t k, int64_t n, const Types &types,
                      const CpuTarget &target) {
  std::string end =
      llvm::formatv("  return %0 : tensor<{0}x{1}x{2}>", m, n, types.sum);
  return matmul(m, k, n, types, target, end, types.sum);
}

std::string batchedMatmul(int64_t batch, int64_t m, int64_t k, int64_t n,
                          bool transposed, StringRef type) {
  std::string rhs = transposed
                        ? llvm::formatv("{0}x{1}x{2}", batch, n, k).str()
                        : llvm::formatv("{0}x{1}x{2}", batch, k, n).str();
  return llvm::formatv(R"(
func.func private @k(%x: tensor<{0}x{1}x{2}x{5}>, %w: tensor<{4}x{5}>) -> tensor<{0}x{1}x{3}xf32>
    attributes {{mpc.kernel_kind = "contraction"} {{
  %0 = mpc.matmul %x, %w {6} : (tensor<{0}x{1}x{2}x{5}>, tensor<{4}x{5}>) -> tensor<{0}x{1}x{3}xf32>
  return %0 : tensor<{0}x{1}x{3}xf32>
}
)",
                       batch, m, k, n, rhs, type,
                       transposed ? "transpose_rhs" : "")
      .str();
}

/// A product with unpacked operands. `order` is the BLAS layout: "nn", "nt"
/// (right operand transposed), "tn".
std::string plainMatmul(int64_t m, int64_t k, int64_t n, StringRef type,
                        StringRef order) {
  bool left = order[0] == 't', right = order[1] == 't';
  return llvm::formatv(R"(
func.func private @k(%x: tensor<{0}x{1}x{4}>, %w: tensor<{2}x{3}x{4}>) -> tensor<{5}x{6}xf32>
    attributes {{mpc.kernel_kind = "contraction"} {{
  %0 = mpc.matmul %x, %w {7} {8} : (tensor<{0}x{1}x{4}>, tensor<{2}x{3}x{4}>) -> tensor<{5}x{6}xf32>
  return %0 : tensor<{5}x{6}xf32>
}
)",
                       left ? k : m, left ? m : k, right ? n : k, right ? k : n,
                       type, m, n, left ? "transpose_lhs" : "",
                       right ? "transpose_rhs" : "")
      .str();
}

/// A convolution, or its filter gradient, with unpacked operands.
std::string plainConv(int64_t n, int64_t size, int64_t c, int64_t o,
                      int64_t window, int64_t pad, StringRef type,
                      bool gradient) {
  int64_t out = size + 2 * pad - window + 1;
  std::string image = llvm::formatv("tensor<{0}x{1}x{1}x{2}x{3}>", n, size, c,
                                    type),
              filter = llvm::formatv("tensor<{0}x{1}x{2}x{2}x", o, c, window),
              result = llvm::formatv("tensor<{0}x{1}x{1}x{2}x", n, out, o);
  std::string second = (gradient ? result : filter) + type.str() + ">";
  result = (gradient ? filter : result) + "f32>";
  return llvm::formatv(R"(
func.func private @k(%x: {0}, %w: {1}) -> {2} attributes {{mpc.kernel_kind = "convolution"} {{
  %0 = mpc.{3} %x, %w strides([1, 1]) pad([{4}, {4}], [{4}, {4}]) dilations([1, 1]) layout(channels_last)
    : ({0}, {1}) -> {2}
  return %0 : {2}
}
)",
                       image, second, result,
                       gradient ? "conv_filter_gradient" : "conv", pad)
      .str();
}

std::string conv(int64_t n, int64_t size, int64_t c, int64_t o, int64_t window,
                 int64_t stride, int64_t pad, const Types &types,
                 const CpuTarget &target) {
  int64_t columns = target.blockColumns(), panels = (o + columns - 1) / columns;
  int64_t out = (size + 2 * pad - window) / stride + 1;
  return llvm::formatv(R"(
func.func private @k(%x: tensor<{0}x{1}x{1}x{2}x{9}>, %w: tensor<{4}x{5}x{13}x{14}>, %b: tensor<{3}x{15}>)
    -> tensor<{0}x{7}x{7}x{3}x{15}> attributes {{mpc.kernel_kind = "convolution"} {{
  %0 = mpc.conv %x, %w strides([{10}, {10}]) pad([{11}, {11}], [{11}, {11}]) dilations([1, 1])
    layout(channels_last) window([{8}, {8}]) packed <columns = {6}, {12}>
    : (tensor<{0}x{1}x{1}x{2}x{9}>, tensor<{4}x{5}x{13}x{14}>) -> tensor<{0}x{7}x{7}x{3}x{15}>
  %1 = mpc.add %0, %b : (tensor<{0}x{7}x{7}x{3}x{15}>, tensor<{3}x{15}>) -> tensor<{0}x{7}x{7}x{3}x{15}>
  %2 = mpc.relu %1 : tensor<{0}x{7}x{7}x{3}x{15}>
  return %2 : tensor<{0}x{7}x{7}x{3}x{15}>
}
)",
                       n, size, c, o, panels,
                       window *
                           llvm::divideCeil(window * c, depthOf(types, target)),
                       columns, out, window, types.lhs, stride, pad,
                       layoutOf(types, target),
                       columns * depthOf(types, target), types.rhs, types.sum)
      .str();
}

std::string depthwise(int64_t size, int64_t c, int64_t window, int64_t pad) {
  return llvm::formatv(R"(
func.func private @k(%x: tensor<1x{0}x{0}x{1}xf32>, %w: tensor<{1}x1x{2}x{2}xf32>)
    -> tensor<1x{0}x{0}x{1}xf32> attributes {{mpc.kernel_kind = "convolution"} {{
  %0 = mpc.conv %x, %w strides([1, 1]) pad([{3}, {3}], [{3}, {3}]) dilations([1, 1]) groups({1})
    layout(channels_last)
    : (tensor<1x{0}x{0}x{1}xf32>, tensor<{1}x1x{2}x{2}xf32>) -> tensor<1x{0}x{0}x{1}xf32>
  return %0 : tensor<1x{0}x{0}x{1}xf32>
}
)",
                       size, c, window, pad)
      .str();
}

std::string attention(int64_t heads, int64_t s, int64_t d, StringRef type) {
  return llvm::formatv(R"(
func.func private @k(%q: tensor<{0}x{1}x{2}x{3}>, %k: tensor<{0}x{1}x{2}x{3}>, %v: tensor<{0}x{1}x{2}x{3}>)
    -> tensor<{0}x{1}x{2}xf32> attributes {{mpc.kernel_kind = "attention"} {{
  %0 = mpc.attention %q, %k, %v scale(1.250000e-01)
    : (tensor<{0}x{1}x{2}x{3}>, tensor<{0}x{1}x{2}x{3}>, tensor<{0}x{1}x{2}x{3}>) -> tensor<{0}x{1}x{2}xf32>
  return %0 : tensor<{0}x{1}x{2}xf32>
}
)",
                       heads, s, d, type)
      .str();
}

std::vector<Case> cases(const CpuTarget &target, StringRef filter) {
  std::vector<Case> list;
  int64_t givenM, givenK, givenN;
  auto [m, rest] = filter.split('x');
  auto [k, n] = rest.split('x');
  if (!m.getAsInteger(10, givenM) && !k.getAsInteger(10, givenK) &&
      !n.getAsInteger(10, givenN))
    for (const Types &types : kAll)
      list.push_back({"matmul " + filter.str() + " " + types.name(),
                      plainSums(givenM, givenK, givenN, types, target),
                      2.0 * givenM * givenK * givenN});
  if (!list.empty())
    return list;
  int64_t sizes[][3] = {{32, 784, 512},   {128, 128, 512},   {512, 768, 768},
                        {512, 768, 3072}, {1, 768, 768},     {4, 768, 768},
                        {128, 512, 10},   {1024, 1024, 1024}};
  for (auto [m, k, n] : sizes) {
    double flops = 2.0 * m * k * n;
    std::string size = llvm::formatv("{0}x{1}x{2}", m, k, n);
    for (const Types &types : kAll)
      list.push_back({"matmul " + size + " " + types.name(),
                      plainSums(m, k, n, types, target), flops});
    std::string gelu = llvm::formatv(
        "  %1 = mpc.add %0, %b : (tensor<{0}x{1}xf32>, tensor<{1}xf32>) -> "
        "tensor<{0}x{1}xf32>\n  %2 = mpc.gelu %1 : tensor<{0}x{1}xf32>\n"
        "  %3 = mpc.cast %2 : tensor<{0}x{1}xf32> to tensor<{0}x{1}xbf16>\n"
        "  return %3 : tensor<{0}x{1}xbf16>",
        m, n);
    list.push_back({"matmul+bias+gelu " + size + " bf16",
                    matmul(m, k, n, kFloats[1], target, gelu, "bf16"), flops});
  }
  for (StringRef type : {"f32", "bf16"})
    for (bool transposed : {false, true})
      list.push_back({llvm::formatv("batched 12x128x64x128 {0}{1}", type,
                                    transposed ? " nt" : ""),
                      batchedMatmul(12, 128, 64, 128, transposed, type),
                      2.0 * 12 * 128 * 64 * 128});
  struct {
    int64_t n, size, c, o, window, stride, pad;
  } convs[] = {{1, 56, 64, 64, 3, 1, 1},   {1, 28, 128, 128, 3, 1, 1},
               {1, 14, 256, 256, 3, 1, 1}, {1, 7, 512, 512, 3, 1, 1},
               {1, 224, 3, 64, 7, 2, 3},   {1, 56, 64, 256, 1, 1, 0},
               {1, 56, 256, 512, 1, 2, 0}, {32, 28, 1, 8, 3, 1, 1},
               {32, 14, 8, 16, 3, 1, 1}};
  for (auto c : convs)
    for (const Types &types : kAll) {
      int64_t out = (c.size + 2 * c.pad - c.window) / c.stride + 1;
      list.push_back(
          {llvm::formatv("conv {0}x{1}x{1}x{2} o{3} {4}x{4} s{5} {6}", c.n,
                         c.size, c.c, c.o, c.window, c.stride, types.name()),
           conv(c.n, c.size, c.c, c.o, c.window, c.stride, c.pad, types,
                target),
           2.0 * c.n * out * out * c.o * c.c * c.window * c.window});
    }
  // Training: forward, gradient of the rows, gradient of the weights.
  int64_t products[][3] = {{1024, 784, 1024},
                           {1024, 1024, 1024},
                           {784, 2048, 1024},
                           {256, 9216, 128},
                           {9216, 256, 128}};
  for (auto [m, k, n] : products)
    for (StringRef order : {"nn", "nt", "tn"})
      for (StringRef type : {"f32", "bf16", "f16"})
        list.push_back(
            {llvm::formatv("product {0} {1}x{2}x{3} {4}", order, m, k, n, type),
             plainMatmul(m, k, n, type, order), 2.0 * m * k * n});
  struct {
    int64_t n, size, c, o, window, pad;
  } trained[] = {{16, 28, 1, 32, 3, 0},
                 {16, 26, 32, 64, 3, 0},
                 {2, 56, 64, 64, 3, 1},
                 {2, 7, 512, 512, 3, 1}};
  for (auto c : trained)
    for (bool gradient : {false, true})
      for (StringRef type : {"f32", "bf16", "f16"}) {
        int64_t out = c.size + 2 * c.pad - c.window + 1;
        list.push_back(
            {llvm::formatv("{0} {1}x{2}x{2}x{3} o{4} {5}x{5} {6}",
                           gradient ? "filter gradient" : "trained conv", c.n,
                           c.size, c.c, c.o, c.window, type),
             plainConv(c.n, c.size, c.c, c.o, c.window, c.pad, type, gradient),
             2.0 * c.n * out * out * c.o * c.c * c.window * c.window});
      }
  list.push_back({"depthwise 56x56x128 3x3", depthwise(56, 128, 3, 1),
                  2.0 * 56 * 56 * 128 * 9});
  for (StringRef type : {"f32", "bf16"}) {
    list.push_back({"attention 12x128x64 " + type.str(),
                    attention(12, 128, 64, type), 4.0 * 12 * 128 * 128 * 64});
    list.push_back({"attention 2x128x64 " + type.str(),
                    attention(2, 128, 64, type), 4.0 * 2 * 128 * 128 * 64});
  }
  return list;
}

/// The kernels of a plan.
std::vector<Case> kernelsOf(StringRef path) {
  DialectRegistry registry;
  registerCodegenDialects(registry);
  registry.insert<exe::ExeDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
  std::vector<Case> list;
  if (!module)
    return list;
  for (auto kernel : module->getOps<func::FuncOp>()) {
    if (!kernel->hasAttr(MpcDialect::kKernelKindAttr))
      continue;
    Case found{kernel.getName().str(), "", 0};
    kernel.walk([&](CostOpInterface op) {
      found.flops += static_cast<double>(op.getFlops());
    });
    kernel.setName("k");
    llvm::raw_string_ostream stream(found.text);
    kernel.print(stream);
    list.push_back(found);
  }
  return list;
}

/// The operand types of the contraction of `kernel`.
UnitFactors factorsOf(func::FuncOp kernel) {
  UnitFactors factors = UnitFactors::Float32;
  kernel.walk([&](ContractionOpInterface op) {
    Type lhs = getElementTypeOrSelf(op->getOperand(0).getType()),
         rhs = getElementTypeOrSelf(op->getOperand(1).getType());
    if (lhs.isBF16())
      factors = UnitFactors::BFloat16;
    else if (lhs.isUnsignedInteger(8) && !rhs.isUnsignedInteger(8))
      factors = UnitFactors::MixedBytes;
    else if (isa<IntegerType>(lhs))
      factors = UnitFactors::OtherBytes;
  });
  return factors;
}

/// Normally distributed elements in the type's format, uniform bytes; other
/// integers are 0. The second operand is scaled as weights are.
std::shared_ptr<void> draw(RankedTensorType type, unsigned index) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0.0f, index == 1 ? 0.05f : 1.0f);
  Type element = type.getElementType();
  int64_t count = type.getNumElements(),
          width = (element.getIntOrFloatBitWidth() + 7) / 8;
  std::shared_ptr<void> memory = allocateAligned(count * width);
  auto *bytes = static_cast<char *>(memory.get());
  std::memset(bytes, 0, count * width);
  if (element.isInteger(8))
    for (int64_t i = 0; i < count; ++i)
      bytes[i] = static_cast<char>(engine());
  if (!isa<FloatType>(element))
    return memory;
  for (int64_t i = 0; i < count; ++i) {
    llvm::APFloat value(normal(engine));
    bool lost;
    value.convert(cast<FloatType>(element).getFloatSemantics(),
                  llvm::APFloat::rmNearestTiesToEven, &lost);
    uint64_t bits = value.bitcastToAPInt().getZExtValue();
    std::memcpy(bytes + i * width, &bits, width);
  }
  return memory;
}

} // namespace

int main(int argc, char **argv) {
  std::optional<TargetInfo> info =
      argc > 1 ? TargetInfo::parse(std::string("cpu:") + argv[1])
               : TargetInfo::native();
  std::optional<CpuTarget> target = info ? CpuTarget::of(*info) : std::nullopt;
  if (!target) {
    std::fprintf(stderr,
                 "usage: mpc-kernel-bench [avx2|avxvnni|avx512|avx512vnni|"
                 "avx512bf16|amx|amxfp16] [filter]\n");
    return 2;
  }
  StringRef filter = argc > 2 ? argv[2] : "";
  bool isFile = filter.ends_with(".mlir");
  for (const Case &test : isFile ? kernelsOf(filter) : cases(*target, filter)) {
    if (!isFile && !StringRef(test.name).contains(filter))
      continue;
    DialectRegistry registry;
    registerCodegenDialects(registry);
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(test.text, &context);
    if (!module)
      return 1;
    auto kernel = *module->getOps<func::FuncOp>().begin();
    UnitFactors factors = factorsOf(kernel);
    std::vector<std::shared_ptr<void>> memory;
    std::vector<void *> buffers;
    SmallVector<Type> types(kernel.getArgumentTypes());
    llvm::append_range(types, kernel.getResultTypes());
    for (auto [index, type] : llvm::enumerate(types))
      memory.push_back(draw(cast<RankedTensorType>(type), index));
    llvm::append_range(buffers, llvm::map_range(memory, [](const auto &bytes) {
                         return bytes.get();
                       }));

    double start = cpuSeconds();
    FailureOr<SmallVector<KernelInfo>> infos = lowerKernels(*module, *target);
    if (failed(infos))
      return 1;
    double lowered = cpuSeconds();
    auto jit = OrcJit::create(*target, 1);
    llvm::Error error = jit ? (*jit)->add(*module) : jit.takeError();
    if (error) {
      std::fprintf(stderr, "%s\n", llvm::toString(std::move(error)).c_str());
      return 1;
    }
    double compiled = cpuSeconds();
    auto function =
        reinterpret_cast<Kernel>(llvm::cantFail((*jit)->lookup("k")));
    if (const char *path = argc > 3 ? argv[3] : nullptr) {
      FILE *file = std::fopen(path, "wb");
      for (const auto &object : (*jit)->objects())
        std::fwrite(object->getBufferStart(), 1, object->getBufferSize(), file);
      std::fclose(file);
    }
    const KernelInfo &info = infos->front();
    std::shared_ptr<void> scratch =
        allocateAligned(llvm::alignTo(info.scratchBytes, 2 << 20));
    std::shared_ptr<void> shared =
        allocateAligned(std::max<int64_t>(info.sharedBytes, 1));
    buffers.push_back(shared.get());
    // The peak rate varies with the machine's load.
    double ceiling = measureUnitPeak(peakBenchmarkOf(target->name(), factors));
    auto [best, median] = measure(
        [&] { function(buffers.data(), 0, info.items, scratch.get()); });
    std::printf("%-44s %7.1f GFLOP/s (%3.0f %% of %3.0f, median %7.1f) %9.1f "
                "us  items %5ld grain %3ld  scratch %7ld  "
                "lower %3.0f ms, compile %3.0f ms\n",
                test.name.c_str(), test.flops / best * 1e-9,
                100 * test.flops / best / ceiling, ceiling * 1e-9,
                test.flops / median * 1e-9, best * 1e6, info.items, info.grain,
                info.scratchBytes, 1e3 * (lowered - start),
                1e3 * (compiled - lowered));
    std::fflush(stdout);
  }
  return 0;
}
