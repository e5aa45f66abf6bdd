//===- CompilerMessages.cpp - diagnostics of a compile --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include "mlir/IR/Diagnostics.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;

SmallVector<StringRef> mpc::locationNames(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return {name.getName().getValue()};
  SmallVector<StringRef> names;
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      for (StringRef name : locationNames(part))
        if (!llvm::is_contained(names, name))
          names.push_back(name);
  return names;
}

/// Prefixes `text` with its location if there is one.
static std::string placed(const std::string &where, const std::string &text) {
  return where.empty() ? text : where + ": " + text;
}

MessageLocation mpc::describeLocation(Location location) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    MessageLocation inner = describeLocation(name.getChildLoc());
    std::string op = name.getName().str();
    if (auto file = dyn_cast<FileLineColLoc>(name.getChildLoc());
        file && file.getColumn() == 0)
      return {file.getFilename().str() + ": " + op, op};
    return {placed(inner.where, op), op};
  }
  if (auto file = dyn_cast<FileLineColLoc>(location)) {
    std::string text = file.getFilename().str();
    // Column 0 marks a node of a binary model; the line is the node's index.
    if (file.getColumn() == 0)
      return {file.getLine() ? text + ": node " + std::to_string(file.getLine())
                             : text,
              ""};
    return {text + ":" + std::to_string(file.getLine()) + ":" +
                std::to_string(file.getColumn()),
            ""};
  }
  if (auto range = dyn_cast<FileLineColRange>(location)) {
    return {range.getFilename().str() + ":" +
                std::to_string(range.getStartLine()) + ":" +
                std::to_string(range.getStartColumn()),
            ""};
  }
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      if (!isa<UnknownLoc>(part))
        return describeLocation(part);
  }
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return describeLocation(call.getCallee());
  return {};
}

void Compiler::hear(mlir::Diagnostic &message) {
  mpc::Diagnostic heard;
  switch (message.getSeverity()) {
  case DiagnosticSeverity::Error:
    heard.severity = mpc::Diagnostic::Severity::Error;
    break;
  case DiagnosticSeverity::Warning:
    heard.severity = mpc::Diagnostic::Severity::Warning;
    break;
  default:
    heard.severity = mpc::Diagnostic::Severity::Remark;
    break;
  }
  MessageLocation place = describeLocation(message.getLocation());
  heard.stage = stage;
  heard.where = place.where;
  heard.op = place.op;
  heard.text = message.str();
  for (mlir::Diagnostic &note : message.getNotes())
    heard.notes.push_back(
        placed(describeLocation(note.getLocation()).where, note.str()));
  said.push_back(heard);
  if (options.onDiagnostic)
    options.onDiagnostic(heard);
}

Status Compiler::stoppedStatus() const {
  return Status(StatusCode::Unavailable, "stage '" + stage + "'",
                "was stopped by the caller");
}

Status Compiler::explained(const Status &status, size_t firstMessage) const {
  if (*stopped)
    return stoppedStatus();
  bool isDiagnosed =
      std::any_of(said.begin() + firstMessage, said.end(),
                  [](const mpc::Diagnostic &message) {
                    return message.severity == mpc::Diagnostic::Severity::Error;
                  });
  return isDiagnosed ? failure(firstMessage) : status;
}

Status Compiler::failure(size_t firstMessage) const {
  if (*stopped)
    return stoppedStatus();
  Status status;
  for (size_t i = firstMessage; i < said.size(); ++i) {
    if (said[i].severity != mpc::Diagnostic::Severity::Error)
      continue;
    if (status.ok())
      status = Status(StatusCode::InvalidArgument, said[i].where, said[i].text);
    else
      status = status.withNote(placed(said[i].where, said[i].text));
  }
  if (status.ok())
    return Status(StatusCode::Internal, stage,
                  "stage '" + stage + "' failed without a message");
  return status;
}

void Compiler::enter(StringRef name) {
  stage = name.str();
  if (options.onStage)
    options.onStage(stage);
}
