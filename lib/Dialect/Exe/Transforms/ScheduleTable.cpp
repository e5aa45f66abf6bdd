//===- ScheduleTable.cpp - tuned kernel schedules -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Exe/Transforms/ScheduleTable.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <nlohmann/json.hpp>

using namespace mlir;
using namespace mpc;
using Json = nlohmann::json;

Result<ScheduleTable> ScheduleTable::read(const std::string &path) {
  Result<std::string> text = readWholeFile(path);
  if (!text.ok())
    return text.status();
  Json root = Json::parse(*text, nullptr,
                          /*allow_exceptions=*/false);
  auto stringIn = [](const Json &object, const char *field) {
    return object.is_object() && object.contains(field) &&
                   object[field].is_string()
               ? object[field].get<std::string>()
               : std::string();
  };
  auto numberIn = [](const Json &object, const char *field) {
    return object.contains(field) && object[field].is_number()
               ? object[field].get<double>()
               : 0.0;
  };
  ScheduleTable table(stringIn(root, "target"));
  if (table.target.empty() || !root.contains("kernels") ||
      !root["kernels"].is_object())
    return Status(StatusCode::InvalidArgument, path,
                  "is not a schedule table (a JSON object with 'target' and "
                  "'kernels'); write one with mpc tune-kernels");
  for (const auto &[key, value] : root["kernels"].items()) {
    Entry entry{stringIn(value, "name"), stringIn(value, "schedule"),
                numberIn(value, "ms"), numberIn(value, "model_ms")};
    if (entry.schedule.empty())
      return Status(StatusCode::InvalidArgument, path,
                    "kernel " + key + " has no 'schedule'");
    table.set(key, std::move(entry));
  }
  return table;
}

Status ScheduleTable::write(const std::string &path) const {
  Json kernels = Json::object();
  for (const auto &[key, entry] : entries)
    kernels[key] = {{"name", entry.name},
                    {"schedule", entry.schedule},
                    {"ms", entry.milliseconds},
                    {"model_ms", entry.modelMilliseconds}};
  Json root = {{"target", target}, {"kernels", kernels}};
  return writeWholeFile(path, {jsonText(root, 2), "\n"});
}

std::string ScheduleTable::keyOf(func::FuncOp kernel) {
  OwningOpRef<func::FuncOp> copy(kernel.clone());
  copy->setSymName("kernel");
  copy->walk([](Operation *op) {
    Attribute kind = op->getDiscardableAttr(MpcDialect::kKernelKindAttr);
    op->setDiscardableAttrs(DictionaryAttr::get(op->getContext()));
    if (kind)
      op->setDiscardableAttr(MpcDialect::kKernelKindAttr, kind);
  });
  copy->setAllArgAttrs(SmallVector<DictionaryAttr>(
      copy->getNumArguments(), DictionaryAttr::get(copy->getContext())));
  std::string text;
  llvm::raw_string_ostream out(text);
  (*copy)->print(out, OpPrintingFlags().printGenericOpForm().useLocalScope());
  auto digest = llvm::SHA256::hash(
      ArrayRef(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  // Half of the digest is collision-free in practice.
  return llvm::toHex(ArrayRef(digest).take_front(16), /*LowerCase=*/true);
}

const ScheduleTable::Entry *ScheduleTable::find(const std::string &key) const {
  auto entry = entries.find(key);
  return entry == entries.end() ? nullptr : &entry->second;
}
