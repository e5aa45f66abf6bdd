//===- TileOps.td - the tile dialect -----------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_DIALECT_TILE_IR_TILEOPS
#define MPC_DIALECT_TILE_IR_TILEOPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::mpc::tile";
  let summary = "Target-independent tile programs of kernels";
  let description = [{
    A kernel consists of independent work items (`tile.for_each`). A thread group (team)
    processes an item: one CPU thread, the lanes of a warp, a block, or several blocks.
    Its threads (members) loop over the positions of the item together (`tile.loop`),
    and reduce their values (`tile.reduce`). The computation at a position is in vector,
    arith, math and memref.

    No op depends on lanes, threads or memories. The thread mapping is an attribute
    (`#tile.threads`, chosen by `mpc-schedule`): an item without one lowers to loops.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::vector::VectorDialect"];
}

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

class Tile_Type<string name, string typeMnemonic> : TypeDef<Tile_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Tile_ItemBufferType : Tile_Type<"ItemBuffer", "buffer"> {
  let summary = "buffer of an item, one value per position";
  let description = [{
    `shape` are the extents of the loops and, for several numbers per position,
    their number. The lifetime is that of the item.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element);
  let assemblyFormat = "`<` `[` $shape `]` `x` $element `>`";
}

def Tile_AccumulatorsType : Tile_Type<"Accumulators", "accumulators"> {
  let summary = "accumulators over all items, one per column";
  let parameters = (ins "int64_t":$columns, "::mlir::Type":$element);
  let assemblyFormat = "`<` $columns `x` $element `>`";
}

class Tile_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc::tile";
  let genSpecializedAttr = 0;
}

def Tile_NamedReduction : Tile_Enum<"NamedReduction", "reduction with a native instruction", [
  I32EnumAttrCase<"any", 0>, I32EnumAttrCase<"sum", 1>, I32EnumAttrCase<"largest", 2>,
  I32EnumAttrCase<"least", 3>]>;
def Tile_NamedReductionAttr : EnumAttr<Tile_Dialect, Tile_NamedReduction, "joining">;

def Tile_Place : Tile_Enum<"Place", "memory of a buffer", [
  I32EnumAttrCase<"nowhere", 0>, I32EnumAttrCase<"registers", 1>, I32EnumAttrCase<"shared", 2>]>;

def Tile_ThreadMappingAttr : AttrDef<Tile_Dialect, "ThreadMapping"> {
  let mnemonic = "threads";
  let summary = "thread mapping of items";
  let description = [{
    `members` threads share an item, and a block has `items` items; each thread processes
    `steps` vectors of an item, each `vector` wide. `splits` blocks share an item: the
    last-arriving one reduces their results (split-K). A block processes `rounds` items
    in turn. Sums over items are first reduced by `groups` of blocks. Items start at block
    `first_block` of the grid. `every_block`: each block computes all items redundantly,
    with a warp or a part of one per item.

    `columns`: adjacent threads process adjacent items, otherwise adjacent positions of
    one item.
    - (C1) all numbers are positive, `steps` and `first_block` may be 0; a block has at most 1024 threads.
    - (C2) members of a block that share lanes of a warp are a power of two.
    - (C3) where every block takes all items, a team has at most 32 members and one
      block.
  }];
  let parameters = (ins
    DefaultValuedParameter<"int64_t", "1">:$members, DefaultValuedParameter<"int64_t", "1">:$items,
    DefaultValuedParameter<"int64_t", "1">:$vector, DefaultValuedParameter<"int64_t", "1">:$steps,
    DefaultValuedParameter<"int64_t", "1">:$splits, DefaultValuedParameter<"int64_t", "1">:$rounds,
    DefaultValuedParameter<"int64_t", "1">:$groups, DefaultValuedParameter<"int64_t", "0">:$first_block,
    DefaultValuedParameter<"::mpc::tile::Place", "::mpc::tile::Place::nowhere">:$keep,
    DefaultValuedParameter<"::mpc::tile::Place", "::mpc::tile::Place::registers">:$sums,
    DefaultValuedParameter<"bool", "false">:$columns,
    DefaultValuedParameter<"bool", "false">:$every_block);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Tile_Packing : Tile_Enum<"Packing", "packed operands of a contraction", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"left", 1>, I32EnumAttrCase<"right", 2>,
  I32EnumAttrCase<"both", 3>]>;

def Tile_Ahead : Tile_Enum<"Ahead", "operands that a contraction prefetches", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"rows", 1>, I32EnumAttrCase<"residuals", 2>,
  I32EnumAttrCase<"both", 3>]>;

