//===- KernelComment.cpp - comment above a kernel's CUDA text -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelComment.h"

#include "CxxIdentifiers.h"

#include "mpc/Support/EscapedText.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Characters after "// " in a line of 80 columns.
static constexpr size_t kWidth = 77;

/// Appends `item` to a list, on a new line if it does not fit.
static void append(std::string &text, StringRef item, StringRef separator) {
  size_t start = text.rfind('\n');
  size_t column =
      start == std::string::npos ? text.size() : text.size() - start - 1;
  if (column == 0) {
    text += item;
    return;
  }
  text += separator;
  if (column + separator.size() + item.size() + 1 > kWidth)
    text += "\n  ";
  else
    text += " ";
  text += item;
}

/// Returns the last two components of an op's name in the model.
static StringRef shortName(Operation *op) {
  StringRef name = nameOf(op->getLoc());
  size_t last = name.rfind('/');
  if (last == StringRef::npos)
    return name;
  size_t before = name.rfind('/', last);
  return before == StringRef::npos ? name : name.substr(before + 1);
}

static std::string typeText(Type type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    for (int64_t extent : tensor.getShape())
      os << extent << "x";
    os << tensor.getElementType();
  } else {
    os << type;
  }
  return text;
}

std::string cuda::describeKernel(func::FuncOp kernel) {
  std::string text;
  StringRef lastName;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == kernel || op->hasTrait<OpTrait::IsTerminator>() ||
        op->hasTrait<OpTrait::ConstantLike>())
      return;
    // Constants with external data are not computations either.
    StringRef mnemonic = op->getName().stripDialect();
    if (mnemonic == "constant")
      return;
    std::string item = mnemonic.str();
    StringRef name = shortName(op);
    if (!name.empty() && name != lastName)
      item += " (" + commentText(name) + ")";
    lastName = name;
    append(text, item, text.empty() ? "" : ",");
  });

  text += "\n";
  bool first = true;
  for (BlockArgument argument : kernel.getArguments()) {
    std::string item = identifierFrom(nameOf(argument.getLoc()));
    item += (item.empty() ? "" : ": ") + typeText(argument.getType());
    append(text, item, first ? "" : ",");
    first = false;
  }
  first = true;
  for (Type type : kernel.getResultTypes()) {
    append(text, (first ? "-> " : "") + typeText(type), first ? "" : ",");
    first = false;
  }
  return text;
}
