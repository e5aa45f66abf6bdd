//===- main.cpp - Compares the two preludes bit for bit -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the kernels of the prelude's tests on the host and on the first GPU and
// compares their outputs bit for bit. Exit status: 0 equal, 1 different or
// failed, 77 without a GPU.
//
//===----------------------------------------------------------------------===//

#include "Gpu.h"
#include "TestKernels.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>

using namespace mpc;

namespace {
/// Compares kernels and counts mismatches.
class Check {
public:
  explicit Check(Gpu &gpu) : gpu(gpu) {}

  /// Compiles the text for host and GPU.
  bool compile(const std::string &text, std::vector<std::string> kernels) {
    HostKernelOptions options;
    options.checks = false;
    auto compiled = HostModule::compile(text, kernels, options);
    Status status = compiled.ok() ? gpu.load(text) : compiled.status();
    if (!status.ok())
      return complain(kernels.front(), status.toString());
    module = std::make_unique<HostModule>(std::move(*compiled));
    return true;
  }

  /// Runs a kernel on both. Elements [skip, skipEnd) of the last array may
  /// differ.
  void run(const std::string &kernel, const HostLaunch &launch,
           std::vector<HostArgument> arguments, size_t skip = 0,
           size_t skipEnd = 0) {
    std::vector<std::vector<char>> copies;
    std::vector<HostArgument> onGpu = arguments;
    for (HostArgument &argument : onGpu) {
      if (argument.kind == HostArgument::Kind::Scalar)
        continue;
      auto *data = static_cast<char *>(argument.data);
      copies.emplace_back(data, data + argument.bytes);
      argument.data = copies.back().data();
    }
    HostLaunch onHost = launch;
    onHost.capability = capability();
    Status status = module->launch(kernel, onHost, arguments);
    if (status.ok())
      status = gpu.launch(kernel, launch, onGpu);
    if (!status.ok()) {
      complain(kernel, status.toString());
      return;
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      const HostArgument &argument = arguments[i];
      if (argument.kind == HostArgument::Kind::Scalar)
        continue;
      bool last = i + 1 == arguments.size() ||
                  arguments[i + 1].kind == HostArgument::Kind::Scalar;
      compare(kernel, argument, static_cast<char *>(onGpu[i].data),
              last ? skip : 0, last ? skipEnd : 0);
    }
  }

  /// Compute capability of the GPU, such as 90.
  int capability() const { return std::atoi(gpu.architecture().c_str() + 3); }

  int result() const {
    std::printf("%zu elements equal, %d arrays differ or failed\n", equal,
                failures);
    return failures ? 1 : 0;
  }

  /// Whether all NaNs compare equal, for results of float operations.
  bool nansAreAlike = false;

private:
  static bool isNan(const char *data) {
    float value;
    std::memcpy(&value, data, sizeof(value));
    return value != value;
  }

  bool complain(const std::string &kernel, const std::string &text) {
    std::printf("%s: %s\n", kernel.c_str(), text.c_str());
    ++failures;
    return false;
  }

  void compare(const std::string &kernel, const HostArgument &argument,
               const char *gpuData, size_t skip, size_t skipEnd) {
    auto *hostData = static_cast<char *>(argument.data);
    size_t different = 0, first = 0, size = argument.elementBytes;
    for (size_t i = 0; i < argument.bytes / size; ++i) {
      if (i >= skip && i < skipEnd)
        continue;
      const char *host = hostData + i * size, *onGpu = gpuData + i * size;
      if (std::memcmp(host, onGpu, size) == 0 ||
          (nansAreAlike && isNan(host) && isNan(onGpu))) {
        ++equal;
        continue;
      }
      if (different++ == 0)
        first = i;
    }
    if (!different)
      return;
    uint64_t onHost = 0, onGpu = 0;
    std::memcpy(&onHost, hostData + first * size, size);
    std::memcpy(&onGpu, gpuData + first * size, size);
    char text[160];
    std::snprintf(text, sizeof(text),
                  "%zu elements of '%s' differ, the first at %zu: host 0x%llx, "
                  "GPU 0x%llx",
                  different, argument.name.c_str(), first,
                  static_cast<unsigned long long>(onHost),
                  static_cast<unsigned long long>(onGpu));
    complain(kernel, text);
  }

  Gpu &gpu;
  std::unique_ptr<HostModule> module;
  size_t equal = 0;
  int failures = 0;
};
} // namespace

static HostLaunch grid(int blocks, int threads) {
  HostLaunch launch;
  launch.grid[0] = blocks;
  launch.block[0] = threads;
  return launch;
}

