//===- ConstantData.cpp - bytes of constants ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/ConstantData.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/BLAKE3.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <sys/mman.h>

using namespace mlir;
using namespace mpc;

namespace mpc {
/// Adds the context's table of derived constants (MpcDialect.cpp).
void registerConstantTable(MpcDialect &dialect);
} // namespace mpc

/// Returns `name`, or the first free of name_1, name_2, ...: MLIR's own linear
/// search is slow for thousands of constants with one name.
static std::string freeName(MLIRContext *context, StringRef name) {
  DialectResourceBlobManager &blobs =
      DenseResourceElementsHandle::getManagerInterface(context)
          .getBlobManager();
  auto numbered = [&](size_t number) {
    return (name + "_" + Twine(number)).str();
  };
  auto isTaken = [&](StringRef other) {
    return blobs.lookup(other) != nullptr;
  };
  if (!isTaken(name))
    return name.str();
  size_t last = 0, free = 1;
  for (; isTaken(numbered(free)); free *= 2)
    last = free;
  while (free - last > 1) {
    size_t middle = last + (free - last) / 2;
    (isTaken(numbered(middle)) ? last : free) = middle;
  }
  return numbered(free);
}

//===----------------------------------------------------------------------===//
// Derived constants
//===----------------------------------------------------------------------===//

/// Size in bytes from which derived constants are deferred.
static constexpr int64_t kDeferredBytes = int64_t(1) << 20;

namespace {

/// Memory of deferred constants that were read, for the next ones: the kernel
/// clears new memory, which takes longer than most transforms. Thread-safe.
class ScratchMemory : public std::enable_shared_from_this<ScratchMemory> {
public:
  ~ScratchMemory() {
    for (auto [size, data] : kept)
      std::free(data);
  }

  /// Returns `bytes` bytes, on huge pages if there are many; null if there is
  /// no memory.
  std::shared_ptr<void> allocate(size_t bytes) {
    constexpr size_t kHugePage = size_t(1) << 21;
    size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void *data = take(size);
    if (!data) {
      data = std::aligned_alloc(kHugePage, size);
      if (!data)
        return nullptr;
      ::madvise(data, size, MADV_HUGEPAGE);
    }
    return {data, [self = shared_from_this(), size](void *data) {
              self->release(data, size);
            }};
  }

private:
  /// Returns released memory of at least `size` bytes, or null, and updates
  /// `size`.
  void *take(size_t &size) {
    std::scoped_lock lock(mutex);
    auto best = kept.end();
    for (auto at = kept.begin(); at != kept.end(); ++at)
      if (at->first >= size && at->first <= 4 * size &&
          (best == kept.end() || at->first < best->first))
        best = at;
    if (best == kept.end())
      return nullptr;
    auto [bytes, data] = *best;
    kept.erase(best);
    total -= bytes;
    size = bytes;
    return data;
  }
  /// Keeps `data`; frees what was released longest ago.
  void release(void *data, size_t size) {
    constexpr size_t kMost = size_t(384) << 20;
    std::scoped_lock lock(mutex);
    kept.emplace_back(size, data);
    total += size;
    while (total > kMost) {
      auto [bytes, oldest] = kept.front();
      kept.pop_front();
      total -= bytes;
      std::free(oldest);
    }
  }

  std::mutex mutex;
  /// Sizes in bytes and memory, in the order of their release.
  std::deque<std::pair<size_t, void *>> kept;
  size_t total = 0;
};

/// What is known of a context's resources, by name.
class ConstantTable : public DialectInterface::Base<ConstantTable> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ConstantTable)
  explicit ConstantTable(Dialect *dialect) : Base(dialect) {}

  struct Entry {
    /// Empty if unknown.
    std::string key;
    /// Of a deferred constant: its size in bytes, and its computation.
    int64_t bytes = 0;
    ConstantFill fill;
    /// Of a deferred constant: what it is derived from.
    SmallVector<ElementsAttr, 1> sources;
    /// The bytes, while a reader holds them.
    std::weak_ptr<const void> read;
  };

  static ConstantTable &of(MLIRContext *context) {
    auto *dialect = context->getLoadedDialect<MpcDialect>();
    return const_cast<ConstantTable &>(
        *dialect->getRegisteredInterface<ConstantTable>());
  }

  /// Returns a copy of the entry of `name`, empty if there is none.
  Entry lookup(StringRef name) {
    std::scoped_lock lock(mutex);
    return entries.lookup(name);
  }
  /// Calls `change` with the entry of `name`.
  void update(StringRef name, llvm::function_ref<void(Entry &)> change) {
    std::scoped_lock lock(mutex);
    change(entries[name]);
  }

  std::shared_ptr<ConstantStore> store;
  std::shared_ptr<ScratchMemory> scratch = std::make_shared<ScratchMemory>();

