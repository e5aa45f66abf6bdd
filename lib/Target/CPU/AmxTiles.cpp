//===- AmxTiles.cpp - AMX tile instructions -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AmxTiles.h"

#include "EmulatedArithmetic.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <array>

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

/// Words per emulated register, and per row of it.
static constexpr int64_t kLine = AmxTiles::kRowBytes / 4,
                         kWords = AmxTiles::kRows * kLine;
/// Offsets in a configuration of palette 1 of the bytes per row, two bytes
/// each, and of the rows, one byte each.
static constexpr int64_t kRowBytesAt = 16, kRowsAt = 48;

AmxTiles::AmxTiles(OpBuilder &builder, func::FuncOp impl, bool isEmulated)
    : b(builder), loc(impl.getLoc()), impl(impl), math{builder, loc},
      values(builder, loc), isEmulated(isEmulated) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&impl.getBody().front());
  auto words = [&](int64_t count, Type type) {
    return memref::AllocaOp::create(b, loc, MemRefType::get({count}, type),
                                    b.getI64IntegerAttr(64));
  };
  if (isEmulated) {
    registers = words(kRegisters * kWords, b.getI32Type());
    current = words(8, b.getI64Type());
  }
  start = math.constant(0).getDefiningOp();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value AmxTiles::address(Value memory, Value offset) {
  auto type = cast<MemRefType>(memory.getType());
  Value start = memref::ExtractAlignedPointerAsIndexOp::create(b, loc, memory);
  Value at =
      math.add(start, math.mul(offset, type.getElementTypeBitWidth() / 8));
  Value number = values.castIndex(at, b.getI64Type());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  return LLVM::IntToPtrOp::create(b, loc, pointer, ValueRange{number});
}

Value AmxTiles::bytesBetween(const TileMemory &part) {
  int64_t bits =
      cast<MemRefType>(part.memory.getType()).getElementTypeBitWidth();
  return LLVM::ConstantOp::create(b, loc,
                                  b.getI64IntegerAttr(part.pitch * bits / 8));
}

/// Returns a block of 64 bytes at the function's start.
Value AmxTiles::configurationOf(const TileShapes &shapes) {
  Value &memory = configurations[shapes];
  if (memory)
    return memory;
  std::array<uint8_t, 64> bytes{};
  bytes[0] = 1;
  for (auto [tile, shape] : llvm::enumerate(shapes)) {
    bytes[kRowBytesAt + 2 * tile] = shape.rowBytes;
    bytes[kRowsAt + tile] = shape.rows;
  }
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(start);
  memory = memref::AllocaOp::create(
      b, loc, MemRefType::get({8}, b.getI64Type()), b.getI64IntegerAttr(64));
  for (int64_t at = 0; at < 8; ++at) {
    uint64_t word = 0;
    for (int64_t byte = 8; byte-- > 0;)
      word = word << 8 | bytes[8 * at + byte];
    math.store(values.integer(b.getI64Type(), int64_t(word)), memory,
               math.constant(at));
  }
  return memory;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void AmxTiles::instruction(StringRef name, ValueRange operands) {
  LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr("llvm.x86." + name),
                                operands);
}

Value AmxTiles::number(int64_t tile) {
  return LLVM::ConstantOp::create(b, loc, b.getI8IntegerAttr(tile));
}

void AmxTiles::configure(const TileShapes &shapes) {
  marks.push_back({math.constant(0).getDefiningOp(), shapes});
}

void AmxTiles::zero(int64_t tile) {
  if (!isEmulated)
    return instruction("tilezero", number(tile));
  Value zero = values.integer(b.getI32Type(), 0);
  forWords(tile, [&](Value row, Value column) {
    math.store(zero, registers, word(tile, row, column));
  });
}

void AmxTiles::load(int64_t tile, const TileMemory &from, bool isStreamed) {
  if (!isEmulated)
    return instruction(
        isStreamed ? "tileloaddt164" : "tileloadd64",
        {number(tile), address(from.memory, from.offset), bytesBetween(from)});
  forWords(tile, [&](Value row, Value column) {
    Value loaded = LLVM::LoadOp::create(b, loc, b.getI32Type(),
                                        wordAddress(from, row, column),
                                        /*alignment=*/1);
    math.store(loaded, registers, word(tile, row, column));
  });
}

void AmxTiles::store(int64_t tile, const TileMemory &to) {
  if (!isEmulated)
    return instruction(
        "tilestored64",
        {number(tile), address(to.memory, to.offset), bytesBetween(to)});
  forWords(tile, [&](Value row, Value column) {
    Value stored = math.load(registers, word(tile, row, column));
    LLVM::StoreOp::create(b, loc, stored, wordAddress(to, row, column),
                          /*alignment=*/1);
  });
}

void AmxTiles::multiply(AmxOperandTypes factors, int64_t sums, int64_t rows,
                        int64_t columns) {
  static constexpr StringLiteral kNames[] = {
      "tdpbf16ps", "tdpfp16ps", "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud"};
  if (!isEmulated)
    return instruction(kNames[int(factors)],
                       {number(sums), number(rows), number(columns)});
  bool isF16 = factors == AmxOperandTypes::F16;
  if (isF16 || factors == AmxOperandTypes::Bf16)
    return multiplyFloats(isF16, sums, rows, columns);
  bool isSigned = factors == AmxOperandTypes::SignedSigned,
       hasRows = isSigned || factors == AmxOperandTypes::SignedUnsigned,
       hasColumns = isSigned || factors == AmxOperandTypes::UnsignedSigned;
  multiplyBytes({hasRows, hasColumns}, sums, rows, columns);
}

