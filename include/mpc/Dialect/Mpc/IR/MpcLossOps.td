//===- MpcLossOps.td - losses -------------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_MPC_IR_MPCLOSSOPS
#define MPC_DIALECT_MPC_IR_MPCLOSSOPS

include "mpc/Dialect/Mpc/IR/MpcOpBase.td"

/// Scalar loss in the predictions' element type: a mean, accumulated in that
/// type.
class Mpc_LossOp<string mnemonic, string text, string flops>
    : Mpc_InferredOp<mnemonic, "Opaque", flops # " * ::mpc::elementCount(getPredictions())",
                     [Mpc_Loss, Mpc_Composite]> {
  let summary = text;
  let results = (outs Mpc_FloatTensor:$loss);
}

def Mpc_SoftmaxCrossEntropyOp
    : Mpc_LossOp<"softmax_cross_entropy", "Mean cross entropy of logits and classes", "16"> {
  let description = [{
    `mean over rows of -sum over c of p[c] * log_softmax(predictions)[c]` along the
    last axis. Integer targets hold the class of each row: p is one-hot, and 0 for a
    nonexistent class. Float targets hold p itself. With `label_smoothing` s, p
    becomes `(1 - s) * p + s / classes` (Szegedy et al., arXiv 1512.00567). Rows of
    class `ignore_index` are excluded from sum and mean; if all are ignored the loss
    is 0/0, NaN, as in PyTorch.
    - (C1) integer targets have the shape of the predictions without the last axis.
    - (C2) float targets have the predictions' type.
    - (C3) `ignore_index` goes with integer targets only.
    - (C4) `label_smoothing` is in [0, 1].
  }];
  let arguments = (ins Mpc_FloatTensor:$predictions, Mpc_Tensor:$targets,
                       DefaultValuedAttr<F64Attr, "0.0">:$label_smoothing,
                       OptionalAttr<I64Attr>:$ignore_index);
  let assemblyFormat = [{
    $predictions `,` $targets (`label_smoothing` `(` $label_smoothing^ `)`)?
    (`ignore_index` `(` $ignore_index^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

class Mpc_RegressionLossOp<string mnemonic, string text, string flops>
    : Mpc_LossOp<mnemonic, text, flops> {
  let description = [{
    A mean over all elements.
    - (C1) targets have the predictions' type.
  }];
  let arguments = (ins Mpc_FloatTensor:$predictions, Mpc_FloatTensor:$targets);
  let assemblyFormat = "$predictions `,` $targets attr-dict `:` functional-type(operands, results)";
}
def Mpc_SigmoidCrossEntropyOp
    : Mpc_RegressionLossOp<"sigmoid_cross_entropy",
        "mean of max(x, 0) - x * z + log(1 + e^-|x|), z the targets", "24">;
def Mpc_MeanSquaredErrorOp
    : Mpc_RegressionLossOp<"mean_squared_error", "mean of (predictions - targets)^2", "3">;
def Mpc_MeanAbsoluteErrorOp
    : Mpc_RegressionLossOp<"mean_absolute_error", "mean of |predictions - targets|", "3">;
def Mpc_HuberOp : Mpc_RegressionLossOp<"huber", "Quadratic near the target, linear far from it", "6"> {
  let description = [{
    The mean of `d^2 / 2` if `|d| <= delta`, else `delta * (|d| - delta / 2)`, d the
    difference (Huber 1964).
    - (C1) targets have the predictions' type.
    - (C2) `delta` is positive.
  }];
  let arguments = (ins Mpc_FloatTensor:$predictions, Mpc_FloatTensor:$targets,
                       DefaultValuedAttr<F64Attr, "1.0">:$delta);
  let assemblyFormat = [{
    $predictions `,` $targets (`delta` `(` $delta^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif // MPC_DIALECT_MPC_IR_MPCLOSSOPS