private:
  std::mutex mutex;
  llvm::StringMap<Entry> entries;
};

} // namespace

void mpc::registerConstantTable(MpcDialect &dialect) {
  dialect.addInterfaces<ConstantTable>();
}

void mpc::setConstantStore(MLIRContext *context,
                           std::shared_ptr<ConstantStore> store) {
  ConstantTable::of(context).store = std::move(store);
}

ConstantStore *mpc::constantStore(MLIRContext *context) {
  return ConstantTable::of(context).store.get();
}

static StringRef nameOf(DenseResourceElementsAttr attr) {
  return attr.getRawHandle().getKey();
}

std::shared_ptr<void> mpc::scratchMemory(MLIRContext *context, size_t bytes) {
  return ConstantTable::of(context).scratch->allocate(bytes);
}

/// Returns the bytes of a deferred constant; null if they cannot be computed.
static std::shared_ptr<const void>
deferredBytes(DenseResourceElementsAttr attr) {
  ConstantTable &table = ConstantTable::of(attr.getContext());
  ConstantTable::Entry entry = table.lookup(nameOf(attr));
  if (std::shared_ptr<const void> read = entry.read.lock())
    return read;
  std::shared_ptr<const void> found =
      table.store ? table.store->find(entry.key, size_t(entry.bytes)) : nullptr;
  if (!found && entry.fill) {
    std::shared_ptr<void> target =
        scratchMemory(attr.getContext(), size_t(entry.bytes));
    if (!target || failed(entry.fill({static_cast<char *>(target.get()),
                                      size_t(entry.bytes)})))
      return nullptr;
    found = std::move(target);
  }
  table.update(nameOf(attr),
               [&](ConstantTable::Entry &known) { known.read = found; });
  return found;
}

int64_t mpc::resourceBytes(DenseResourceElementsAttr attr) {
  AsmResourceBlob *blob = attr.getRawHandle().getBlob();
  if (!blob)
    return -1;
  if (!blob->getData().empty())
    return int64_t(blob->getData().size());
  return ConstantTable::of(attr.getContext()).lookup(nameOf(attr)).bytes;
}

static std::string digestOf(ArrayRef<StringRef> parts) {
  llvm::BLAKE3 hash;
  for (StringRef part : parts) {
    uint64_t size = part.size();
    hash.update(StringRef(reinterpret_cast<const char *>(&size), sizeof(size)));
    hash.update(part);
  }
  return llvm::toHex(hash.final<32>(), /*LowerCase=*/true);
}

std::string mpc::constantKey(ElementsAttr attr) {
  auto resource = dyn_cast<DenseResourceElementsAttr>(attr);
  if (resource)
    if (std::string key =
            ConstantTable::of(attr.getContext()).lookup(nameOf(resource)).key;
        !key.empty())
      return key;
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
  if (failed(bytes))
    return {};
  std::string key =
      digestOf({StringRef(bytes->bytes().data(), bytes->bytes().size())});
  if (resource)
    ConstantTable::of(attr.getContext())
        .update(nameOf(resource),
                [&](ConstantTable::Entry &entry) { entry.key = key; });
  return key;
}

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string mpc::derivedKey(const ConstantRecipe &recipe, Type type) {
  SmallVector<std::string> parts = {recipe.text, textOf(type)};
  for (ElementsAttr source : recipe.sources) {
    parts.push_back(constantKey(source));
    parts.push_back(textOf(source.getType()));
  }
  return digestOf(SmallVector<StringRef>(parts.begin(), parts.end()));
}

FailureOr<ElementsAttr> mpc::deriveConstant(RankedTensorType type,
                                            ConstantRecipe recipe,
                                            StringRef name) {
  MLIRContext *context = type.getContext();
  int64_t bytes = byteCount(type);
  if (bytes < kDeferredBytes || !constantStore(context)) {
    AsmResourceBlob target = allocateConstant(type);
    if (failed(recipe.fill(target.getMutableData())))
      return failure();
    return makeConstant(type, std::move(target), name);
  }
  auto deferred = DenseResourceElementsAttr::get(type, freeName(context, name),
                                                 AsmResourceBlob());
  ConstantTable::Entry made{derivedKey(recipe, type),
                            bytes,
                            std::move(recipe.fill),
                            std::move(recipe.sources),
                            {}};
  ConstantTable::of(context).update(
      nameOf(deferred),
      [&](ConstantTable::Entry &entry) { entry = std::move(made); });
  return ElementsAttr(deferred);
}

SmallVector<ElementsAttr, 1> mpc::deferredSources(ElementsAttr attr) {
  auto resource = dyn_cast<DenseResourceElementsAttr>(attr);
  if (!resource)
    return {};
  return ConstantTable::of(attr.getContext()).lookup(nameOf(resource)).sources;
}