/// Returns word `k` of a row in all lanes, and row `k` of the columns.
std::pair<Value, Value> AmxTiles::factorsAt(int64_t rows, Value row,
                                            int64_t columns, Value k) {
  Value x = math.load(registers, word(rows, row, k));
  return {values.splat(x, kLine),
          math.load(registers, word(columns, k, math.constant(0)), kLine)};
}

/// Intel's Software Developer's Manual, TDPBSSD and variants: for each
/// accumulator row, words of rows and columns are multiplied in order; the four
/// products of bytes are added to the accumulator, without saturation.
void AmxTiles::multiplyBytes(OperandSigns signs, int64_t sums, int64_t rows,
                             int64_t columns) {
  math.loop(math.constant(0), rowsOf(sums), 1, [&](Value row) {
    Value at = word(sums, row, math.constant(0));
    Value before = math.load(registers, at, kLine);
    Value after =
        math.loop(math.constant(0), wordsOf(rows), 1, before,
                  [&](Value k, ValueRange sum) {
                    auto [x, y] = factorsAt(rows, row, columns, k);
                    return Carried{addDots(b, loc, x, y, sum[0], 8, signs)};
                  })[0];
    math.store(after, registers, at);
  });
}

/// Intel's Software Developer's Manual, TDPBF16PS: for each accumulator row,
/// two temporary sums, initially zero, add the products of the first and of the
/// second operands of all pairs, in order, by FMA; their sum is added to the
/// accumulator. Everything is rounded to nearest even, and subnormal inputs and
/// results count as zeros. The same for TDPFP16PS, except that f16 subnormals
/// count: "Handle FP16 denorms. Not forcing input FP16 denorms to 0. FP32 FMA
/// with DAZ=FTZ=1".
void AmxTiles::multiplyFloats(bool isF16, int64_t sums, int64_t rows,
                              int64_t columns) {
  auto floats = VectorType::get({kLine}, b.getF32Type());
  math.loop(math.constant(0), rowsOf(sums), 1, [&](Value row) {
    Value none = values.constant(floats, 0);
    Carried halves =
        math.loop(math.constant(0), wordsOf(rows), 1, {none, none},
                  [&](Value k, ValueRange sofar) {
                    auto [x, y] = factorsAt(rows, row, columns, k);
                    Carried next;
                    for (int64_t half : {0, 1})
                      next.push_back(multiplyAddHalves(values, isF16, half == 1,
                                                       x, y, sofar[half]));
                    return next;
                  });
    Value pairs = flushSubnormals(values, values.add(halves[0], halves[1]));
    Value at = word(sums, row, math.constant(0));
    Value before = values.fromBits(math.load(registers, at, kLine), floats);
    Value after = flushSubnormals(
        values, values.add(flushSubnormals(values, before), pairs));
    math.store(values.bits(after), registers, at);
  });
}

//===----------------------------------------------------------------------===//
// Configurations
//===----------------------------------------------------------------------===//

void AmxTiles::loadConfiguration(const TileShapes &shapes) {
  Value memory = configurations.at(shapes);
  if (!isEmulated)
    return instruction("ldtilecfg", address(memory, math.constant(0)));
  math.loop(8,
            [&](Value at) { math.store(math.load(memory, at), current, at); });
  Value zero = values.integer(b.getI32Type(), 0);
  math.loop(kRegisters * kWords,
            [&](Value at) { math.store(zero, registers, at); });
}

void AmxTiles::finish() {
  OpBuilder::InsertionGuard guard(b);
  for (auto &[mark, shapes] : marks)
    configurationOf(shapes);
  bool isOnce = configurations.size() == 1;
  for (auto &[mark, shapes] : marks) {
    b.setInsertionPoint(mark);
    if (!isOnce)
      loadConfiguration(shapes);
    mark->erase();
  }
  b.setInsertionPoint(start);
  if (isOnce)
    loadConfiguration(configurations.begin()->first);
  start->erase();
  b.setInsertionPoint(impl.getBody().front().getTerminator());
  if (!isEmulated && !configurations.empty())
    instruction("tilerelease", {});
}

//===----------------------------------------------------------------------===//
// The emulation's registers
//===----------------------------------------------------------------------===//

/// Loads `bytes` bytes of the configuration at byte `at`, all in one word.
Value AmxTiles::configured(int64_t at, int64_t bytes) {
  Value whole = math.load(current, math.constant(at / 8));
  Value field = values.bitAnd(values.shiftRight(whole, at % 8 * 8),
                              (int64_t(1) << 8 * bytes) - 1);
  return values.castIndex(field, b.getIndexType());
}

Value AmxTiles::rowsOf(int64_t tile) { return configured(kRowsAt + tile, 1); }

Value AmxTiles::wordsOf(int64_t tile) {
  return math.div(configured(kRowBytesAt + 2 * tile, 2), 4);
}

Value AmxTiles::word(int64_t tile, Value row, Value column) {
  return math.add(math.add(math.mul(row, kLine), column), tile * kWords);
}

void AmxTiles::forWords(int64_t tile,
                        llvm::function_ref<void(Value, Value)> body) {
  Value words = wordsOf(tile);
  math.loop(math.constant(0), rowsOf(tile), 1, [&](Value row) {
    math.loop(math.constant(0), words, 1,
              [&](Value column) { body(row, column); });
  });
}

Value AmxTiles::wordAddress(const TileMemory &part, Value row, Value column) {
  Value line = math.add(part.offset, math.mul(row, part.pitch));
  return LLVM::GEPOp::create(
      b, loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI32Type(),
      address(part.memory, line),
      ValueRange{values.castIndex(column, b.getI64Type())});
}