/// Floats of all magnitudes, special values first.
static std::vector<float> floats(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values = {0.f,      -0.f,    1e-40f,  -1e-45f, 3e38f,
                               INFINITY, 65519.f, 65520.f, 88.7f,   -103.9f};
  while (values.size() < count) {
    uint32_t bits = random();
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    values.push_back(value == value ? value : 1.0f);
    values.push_back(normal(random) * 8);
  }
  values.resize(count);
  return values;
}

static void checkConversions(Check &check) {
  if (!check.compile(kConversions, {"widen", "narrow"}))
    return;
  std::vector<uint16_t> patterns(65536);
  for (int i = 0; i < 65536; ++i)
    patterns[i] = static_cast<uint16_t>(i);
  std::vector<float> fromHalf(65536), fromBfloat16(65536);
  check.run("widen", grid(256, 256),
            {HostArgument::input("h", patterns),
             HostArgument::input("b", patterns),
             HostArgument::output("fromHalf", fromHalf),
             HostArgument::output("fromBfloat16", fromBfloat16)});
  std::vector<float> x = floats(1 << 20);
  int n = static_cast<int>(x.size());
  std::vector<uint16_t> h(n), b(n);
  std::vector<uint32_t> t(n);
  check.run("narrow", grid(n / 256, 256),
            {HostArgument::input("x", x), HostArgument::output("h", h),
             HostArgument::output("b", b), HostArgument::output("t", t),
             HostArgument::scalar(n)});
}

static void checkMath(Check &check) {
  if (!check.compile(kMath, {"math", "special", "extremes"}))
    return;
  std::vector<float> x = floats(1 << 16);
  int n = static_cast<int>(x.size());
  std::vector<float> y(14 * n), z(16 * n);
  // exp2Fast and rcpFast are hardware approximations.
  check.run("math", grid(n / 64, 64),
            {HostArgument::input("x", x), HostArgument::output("y", y),
             HostArgument::scalar(n)},
            7 * n, 9 * n);
  check.run("special", grid(n / 64, 64),
            {HostArgument::input("x", x), HostArgument::output("y", z),
             HostArgument::scalar(n)});
  n = 100;
  x.resize(n);
  std::vector<float> larger(n * n), smaller(n * n);
  check.run(
      "extremes", grid(1, 64),
      {HostArgument::input("x", x), HostArgument::output("larger", larger),
       HostArgument::output("smaller", smaller), HostArgument::scalar(n)});
}

static void checkPowers(Check &check) {
  if (!check.compile(kPowers, {"powers", "saturate"}))
    return;
  std::vector<float> x = floats(1 << 14), y(x.rbegin(), x.rend());
  int n = static_cast<int>(x.size());
  // Exponents of all magnitudes, and small integers.
  for (int i = 0; i < n; i += 3)
    y[i] = static_cast<float>(i % 23 - 11);
  std::vector<float> power(n), angle(n);
  check.run("powers", grid(1, 64),
            {HostArgument::input("x", x), HostArgument::input("y", y),
             HostArgument::output("power", power),
             HostArgument::output("angle", angle), HostArgument::scalar(n)});
  std::vector<int> words(n);
  std::vector<signed char> bytes(n);
  std::vector<long long> wide(n);
  check.run("saturate", grid(1, 64),
            {HostArgument::input("x", x), HostArgument::output("words", words),
             HostArgument::output("bytes", bytes),
             HostArgument::output("wide", wide), HostArgument::scalar(n)});
}

static void checkLanes(Check &check) {
  if (!check.compile(kLanes, {"lanes", "doubles"}))
    return;
  std::vector<float> x = {1.5f, -2.25f, 3.1f, -0.0f, 0.5f, -7, 2.9f, 1}, y(22);
  std::vector<int> n = {1, -2, 30, 400}, m(5);
  check.run("lanes", grid(1, 1),
            {HostArgument::input("x", x), HostArgument::output("y", y),
             HostArgument::input("n", n), HostArgument::output("m", m)});
  std::vector<double> wide(32), sums(64);
  for (int i = 0; i < 32; ++i)
    wide[i] = (i % 2 ? 1 + 0x1p-11 : 1 + 0x1p-8) + 0x1p-40 * i;
  std::vector<uint16_t> h(32), b(32);
  std::vector<long long> whole(32);
  check.run("doubles", grid(1, 32),
            {HostArgument::input("x", wide), HostArgument::output("y", sums),
             HostArgument::output("h", h), HostArgument::output("b", b),
             HostArgument::output("n", whole)});
}

