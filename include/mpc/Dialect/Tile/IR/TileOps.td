//===- TileOps.td - the tile dialect ------------------------*- tablegen -*-===//
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
  let summary = "A kernel as one program for every machine";
  let description = [{
    Work is cut into items that are independent of each other (`tile.own`). A team
    has an item: one thread of a CPU, the lanes of a warp, a block, or several blocks.
    It walks the positions of the item together (`tile.walk`), each of its members
    some of them, and joins what they have (`tile.join`). What is computed at a position
    is written in vector, arith, math and memref.

    No op knows lanes, threads or memories. Those are the team's (`#tile.team`, chosen
    by `mpc-schedule`): an item without one is walked by loops.
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

def Tile_KeptType : Tile_Type<"Kept", "kept"> {
  let summary = "what a team keeps of an item, a number for each position";
  let description = [{
    `shape` are the extents that walks have and, where each position has several
    numbers side by side, how many. Lives as long as the item.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element);
  let assemblyFormat = "`<` `[` $shape `]` `x` $element `>`";
}

def Tile_SumsType : Tile_Type<"Sums", "sums"> {
  let summary = "sums over all items, one for each of `columns` positions";
  let parameters = (ins "int64_t":$columns, "::mlir::Type":$element);
  let assemblyFormat = "`<` $columns `x` $element `>`";
}

class Tile_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc::tile";
  let genSpecializedAttr = 0;
}

def Tile_Joining : Tile_Enum<"Joining", "a way to join that machines have by name", [
  I32EnumAttrCase<"any", 0>, I32EnumAttrCase<"sum", 1>, I32EnumAttrCase<"largest", 2>,
  I32EnumAttrCase<"least", 3>]>;
def Tile_JoiningAttr : EnumAttr<Tile_Dialect, Tile_Joining, "joining">;

def Tile_Place : Tile_Enum<"Place", "where a team has what it keeps", [
  I32EnumAttrCase<"nowhere", 0>, I32EnumAttrCase<"registers", 1>, I32EnumAttrCase<"shared", 2>]>;

def Tile_TeamAttr : AttrDef<Tile_Dialect, "Team"> {
  let mnemonic = "team";
  let summary = "how items are spread over threads";
  let description = [{
    `members` threads share an item and `items` of these a block; each member has
    `steps` vectors of an item, every one `vector` wide. `splits` blocks share an item:
    the last of them to come joins what all have. A block takes new items `rounds`
    times. Sums over items are joined by `groups` of blocks first. Items begin at block
    `first_block` of the grid. `every_block`: each block takes all items, for itself;
    a team then is a warp or a part of one.

    `columns`: neighbouring threads have neighbouring items, else neighbouring
    positions of one.
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

def Tile_Packing : Tile_Enum<"Packing", "which operands of a product are copied before it", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"left", 1>, I32EnumAttrCase<"right", 2>,
  I32EnumAttrCase<"both", 3>]>;

def Tile_Ahead : Tile_Enum<"Ahead", "what a contraction asks memory for before it reads it", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"rows", 1>, I32EnumAttrCase<"residuals", 2>,
  I32EnumAttrCase<"both", 3>]>;

def Tile_BlocksAttr : AttrDef<Tile_Dialect, "Blocks"> {
  let mnemonic = "blocks";
  let summary = "how one worker cuts a contraction";
  let description = [{
    The sums of at most `rows` rows and `columns` columns stand in registers at once: a
    block of rows times a panel of columns. Blocks are of almost equal size; those of a
    convolution are output pixels, of one line or of several whole ones.

    An item has `blocks_per_item` blocks (of a convolution: lines of them) and
    `panels_per_item` panels; 0: all. The depth is gone through `chunk` positions at
    a time, between which sums wait in memory; 0: all at once, and sums leave registers
    as results only. `pack` names the operands that are copied to the order of loads and
    the type of sums first; the others are read where they lie. `ahead` names what is
    prefetched while a block is multiplied: the rows of the next one, and what the epilogue
    adds to the block's sums.

    A block of attention of few rows is a head: an item has `blocks_per_item` of them and
    `chunk` positions of their keys (0: all), and later items join what these leave. `ahead =
    rows` there asks for rows of a cache, with all heads of a position.

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
  let summary = "Values that a region of the tile dialect ends with";
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{
    // What implicit terminators yield: nothing.
  }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

class Tile_RegionOp<string mnemonic, list<Trait> traits = []>
    : Tile_Op<mnemonic, traits # [SingleBlock, RecursiveMemoryEffects,
                                  SingleBlockImplicitTerminator<"YieldOp">]>;

def Tile_OwnOp : Tile_RegionOp<"own"> {
  let summary = "Items of work, in any order and split";
  let description = [{
    ```mlir
    tile.own %row in (6144) cycles(1.2e+03) team(#tile.team<members = 32, items = 4>) { ... }
    ```
    The region is run once for each item below `count`. `cycles` is what one costs,
    about. `in_order`: items begin when those of the ops before have ended; else they
    may run beside them.
  }];
  let arguments = (ins I64Attr:$count, F64Attr:$cycles, UnitAttr:$in_order,
                       OptionalAttr<Tile_TeamAttr>:$team);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "int64_t":$count, "double":$cycles, "bool":$inOrder,
                                 CArg<"::mpc::tile::TeamAttr", "{}">:$team)>];
  let extraClassDeclaration = [{
    ::mlir::Value getItem() { return getBody().getArgument(0); }
  }];
}

def Tile_WalkOp : Tile_RegionOp<"walk"> {
  let summary = "All positions of an item, each by one member of its team";
  let description = [{
    ```mlir
    %largest = tile.walk (%a, %c) from (0, 0) to (64, 512) by 8 carry(%best = %lowest) : vector<8xf32> {
      ...
      tile.yield %next : vector<8xf32>
    }
    ```
    The region runs at vectors of `by` positions along the last dimension and carries
    values from one to the next; each member begins with the operands and gives what it
    has at the end. Where `by` does not divide a line, its last vector overlaps the one
    before; with `masked` the region has one more argument behind the positions, the
    lanes that no other vector has (vector<by x i1>).
    - (C1) `from`, `to` have one number for each position, from <= to, by >= 1.
    - (C2) a line has at least one vector, or no position.
    - (C3) the region's arguments are the positions, the mask, what is carried; it
      yields values of these types.
    - (C4) no walk stands inside of another.
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

def Tile_JoinOp : Tile_RegionOp<"join", [AttrSizedOperandSegments]> {
  let summary = "What all members of a team have, joined";
  let description = [{
    ```mlir
    %m = tile.join largest %best from(%lowest : f32) "largest" : (vector<8xf32>) -> f32 {
    ^bb0(%x: f32, %y: f32):
      ...
      tile.yield %z : f32
    }
    ```
    The region joins two; it is associative up to rounding, and what the join is `from`
    changes nothing. The order in which lanes and
    members are joined is fixed by the team. A result that is a scalar where the operand
    is a vector joins the lanes too. Every member has the result. `name` is that of the
    result in printed code.
    - (C1) a result has the operand's type, or its element type; all alike.
    - (C2) the region takes two scalars for each operand and yields one; the join is
      from one.
    - (C3) a join stands behind the walks, not inside.
  }];
  let arguments = (ins Variadic<AnyType>:$values, Variadic<AnyType>:$identities,
                       Tile_JoiningAttr:$joining, StrAttr:$name);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<Joining>($joining) $values `from` `(` $identities `:` type($identities) `)` $name attr-dict
    `:` functional-type($values, $results) $body
  }];
  let hasRegionVerifier = 1;
}

def Tile_CommitOp : Tile_RegionOp<"commit"> {
  let summary = "What is written of an item";
  let description = [{
    Stores of a team whose item does not exist are left out; with `once` one member
    stores for all.
  }];
  let arguments = (ins UnitAttr:$once);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`once` $once^)? $body attr-dict";
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "bool":$once)>];
}