std::shared_ptr<const void> mpc::storedConstant(ElementsAttr attr) {
  int64_t size = byteCount(attr.getType());
  auto fill = [&](MutableArrayRef<char> target) -> LogicalResult {
    if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr)) {
      // Straight into the target.
      ConstantTable::Entry entry =
          ConstantTable::of(attr.getContext()).lookup(nameOf(resource));
      if (entry.fill && entry.read.expired())
        return entry.fill(target);
    }
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
    if (succeeded(bytes))
      llvm::copy(bytes->bytes(), target.begin());
    return bytes;
  };
  ConstantStore *store = constantStore(attr.getContext());
  if (store && size_t(size) >= ConstantStore::kLeastShared)
    return store->get(constantKey(attr), size_t(size), fill);
  std::shared_ptr<void> target(
      std::aligned_alloc(kConstantAlignment,
                         (size_t(size) + kConstantAlignment) /
                             kConstantAlignment * kConstantAlignment),
      std::free);
  if (!target ||
      failed(fill({static_cast<char *>(target.get()), size_t(size)})))
    return nullptr;
  return target;
}

LogicalResult mpc::computeConstants(Operation *op) {
  DialectResourceBlobManager &blobs =
      DenseResourceElementsHandle::getManagerInterface(op->getContext())
          .getBlobManager();
  AttrTypeWalker walker;
  walker.addWalk([&](DenseResourceElementsAttr resource) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || !blob->getData().empty() || resourceBytes(resource) <= 0)
      return WalkResult::advance();
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(resource);
    if (failed(bytes))
      return WalkResult::interrupt();
    blobs.update(nameOf(resource),
                 HeapAsmResourceBlob::allocateAndCopyWithAlign(
                     bytes->bytes(), kConstantAlignment,
                     /*dataIsMutable=*/false));
    return WalkResult::advance();
  });
  WalkResult walked = op->walk([&](Operation *inner) {
    return walker.walk(inner->getAttrDictionary());
  });
  return failure(walked.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

FailureOr<ConstantBytes> ConstantBytes::get(ElementsAttr attr) {
  ConstantBytes result;
  RankedTensorType type = dyn_cast<RankedTensorType>(attr.getType());
  if (!type || !type.hasStaticShape())
    return failure();
  int64_t bytes = byteCount(type);
  if (DenseResourceElementsAttr resource =
          dyn_cast<DenseResourceElementsAttr>(attr)) {
    if (resourceBytes(resource) != bytes)
      return failure();
    ArrayRef<char> data = resource.getRawHandle().getBlob()->getData();
    if (data.empty() && bytes > 0) {
      result.owned = deferredBytes(resource);
      if (!result.owned)
        return failure();
      data = {static_cast<const char *>(result.owned.get()), size_t(bytes)};
    }
    result.view = data;
    return result;
  }
  DenseIntOrFPElementsAttr dense = dyn_cast<DenseIntOrFPElementsAttr>(attr);
  if (!dense)
    return failure();
  bool boolean = type.getElementType().isInteger(1);
  if (!dense.isSplat() && !boolean) {
    result.view = dense.getRawData();
    return result;
  }
  constexpr int64_t kLargestCopy = int64_t(1) << 36;
  if (bytes > kLargestCopy)
    return failure();
  auto owned = std::make_shared<std::vector<char>>(bytes);
  if (boolean) {
    if (dense.isSplat())
      std::fill(owned->begin(), owned->end(), dense.getSplatValue<bool>());
    else
      for (auto [i, value] : llvm::enumerate(dense.getValues<bool>()))
        (*owned)[i] = value;
  } else {
    ArrayRef<char> element = dense.getRawData();
    for (int64_t i = 0; i < bytes; i += element.size())
      std::memcpy(owned->data() + i, element.data(), element.size());
  }
  result.view = *owned;
  result.owned = std::move(owned);
  return result;
}

/// Returns true if all elements are bitwise equal.
static bool isUniform(ArrayRef<char> bytes, size_t elementBytes) {
  return bytes.size() >= elementBytes &&
         std::memcmp(bytes.data(), bytes.data() + elementBytes,
                     bytes.size() - elementBytes) == 0;
}

/// Returns the constant if it is a dense attribute, else null.
static ElementsAttr makeInline(RankedTensorType type, ArrayRef<char> bytes) {
  size_t elementBytes = bytesPerElement(type.getElementType());
  bool boolean = type.getElementType().isInteger(1);
  bool uniform = isUniform(bytes, elementBytes);
  if (!uniform && int64_t(bytes.size()) > kInlineConstantBytes)
    return {};
  if (boolean) {
    SmallVector<bool> values(
        llvm::map_range(bytes, [](char byte) { return byte != 0; }));
    if (uniform)
      return DenseElementsAttr::get(type, values.front());
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  return DenseElementsAttr::getFromRawBuffer(
      type, uniform ? bytes.take_front(elementBytes) : bytes);
}

ElementsAttr mpc::makeConstant(RankedTensorType type, ArrayRef<char> bytes,
                               StringRef name) {
  if (ElementsAttr dense = makeInline(type, bytes))
    return dense;
  return DenseResourceElementsAttr::get(
      type, freeName(type.getContext(), name),
      HeapAsmResourceBlob::allocateAndCopyWithAlign(bytes, kConstantAlignment,
                                                    /*dataIsMutable=*/false));
}

ElementsAttr mpc::makeConstant(RankedTensorType type, AsmResourceBlob bytes,
                               StringRef name) {
  if (ElementsAttr dense = makeInline(type, bytes.getData()))
    return dense;
  return DenseResourceElementsAttr::get(type, freeName(type.getContext(), name),
                                        std::move(bytes));
}

ElementsAttr mpc::makeConstant(RankedTensorType type, AsmResourceBlob bytes,
                               StringRef name, std::string key) {
  ElementsAttr made = makeConstant(type, std::move(bytes), name);
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(made))
    ConstantTable::of(type.getContext())
        .update(nameOf(resource), [&](ConstantTable::Entry &entry) {
          entry.key = std::move(key);
        });
  return made;
}

ElementsAttr mpc::makeConstant(RankedTensorType type, std::string bytes,
                               StringRef name) {
  auto kept = std::make_shared<std::string>(std::move(bytes));
  return makeConstant(type,
                      AsmResourceBlob(
                          ArrayRef(kept->data(), kept->size()),
                          alignof(std::max_align_t),
                          [kept](void *, size_t, size_t) {},
                          /*dataIsMutable=*/false),
                      name);
}

AsmResourceBlob mpc::allocateConstant(RankedTensorType type) {
  return HeapAsmResourceBlob::allocate(byteCount(type), kConstantAlignment,
                                       /*dataIsMutable=*/true);
}

ElementsAttr mpc::makeSplat(RankedTensorType type, double value) {
  Type element = type.getElementType();
  if (FloatType floatType = dyn_cast<FloatType>(element)) {
    APFloat rounded(value);
    bool losesInfo;
    rounded.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                    &losesInfo);
    return DenseElementsAttr::get(type, rounded);
  }
  unsigned width = element.getIntOrFloatBitWidth();
  APInt bits(64, static_cast<uint64_t>(static_cast<int64_t>(value)));
  return DenseElementsAttr::get(type, bits.trunc(width));
}

