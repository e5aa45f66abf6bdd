//===- PadContractionsTests.cpp - padding preserves values ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates chains of contractions, elementwise ops, norms and movement, pads
// them and compares both versions in the interpreter, bit for bit: adding zeros
// to a sum in order changes no bit.
//
//===----------------------------------------------------------------------===//

#include "PadTesting.h"

#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Import/ONNX.h"

using namespace mlir;
using namespace mpc;
using reference::Rounding;
using reference::Tensor;

namespace {

/// Writes a random function, op by op.
class RandomChain : GraphText {
public:
  explicit RandomChain(unsigned seed) : GraphText(seed) {}

  std::string write() {
    current = {"%x", {pick(), pick()}};
    std::string input = typeOf(current.shape);
    if (draw(3) == 0)
      attention();
    for (int step = 0, steps = 3 + draw(7); step < steps; ++step)
      one();
    linear();
    return "func.func @main(%x: " + input + ") -> " + typeOf(current.shape) +
           " {\n" + body + "return " + current.name + " : " +
           typeOf(current.shape) + "\n}\n";
  }

private:
  void unary(const std::string &op) {
    current.name =
        emit(op + " " + current.name + " : " + typeOf(current.shape));
  }

  void binary(const std::string &op, const Named &other) {
    current.name = emit(op + " " + current.name + ", " + other.name + " : (" +
                        typeOf(current.shape) + ", " + typeOf(other.shape) +
                        ") -> " + typeOf(current.shape));
  }

  void matmul(const Named &lhs, const Named &rhs, bool transposed) {
    SmallVector<int64_t> shape(lhs.shape);
    shape.back() = transposed ? rhs.shape[0] : rhs.shape[1];
    current.name = emit("matmul " + lhs.name + ", " + rhs.name +
                        (transposed ? " transpose_rhs" : "") + " : (" +
                        typeOf(lhs.shape, narrow) + ", " +
                        typeOf(rhs.shape, narrow) + ") -> " + typeOf(shape));
    current.shape = shape;
  }

  void linear() {
    Named input = narrowed(current);
    bool transposed = draw(2);
    int64_t columns = pick(), depth = current.shape.back();
    Named weight = transposed ? constant({columns, depth}, narrow)
                              : constant({depth, columns}, narrow);
    matmul(input, weight, transposed);
    if (draw(2))
      binary("add", constant({columns}));
  }

  /// The values times their own transpose: no operand is constant.
  void gram() {
    Named value = narrowed(current);
    matmul(value, value, /*transposed=*/true);
    unary("tanh");
  }

  void residual() {
    Named saved = current;
    Named input = narrowed(current);
    matmul(input, constant({saved.shape[1], saved.shape[1]}, narrow), false);
    binary("add", saved);
  }

  /// Splits into heads, mixes and concatenates them.
  void attention() {
    int64_t rows = current.shape[0], heads = 2 + draw(3),
            width = draw(2) ? 7 : 15;
    bool masked = draw(2), causal = draw(2);
    Named input = narrowed(current);
    SmallVector<int64_t> split = {rows, heads, width},
                         moved = {heads, rows, width};
    std::string parts[3];
    for (std::string &part : parts) {
      matmul(input, constant({input.shape[1], heads * width}, narrow), false);
      binary("add", constant({heads * width}));
      Named narrowPart = narrowed(current);
      part =
          emit("reshape " + narrowPart.name + " : " +
               typeOf(current.shape, narrow) + " to " + typeOf(split, narrow));
      part =
          emit("transpose " + part + " [1, 0, 2] : " + typeOf(split, narrow) +
               " to " + typeOf(moved, narrow));
    }
    std::string mask, maskType;
    if (masked) {
      mask = " mask(" + constant({rows, rows}).name + ")";
      maskType = ", " + typeOf({rows, rows});
    }
    std::string type = typeOf(moved, narrow);
    std::string mixed =
        emit("attention " + parts[0] + ", " + parts[1] + ", " + parts[2] +
             mask + " scale(0.25)" + (causal ? " causal" : "") + " : (" + type +
             ", " + type + ", " + type + maskType + ") -> " + typeOf(moved));
    mixed = emit("transpose " + mixed + " [1, 0, 2] : " + typeOf(moved) +
                 " to " + typeOf(split));
    current.shape = {rows, heads * width};
    current.name = emit("reshape " + mixed + " : " + typeOf(split) + " to " +
                        typeOf(current.shape));
  }

  void norm() {
    Named scale = constant({current.shape[1]});
    current.name =
        emit("layer_norm " + current.name + ", " + scale.name +
             " axis(1) epsilon(1.0e-05) : (" + typeOf(current.shape) + ", " +
             typeOf(scale.shape) + ") -> " + typeOf(current.shape));
  }

  void reduce() {
    SmallVector<int64_t> shape(current.shape);
    int axis = draw(2);
    shape[axis] = 1;
    const char *ops[] = {"reduce_max", "reduce_sum", "reduce_mean"};
    Named reduced = {emit(ops[draw(3)] + std::string(" ") + current.name +
                          " axes([" + std::to_string(axis) + "]) keep_dims : " +
                          typeOf(current.shape) + " -> " + typeOf(shape)),
                     shape};
    binary("sub", reduced);
    unary("tanh");
  }

  void transpose() {
    SmallVector<int64_t> shape = {current.shape[1], current.shape[0]};
    current.name = emit("transpose " + current.name + " [1, 0] : " +
                        typeOf(current.shape) + " to " + typeOf(shape));
    current.shape = shape;
  }

