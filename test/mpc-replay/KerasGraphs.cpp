//===- KerasGraphs.cpp - Keras layers as graphs ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One graph for each recorded kind of layer, with the shapes of the recording.
// Keras defaults to channels last; image layers are channels first here, as in
// mpc. Layers that do nothing at inference (Dropout) become a reshape to the
// same shape, which only casts its input.
//
//===----------------------------------------------------------------------===//

#include "Keras.h"

#include "llvm/ADT/StringExtras.h"

using namespace mpc;
using namespace mpc::replay;

namespace {

struct Entry {
  const char *kind;
  std::vector<std::string> inputs;
  std::string result;
  const char *body;
  std::vector<std::string> sublayers = {};
};

constexpr const char *kRow = "tensor<2x3xf32>", *kImage = "tensor<2x3x6x6xf32>",
                     *kSteps = "tensor<2x5x3xf32>";

#define DENSE(IN, OUT, RESULT)                                                 \
  "%k = mpc.constant dense<0.5> : tensor<3x4xf32>\n"                           \
  "%b = mpc.constant dense<0.25> : tensor<4xf32>\n"                            \
  "%m = mpc.matmul %x0, %k {L} : (" IN ", tensor<3x4xf32>) -> " OUT "\n"       \
  "%" RESULT " = mpc.add %m, %b {L} : (" OUT ", tensor<4xf32>) -> " OUT "\n"

#define WINDOW "strides([1, 1]) pad([0, 0], [0, 0]) dilations([1, 1])"

#define RECURRENT(GATES, DIRECTIONS)                                           \
  "%t = mpc.transpose %x0 [1, 0, 2] {L} : tensor<2x5x3xf32> to "               \
  "tensor<5x2x3xf32>\n"                                                        \
  "%k = mpc.constant dense<0.5> : tensor<" DIRECTIONS "x" GATES "x3xf32>\n"    \
  "%r = mpc.constant dense<0.25> : tensor<" DIRECTIONS "x" GATES "x4xf32>\n"

#define LAST_STEP                                                              \
  "%l = mpc.slice %o [4, 0, 0, 0] [1, 1, 2, 4] {L} : tensor<5x1x2x4xf32> to "  \
  "tensor<1x1x2x4xf32>\n"                                                      \
  "%y = mpc.reshape %l {L} : tensor<1x1x2x4xf32> to tensor<2x4xf32>\n"

#define IDENTITY(TYPE) "%y = mpc.reshape %x0 {L} : " TYPE " to " TYPE "\n"

#define PROJECT(SUB, OUT)                                                      \
  "%k" SUB " = mpc.constant dense<0.5> : tensor<6x6xf32>\n"                    \
  "%b" SUB " = mpc.constant dense<0.25> : tensor<6xf32>\n"                     \
  "%m" SUB " = mpc.matmul %x0, %k" SUB " {L/" SUB                              \
  "} : (tensor<2x5x6xf32>, tensor<6x6xf32>) -> tensor<2x5x6xf32>\n"            \
  "%a" SUB " = mpc.add %m" SUB ", %b" SUB " {L/" SUB                           \
  "} : (tensor<2x5x6xf32>, tensor<6xf32>) -> tensor<2x5x6xf32>\n"              \
  "%r" SUB " = mpc.reshape %a" SUB " {L/" SUB                                  \
  "} : tensor<2x5x6xf32> to tensor<2x5x2x3xf32>\n"                             \
  "%" OUT " = mpc.transpose %r" SUB " [0, 2, 1, 3] {L/" SUB                    \
  "} : tensor<2x5x2x3xf32> to tensor<2x2x5x3xf32>\n"

} // namespace

