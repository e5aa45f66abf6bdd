//===- PaddedMaskTests.cpp - masks that the graph computes ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates attention with masks that the graph computes from flags over the
// padded sequence: for any value of the padding elements, padded keys stay
// masked and no element changes.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "PadTesting.h"

using namespace mlir;
using namespace mpc;
using reference::Rounding;
using reference::Tensor;

namespace {

/// Writes a function of a sequence, two flags and one number per position.
class RandomMasks : GraphText {
public:
  explicit RandomMasks(unsigned seed)
      : GraphText(seed), rows(odd()), width(odd()) {}

  std::string write() {
    flags = {"%flag", "%other"};
    numbers = {"%number"};
    masks = {additive()};
    current = "%x";
    for (int layer = 0, layers = 1 + draw(2); layer < layers; ++layer) {
      for (int step = 0, steps = draw(6); step < steps; ++step)
        vector();
      gate();
      std::string saved = current;
      if (draw(3) == 0)
        composed();
      else
        attention();
      current = emit("add " + current + ", " + saved + " : (" + matrix() +
                     ", " + matrix() + ") -> " + matrix());
    }
    current = linear(current, width, "f32");
    return "func.func @main(%x: " + matrix() + ", %flag: " + line("i1") +
           ", %other: " + line("i1") + ", %number: " + line() + ") -> " +
           matrix() + " {\n" + body + "return " + current + " : " + matrix() +
           "\n}\n";
  }

private:
  int64_t odd() {
    static constexpr int64_t kExtents[] = {7, 13, 15, 21, 30, 31, 33};
    return kExtents[draw(std::size(kExtents))];
  }
  std::string matrix() const { return typeOf({rows, width}); }
  std::string line(StringRef element = "f32") const {
    return typeOf({rows}, element);
  }
  const std::string &any(const std::vector<std::string> &of) {
    return of[draw(int(of.size()))];
  }
  std::string splat(const char *value) {
    return emit("constant dense<" + std::string(value) + "> : tensor<f32>");
  }
  std::string select(const char *onTrue, const char *onFalse) {
    std::string taken = splat(onTrue), other = splat(onFalse);
    return emit("select " + any(flags) + ", " + taken + ", " + other + " : (" +
                line("i1") + ", tensor<f32>, tensor<f32>) -> " + line());
  }
  std::string unary(const std::string &op, const std::string &value) {
    return emit(op + " " + value + " : " + line());
  }
  std::string binary(const std::string &op, const std::string &lhs,
                     const std::string &rhs, StringRef element = "f32") {
    return emit(op + " " + lhs + ", " + rhs + " : (" + line(element) + ", " +
                line(element) + ") -> " + line(element));
  }
  std::string reshape(const std::string &value, ArrayRef<int64_t> shape,
                      StringRef element) {
    return emit("reshape " + value + " : " + line(element) + " to " +
                typeOf(shape, element));
  }

  /// One more flag, finite number or additive mask per position.
  void vector() {
    switch (draw(12)) {
    case 0:
    case 1:
      flags.push_back(emit("not " + any(flags) + " : " + line("i1")));
      return;
    case 2:
    case 3: {
      static const char *const kOps[] = {"and", "or", "xor"};
      flags.push_back(binary(kOps[draw(3)], any(flags), any(flags), "i1"));
      return;
    }
    case 4:
      flags.push_back(emit("compare gt " + any(numbers) + ", " +
                           splat(draw(2) ? "-0.5" : "0.5") + " : (" + line() +
                           ", tensor<f32>) -> " + line("i1")));
      return;
    case 5:
      numbers.push_back(draw(2) ? select("0.5", "2.0") : select("0.0", "1.0"));
      return;
    case 6:
      numbers.push_back(unary("exp", unary("tanh", any(numbers))));
      return;
    case 7: // nothing finite at zero
      numbers.push_back(
          unary(draw(2) ? "log" : "rsqrt", unary("sigmoid", any(numbers))));
      return;
    case 8: {
      std::string divisor = unary("exp", unary("tanh", any(numbers)));
      numbers.push_back(binary("div", any(numbers), divisor));
      return;
    }
    case 9:
      masks.push_back(unary("log", select("1.0", "0.0")));
      return;
    case 10:
      masks.push_back(binary("add", any(masks), any(numbers)));
      return;
    default:
      masks.push_back(additive());
    }
  }

  std::string additive() {
    static const char *const kHidden[] = {"0xFF800000", "-10000.0"};
    const char *hidden = kHidden[draw(2)];
    return draw(2) ? select(hidden, "0.0") : select("0.0", hidden);
  }

  /// Ties the sequence to the flags: their padding becomes its own.
  void gate() {
    std::string flag = reshape(any(flags), {rows, 1}, "i1");
    std::string column = typeOf({rows, 1}, "i1");
    current =
        emit("select " + flag + ", " + current + ", " + splat("0.0") + " : (" +
             column + ", " + matrix() + ", tensor<f32>) -> " + matrix());
  }

  std::string linear(const std::string &value, int64_t columns,
                     StringRef element) {
    std::string input = narrowed({value, {rows, width}}).name;
    Named weight = constant({width, columns}, narrow);
    return emit("matmul " + input + ", " + weight.name + " : (" +
                typeOf({rows, width}, narrow) + ", " +
                typeOf(weight.shape, narrow) + ") -> " +
                typeOf({rows, columns}, element));
  }