  /// Twice as many columns, one half of which is used.
  void halves() {
    int64_t width = pick();
    Named input = narrowed(current);
    matmul(input, constant({current.shape[1], 2 * width}, narrow), false);
    SmallVector<int64_t> half = {current.shape[0], width};
    current.name = emit("slice " + current.name + " [0, " +
                        std::to_string(draw(2) * width) + "] [" +
                        std::to_string(half[0]) + ", " + std::to_string(width) +
                        "] : " + typeOf(current.shape) + " to " + typeOf(half));
    current.shape = half;
  }

  void one() {
    switch (draw(16)) {
    case 0:
    case 1:
    case 2:
      return linear();
    case 3:
      return residual();
    case 4:
      return gram();
    case 5:
      return norm();
    case 6:
      return reduce();
    case 7:
      return transpose();
    case 8:
      return halves();
    case 9: // finite at zero, perhaps infinite after a sigmoid
      unary("sigmoid");
      return unary("exp");
    case 10: // no finite value at zero
      unary("sigmoid");
      return unary("log");
    case 11:
      unary("sigmoid");
      return binary("div", constant({current.shape[1]}, "f32", /*around=*/1));
    case 12:
      current.name =
          emit("softmax " + current.name + " axis(" + std::to_string(draw(2)) +
               ") : " + typeOf(current.shape));
      return;
    case 13:
      return binary("mul", constant({current.shape[1]}));
    case 14:
      return unary("gelu");
    default:
      return unary("relu");
    }
  }

  Named current;
};

} // namespace

TEST_F(PadContractionsTest, RandomChainsKeepEveryValue) {
  int padded = 0, masks = 0, attentions = 0;
  for (unsigned seed = 0; seed < 1200; ++seed) {
    std::string text = RandomChain(seed).write();
    OwningOpRef<ModuleOp> before = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(before) << text;
    OwningOpRef<ModuleOp> after = cast<ModuleOp>((*before)->clone());
    // Every fourth target has no ceilings and is bounded by growth.
    ASSERT_TRUE(
        succeeded(pad(*after, seed % 4 == 0 ? "cuda:sm_87" : "cuda:sm_80")))
        << text;
    bool changed = false;
    after->walk([&](Operation *op) {
      changed |= op->hasAttr(MpcDialect::kPaddingAttr);
      attentions +=
          isa<AttentionOp>(op) && op->hasAttr(MpcDialect::kPaddingAttr);
      masks += isa<SelectOp>(op);
    });
    padded += changed;
    if (!changed)
      continue;
    for (Rounding rounding : {Rounding::Float64, Rounding::Declared}) {
      SmallVector<Tensor> expected = run(*before, rounding),
                          actual = run(*after, rounding);
      ASSERT_EQ(expected.size(), actual.size());
      for (auto [left, right] : llvm::zip_equal(expected, actual)) {
        std::string printed;
        llvm::raw_string_ostream stream(printed);
        after->print(stream);
        ASSERT_TRUE(sameElements(left, right)) << "seed " << seed << "\n"
                                               << text << "\n"
                                               << printed;
      }
    }
  }
  // The generator covers the intended cases.
  EXPECT_GT(padded, 600);
  EXPECT_GT(masks, 20);
  EXPECT_GT(attentions, 50);
}

TEST_F(PadContractionsTest, OddTransformerKeepsEveryValue) {
  for (StringRef policy : {"mixed_bfloat16", "mixed_float16", "tf32"}) {
    OwningOpRef<ModuleOp> before = parseSourceFile<ModuleOp>(
        MPC_PASS_TESTS "/../../../Inputs/odd-transformer.mlir", &context);
    ASSERT_TRUE(before);
    ASSERT_TRUE(succeeded(prepare(*before, policy)));
    OwningOpRef<ModuleOp> after = cast<ModuleOp>((*before)->clone());
    ASSERT_TRUE(succeeded(pad(*after, "cuda:sm_80")));
    int padded = 0;
    after->walk([&](Operation *op) {
      padded += op->hasAttr(MpcDialect::kPaddingAttr);
    });
    EXPECT_GE(padded, 7) << policy.str();
    for (Rounding rounding : {Rounding::Float64, Rounding::Declared})
      EXPECT_TRUE(sameElements(run(*before, rounding).front(),
                               run(*after, rounding).front()))
          << policy.str();
  }
}

// The dense layer of 10 becomes 16 wide; the convolutions stay as they are.
TEST_F(PadContractionsTest, MnistCnnKeepsEveryValue) {
  OwningOpRef<ModuleOp> before = importOnnxFile(
      MPC_PASS_TESTS "/../../../Inputs/mnist-cnn/model.onnx", {}, &context);
  ASSERT_TRUE(before);
  ASSERT_TRUE(succeeded(prepare(*before, "mixed_bfloat16")));
  OwningOpRef<ModuleOp> after = cast<ModuleOp>((*before)->clone());
  ASSERT_TRUE(succeeded(pad(*after, "cuda:sm_80")));
  SmallVector<PaddingAttr> paddings;
  after->walk([&](Operation *op) {
    if (auto padding = op->getAttrOfType<PaddingAttr>(MpcDialect::kPaddingAttr))
      paddings.push_back(padding);
  });
  ASSERT_EQ(paddings.size(), 1u);
  EXPECT_EQ(paddings.front().getFrom()[2], 10);
  EXPECT_EQ(paddings.front().getTo()[2], 16);
  EXPECT_TRUE(sameElements(run(*before, Rounding::Declared).front(),
                           run(*after, Rounding::Declared).front()));
}
