//===- EmitCuda.cpp - prints kernels as CUDA C++ --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints comment, signature, shared arrays and body of a kernel.
//
//===----------------------------------------------------------------------===//

#include "KernelAttributes.h"
#include "KernelComment.h"
#include "KernelPrinter.h"

#include "mpc/Support/EscapedText.h"
#include "mpc/Target/CUDA/Codegen.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;

KernelPrinter::KernelPrinter(gpu::GPUFuncOp kernel)
    : kernel(kernel), index64(kernel->hasAttr(kIndex64Attr)) {
  kernel.walk([&](Operation *op) {
    if (op->getNumResults())
      ++sharers[op->getLoc()];
  });
}

void KernelPrinter::fail(Operation *op, const Twine &why) {
  if (!failed)
    op->emitError() << "kernel '" << kernel.getName() << "': '"
                    << op->getName().getStringRef() << "' " << why;
  failed = true;
}

//===----------------------------------------------------------------------===//
// Lines
//===----------------------------------------------------------------------===//

void KernelPrinter::line(StringRef text) {
  body += wrapped(text, indent) + "\n";
}

void KernelPrinter::open(StringRef head) {
  line((head + " {").str());
  indent += 2;
}

void KernelPrinter::close(StringRef tail) {
  indent -= 2;
  line(tail);
}

//===----------------------------------------------------------------------===//
// Body
//===----------------------------------------------------------------------===//

void KernelPrinter::printBlock(Block &block) {
  SmallVector<Value> outer;
  std::swap(outer, waiting);
  for (Operation &op : block.without_terminator()) {
    if (failed)
      break;
    if (isOpTriviallyDead(&op))
      continue;
    printOp(&op);
  }
  // The terminator's operands are in `values`.
  waiting = std::move(outer);
}

void KernelPrinter::printOp(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return printFor(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return printIf(branch);
  if (auto loop = dyn_cast<scf::WhileOp>(op))
    return printWhile(loop);
  if (printArithmetic(op) || printVector(op) || printMemory(op) ||
      printGpu(op) || printCuda(op))
    return;
  fail(op, "has no form in CUDA C++");
}

//===----------------------------------------------------------------------===//
// Function
//===----------------------------------------------------------------------===//

void KernelPrinter::printComment(raw_ostream &os) {
  if (auto description = kernel->getAttrOfType<StringAttr>(kDescriptionAttr)) {
    SmallVector<StringRef> lines;
    description.getValue().split(lines, '\n');
    for (StringRef text : lines)
      os << "// " << commentText(text) << "\n";
  }
}

/// Returns true if the kernel writes to an input: counters of index checks.
static bool isWritten(BlockArgument input) {
  return llvm::any_of(input.getUsers(), [](Operation *user) {
    return isa<memref::AtomicRMWOp>(user);
  });
}

void KernelPrinter::printSignature(raw_ostream &os) {
  int64_t threads = 1;
  if (auto block = kernel.getKnownBlockSize())
    for (int32_t extent : *block)
      threads *= extent;
  int64_t inputs = 0;
  if (auto count = kernel->getAttrOfType<IntegerAttr>(kInputsAttr))
    inputs = count.getInt();
  bool hasScratch = kernel->hasAttr(kScratchAttr);
  // Results may alias arguments.
  bool isInPlace = kernel->hasAttr("mpc.in_place");

  std::string head = "MPC_KERNEL(" + std::to_string(threads) + ") void " +
                     kernel.getName().str() + "(";
  SmallVector<std::string> parameters;
  // Shared arrays follow the parameters.
  int64_t count = kernel.getFunctionType().getNumInputs();
  for (BlockArgument argument : kernel.getArguments().take_front(count)) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    if (!type) {
      fail(kernel, "has an argument that is not a memref");
      return;
    }
    int64_t number = argument.getArgNumber();
    bool isInput = number < inputs;
    bool isScratch = hasScratch && number == count - 1;
    std::string wanted = identifierFrom(nameOf(argument.getLoc()));
    if (wanted.empty())
      wanted = isInput ? "x" : "y";
    std::string name = names.add(wanted);
    buffers[argument] = {name};
    parameters.push_back((isInput && !isWritten(argument) ? "const " : "") +
                         typeName(type.getElementType(), kernel) + " *" +
                         (isScratch || isInPlace ? "" : "__restrict__ ") +
                         name);
  }
  size_t length = head.size() + 3;
  for (const std::string &parameter : parameters)
    length += parameter.size() + 2;
  bool oneLine = length <= 80;
  os << head;
  for (auto [i, parameter] : llvm::enumerate(parameters)) {
    if (!oneLine)
      os << "\n    ";
    os << parameter;
    if (i + 1 < parameters.size())
      os << (oneLine ? ", " : ",");
  }
  os << ") {\n";
}

void KernelPrinter::printSharedArrays() {
  for (BlockArgument array : kernel.getWorkgroupAttributions()) {
    auto type = cast<MemRefType>(array.getType());
    std::string wanted = identifierFrom(nameOf(array.getLoc()));
    std::string name = names.add(wanted.empty() ? "tile" : wanted);
    std::string extents;
    for (int64_t extent : type.getShape())
      extents += "[" + std::to_string(extent) + "]";
    line("MPC_SHARED(" + typeName(type.getElementType(), kernel) + ", " + name +
         ", " + (extents.empty() ? "[1]" : extents) + ");");
    buffers[array] = {name, /*isArray=*/type.getRank() > 0};
  }
  if (!kernel.getPrivateAttributions().empty())
    fail(kernel, "has private memory as an argument; use memref.alloca");
}

/// Returns true if `name`, possibly read from a file, is an ASCII identifier.
static bool isIdentifier(StringRef name) {
  return !name.empty() && !llvm::isDigit(name.front()) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

LogicalResult KernelPrinter::print(raw_ostream &os) {
  if (!isIdentifier(kernel.getName()))
    return kernel.emitError() << "kernel '" << kernel.getName()
                              << "' has a name that is not a C++ identifier";
  std::string head;
  llvm::raw_string_ostream headStream(head);
  printComment(headStream);
  printSignature(headStream);
  printSharedArrays();
  line("mpc::kernelBegin();");
  if (!llvm::hasSingleElement(kernel.getBody()))
    fail(kernel, "has several blocks; kernels use scf for control flow");
  else
    printBlock(kernel.getBody().front());
  if (failed)
    return failure();
  os << head << body << "}\n";
  return success();
}

LogicalResult mpc::emitCuda(gpu::GPUFuncOp kernel, raw_ostream &os) {
  return KernelPrinter(kernel).print(os);
}

LogicalResult mpc::emitCuda(gpu::GPUModuleOp module, raw_ostream &os) {
  StringRef separator = "";
  for (auto kernel : module.getOps<gpu::GPUFuncOp>()) {
    os << separator;
    if (mlir::failed(emitCuda(kernel, os)))
      return failure();
    separator = "\n";
  }
  return success();
}
