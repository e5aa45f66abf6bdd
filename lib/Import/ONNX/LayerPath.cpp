//===- LayerPath.cpp - module scopes recorded by exporters ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both PyTorch exporters record the module that an operation came from, each in
// its own form. The result is one form: the module's attribute path with
// slashes.
//
//===----------------------------------------------------------------------===//

#include "LayerPath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

std::string mpc::onnx::layerFromScopes(StringRef scopes) {
  if (!scopes.consume_front("[") || !scopes.consume_back("]"))
    return "";
  SmallVector<StringRef> entries;
  while (!scopes.empty()) {
    char quote = scopes.front();
    if (quote != '\'' && quote != '"')
      return "";
    size_t end = scopes.find(quote, 1);
    if (end == StringRef::npos)
      return "";
    entries.push_back(scopes.slice(1, end));
    scopes = scopes.drop_front(end + 1).ltrim(", ");
  }
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
    // A child of a list is written with the list's name in front: "layers.4"
    // below "layers", "a.b.4" below "a.b".
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
  return join(path, "/");
}
