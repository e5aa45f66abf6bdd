//===- Keras.cpp - replay of Keras' policy names and maps -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Policy names and maps of layer paths are data, compared with Policy itself.
// Also implements the helpers of Keras.h.
//
//===----------------------------------------------------------------------===//

#include "Keras.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::replay;

bool mpc::replay::isRefusal(const Json &row) { return row.contains("error"); }

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// The ops of a layer with its own names for values and layers.
static std::string instantiate(const KerasModelLayer &layer) {
  std::string out;
  StringRef text = layer.graph.body;
  while (!text.empty()) {
    size_t next = text.find_first_of("%{");
    out += text.take_front(next).str();
    if (next == StringRef::npos)
      break;
    text = text.drop_front(next);
    if (text.consume_front("{L")) {
      auto [sub, rest] = text.split('}');
      out += "{mpc.layer = \"" + layer.path + sub.str() + "\"}";
      text = rest;
      continue;
    }
    text = text.drop_front();
    StringRef name = text.take_while([](char c) { return llvm::isAlnum(c); });
    text = text.drop_front(name.size());
    unsigned index;
    if (name == "y")
      out += "%" + layer.result;
    else if (name.starts_with("x") &&
             !name.drop_front().getAsInteger(10, index))
      out += "%" + layer.inputs[index];
    else
      out += "%" + layer.result + "_" + name.str();
  }
  return out;
}

llvm::Expected<OwningOpRef<ModuleOp>> mpc::replay::buildKerasModel(
    llvm::ArrayRef<std::pair<std::string, std::string>> arguments,
    llvm::ArrayRef<KerasModelLayer> layers, MLIRContext &context) {
  std::string list, body;
  for (auto &[name, type] : arguments)
    list += (list.empty() ? "%" : ", %") + name + ": " + type;
  for (const KerasModelLayer &layer : layers)
    body += instantiate(layer);
  std::string result = layers.back().graph.result;
  std::string text = "func.func @main(" + list + ") -> " + result + " {\n" +
                     body + "return %" + layers.back().result + " : " + result +
                     "\n}\n";
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "; ";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   messages + "in\n" + text);
  return module;
}

llvm::Error mpc::replay::assignKerasPolicy(ModuleOp module,
                                           const Policy &global,
                                           const Json &layers) {
  Json policy = {{"name", "recorded " + global.getName().str()},
                 {"algorithm", stringify(global.getAlgorithm()).str()},
                 {"compute", stringify(global.getCompute()).str()},
                 {"variable", stringify(global.getVariable()).str()},
                 {"layers", layers}};
  llvm::SmallString<64> path;
  int descriptor;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile(
          "mpc-replay", "json", descriptor, path))
    return llvm::createStringError(error, "no temporary file");
  llvm::FileRemover remover(path);
  {
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << policy.dump();
  }
  return assignPrecision(module, path.str());
}

/// Keras' word for a float type.
static std::string kerasName(Type type) {
  if (type.isF16())
    return "float16";
  if (type.isBF16())
    return "bfloat16";
  if (type.isF64())
    return "float64";
  return type.isF32() ? "float32" : shortName(type);
}

std::string mpc::replay::returnedType(ModuleOp module) {
  auto func = *module.getOps<func::FuncOp>().begin();
  Value value = func.getBody().front().getTerminator()->getOperand(0);
  if (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getInput();
  return kerasName(getElementTypeOrSelf(value.getType()));
}

//===----------------------------------------------------------------------===//
// Names of policies
//===----------------------------------------------------------------------===//

llvm::Expected<Tally> mpc::replay::replayKerasPolicies(const Json &recording,
                                                       MLIRContext &) {
  Tally tally;
  for (const Json &row : recording.at("policies")) {
    // An empty name selects the global policy, which is float32 initially.
    const Json &asked = row.at("asked");
    std::string name = asked.is_null() ? "float32" : asked.get<std::string>();
    std::string entry = asked.is_null() ? "no name" : "'" + name + "'";
    llvm::Expected<Policy> policy = Policy::loadKeras(name);
    if (isRefusal(row)) {
      tally.note(entry, policy ? "is refused by Keras, accepted here" : "");
      llvm::consumeError(policy.takeError());
      continue;
    }
    if (!row.at("quantization").is_null() ||
        !parsePolicyType(row.at("compute").get<std::string>())) {
      llvm::consumeError(policy.takeError());
      tally.skip(entry, "quantized types are outside of the dialect");
      continue;
    }
    if (!policy) {
      tally.note(entry, llvm::toString(policy.takeError()));
      continue;
    }
    std::string difference;
    auto compare = [&](const char *field, StringRef ours) {
      if (row.at(field).get<std::string>() != ours)
        difference += std::string(field) + " is " + ours.str() + ", recorded " +
                      row.at(field).get<std::string>() + "; ";
    };
    compare("name", policy->getName());
    compare("compute", stringify(policy->getCompute()));
    compare("variable", stringify(policy->getVariable()));
    tally.note(entry, difference);
  }
  return tally;
}

//===----------------------------------------------------------------------===//
// Maps
//===----------------------------------------------------------------------===//

/// Fills the map of `policy` as recorded; stops at the first rejected entry.
static llvm::Error fillMap(Policy &policy, const Json &map) {
  if (map.is_object()) {
    for (auto &[key, name] : map.items())
      if (llvm::Error error =
              policy.addLayerPolicy(key, name.get<std::string>()))
        return error;
    return llvm::Error::success();
  }
  for (const Json &pair : map)
    if (llvm::Error error = policy.addLayerPolicy(
            pair.at(0).get<std::string>(), pair.at(1).get<std::string>()))
      return error;
  return llvm::Error::success();
}

static void replayMap(const Json &row, const std::string &entry, Tally &tally) {
  llvm::Expected<Policy> policy =
      Policy::loadKeras(row.at("default").get<std::string>());
  if (!policy)
    return tally.note(entry, llvm::toString(policy.takeError()));
  llvm::Error filled = fillMap(*policy, row.at("map"));
  if (isRefusal(row)) {
    tally.note(entry, filled ? "" : "is refused by Keras, accepted here");
    return llvm::consumeError(std::move(filled));
  }
  if (filled)
    return tally.note(entry, llvm::toString(std::move(filled)));
  for (auto &[path, expected] : row.at("resolved").items()) {
    llvm::Expected<const Policy *> found = policy->policyOfLayer(path);
    std::string where = entry + ", path '" + path + "'";
    if (expected.is_object()) {
      tally.note(where, found ? "is refused by Keras, resolved here" : "");
      llvm::consumeError(found.takeError());
    } else if (!found) {
      tally.note(where, llvm::toString(found.takeError()));
    } else {
      std::string name = expected.get<std::string>();
      tally.note(where, (*found)->getName() == name
                            ? ""
                            : "is " + (*found)->getName().str() +
                                  ", recorded " + name);
    }
  }
}

llvm::Expected<Tally> mpc::replay::replayKerasMaps(const Json &recording,
                                                   MLIRContext &) {
  Tally tally;
  for (const Json &row : recording.at("fixed"))
    replayMap(row, "'" + row.at("case").get<std::string>() + "'", tally);
  for (size_t i = 0; i < recording.at("random").size(); ++i)
    replayMap(recording.at("random")[i], "random map " + std::to_string(i),
              tally);
  return tally;
}
