//===- PlannedMemory.cpp - contents of a program's buffers ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlannedMemory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::translation;

int64_t mpc::translation::elementBytes(RankedTensorType type) {
  return (type.getElementType().getIntOrFloatBitWidth() + 7) / 8;
}

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * elementBytes(type);
}

PlannedMemory::PlannedMemory(SymbolicTensors &tensors, exe::ProgramOp program)
    : tensors(&tensors) {
  for (exe::ArgumentOp argument : program.getProgramArguments()) {
    RankedTensorType type = argument.getTensorType();
    contents[argument.getSymName()] = {
        {.bytes = bytesOf(type),
         .tensor = tensors.input(
             (argument.getName() + "#" + Twine(argument.getIndex())).str(),
             type)}};
  }
  for (exe::ConstantOp constant : program.getProgramConstants())
    contents[constant.getSymName()] = {
        {.bytes = bytesOf(constant.getTensorType()),
         .tensor = tensors.constant(constant.getValue())}};
  for (exe::ResultOp result : program.getProgramResults())
    if (std::optional<StringRef> alias = result.getAlias())
      aliases[result.getSymName()] = alias->str();
}

PlannedMemory::Range PlannedMemory::rangeOf(Attribute buffer) const {
  if (auto arena = dyn_cast<exe::ArenaAttr>(buffer))
    // Not a symbol.
    return {"", arena.getOffset(), arena.getBytes()};
  Range range;
  if (auto part = dyn_cast<exe::PartAttr>(buffer))
    range = {part.getWhole().getValue().str(), part.getOffset(),
             part.getBytes()};
  else
    range.buffer = cast<FlatSymbolRefAttr>(buffer).getValue().str();
  if (auto alias = aliases.find(range.buffer); alias != aliases.end())
    range.buffer = alias->second;
  return range;
}

PlannedMemory::Read PlannedMemory::read(Attribute buffer,
                                        RankedTensorType type) {
  Range range = rangeOf(buffer);
  int64_t width = elementBytes(type), end = range.offset + bytesOf(type);
  Read result;
  int64_t covered = 0;
  for (const Content &content : contents[range.buffer]) {
    int64_t low = std::max(content.offset, range.offset),
            high = std::min(content.offset + content.bytes, end);
    if (low >= high || elementBytes(tensors->typeOf(content.tensor)) != width)
      continue;
    covered += high - low;
    Content &part = result.contents.emplace_back(content);
    part.skipped += (low - content.offset) / width;
    part.offset = low;
    part.bytes = high - low;
  }
  llvm::sort(result.contents, [](const Content &a, const Content &b) {
    return a.offset < b.offset;
  });
  SmallVector<Piece, 1> pieces;
  for (const Content &part : result.contents)
    pieces.push_back({(part.offset - range.offset) / width, part.skipped,
                      part.bytes / width, part.tensor});
  if (covered == bytesOf(type))
    result.tensor = tensors->view(pieces, type);
  else
    result.tensor =
        tensors->input("undefined memory " + std::to_string(++undefined), type);
  return result;
}

void PlannedMemory::write(Attribute buffer, const Content &content) {
  Range range = rangeOf(buffer);
  Content added = content;
  added.offset = range.offset;
  added.bytes = bytesOf(tensors->typeOf(content.tensor));
  int64_t end = added.offset + added.bytes;
  SmallVector<Content, 4> kept;
  for (const Content &old : contents[range.buffer]) {
    int64_t oldEnd = old.offset + old.bytes;
    if (oldEnd <= added.offset || old.offset >= end) {
      kept.push_back(old);
      continue;
    }
    int64_t width = elementBytes(tensors->typeOf(old.tensor));
    if (old.offset < added.offset) {
      kept.push_back(old);
      // A partly overwritten element is undefined.
      kept.back().bytes = (added.offset - old.offset) / width * width;
    }
    if (oldEnd > end) {
      int64_t lost =
          llvm::divideCeil(uint64_t(end - old.offset), uint64_t(width)) *
          uint64_t(width);
      kept.push_back(old);
      kept.back().offset += lost;
      kept.back().bytes -= lost;
      kept.back().skipped += lost / width;
    }
  }
  kept.push_back(added);
  contents[range.buffer] = kept;
}