static void checkWarps(Check &check) {
  if (!check.compile(kWarps, {"shuffles", "wide", "numbers", "atomics"}))
    return;
  for (int width : {32, 16, 8, 4, 2, 1})
    for (int by = 0; by < 32; ++by) {
      std::vector<int> out(64);
      check.run("shuffles", grid(1, 64),
                {HostArgument::output("out", out), HostArgument::scalar(by),
                 HostArgument::scalar(width)});
    }
  std::vector<double> x(32, 1.5), y(32);
  std::vector<uint16_t> h(32, 7), g(32);
  for (int i = 0; i < 32; ++i)
    x[i] += i, h[i] += i;
  check.run("wide", grid(1, 32),
            {HostArgument::input("x", x), HostArgument::output("y", y),
             HostArgument::input("h", h), HostArgument::output("g", g)});
  std::vector<unsigned> numbers(96);
  check.run("numbers", grid(1, 96), {HostArgument::output("out", numbers)});
  std::vector<int> sum = {0, 0};
  std::vector<long long> largest = {0, 0};
  check.run("atomics", grid(2, 64),
            {HostArgument::inOut("sum", sum),
             HostArgument::inOut("largest", largest)});
}

static void checkMatrices(Check &check) {
  if (!check.compile(kMatrices, {"tiles", "mmaHalf", "mmaBfloat16", "mmaSingle",
                                 "mmaE4m3", "mmaE5m2"}))
    return;
  std::vector<uint16_t> rows(256);
  for (int i = 0; i < 256; ++i)
    rows[i] = static_cast<uint16_t>(1000 + i);
  std::vector<uint32_t> loaded(14 * 32);
  check.run(
      "tiles", grid(1, 32),
      {HostArgument::input("x", rows), HostArgument::output("out", loaded)});
  // The bits of tensor cores on tiles of all magnitudes.
  constexpr int tiles = 10000;
  std::mt19937 random(2);
  for (auto [kernel, elementBits, exponentBits] :
       {std::tuple("mmaHalf", 16, 5), std::tuple("mmaBfloat16", 16, 8),
        std::tuple("mmaSingle", 32, 8), std::tuple("mmaE4m3", 8, 4),
        std::tuple("mmaE5m2", 8, 5)}) {
    if (elementBits == 8 && check.capability() < 89)
      continue;
    auto words = [&](int each, int element, int exponent) {
      std::vector<uint32_t> values;
      for (int i = 0; i < each * tiles; ++i)
        values.push_back(tileWord(random(), i / each, element, exponent));
      return values;
    };
    std::vector<uint32_t> a = words(128, elementBits, exponentBits),
                          b = words(64, elementBits, exponentBits),
                          d = words(128, 32, 8);
    check.run(kernel, grid(tiles, 32),
              {HostArgument::input("a", a), HostArgument::input("b", b),
               HostArgument::inOut("d", d)});
  }
  std::vector<float> x = floats(128), early(64), late(32), last(128);
  if (check.compile(kCopies, {"copies"}))
    check.run("copies", grid(1, 32),
              {HostArgument::input("x", x), HostArgument::inOut("early", early),
               HostArgument::output("late", late),
               HostArgument::output("last", last)});
}

/// Instructions of a single architecture.
static void checkWarpgroups(Check &check) {
  std::vector<std::string> names = {"rows", "right", "left", "both"};
  if (!check.compile(kWarpgroups, names))
    return;
  std::mt19937 random(3);
  for (int i = 0; i < 4; ++i) {
    const uint16_t halves[] = {0, 0x3c00, 0xbc00, 0x4000, 0xc200},
                   bfloats[] = {0, 0x3f80, 0xbf80, 0x4000, 0xc040};
    int columns = 64 * (i + 1);
    std::vector<uint16_t> a(64 * 64), b(64 * columns);
    for (std::vector<uint16_t> *values : {&a, &b})
      for (uint16_t &value : *values)
        value = (i % 2 ? bfloats : halves)[random() % 5];
    std::vector<float> d(64 * columns);
    HostLaunch launch = grid(1, 128);
    launch.dynamicSharedBytes = 2 * 64 * (64 + columns);
    check.run(names[i], launch,
              {HostArgument::input("a", a), HostArgument::input("b", b),
               HostArgument::output("d", d)});
  }
}

int main() {
  Result<Gpu> gpu = Gpu::open();
  if (!gpu.ok()) {
    std::printf("nothing compared: %s\n", gpu.status().toString().c_str());
    return gpu.status().code() == StatusCode::Unavailable ? 77 : 1;
  }
  std::printf("comparing with %s\n", gpu->architecture().c_str());
  Check check(*gpu);
  checkConversions(check);
  check.nansAreAlike = true;
  checkMath(check);
  checkPowers(check);
  checkLanes(check);
  check.nansAreAlike = false;
  checkWarps(check);
  checkMatrices(check);
  if (gpu->architecture() == "sm_90a")
    checkWarpgroups(check);
  return check.result();
}
