//===- PaddedGradientTests.cpp - recurrent layers and backward passes -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of convolutions and attention and the matmuls of recurrent layers
// with odd extents: padding changes no element.
//
//===----------------------------------------------------------------------===//

#include "PadTesting.h"

using namespace mlir;
using namespace mpc;
using reference::Rounding;
using reference::Tensor;

namespace {

class PaddedGradientTest : public PadContractionsTest {
protected:
  /// Pads `text` and compares; returns how many contractions were padded.
  int compare(const std::string &text) {
    OwningOpRef<ModuleOp> before = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(before) << text;
    if (!before)
      return 0;
    // Recurrent ops are compared step by step.
    PassManager manager(&context);
    DecomposePassOptions decompose;
    decompose.keep = {"conv_transpose", "attention_gradient"};
    manager.addNestedPass<func::FuncOp>(createDecomposePass(decompose));
    OwningOpRef<ModuleOp> after = cast<ModuleOp>((*before)->clone());
    EXPECT_TRUE(succeeded(manager.run(*before)));
    EXPECT_TRUE(succeeded(pad(*after, "cuda:sm_80"))) << text;
    for (Rounding rounding : {Rounding::Float64, Rounding::Declared}) {
      SmallVector<Tensor> expected = run(*before, rounding),
                          actual = run(*after, rounding);
      EXPECT_EQ(expected.size(), actual.size());
      for (auto [left, right] : llvm::zip_equal(expected, actual))
        EXPECT_TRUE(sameElements(left, right)) << text;
    }
    int padded = 0;
    after->walk([&](Operation *op) {
      padded += op->hasAttr(MpcDialect::kPaddingAttr);
    });
    return padded;
  }
};

std::string number(int64_t value) { return std::to_string(value); }

/// Fills in `$name` by the numbers of `values`.
std::string fill(std::string text,
                 ArrayRef<std::pair<const char *, int64_t>> values) {
  for (auto [name, value] : values)
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, strlen(name), number(value));
  return text;
}

} // namespace

TEST_F(PaddedGradientTest, GradientsOfConvolutionsKeepEveryValue) {
  std::mt19937 engine(5);
  const int64_t channels[] = {13, 15, 30, 31};
  int padded = 0;
  for (int round = 0; round < 8; ++round) {
    int64_t in = channels[engine() % 4], out = channels[engine() % 4],
            stride = 1 + engine() % 2, last = stride == 1 ? 6 : 3;
    // The gradient passes through an op that does not preserve zeros, and its
    // batch is reduced.
    padded += compare(fill(R"(
      func.func @main(%x: tensor<3x$Ix6x6xbf16>, %g: tensor<3x$Ox$Px$Pxbf16>, %w: tensor<$Ox$Ix3x3xbf16>)
          -> (tensor<$Ox$Ix3x3xf32>, tensor<3x$Ix6x6xf32>) {
        %h = mpc.sigmoid %g : tensor<3x$Ox$Px$Pxbf16>
        %0 = mpc.conv_filter_gradient %x, %h strides([$S, $S]) pad([1, 1], [1, 1]) dilations([1, 1]) : (tensor<3x$Ix6x6xbf16>, tensor<3x$Ox$Px$Pxbf16>) -> tensor<$Ox$Ix3x3xf32>
        %1 = mpc.conv_transpose %h, %w strides([$S, $S]) pad([1, 1], [1, 1]) dilations([1, 1]) output_padding([$E, $E]) : (tensor<3x$Ox$Px$Pxbf16>, tensor<$Ox$Ix3x3xbf16>) -> tensor<3x$Ix6x6xf32>
        return %0, %1 : tensor<$Ox$Ix3x3xf32>, tensor<3x$Ix6x6xf32>
      })",
                           {{"$I", in},
                            {"$O", out},
                            {"$P", last},
                            {"$S", stride},
                            {"$E", stride - 1}}));
  }
  EXPECT_GE(padded, 12);
}