//===----------------------------------------------------------------------===//
// What a team keeps
//===----------------------------------------------------------------------===//

def Tile_KeepOp : Tile_Op<"keep", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A place for a number at each position of an item";
  let arguments = (ins StrAttr:$name);
  let results = (outs Tile_KeptType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Tile_SaveOp : Tile_Op<"save", [MemoryEffects<[MemWrite]>]> {
  let summary = "Keep values at the positions of a walk";
  let description = [{
    A walk that reads them has the same extents and vectors.
    - (C1) stands in a walk; the place is that of a tile.keep, which has as many extents
      as there are positions, or one more.
  }];
  let arguments = (ins AnyType:$value, Tile_KeptType:$place, Variadic<Index>:$positions);
  let assemblyFormat = "$value `,` $place `[` $positions `]` attr-dict `:` type($value) `,` type($place)";
  let hasVerifier = 1;
}

def Tile_KeptOp : Tile_Op<"kept", [MemoryEffects<[MemRead]>]> {
  let summary = "Values that an earlier walk kept";
  let arguments = (ins Tile_KeptType:$place, Variadic<Index>:$positions);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$place `[` $positions `]` attr-dict `:` type($place) `,` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Sums over items
//===----------------------------------------------------------------------===//

def Tile_SumsOp : Tile_Op<"sums", [MemoryEffects<[MemAlloc]>]> {
  let summary = "Sums over all items, zero at first";
  let results = (outs Tile_SumsType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_AccumulateOp : Tile_Op<"accumulate", [MemoryEffects<[MemWrite]>]> {
  let summary = "Add what an item holds at a position of a walk";
  let description = [{
    Sums of one column take the lanes of all positions. Items are added in the order of
    their numbers within a worker, workers in the order of theirs.
  }];
  let arguments = (ins AnyType:$value, Tile_SumsType:$sums, Variadic<Index>:$positions);
  let assemblyFormat = "$value `,` $sums `[` $positions `]` attr-dict `:` type($value) `,` type($sums)";
  let hasVerifier = 1;
}

def Tile_TotalOp : Tile_RegionOp<"total"> {
  let summary = "What all items have added, once they have ended";
  let description = [{
    ```mlir
    tile.total %s, %t by 4 : !tile.sums<768 x f32>, !tile.sums<768 x f32> {
    ^bb0(%column: index, %x: vector<4xf32>, %y: vector<4xf32>): ...
    }
    ```
    The region runs at vectors of `by` columns.
    - (C1) all sums have as many columns, a multiple of `by`.
    - (C2) the region takes an index and a vector (of one: a scalar) of each sum.
  }];
  let arguments = (ins Variadic<Tile_SumsType>:$sums, I64Attr:$by);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sums `by` $by attr-dict `:` type($sums) $body";
  let hasRegionVerifier = 1;
}

#endif // MPC_DIALECT_TILE_IR_TILEOPS