static const std::vector<Entry> &entries() {
  static const std::vector<Entry> all = {
      {"Dense",
       {kRow},
       "tensor<2x4xf32>",
       DENSE("tensor<2x3xf32>", "tensor<2x4xf32>", "y")},
      {"Dense_relu",
       {kRow},
       "tensor<2x4xf32>",
       DENSE("tensor<2x3xf32>", "tensor<2x4xf32>",
             "z") "%y = mpc.relu %z {L} : tensor<2x4xf32>\n"},
      {"Dense_softmax",
       {kRow},
       "tensor<2x4xf32>",
       DENSE("tensor<2x3xf32>", "tensor<2x4xf32>",
             "z") "%y = mpc.softmax %z axis(1) {L} : tensor<2x4xf32>\n"},
      {"TimeDistributed_Dense",
       {kSteps},
       "tensor<2x5x4xf32>",
       "%k = mpc.constant dense<0.5> : tensor<3x4xf32>\n"
       "%b = mpc.constant dense<0.25> : tensor<4xf32>\n"
       "%m = mpc.matmul %x0, %k {L/dense} : (tensor<2x5x3xf32>, "
       "tensor<3x4xf32>) -> tensor<2x5x4xf32>\n"
       "%y = mpc.add %m, %b {L/dense} : (tensor<2x5x4xf32>, tensor<4xf32>) -> "
       "tensor<2x5x4xf32>\n",
       {"dense"}},
      {"Conv2D",
       {kImage},
       "tensor<2x4x4x4xf32>",
       "%k = mpc.constant dense<0.5> : tensor<4x3x3x3xf32>\n"
       "%b = mpc.constant dense<0.25> : tensor<4x1x1xf32>\n"
       "%m = mpc.conv %x0, %k " WINDOW " {L} : (tensor<2x3x6x6xf32>, "
       "tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>\n"
       "%y = mpc.add %m, %b {L} : (tensor<2x4x4x4xf32>, tensor<4x1x1xf32>) -> "
       "tensor<2x4x4x4xf32>\n"},
      {"DepthwiseConv2D",
       {kImage},
       "tensor<2x3x4x4xf32>",
       "%k = mpc.constant dense<0.5> : tensor<3x1x3x3xf32>\n"
       "%b = mpc.constant dense<0.25> : tensor<3x1x1xf32>\n"
       "%m = mpc.conv %x0, %k " WINDOW " groups(3) {L} : (tensor<2x3x6x6xf32>, "
       "tensor<3x1x3x3xf32>) -> tensor<2x3x4x4xf32>\n"
       "%y = mpc.add %m, %b {L} : (tensor<2x3x4x4xf32>, tensor<3x1x1xf32>) -> "
       "tensor<2x3x4x4xf32>\n"},
      {"Conv2DTranspose",
       {kImage},
       "tensor<2x4x8x8xf32>",
       "%k = mpc.constant dense<0.5> : tensor<3x4x3x3xf32>\n"
       "%b = mpc.constant dense<0.25> : tensor<4x1x1xf32>\n"
       "%m = mpc.conv_transpose %x0, %k " WINDOW
       " output_padding([0, 0]) {L} : (tensor<2x3x6x6xf32>, "
       "tensor<3x4x3x3xf32>) -> tensor<2x4x8x8xf32>\n"
       "%y = mpc.add %m, %b {L} : (tensor<2x4x8x8xf32>, tensor<4x1x1xf32>) -> "
       "tensor<2x4x8x8xf32>\n"},
      {"BatchNormalization",
       {kImage},
       kImage,
       "%g = mpc.constant dense<1.3> : tensor<3xf32>\n"
       "%b = mpc.constant dense<0.1> : tensor<3xf32>\n"
       "%y = mpc.batch_norm %x0, %g, %b, %b, %g epsilon(1.0e-3) {L} : "
       "(tensor<2x3x6x6xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, "
       "tensor<3xf32>) -> tensor<2x3x6x6xf32>\n"},
      {"LayerNormalization",
       {kRow},
       kRow,
       "%g = mpc.constant dense<1.3> : tensor<3xf32>\n"
       "%b = mpc.constant dense<0.1> : tensor<3xf32>\n"
       "%y = mpc.layer_norm %x0, %g, %b axis(1) epsilon(1.0e-3) {L} : "
       "(tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>\n"},
      {"GroupNormalization",
       {kImage},
       kImage,
       "%g = mpc.constant dense<1.3> : tensor<3xf32>\n"
       "%b = mpc.constant dense<0.1> : tensor<3xf32>\n"
       "%y = mpc.group_norm %x0, %g, %b groups(3) epsilon(1.0e-3) {L} : "
       "(tensor<2x3x6x6xf32>, tensor<3xf32>, tensor<3xf32>) -> "
       "tensor<2x3x6x6xf32>\n"},
      {"RMSNormalization",
       {kRow},
       kRow,
       "%g = mpc.constant dense<1.3> : tensor<3xf32>\n"
       "%y = mpc.rms_norm %x0, %g axis(1) epsilon(1.0e-6) {L} : "
       "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>\n"},
      {"UnitNormalization",
       {kRow},
       kRow,
       "%q = mpc.mul %x0, %x0 {L} : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
       "tensor<2x3xf32>\n"
       "%s = mpc.reduce_sum %q axes([1]) keep_dims {L} : tensor<2x3xf32> -> "
       "tensor<2x1xf32>\n"
       "%r = mpc.rsqrt %s {L} : tensor<2x1xf32>\n"
       "%y = mpc.mul %x0, %r {L} : (tensor<2x3xf32>, tensor<2x1xf32>) -> "
       "tensor<2x3xf32>\n"},
      {"Softmax",
       {kRow},
       kRow,
       "%y = mpc.softmax %x0 axis(1) {L} : tensor<2x3xf32>\n"},
      {"Activation_softmax",
       {kRow},
       kRow,
       "%y = mpc.softmax %x0 axis(1) {L} : tensor<2x3xf32>\n"},
      {"Activation_gelu",
       {kRow},
       kRow,
       "%y = mpc.gelu %x0 {L} : tensor<2x3xf32>\n"},
      {"ReLU", {kRow}, kRow, "%y = mpc.relu %x0 {L} : tensor<2x3xf32>\n"},
      {"PReLU",
       {kRow},
       kRow,
       "%a = mpc.constant dense<0.3> : tensor<3xf32>\n"
       "%p = mpc.relu %x0 {L} : tensor<2x3xf32>\n"
       "%n = mpc.neg %x0 {L} : tensor<2x3xf32>\n"
       "%q = mpc.relu %n {L} : tensor<2x3xf32>\n"
       "%s = mpc.mul %q, %a {L} : (tensor<2x3xf32>, tensor<3xf32>) -> "
       "tensor<2x3xf32>\n"
       "%y = mpc.sub %p, %s {L} : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
       "tensor<2x3xf32>\n"},
      {"LeakyReLU",
       {kRow},
       kRow,
       "%y = mpc.leaky_relu %x0 alpha(0.3) {L} : tensor<2x3xf32>\n"},
      {"Embedding",
       {"tensor<2x5xi32>"},
       "tensor<2x5x4xf32>",
       "%k = mpc.constant dense<0.3> : tensor<7x4xf32>\n"
       "%y = mpc.gather %k, %x0 axis(0) {L} : (tensor<7x4xf32>, "
       "tensor<2x5xi32>) -> tensor<2x5x4xf32>\n"},
      {"LSTM",
       {kSteps},
       "tensor<2x4xf32>",
       RECURRENT(
           "16",
           "1") "%b = mpc.constant dense<0.1> : tensor<1x32xf32>\n"
                "%o, %h, %c = mpc.lstm %t, %k, %r bias(%b) {L} : "
                "(tensor<5x2x3xf32>, "
                "tensor<1x16x3xf32>, tensor<1x16x4xf32>, tensor<1x32xf32>) -> "
                "(tensor<5x1x2x4xf32>, tensor<1x2x4xf32>, "
                "tensor<1x2x4xf32>)\n" LAST_STEP,
       {"lstm_cell"}},
      {"GRU",
       {kSteps},
       "tensor<2x4xf32>",
       RECURRENT(
           "12",
           "1") "%b = mpc.constant dense<0.1> : tensor<1x24xf32>\n"
                "%o, %h = mpc.gru %t, %k, %r bias(%b) {L} : "
                "(tensor<5x2x3xf32>, "
                "tensor<1x12x3xf32>, tensor<1x12x4xf32>, tensor<1x24xf32>) -> "
                "(tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)\n" LAST_STEP,
       {"gru_cell"}},
      {"SimpleRNN",
       {kSteps},
       "tensor<2x4xf32>",
       RECURRENT(
           "4",
           "1") "%b = mpc.constant dense<0.1> : tensor<1x8xf32>\n"
                "%o, %h = mpc.rnn %t, %k, %r bias(%b) {L} : "
                "(tensor<5x2x3xf32>, "
                "tensor<1x4x3xf32>, tensor<1x4x4xf32>, tensor<1x8xf32>) -> "
                "(tensor<5x1x2x4xf32>, tensor<1x2x4xf32>)\n" LAST_STEP,
       {"simple_rnn_cell"}},
      {"Bidirectional_LSTM",
       {kSteps},
       "tensor<2x8xf32>",
       RECURRENT(
           "16",
           "2") "%o, %h, %c = mpc.lstm %t, %k, %r direction(bidirectional) {L} "
                ": "
                "(tensor<5x2x3xf32>, tensor<2x16x3xf32>, tensor<2x16x4xf32>) "
                "-> "
                "(tensor<5x2x2x4xf32>, tensor<2x2x4xf32>, tensor<2x2x4xf32>)\n"
                "%p = mpc.transpose %h [1, 0, 2] {L} : tensor<2x2x4xf32> to "
                "tensor<2x2x4xf32>\n"
                "%y = mpc.reshape %p {L} : tensor<2x2x4xf32> to "
                "tensor<2x8xf32>\n",
       {"forward_lstm", "backward_lstm", "lstm_cell"}},
      {"MultiHeadAttention",
       {"tensor<2x5x6xf32>", "tensor<2x5x6xf32>"},
       "tensor<2x5x6xf32>",
       PROJECT("query", "q") PROJECT("key", "k") PROJECT(
           "value", "v") "%o = mpc.attention %q, %k, %v scale(0.577) {L} : "
                         "(tensor<2x2x5x3xf32>, tensor<2x2x5x3xf32>, "
                         "tensor<2x2x5x3xf32>) -> "
                         "tensor<2x2x5x3xf32>\n"
                         "%ot = mpc.transpose %o [0, 2, 1, 3] {L} : "
                         "tensor<2x2x5x3xf32> to "
                         "tensor<2x5x2x3xf32>\n"
                         "%or = mpc.reshape %ot {L} : tensor<2x5x2x3xf32> to "
                         "tensor<2x5x6xf32>\n"
                         "%ko = mpc.constant dense<0.5> : tensor<6x6xf32>\n"
                         "%bo = mpc.constant dense<0.25> : tensor<6xf32>\n"
                         "%mo = mpc.matmul %or, %ko {L/attention_output} : "
                         "(tensor<2x5x6xf32>, "
                         "tensor<6x6xf32>) -> tensor<2x5x6xf32>\n"
                         "%y = mpc.add %mo, %bo {L/attention_output} : "
                         "(tensor<2x5x6xf32>, "
                         "tensor<6xf32>) -> tensor<2x5x6xf32>\n",
       {"query", "key", "value", "softmax", "dropout", "attention_output"}},
      {"Attention",
       {"tensor<2x4x3xf32>", "tensor<2x4x3xf32>", "tensor<2x4x3xf32>"},
       "tensor<2x4x3xf32>",
       "%y = mpc.attention %x0, %x2, %x1 scale(1.0) {L} : (tensor<2x4x3xf32>, "
       "tensor<2x4x3xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>\n"},
      {"Dropout", {kRow}, kRow, IDENTITY("tensor<2x3xf32>")},
      {"GaussianNoise", {kRow}, kRow, IDENTITY("tensor<2x3xf32>")},
      {"Identity", {kRow}, kRow, IDENTITY("tensor<2x3xf32>")},
      {"Add",
       {kRow, kRow},
       kRow,
       "%y = mpc.add %x0, %x1 {L} : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
       "tensor<2x3xf32>\n"},
      {"Multiply",
       {kRow, kRow},
       kRow,
       "%y = mpc.mul %x0, %x1 {L} : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
       "tensor<2x3xf32>\n"},
      {"Concatenate",
       {kRow, kRow},
       "tensor<2x6xf32>",
       "%y = mpc.concat %x0, %x1 axis(1) {L} : (tensor<2x3xf32>, "
       "tensor<2x3xf32>) -> tensor<2x6xf32>\n"},
      {"Dot",
       {kRow, kRow},
       "tensor<2x1xf32>",
       "%a = mpc.reshape %x0 {L} : tensor<2x3xf32> to tensor<2x1x3xf32>\n"
       "%b = mpc.reshape %x1 {L} : tensor<2x3xf32> to tensor<2x3x1xf32>\n"
       "%m = mpc.matmul %a, %b {L} : (tensor<2x1x3xf32>, tensor<2x3x1xf32>) -> "
       "tensor<2x1x1xf32>\n"
       "%y = mpc.reshape %m {L} : tensor<2x1x1xf32> to tensor<2x1xf32>\n"},
      {"Flatten",
       {"tensor<2x3x4xf32>"},
       "tensor<2x12xf32>",
       "%y = mpc.reshape %x0 {L} : tensor<2x3x4xf32> to tensor<2x12xf32>\n"},
      {"Reshape",
       {"tensor<2x3x4xf32>"},
       "tensor<2x12xf32>",
       "%y = mpc.reshape %x0 {L} : tensor<2x3x4xf32> to tensor<2x12xf32>\n"},
      {"MaxPooling2D",
       {kImage},
       "tensor<2x3x3x3xf32>",
       "%y = mpc.max_pool %x0 window([2, 2]) strides([2, 2]) pad([0, 0], [0, "
       "0]) dilations([1, 1]) {L} : tensor<2x3x6x6xf32> -> "
       "tensor<2x3x3x3xf32>\n"},
      {"GlobalAveragePooling2D",
       {kImage},
       kRow,
       "%y = mpc.reduce_mean %x0 axes([2, 3]) {L} : tensor<2x3x6x6xf32> -> "
       "tensor<2x3xf32>\n"},
      {"UpSampling2D",
       {kImage},
       "tensor<2x3x12x12xf32>",
       "%a = mpc.reshape %x0 {L} : tensor<2x3x6x6xf32> to "
       "tensor<2x3x6x1x6x1xf32>\n"
       "%b = mpc.broadcast %a {L} : tensor<2x3x6x1x6x1xf32> to "
       "tensor<2x3x6x2x6x2xf32>\n"
       "%y = mpc.reshape %b {L} : tensor<2x3x6x2x6x2xf32> to "
       "tensor<2x3x12x12xf32>\n"},
      {"ZeroPadding2D",
       {kImage},
       "tensor<2x3x8x8xf32>",
       "%z = mpc.constant dense<0.0> : tensor<f32>\n"
       "%y = mpc.pad %x0, %z low([0, 0, 1, 1]) high([0, 0, 1, 1]) {L} : "
       "(tensor<2x3x6x6xf32>, tensor<f32>) -> tensor<2x3x8x8xf32>\n"},
      {"Rescaling",
       {kRow},
       kRow,
       "%s = mpc.constant dense<0.5> : tensor<f32>\n"
       "%y = mpc.mul %x0, %s {L} : (tensor<2x3xf32>, tensor<f32>) -> "
       "tensor<2x3xf32>\n"},
      {"Normalization",
       {kRow},
       kRow,
       "%s = mpc.constant dense<0.0> : tensor<f32>\n"
       "%v = mpc.constant dense<1.0> : tensor<f32>\n"
       "%d = mpc.sub %x0, %s {L} : (tensor<2x3xf32>, tensor<f32>) -> "
       "tensor<2x3xf32>\n"
       "%y = mpc.div %d, %v {L} : (tensor<2x3xf32>, tensor<f32>) -> "
       "tensor<2x3xf32>\n"},
      {"Masking",
       {kSteps},
       kSteps,
       "%z = mpc.constant dense<0.0> : tensor<f32>\n"
       "%n = mpc.abs %x0 {L} : tensor<2x5x3xf32>\n"
       "%r = mpc.reduce_max %n axes([2]) keep_dims {L} : tensor<2x5x3xf32> -> "
       "tensor<2x5x1xf32>\n"
       "%p = mpc.compare ne %r, %z {L} : (tensor<2x5x1xf32>, tensor<f32>) -> "
       "tensor<2x5x1xi1>\n"
       "%y = mpc.select %p, %x0, %z {L} : (tensor<2x5x1xi1>, "
       "tensor<2x5x3xf32>, tensor<f32>) -> tensor<2x5x3xf32>\n"},
  };
  return all;
}

KerasLayerGraph mpc::replay::kerasLayerGraph(llvm::StringRef kind) {
  for (const Entry &entry : entries())
    if (kind == entry.kind)
      return {entry.inputs, entry.body, entry.result, entry.sublayers};
  return {};
}