def Tile_BlocksAttr : AttrDef<Tile_Dialect, "Blocks"> {
  let mnemonic = "blocks";
  let summary = "blocking of a contraction on one CPU thread";
  let description = [{
    Register block (GotoBLAS-style): accumulators of at most `rows` rows and `columns`
    columns, a block of rows times a panel of columns. Blocks have almost equal sizes;
    those of a convolution are output pixels, of one row or of several whole rows.

    An item has `blocks_per_item` blocks (of a convolution: rows of them) and
    `panels_per_item` panels; 0: all. The contracted depth is processed in chunks of
    `chunk` positions, between which accumulators are stored in memory; 0: all at once,
    and accumulators stay in registers. `pack` lists the operands that are first packed
    in load order and accumulator type; the others are read in place. `ahead` lists what
    is prefetched during a block: the rows of the next block, and the epilogue's
    residuals.

    In attention with few rows a block is a head: an item has `blocks_per_item` heads and
    `chunk` positions of their keys (split-KV; 0: all), and later items reduce the partial
    results. `ahead = rows` prefetches rows of the KV cache, for all heads of a position.

    ```mlir
    #tile.blocks<rows = 14, columns = 32, chunk = 512, blocks_per_item = 55, panels_per_item = 8, pack = both>
    ```
    - (C1) `rows`, `columns` and `blocks_per_item` are positive, `chunk` and
      `panels_per_item` not negative.
  }];
  let parameters = (ins
    "int64_t":$rows, "int64_t":$columns,
    DefaultValuedParameter<"int64_t", "0">:$chunk,
    DefaultValuedParameter<"int64_t", "1">:$blocks_per_item,
    DefaultValuedParameter<"int64_t", "0">:$panels_per_item,
    DefaultValuedParameter<"::mpc::tile::Packing", "::mpc::tile::Packing::none">:$pack,
    DefaultValuedParameter<"::mpc::tile::Ahead", "::mpc::tile::Ahead::none">:$ahead);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool packsLeft() const { return getPack() == Packing::left || getPack() == Packing::both; }
    bool packsRight() const { return getPack() == Packing::right || getPack() == Packing::both; }
    bool fetchesRows() const { return getAhead() == Ahead::rows || getAhead() == Ahead::both; }
    bool fetchesResiduals() const {
      return getAhead() == Ahead::residuals || getAhead() == Ahead::both;
    }
  }];
}

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator]> {
  let summary = "Terminator of tile regions";
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{
    // Implicit terminators yield nothing.
  }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

class Tile_RegionOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, traits # [SingleBlock, RecursiveMemoryEffects,
                                  SingleBlockImplicitTerminator<"YieldOp">]>;

def Tile_ForEachOp : Tile_RegionOp<"for_each"> {
  let summary = "Parallel loop over work items";
  let description = [{
    ```mlir
    tile.for_each %row in (6144) cycles(1.2e+03) threads(#tile.threads<members = 32, items = 4>) { ... }
    ```
    Runs the region once per item in [0, `count`), in any order and in parallel. `cycles`
    is the approximate cost of an item. `in_order`: items start after those of preceding
    ops have finished; otherwise they may run concurrently.
  }];
  let arguments = (ins I64Attr:$count, F64Attr:$cycles, UnitAttr:$in_order,
                       OptionalAttr<Tile_ThreadMappingAttr>:$team);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "int64_t":$count, "double":$cycles, "bool":$inOrder,
                                 CArg<"::mpc::tile::ThreadMappingAttr", "{}">:$team)>];
  let extraClassDeclaration = [{
    ::mlir::Value getItem() { return getBody().getArgument(0); }
  }];
}

def Tile_ItemLoopOp : Tile_RegionOp<"loop"> {
  let summary = "Loop over the positions of an item, distributed over its threads";
  let description = [{
    ```mlir
    %largest = tile.loop (%a, %c) from (0, 0) to (64, 512) by 8 carry(%best = %lowest) : vector<8xf32> {
      ...
      tile.yield %next : vector<8xf32>
    }
    ```
    The region runs at vectors of `by` positions along the last dimension with
    loop-carried values; each thread starts from the operands, and the results are its
    final values. If `by` does not divide a row, the last vector overlaps the previous
    one; with `masked` the region has one more argument after the positions, a mask of
    the lanes that no other vector covers (vector<by x i1>).
    - (C1) `from`, `to` have one number for each position, from <= to, by >= 1.
    - (C2) a row has at least one vector, or no position.
    - (C3) the region's arguments are the positions, the mask and the carried values; it
      yields values of the latter's types.
    - (C4) loops are not nested.
  }];
  let arguments = (ins Variadic<AnyType>:$initial, DenseI64ArrayAttr:$from, DenseI64ArrayAttr:$to,
                       I64Attr:$by, UnitAttr:$masked);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::ArrayRef<int64_t>":$from, "::llvm::ArrayRef<int64_t>":$to,
                                 "int64_t":$by, "bool":$masked, "::mlir::ValueRange":$initial)>];
  let extraClassDeclaration = [{
    ::mlir::ValueRange getPositions() {
      return getBody().getArguments().take_front(getFrom().size());
    }
    /// The mask of the last vector; null where there is none.
    ::mlir::Value getMask() {
      return getMasked() ? getBody().getArgument(unsigned(getFrom().size())) : ::mlir::Value();
    }
    ::mlir::ValueRange getCarried() {
      return getBody().getArguments().take_back(getInitial().size());
    }
  }];
}

