//===- LayerPath.cpp - layer paths recorded by exporters ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both PyTorch exporters record the module of an operation, in different forms.
// Both are converted to the module's attribute path with slashes.
//
//===----------------------------------------------------------------------===//

#include "LayerPath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

SmallVector<StringRef> mpc::onnx::stringsOfList(StringRef text) {
  SmallVector<StringRef> entries;
  if (!text.consume_front("[") || !text.consume_back("]"))
    return entries;
  while (!text.empty()) {
    char quote = text.front();
    size_t end = text.find(quote, 1);
    if ((quote != '\'' && quote != '"') || end == StringRef::npos)
      return {};
    entries.push_back(text.slice(1, end));
    text = text.drop_front(end + 1).ltrim(", ");
  }
  return entries;
}

std::string mpc::onnx::layerFromScopes(StringRef scopes) {
  SmallVector<StringRef> entries = stringsOfList(scopes);
  if (entries.size() < 2)
    return "";
  std::string layer = entries[entries.size() - 2].str();
  llvm::replace(layer, '.', '/');
  return layer;
}

std::string mpc::onnx::layerFromName(StringRef nodeName) {
  if (!nodeName.consume_front("/"))
    return "";
  SmallVector<StringRef> components;
  nodeName.split(components, '/');
  components.pop_back();
  SmallVector<StringRef> path;
  for (StringRef component : components) {
    SmallVector<StringRef> pieces;
    component.split(pieces, '.');
    // A child of a module list repeats the list's name: "layers.4" below
    // "layers", "a.b.4" below "a.b".
    ArrayRef<StringRef> rest = pieces;
    for (size_t shared = pieces.size() - 1; shared > 0; --shared) {
      if (path.size() >= shared && ArrayRef<StringRef>(path).take_back(
                                       shared) == rest.take_front(shared)) {
        rest = rest.drop_front(shared);
        break;
      }
    }
    path.append(rest.begin(), rest.end());
  }
  return llvm::join(path, "/");
}