  /// A mask over the keys, or over rows and keys, and its type.
  std::pair<std::string, std::string> mask() {
    bool isFlag = draw(2);
    StringRef element = isFlag ? "i1" : "f32";
    std::string keys = any(isFlag ? flags : masks);
    std::string all = typeOf({rows, rows}, element);
    switch (draw(4)) {
    case 0:
      return {keys, line(element)};
    case 1:
      return {reshape(keys, {1, 1, rows}, element),
              typeOf({1, 1, rows}, element)};
    case 2:
      return {reshape(keys, {rows, 1}, element), typeOf({rows, 1}, element)};
    default: {
      std::string other =
          reshape(any(isFlag ? flags : numbers), {rows, 1}, element);
      static const char *const kOps[] = {"and", "or", "xor"};
      return {emit(std::string(isFlag ? kOps[draw(3)] : "add") + " " + other +
                   ", " + keys + " : (" + typeOf({rows, 1}, element) + ", " +
                   line(element) + ") -> " + all),
              all};
    }
    }
  }

  void attention() {
    int64_t heads = 1 + draw(3), head = draw(2) ? 7 : 15;
    SmallVector<int64_t> moved = {heads, rows, head};
    std::string type = typeOf(moved, narrow), parts[3];
    for (std::string &part : parts) {
      part = linear(current, heads * head, narrow);
      part = emit("reshape " + part + " : " +
                  typeOf({rows, heads * head}, narrow) + " to " +
                  typeOf({rows, heads, head}, narrow));
      part = emit("transpose " + part + " [1, 0, 2] : " +
                  typeOf({rows, heads, head}, narrow) + " to " + type);
    }
    auto [name, maskType] = mask();
    std::string mixed = emit(
        "attention " + parts[0] + ", " + parts[1] + ", " + parts[2] + " mask(" +
        name + ") scale(0.25)" + (draw(3) ? "" : " causal") + " : (" + type +
        ", " + type + ", " + type + ", " + maskType + ") -> " + typeOf(moved));
    mixed = emit("transpose " + mixed + " [1, 0, 2] : " + typeOf(moved) +
                 " to " + typeOf({rows, heads, head}));
    mixed = emit("reshape " + mixed + " : " + typeOf({rows, heads, head}) +
                 " to " + typeOf({rows, heads * head}));
    Named weight = constant({heads * head, width}, narrow);
    mixed = narrowed({mixed, {rows, heads * head}}).name;
    current = emit("matmul " + mixed + ", " + weight.name + " : (" +
                   typeOf({rows, heads * head}, narrow) + ", " +
                   typeOf(weight.shape, narrow) + ") -> " + matrix());
  }

  /// Attention as matmuls, a sum with the mask or a select, and a softmax.
  void composed() {
    std::string query = linear(current, width, narrow),
                key = linear(current, width, narrow),
                all = typeOf({rows, rows}),
                type = typeOf({rows, width}, narrow);
    std::string scores =
        emit("matmul " + query + ", " + key + " transpose_rhs : (" + type +
             ", " + type + ") -> " + all);
    // Not a row of minus infinity alone, whose softmax is NaN.
    if (draw(2))
      scores = emit("select " + any(flags) + ", " + scores + ", " +
                    splat("-10000.0") + " : (" + line("i1") + ", " + all +
                    ", tensor<f32>) -> " + all);
    else
      scores = emit("add " + scores + ", " + any(numbers) + " : (" + all +
                    ", " + line() + ") -> " + all);
    std::string weights = emit("softmax " + scores + " axis(1) : " + all);
    weights = narrowed({weights, {rows, rows}}).name;
    std::string value = linear(current, width, narrow);
    current =
        emit("matmul " + weights + ", " + value + " : (" +
             typeOf({rows, rows}, narrow) + ", " + type + ") -> " + matrix());
  }

  int64_t rows, width;
  std::vector<std::string> flags, numbers, masks;
  std::string current;
};

} // namespace

TEST_F(PadContractionsTest, ComputedMasksKeepHidingPaddedKeys) {
  int padded = 0, attentions = 0, computed = 0;
  for (unsigned seed = 0; seed < 250; ++seed) {
    std::string text = RandomMasks(seed).write();
    OwningOpRef<ModuleOp> before = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(before) << text;
    OwningOpRef<ModuleOp> after = cast<ModuleOp>((*before)->clone());
    ASSERT_TRUE(
        succeeded(pad(*after, seed % 4 == 0 ? "cuda:sm_87" : "cuda:sm_80")))
        << text;
    bool changed = false;
    after->walk([&](Operation *op) {
      changed |= op->hasAttr(MpcDialect::kPaddingAttr);
      auto attention = dyn_cast<AttentionOp>(op);
      if (!attention || !op->hasAttr(MpcDialect::kPaddingAttr))
        return;
      ++attentions;
      computed += !attention.getMask().getDefiningOp<PadOp>();
    });
    if (!changed)
      continue;
    ++padded;
    for (Rounding rounding : {Rounding::Float64, Rounding::Declared}) {
      SmallVector<Tensor> expected = run(*before, rounding),
                          actual = run(*after, rounding);
      std::string printed;
      llvm::raw_string_ostream stream(printed);
      after->print(stream);
      ASSERT_TRUE(sameElements(expected.front(), actual.front()))
          << "seed " << seed << "\n"
          << text << "\n"
          << printed;
      // NaN would hide a difference.
      ASSERT_TRUE(llvm::all_of(expected.front().floats(), [](double value) {
        return std::isfinite(value);
      })) << text;
    }
  }
  // The generator covers the intended cases.
  EXPECT_GT(padded, 150);
  EXPECT_GT(attentions, 100);
  EXPECT_GT(computed, 50);
}