std::optional<double> mpc::splatValue(Attribute attr) {
  DenseIntOrFPElementsAttr dense =
      dyn_cast_if_present<DenseIntOrFPElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return std::nullopt;
  Type element = dense.getElementType();
  if (isa<FloatType>(element)) {
    APFloat value = dense.getSplatValue<APFloat>();
    bool losesInfo;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return value.convertToDouble();
  }
  APInt value = dense.getSplatValue<APInt>();
  bool isUnsigned = element.isUnsignedInteger() || element.isInteger(1);
  return isUnsigned ? double(value.getZExtValue())
                    : double(value.getSExtValue());
}

std::optional<double> mpc::splatValue(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  return constant ? splatValue(constant.getValue()) : std::nullopt;
}

std::optional<double> mpc::constantSplat(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && (isUnaryMovement(op) ||
                (isa<CastOp>(op) && isa<FloatType>(getElementTypeOrSelf(
                                        op->getOperand(0).getType()))))) {
    value = op->getOperand(0);
    op = value.getDefiningOp();
  }
  return splatValue(value);
}

std::optional<SmallVector<int64_t>> mpc::integerElements(Attribute attr) {
  ElementsAttr elements = dyn_cast_if_present<ElementsAttr>(attr);
  IntegerType type = elements ? dyn_cast<IntegerType>(elements.getElementType())
                              : IntegerType();
  if (!type)
    return std::nullopt;
  FailureOr<ConstantBytes> data = ConstantBytes::get(elements);
  if (failed(data))
    return std::nullopt;
  size_t width = bytesPerElement(type);
  bool isUnsigned = type.isUnsigned() || type.getWidth() == 1;
  SmallVector<int64_t> values;
  for (size_t i = 0; i + width <= data->bytes().size(); i += width) {
    uint64_t bits = 0;
    std::memcpy(&bits, data->bytes().data() + i, width);
    if (!isUnsigned && width < 8) {
      uint64_t sign = uint64_t(1) << (8 * width - 1);
      bits = (bits ^ sign) - sign;
    }
    values.push_back(static_cast<int64_t>(bits));
  }
  return values;
}