TEST_F(PaddedGradientTest, GradientsOfAttentionKeepEveryValue) {
  int padded = 0;
  for (StringRef mask : {"", "i1", "f32"})
    for (StringRef causal : {"", " causal"}) {
      std::string type = "tensor<2x31x15xbf16>";
      std::string element = mask.empty() ? "i1" : mask.str();
      // Rows of the gradient are not zero where padded.
      std::string text = "func.func @main(%q: " + type + ", %g: " + type +
                         ", %m: tensor<31x" + element + ">) -> (" + type +
                         ", " + type + ", " + type + ") {\n%h = mpc.sigmoid " +
                         "%g : " + type + "\n%0:3 = mpc.attention_gradient " +
                         "%q, %q, %q, %h " + (mask.empty() ? "" : "mask(%m) ") +
                         "scale(0.25)" + causal.str() + " : (" + type + ", " +
                         type + ", " + type + ", " + type +
                         (mask.empty() ? "" : ", tensor<31x" + element + ">") +
                         ") -> (" + type + ", " + type + ", " + type +
                         ")\nreturn %0#0, %0#1, %0#2 : " + type + ", " + type +
                         ", " + type + "\n}\n";
      padded += compare(text);
    }
  EXPECT_EQ(padded, 6);
}

TEST_F(PaddedGradientTest, RecurrentLayersKeepEveryValue) {
  const char *const kLayers[] = {
      R"(%0:3 = mpc.lstm %x, %w, %r bias(%b) initial_h(%h) initial_c(%h) direction(bidirectional) : (tensor<3x5x13xbf16>, tensor<2x$GxIxbf16>, tensor<2x$Gx30xbf16>, tensor<2x$Bxf32>, tensor<2x5x30xf32>, tensor<2x5x30xf32>) -> (tensor<3x2x5x30xf32>, tensor<2x5x30xf32>, tensor<2x5x30xf32>))",
      R"(%0:2 = mpc.gru %x, %w, %r bias(%b) initial_h(%h) direction(bidirectional) : (tensor<3x5x13xbf16>, tensor<2x$GxIxbf16>, tensor<2x$Gx30xbf16>, tensor<2x$Bxf32>, tensor<2x5x30xf32>) -> (tensor<3x2x5x30xf32>, tensor<2x5x30xf32>))",
      R"(%0:2 = mpc.gru %x, %w, %r bias(%b) initial_h(%h) linear_before_reset direction(bidirectional) : (tensor<3x5x13xbf16>, tensor<2x$GxIxbf16>, tensor<2x$Gx30xbf16>, tensor<2x$Bxf32>, tensor<2x5x30xf32>) -> (tensor<3x2x5x30xf32>, tensor<2x5x30xf32>))",
      R"(%0:2 = mpc.rnn %x, %w, %r bias(%b) initial_h(%h) direction(bidirectional) : (tensor<3x5x13xbf16>, tensor<2x$GxIxbf16>, tensor<2x$Gx30xbf16>, tensor<2x$Bxf32>, tensor<2x5x30xf32>) -> (tensor<3x2x5x30xf32>, tensor<2x5x30xf32>))",
  };
  const int64_t gates[] = {4, 3, 3, 1};
  for (auto [layer, count] : llvm::zip_equal(kLayers, gates)) {
    std::string text = R"(
      func.func @main(%x: tensor<3x5x13xbf16>, %w: tensor<2x$GxIxbf16>, %r: tensor<2x$Gx30xbf16>,
                      %b: tensor<2x$Bxf32>, %h: tensor<2x5x30xf32>) -> (tensor<3x2x5x30xf32>, tensor<2x5x30xf32>) {
        )" + std::string(layer) +
                       R"(
        return %0#0, %0#1 : tensor<3x2x5x30xf32>, tensor<2x5x30xf32>
      })";
    for (size_t at; (at = text.find("xIx")) != std::string::npos;)
      text.replace(at, 3, "x13x");
    EXPECT_GE(compare(fill(text, {{"$G", count * 30}, {"$B", 2 * count * 30}})),
              6)
        << layer;
  }
}
