//===- CxxIdentifiers.cpp - identifiers in CUDA text ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CxxIdentifiers.h"

#include "mpc/Support/EscapedText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Returns true for C++ keywords, macros, and names that would shadow a
/// declaration that kernels use.
static bool isReserved(StringRef name) {
  static constexpr StringRef kWords =
      " alignas alignof and and_eq asm auto bitand bitor bool break case "
      "catch char char8_t char16_t char32_t class co_await co_return "
      "co_yield compl concept const consteval constexpr constinit "
      "continue decltype default delete do double else enum explicit "
      "export extern false float for friend goto if inline int long "
      "mutable namespace new noexcept not not_eq nullptr operator or "
      "or_eq private protected public register requires return short "
      "signed sizeof static struct switch template this thread_local "
      "throw true try typedef typeid typename union unsigned using "
      "virtual void volatile wchar_t while xor xor_eq static_assert "
      "const_cast dynamic_cast reinterpret_cast static_cast mpc threadIdx "
      "blockIdx blockDim gridDim warpSize assert linux unix signbit isnan "
      "isinf isfinite ";
  return kWords.contains((" " + name + " ").str());
}

std::string cuda::identifierFrom(StringRef text) {
  text = text.rtrim('/');
  if (size_t slash = text.rfind('/'); slash != StringRef::npos)
    text = text.substr(slash + 1);
  std::string name = identifierPart(text);
  if (name.empty())
    return name;
  if (llvm::isDigit(name.front()))
    name = "v" + name;
  if (isReserved(name))
    name += "_";
  return name;
}

StringRef cuda::nameOf(Location location) {
  auto name = location->findInstanceOf<NameLoc>();
  return name ? name.getName().getValue() : StringRef();
}

bool NameScopes::taken(StringRef name) const {
  return llvm::any_of(scopes, [&](const llvm::StringSet<> &scope) {
    return scope.contains(name);
  });
}

std::string NameScopes::add(StringRef wanted) {
  std::string name = wanted.str();
  // x1 and a second x1 become x1 and x1_2.
  bool digit = llvm::isDigit(wanted.back());
  for (int i = 2; taken(name); ++i)
    name = (wanted + (digit ? "_" : "") + Twine(i)).str();
  scopes.back().insert(name);
  return name;
}

std::string NameScopes::addCounter() {
  for (char name = 'i'; name <= 'n'; ++name)
    if (!taken(StringRef(&name, 1)))
      return add(StringRef(&name, 1));
  return add("i");
}
