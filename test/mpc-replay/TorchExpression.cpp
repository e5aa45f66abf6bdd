//===- TorchExpression.cpp - the expressions of torch recordings ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TorchExpression.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

using namespace mpc::replay;

using Node = std::unique_ptr<Expression>;

/// Deeper than any expression of a recording; bounds the recursion.
static constexpr int kMaxDepth = 100;

std::string Expression::dottedName() const {
  if (kind == Kind::Name)
    return text;
  if (kind != Kind::Attribute)
    return "";
  std::string front = parts[0]->dottedName();
  return front.empty() ? "" : front + "." + text;
}

namespace {

class Parser {
public:
  explicit Parser(const std::string &text)
      : text(text.substr(0, text.find("  #"))) {}

  Node parse() {
    Node node = comparison();
    if (!peek().empty())
      fail("expected the end");
    return node;
  }

private:
  [[noreturn]] void fail(const std::string &what) const {
    throw std::runtime_error("column " + std::to_string(position + 1) +
                             " of '" + text + "': " + what);
  }

  /// The operator or bracket at the cursor, or the first character of
  /// something else; empty at the end.
  std::string peek() {
    while (position < text.size() && text[position] == ' ')
      ++position;
    if (position == text.size())
      return "";
    if (text.compare(position, 2, "**") == 0)
      return "**";
    return std::string(1, text[position]);
  }
  bool accept(const std::string &token) {
    if (peek() != token)
      return false;
    position += token.size();
    return true;
  }
  void expect(const std::string &token) {
    if (!accept(token))
      fail("expected '" + token + "'");
  }

  static Node make(Expression::Kind kind, std::string text = "") {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->text = std::move(text);
    return node;
  }
  Node binary(const std::string &op, Node lhs, Node rhs) {
    Node node = make(Expression::Kind::Binary, op);
    node->parts.push_back(std::move(lhs));
    node->parts.push_back(std::move(rhs));
    return node;
  }

  Node comparison() {
    if (++depth > kMaxDepth)
      fail("nests too deep");
    Node lhs = sum();
    while (true) {
      std::string op = peek();
      if (op != ">" && op != "<")
        break;
      position += op.size();
      lhs = binary(op, std::move(lhs), sum());
    }
    --depth;
    return lhs;
  }
  Node sum() {
    Node lhs = product();
    while (true) {
      std::string op = peek();
      if (op != "+" && op != "-")
        return lhs;
      position += op.size();
      lhs = binary(op, std::move(lhs), product());
    }
  }
  Node product() {
    Node lhs = unary();
    while (true) {
      std::string op = peek();
      if (op != "*" && op != "/" && op != "@")
        return lhs;
      position += op.size();
      lhs = binary(op, std::move(lhs), unary());
    }
  }
  Node unary() {
    if (!accept("-"))
      return power();
    if (++depth > kMaxDepth)
      fail("nests too deep");
    Node node = make(Expression::Kind::Unary, "-");
    node->parts.push_back(unary());
    --depth;
    return node;
  }
  Node power() {
    Node base = postfix();
    if (!accept("**"))
      return base;
    return binary("**", std::move(base), unary());
  }

  Node postfix() {
    Node node = atom();
    while (true) {
      if (accept(".")) {
        Node attribute = make(Expression::Kind::Attribute, word());
        attribute->parts.push_back(std::move(node));
        node = std::move(attribute);
      } else if (accept("(")) {
        Node call = make(Expression::Kind::Call);
        call->parts.push_back(std::move(node));
        arguments(*call);
        node = std::move(call);
      } else if (accept("[")) {
        Node subscript = make(Expression::Kind::Subscript);
        subscript->parts.push_back(std::move(node));
        do
          subscript->parts.push_back(slice());
        while (accept(","));
        expect("]");
        node = std::move(subscript);
      } else {
        return node;
      }
    }
  }

  void arguments(Expression &call) {
    while (!accept(")")) {
      size_t start = position;
      if (std::string first = peek();
          std::isalpha(static_cast<unsigned char>(first[0]))) {
        std::string name = word();
        if (accept("=")) {
          call.keywords.emplace_back(name, comparison());
          if (!accept(","))
            return expect(")");
          continue;
        }
        position = start;
      }
      call.parts.push_back(comparison());
      if (!accept(","))
        return expect(")");
    }
  }

  Node slice() {
    Node start, stop;
    if (peek() != ":")
      start = comparison();
    if (!accept(":"))
      return start;
    if (peek() != "]" && peek() != ",")
      stop = comparison();
    Node node = make(Expression::Kind::Slice);
    node->parts.push_back(std::move(start));
    node->parts.push_back(std::move(stop));
    return node;
  }

  std::string word() {
    peek();
    size_t start = position;
    while (position < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[position])) ||
            text[position] == '_'))
      ++position;
    if (start == position)
      fail("expected a name");
    return text.substr(start, position - start);
  }

  Node sequence(const std::string &close) {
    Node node = make(Expression::Kind::Sequence);
    bool comma = false;
    while (!accept(close)) {
      node->parts.push_back(comparison());
      if (!accept(",")) {
        expect(close);
        break;
      }
      comma = true;
    }
    // Parentheses around one expression only group.
    if (close == ")" && !comma && node->parts.size() == 1)
      return std::move(node->parts[0]);
    return node;
  }

  Node atom() {
    std::string next = peek();
    if (next.empty())
      fail("expected an expression");
    if (accept("("))
      return sequence(")");
    if (accept("["))
      return sequence("]");
    if (next == "'" || next == "\"") {
      size_t end = text.find(next, position + 1);
      if (end == std::string::npos)
        fail("the string does not end");
      Node node = make(Expression::Kind::String,
                       text.substr(position + 1, end - position - 1));
      position = end + 1;
      return node;
    }
    if (std::isdigit(static_cast<unsigned char>(next[0]))) {
      const char *start = text.c_str() + position;
      char *end = nullptr;
      Node node = make(Expression::Kind::Number);
      node->number = std::strtod(start, &end);
      node->isInteger =
          std::string(start, size_t(end - start)).find_first_of(".eE") ==
          std::string::npos;
      position += end - start;
      return node;
    }
    return make(Expression::Kind::Name, word());
  }

  std::string text;
  size_t position = 0;
  int depth = 0;
};

} // namespace

Node mpc::replay::parseExpression(const std::string &text) {
  return Parser(text).parse();
}