def Tile_ItemReduceOp : Tile_RegionOp<"reduce", [AttrSizedOperandSegments]> {
  let summary = "Reduction over the threads of an item";
  let description = [{
    ```mlir
    %m = tile.reduce largest %best from(%lowest : f32) "largest" : (vector<8xf32>) -> f32 {
    ^bb0(%x: f32, %y: f32):
      ...
      tile.yield %z : f32
    }
    ```
    The region combines two values; it is associative up to rounding, with the identity
    `from`. The thread mapping fixes the order of lanes and threads. If the operand is a
    vector and the result a scalar, lanes are reduced too. Every thread gets the result
    (all-reduce). `name` names the result in printed code.
    - (C1) a result has the operand's type, or its element type; all alike.
    - (C2) the region takes two scalars for each operand and yields one; there is one
      identity scalar for each.
    - (C3) a reduction is after the loops, not inside.
  }];
  let arguments = (ins Variadic<AnyType>:$values, Variadic<AnyType>:$identities,
                       Tile_NamedReductionAttr:$joining, StrAttr:$name);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<NamedReduction>($joining) $values `from` `(` $identities `:` type($identities) `)` $name attr-dict
    `:` functional-type($values, $results) $body
  }];
  let hasRegionVerifier = 1;
}

def Tile_ItemStoreOp : Tile_RegionOp<"store"> {
  let summary = "Stores of an item";
  let description = [{
    Skipped by thread groups without an item (out of bounds); with `once` only one
    thread stores.
  }];
  let arguments = (ins UnitAttr:$once);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`once` $once^)? $body attr-dict";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "bool":$once)>];
}

//===----------------------------------------------------------------------===//
// Buffers of an item
//===----------------------------------------------------------------------===//

def Tile_ItemBufferOp : Tile_Op<"buffer", [MemoryEffects<[MemAlloc]>]> {
  let summary = "Buffer with one value per position of an item";
  let arguments = (ins StrAttr:$name);
  let results = (outs Tile_ItemBufferType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Tile_BufferWriteOp : Tile_Op<"write", [MemoryEffects<[MemWrite]>]> {
  let summary = "Store values to a buffer at the positions of a loop";
  let description = [{
    A loop that reads them has the same extents and vectors.
    - (C1) the op is in a loop; the buffer is a tile.buffer with as many extents as there
      are positions, or one more.
  }];
  let arguments = (ins AnyType:$value, Tile_ItemBufferType:$place, Variadic<Index>:$positions);
  let assemblyFormat = "$value `,` $place `[` $positions `]` attr-dict `:` type($value) `,` type($place)";
  let hasVerifier = 1;
}

def Tile_BufferReadOp : Tile_Op<"read", [MemoryEffects<[MemRead]>]> {
  let summary = "Load values that an earlier loop stored to a buffer";
  let arguments = (ins Tile_ItemBufferType:$place, Variadic<Index>:$positions);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$place `[` $positions `]` attr-dict `:` type($place) `,` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Sums over items
//===----------------------------------------------------------------------===//

def Tile_AccumulatorsOp : Tile_Op<"accumulators", [MemoryEffects<[MemAlloc]>]> {
  let summary = "Accumulators over all items, initially zero";
  let results = (outs Tile_AccumulatorsType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_AccumulateOp : Tile_Op<"accumulate", [MemoryEffects<[MemWrite]>]> {
  let summary = "Add an item's values at a position of a loop to accumulators";
  let description = [{
    With one column, the lanes of all positions are summed. Within a worker, items are
    added in index order, then workers in index order.
  }];
  let arguments = (ins AnyType:$value, Tile_AccumulatorsType:$sums, Variadic<Index>:$positions);
  let assemblyFormat = "$value `,` $sums `[` $positions `]` attr-dict `:` type($value) `,` type($sums)";
  let hasVerifier = 1;
}

def Tile_TotalOp : Tile_RegionOp<"total"> {
  let summary = "Reads accumulators after all items have finished";
  let description = [{
    ```mlir
    tile.total %s, %t by 4 : !tile.accumulators<768 x f32>, !tile.accumulators<768 x f32> {
    ^bb0(%column: index, %x: vector<4xf32>, %y: vector<4xf32>): ...
    }
    ```
    The region runs at vectors of `by` columns.
    - (C1) all accumulators have the same number of columns, a multiple of `by`.
    - (C2) the region takes an index and a vector (of one: a scalar) per operand.
  }];
  let arguments = (ins Variadic<Tile_AccumulatorsType>:$sums, I64Attr:$by);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sums `by` $by attr-dict `:` type($sums) $body";
  let hasRegionVerifier = 1;
}

#endif // MPC_DIALECT_TILE_IR_TILEOPS
