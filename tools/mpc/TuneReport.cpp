//===- TuneReport.cpp - report of mpc tune --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explanation.h"
#include "HtmlReport.h"
#include "Tune.h"

#include "mpc/Analysis/GraphDigest.h"
#include "mpc/Support/EscapedText.h"
#include "mpc/Support/Files.h"
#include "mpc/Tuning/RankCorrelation.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <random>

using namespace mpc;
using namespace mpc::tool;

/// Confidence level of the statement about other inputs.
static constexpr double kCertainty = 0.95;

std::string tool::commandOf(const TuneArguments &arguments) {
  std::string text = "mpc tune " + shellWord(arguments.common.model);
  auto add = [&](const char *flag, const std::string &value) {
    text += std::string(" ") + flag + " " + shellWord(value);
  };
  for (const std::string &input : arguments.samples.inputs)
    add("--inputs", input);
  if (arguments.samples.areStacked)
    text += " --stacked";
  if (!arguments.text.empty()) {
    add("--text", arguments.text);
    add("--window", std::to_string(arguments.window));
  }
  add("--budget", arguments.budget);
  if (!arguments.training.empty())
    add("--training", arguments.training);
  if (!arguments.objective.empty())
    add("--objective", arguments.objective);
  for (const std::string &type : arguments.types)
    add("--types", type);
  for (const std::string &set : arguments.common.sets)
    add("--set", set);
  if (!arguments.common.target.empty())
    add("--target", arguments.common.target);
  if (!arguments.common.isa.empty())
    add("--isa", arguments.common.isa);
  return text;
}

/// The format as a policy names it.
static Json formatJson(const WeightFormat &format) {
  std::string type = stringify(format.type).str();
  if (format.group == WeightFormat().group)
    return type;
  return {{"type", type}, {"group", format.group}};
}

/// "bfloat16", "int4/64".
static std::string formatText(const WeightFormat &format) {
  std::string text = stringify(format.type).str();
  return format.type == WeightType::Int4
             ? text + "/" + std::to_string(format.group)
             : text;
}

Json TuneCommand::policyFile(const TunedPoint &point) const {
  Json products = Json::object(), values = Json::object(),
       overrides = Json::object(), weights = Json::object();
  bool quantizes = false;
  for (auto [variable, number] :
       llvm::zip_equal(space->getVariables(), point.priced.choice)) {
    const PolicySearchSpace::Option &option = variable.options[number];
    for (const std::string &name : variable.names) {
      if (!variable.isProduct) {
        values[name] = number ? "narrow" : "float32";
        continue;
      }
      quantizes |= !option.recipe.empty();
      // An entry exempts a contraction from the recipe.
      if (option.recipe.empty())
        products[name] = stringify(option.type).str();
      if (option.weights.isNarrow())
        weights[name] = formatJson(option.weights);
    }
  }
  for (const std::string &set : arguments.common.sets) {
    std::string key, type;
    splitPair(set, key, type);
    overrides[key] = type;
  }
  Json file = {{"name", "tuned"},
               {"description", "written by mpc tune for " + budgetText()},
               {"extends", "mixed_float16"},
               {"compute", "float32"},
               {"store", stringify(space->getStore()).str()}};
  if (quantizes) {
    file.update(recipeFields);
    file["compute"] = stringify(PolicyType::BFloat16).str();
  }
  if (!overrides.empty())
    file["overrides"] = overrides;
  file["products"] = products;
  if (!weights.empty())
    file["weights"] = {{"names", weights}};
  file["values"] = values;
  file["ranges"] = rangesForPolicy(ranges, model.samples());
  // A complete training step is a different graph than this part.
  if (arguments.training.empty())
    file["model"] = digest;
  return file;
}

Status TuneCommand::describeModel(Json &file) {
  // The graph's digest includes the weights, which quantization changes.
  bool quantizes = file["extends"] != "mixed_float16";
  if ((!file.contains("weights") && !quantizes) || !file.contains("model"))
    return {};
  Result<TemporaryPolicy> policy = TemporaryPolicy::write(file);
  if (!policy.ok())
    return policy.status();
  CompileOptions options = costModel().options();
  options.policy = policy->path();
  options.onDiagnostic = nullptr;
  Result<std::unique_ptr<Compiler>> compiler = Compiler::create(options);
  if (!compiler.ok())
    return compiler.status();
  Result<Compiler::Module> module = (*compiler)->import(arguments.common.model);
  if (!module.ok())
    return module.status();
  if (Status status = (*compiler)->runStages(**module, "import", "weights");
      !status.ok())
    return status;
  file["model"] = graphDigest(Compiler::entry(**module));
  return {};
}

/// Returns for each narrow variable its contribution to the predicted squared
/// error, and for each contraction in f32 the contribution it would add.
Json TuneCommand::shares(const Choice &choice) const {
  const BudgetSearchProblem search = space->searchSpace(errors());
  double all = search.plan(choice, 0).error;
  Json list = Json::array();
  for (auto [index, variable] : llvm::enumerate(space->getVariables())) {
    const PolicySearchSpace::Option &option = variable.options[choice[index]];
    bool isNarrow = choice[index] != 0;
    if (!variable.isProduct && !isNarrow)
      continue;
    // For one in f32: the contribution of its narrowest type.
    Choice other = choice;
    other[index] = 0;
    for (size_t next = 0; !isNarrow && next < variable.options.size(); ++next)
      if (variable.options[next].isPlain())
        other[index] = int(next);
    double change = std::fabs(all - search.plan(other, 0).error);
    Json &entry = list.emplace_back(
        Json{{"name", variable.names.front()},
             {"what", variable.isProduct ? "product" : "value"},
             {"type", stringify(option.type).str()}});
    if (option.weights.isNarrow())
      entry["weights"] = formatText(option.weights);
    if (!option.recipe.empty())
      entry["operands"] = option.recipe;
    if (isNarrow)
      entry["error_share"] = all > 0 ? change / all : 0;
    else
      entry["error_if_narrow"] = jsonNumber(errorOf(budget.measure, change));
  }
  return list;
}

Json TuneCommand::layers(const Choice &choice) const {
  const BudgetSearchProblem search = space->searchSpace(errors());
  double all = search.plan(choice, 0).error;
  Json list = Json::array();
  for (auto [index, variable] : llvm::enumerate(space->getVariables())) {
    if (space->countWeights(index) == 0)
      continue;
    const PolicySearchSpace::Option &option = variable.options[choice[index]];
    Choice wide = choice;
    wide[index] = 0;
    double share = all > 0 ? 1 - search.plan(wide, 0).error / all : 0;
    list.push_back(
        {{"name", variable.names.front()},
         {"weights", option.weights.isNarrow() ? formatText(option.weights)
                                               : stringify(option.type).str()},
         {"count", space->countWeights(index)},
         {"bytes", space->weightBytes(index, option)},
         {"error_share", share}});
  }
  return list;
}

Json TuneCommand::describeText(const Choice &choice) const {
  Json uniform = Json::array();
  for (const Choice &other : builtIn)
    if (const PolicyMeasurements *known =
            state.find(other, TuneState::Part::Searched))
      uniform.push_back({{"weights", builtInName(other)},
                         {"bytes_per_token", known->bytes},
                         {"error", jsonNumber(known->error)}});
  int64_t count = space->countWeights();
  return {{"file", arguments.text},
          {"window", arguments.window},
          {"tokens", int64_t(text->windows().size()) * arguments.window},
          {"kl", jsonNumber(agreement->divergence())},
          {"perplexity", jsonNumber(agreement->perplexity())},
          {"float32_perplexity", jsonNumber(agreement->referencePerplexity())},
          {"different_tokens", jsonNumber(agreement->flips())},
          {"bits_per_weight",
           count ? 8 * space->weightBytes(choice) / double(count) : 32},
          {"uniform", uniform},
          {"layers", layers(choice)}};
}

void TuneCommand::reportText(const Json &found) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "weights", "bytes", "share of the error, %"}};
  for (const Json &layer : found["layers"])
    rows.push_back({layer["name"], layer["weights"],
                    shortBytes(layer["bytes"].get<double>()),
                    shortNumber(100 * layer["error_share"].get<double>())});
  reporter.lines(formatTable(rows, {false, false, true, true}));
  rows = {
      {"uniform weights", "bytes per token", stringify(budget.measure).str()}};
  for (const Json &point : found["uniform"])
    rows.push_back({point["weights"],
                    costText(point["bytes_per_token"].get<double>()),
                    shortNumber(point["error"].get<double>())});
  reporter.lines(formatTable(rows, {false, true, true}));
  reporter.line(
      shortNumber(found["bits_per_weight"].get<double>()) +
      " bits per weight, KL divergence " +
      shortNumber(agreement->divergence()) + " nats per token, perplexity " +
      shortNumber(agreement->referencePerplexity()) + " -> " +
      shortNumber(agreement->perplexity()) + ", another most likely token in " +
      shortNumber(100 * agreement->flips()) + " %, over all " +
      std::to_string(found["tokens"].get<int64_t>()) + " tokens");
}

Json TuneCommand::ruined(const Choice &choice) const {
  Json list = Json::array();
  for (const PolicySearchSpace::Overflowing &value : space->getOverflowing())
    list.push_back(
        {{"name", value.name}, {"why", value.why + ": it stays in float32"}});
  // Of a decoder, an infinite error may mean an unknown one.
  if (costBudget || isCheapest || text)
    return list;
  const BudgetSearchProblem search = space->searchSpace(errors());
  double all = search.plan(choice, 0).error;
  for (auto [index, variable] : llvm::enumerate(space->getVariables())) {
    if (variable.options[choice[index]].type != PolicyType::Float32)
      continue;
    // The minimum contribution of a narrow type.
    double least = INFINITY;
    for (size_t option = 1; option < variable.options.size(); ++option) {
      if (!variable.options[option].isPlain())
        continue;
      Choice other = choice;
      other[index] = int(option);
      PricedConfiguration found = search.plan(other, 0);
      // Excluded by the planner because samples overflow.
      if (found.choice[index] == int(option))
        least = std::min(least, found.error - all);
    }
    double error = errorOf(budget.measure, std::max(least, 0.0));
    bool hasTypes =
        llvm::any_of(llvm::drop_begin(variable.options),
                     [](const auto &option) { return option.isPlain(); });
    if (error <= budget.limit || !hasTypes)
      continue;
    std::string would = std::isfinite(error)
                            ? "would cause an error of " + shortNumber(error)
                            : "would overflow";
    list.push_back(
        {{"name", variable.names.front()},
         {"why", std::string(variable.isProduct ? "contraction '" : "value '") +
                     variable.names.front() + "' " + would +
                     " alone in 16 bits: it stays in float32"}});
  }
  return list;
}

Json TuneCommand::describe(const TunedPoint &point) const {
  Json json = {{"cost", point.cost}, {"predicted_cost", point.priced.cost}};
  if (!std::isnan(point.measured)) {
    json["measured"] = jsonNumber(point.measured);
    json["keeps"] = costBudget
                        ? point.cost <= costBudget->share * result.widest->cost
                        : point.measured <= budget.limit;
  }
  if (!std::isnan(point.predicted))
    json["predicted"] = jsonNumber(point.predicted);
  return json;
}

Json TuneCommand::document() const {
  Json tried = Json::array(), prices = Json::array(), culprits = Json::array();
  for (const TunedPoint &point : result.tried)
    tried.push_back(describe(point));
  for (const PricedConfiguration &point : front)
    prices.push_back(
        {{"cost", point.cost},
         {"predicted", jsonNumber(errorOf(budget.measure, point.error))}});
  for (size_t index : result.culprits)
    culprits.push_back(space->getVariables()[index].names.front());
  Json json = {{"model", arguments.common.model},
               {"budget", budgetText()},
               {"objective", stringify(objective).str()},
               {"target", model.compiler().targetName()},
               {"measured_by", meter->isCompiled() ? "program" : "oracle"},
               {"samples", searched.size()},
               {"held_back", heldBack.size()},
               {"ok", result.best.has_value()},
               {"stopped", result.isStopped}};
  if (!costBudget)
    json["limit"] = budget.limit;
  if (result.widest)
    json["float32"] = describe(*result.widest);
  if (result.best) {
    json["chosen"] = describe(*result.best);
    if (promised)
      json["chosen"]["held_back"] = jsonNumber(*promised);
    for (auto [key, point] :
         {std::pair("chosen", result.best), std::pair("built_in", bar)})
      if (point && secondsOf.count(point->priced.choice)) {
        if (!json.contains(key))
          json[key] = describe(*point);
        json[key]["bytes"] =
            state.find(point->priced.choice, TuneState::Part::Searched)->bytes;
        json[key]["seconds"] = secondsOf.at(point->priced.choice);
      }
    if (promised && !costBudget) {
      json["chosen"]["looks"] = looks;
      // If a larger share of inputs exceeded the budget, all these samples
      // would satisfy it with a probability of less than 5 %.
      json["chosen"]["share_within"] =
          std::pow(1 - kCertainty, 1 / double(heldBack.size()));
      json["chosen"]["certainty"] = kCertainty;
    }
    if (!isCheapest)
      json["ops"] = shares(result.best->priced.choice);
    json["ruined"] = ruined(result.best->priced.choice);
  }
  if (agreement)
    json["text"] = describeText(result.best->priced.choice);
  if (lossScale)
    json["loss_scale"] = tool::describe(*lossScale);
  for (const OutputAgreement &output : agreements)
    json["outputs"].push_back({{"name", output.name},
                               {"cosine", jsonNumber(output.cosine)},
                               {"norm_ratio", jsonNumber(output.normRatio)}});
  json["culprits"] = culprits;
  json["front"] = prices;
  json["tried"] = tried;
  if (!trials.empty())
    json["trials"] = describeTrials();
  if (!isCheapest)
    json["plans"] = finder->getPlans();
  json["measurements"] = measurements;
  json["runs"] = runs;
  json["seconds"] = seconds();
  return json;
}

/// Formats the number of variables of each type.
static std::string countTypes(const PolicySearchSpace &space,
                              const Choice &choice) {
  std::map<std::string, int> products, weights;
  int values = 0, narrow = 0;
  for (auto [variable, number] :
       llvm::zip_equal(space.getVariables(), choice)) {
    if (variable.isProduct) {
      const PolicySearchSpace::Option &option = variable.options[number];
      ++products[option.recipe.empty() ? stringify(option.type).str()
                                       : option.recipe];
      if (option.weights.isNarrow())
        ++weights[formatText(option.weights)];
      continue;
    }
    ++values;
    narrow += number != 0;
  }
  std::string text;
  for (auto [what, counts] : {std::pair("contractions: ", &products),
                              std::pair("weights: ", &weights)}) {
    bool isFirst = true;
    for (const auto &[type, count] : *counts) {
      text += !isFirst ? ", " : (text.empty() ? "" : "; ") + std::string(what);
      text += std::to_string(count) + " " + type;
      isFirst = false;
    }
  }
  return text + (text.empty() ? "" : "; ") + std::to_string(narrow) + " of " +
         std::to_string(values) + " values in 16 bits";
}

std::string TuneCommand::explainEmptyResult() const {
  if (costBudget) {
    double least = INFINITY;
    for (const TunedPoint &point : result.tried)
      least = std::min(least, point.cost);
    return "the cheapest assignment found costs " +
           shortNumber(least / result.widest->cost) + " of float32";
  }
  if (!result.widest || result.widest->measured > budget.limit)
    return "float32 itself has the error " +
           shortNumber(result.widest ? result.widest->measured : 0);
  return "no low-precision assignment is within it on the validation samples, "
         "where the error is " +
         shortNumber(promised.value_or(0));
}

int TuneCommand::report() {
  Json found = document();
  std::vector<std::vector<std::string>> table = {
      {costHeading(), "predicted " + stringify(budget.measure).str()}};
  for (const PricedConfiguration &point : front)
    table.push_back({costText(point.cost),
                     shortNumber(errorOf(budget.measure, point.error))});
  if (isCheapest)
    reporter.line("the cheapest assignment is within the budget: no "
                  "sensitivities were computed, so there is no Pareto front");
  else
    reporter.lines(formatTable(table, {true, true}));
  if (!result.best) {
    reporter.line("budget " + budgetText() +
                  " cannot be met: " + explainEmptyResult());
    if (!result.isStopped)
      state.remove();
    if (Status status = writeHtml(arguments.html, "tune", found); !status.ok())
      return reporter.fail(status);
    reporter.document(found);
    return reporter.finish(kCheckFailed);
  }
  const TunedPoint &best = *result.best;
  for (size_t index : result.culprits)
    reporter.line("'" + space->getVariables()[index].names.front() +
                  "' alone exceeds the budget and stays in f32");
  // The document has all of them.
  constexpr size_t kMostLines = 10;
  const Json &wide = found["ruined"];
  for (size_t i = 0; i < std::min(wide.size(), kMostLines); ++i)
    reporter.line(wide[i]["why"].get<std::string>());
  if (wide.size() > kMostLines)
    reporter.line("and " + std::to_string(wide.size() - kMostLines) +
                  " more (--json names them)");
  reporter.line(countTypes(*space, best.priced.choice));
  if (agreement)
    reportText(found["text"]);
  if (!agreements.empty()) {
    std::vector<std::vector<std::string>> rows = {
        {"output", "1 - cosine", "norm ratio"}};
    for (const OutputAgreement &output : agreements)
      rows.push_back({output.name, shortNumber(1 - output.cosine),
                      shortNumber(output.normRatio)});
    reporter.lines(formatTable(rows, {false, true, true}));
  }
  if (lossScale && lossScale->power > 0)
    reporter.line(sentence(*lossScale));
  if (bar) {
    auto figures = [](const Json &point) {
      return shortBytes(point["bytes"].get<double>()) + " in " +
             shortNumber(1e3 * point["seconds"].get<double>()) + " ms";
    };
    std::string name = builtInName(bar->priced.choice);
    reporter.line("the best built-in policy within the budget" +
                  (name.empty() ? "" : ", " + name) + ", moves " +
                  figures(found["built_in"]) + ", this policy " +
                  figures(found["chosen"]));
  }
  if (!trials.empty()) {
    Json described = describeTrials();
    reporter.line(std::to_string(trials.size()) +
                  " random assignments: rank correlation of predicted and "
                  "measured errors " +
                  shortNumber(described["rank_correlation"].get<double>()) +
                  ", median ratio " +
                  shortNumber(described["median_ratio"].get<double>()));
  }
  if (!arguments.output.empty()) {
    Json file = policyFile(best);
    if (Status status = describeModel(file); !status.ok())
      return reporter.fail(status);
    file["tuning"] = {{"command", commandOf(arguments)}};
    for (const char *key : {"budget", "objective", "loss_scale", "outputs",
                            "target", "measured_by", "samples", "held_back",
                            "text", "float32", "chosen", "culprits", "stopped"})
      if (found.contains(key))
        file["tuning"][key] = found[key];
    std::string text = jsonText(file, 1) + "\n";
    if (Status status = writeWholeFile(arguments.output, {text}); !status.ok())
      return reporter.fail(status);
    // An interrupted search can be resumed.
    if (!result.isStopped)
      state.remove();
    reporter.line("written to " + arguments.output);
  }
  if (!arguments.html.empty()) {
    Result<Json> explanation = explain(best);
    if (!explanation.ok())
      return reporter.fail(explanation.status());
    found["explanation"] = std::move(*explanation);
    if (Status status = writeHtml(arguments.html, "tune", found); !status.ok())
      return reporter.fail(status);
  }
  reporter.document(found);
  reporter.line(outcome());
  if (!StopOnSignal::isAsked())
    return reporter.finish(kDone);
  reporter.note("interrupted after " + std::to_string(measurements) +
                " measurements" + howToResume());
  return reporter.finish(kStoppedBySignal + StopOnSignal::received());
}

//===----------------------------------------------------------------------===//
// Sentences
//===----------------------------------------------------------------------===//

std::string TuneCommand::howToResume() const {
  if (arguments.output.empty())
    return "; with -o they are kept, and --resume continues the search";
  return "; the same command with --resume continues from " + arguments.output +
         ".state";
}

int TuneCommand::reportInterrupt() {
  reporter.note("interrupted after " + std::to_string(measurements) +
                " measurements, before an assignment within the budget was "
                "found" +
                (measurements ? howToResume() : ""));
  reporter.document({{"model", arguments.common.model},
                     {"budget", budgetText()},
                     {"ok", false},
                     {"stopped", true},
                     {"measurements", measurements}});
  return reporter.finish(kStoppedBySignal + StopOnSignal::received());
}

std::string TuneCommand::costText(double cost) const {
  return objective == TuningObjective::Time ? shortNumber(1e3 * cost) + " ms"
                                            : shortBytes(cost);
}

std::string TuneCommand::builtInName(const Choice &choice) const {
  if (!llvm::is_contained(builtIn, choice))
    return {};
  // Of uniform weights, the least precise format.
  int least = 0;
  std::string name = "float32";
  for (auto [variable, number] :
       llvm::zip_equal(space->getVariables(), choice)) {
    if (!variable.isProduct || number == 0)
      continue;
    const PolicySearchSpace::Option &option = variable.options[number];
    if (!option.weights.isNarrow())
      return "mixed_" + stringify(option.type).str();
    if (number > least)
      name = formatText(option.weights);
    least = std::max(least, number);
  }
  return name;
}

std::string TuneCommand::outcome() const {
  const TunedPoint &best = *result.best, &wide = *result.widest;
  auto seconds = [&](const TunedPoint &point) -> std::optional<double> {
    if (auto timed = secondsOf.find(point.priced.choice);
        timed != secondsOf.end())
      return timed->second;
    if (objective == TuningObjective::Time)
      return point.cost;
    return std::nullopt;
  };
  std::string sentence;
  std::optional<double> now = seconds(best), before = seconds(wide);
  if (now && before && *now > 0)
    sentence = shortNumber(*before / *now) +
               (*now <= *before ? "x faster than float32 ("
                                : "x as fast as float32 (") +
               shortNumber(1e3 * *before) + " -> " + shortNumber(1e3 * *now) +
               " ms), ";
  if (objective != TuningObjective::Time && wide.cost > 0)
    sentence += shortNumber(best.cost / wide.cost) + "x the " +
                (isOfWeights()                          ? "weights"
                 : objective == TuningObjective::Memory ? "memory"
                                                        : "traffic") +
                (sentence.empty() ? " of float32 (" : " (") +
                shortBytes(wide.cost) + " -> " + shortBytes(best.cost) +
                (text && !isOfWeights() && objective == TuningObjective::Bytes
                     ? " per token), "
                     : "), ");
  sentence += stringify(budget.measure).str() + " " +
              shortNumber(promised.value_or(best.measured));
  if (costBudget)
    sentence += " within " + budgetText();
  else
    sentence += " of " + shortNumber(budget.limit) + " allowed";
  return sentence + ", on " +
         (promised ? std::to_string(heldBack.size()) + " validation"
                   : std::to_string(searched.size()) + " calibration") +
         ((promised ? heldBack : searched).size() == 1 ? " sample"
                                                       : " samples");
}

//===----------------------------------------------------------------------===//
// Trials
//===----------------------------------------------------------------------===//

/// Narrows a random fraction of the variables, so that errors spread over the
/// whole range.
static Choice drawChoice(const PolicySearchSpace &space,
                         std::mt19937_64 &generator) {
  std::uniform_real_distribution<double> part(0, 1);
  double share = part(generator);
  Choice choice;
  for (const PolicySearchSpace::Variable &variable : space.getVariables()) {
    bool isNarrow = part(generator) < share;
    std::uniform_int_distribution<int> option(1,
                                              int(variable.options.size()) - 1);
    choice.push_back(isNarrow ? option(generator) : 0);
  }
  return choice;
}

Status TuneCommand::measureTrials() {
  std::mt19937_64 generator(arguments.common.seed);
  // Float32's own error is a lower bound.
  double own = result.widest && std::isfinite(result.widest->measured)
                   ? squareOf(budget.measure, result.widest->measured)
                   : 0;
  // Some configurations overflow, as predicted, which is not informative.
  int64_t most = 20 * int64_t(arguments.trials);
  for (int64_t draw = 0;
       draw < most && int64_t(trials.size()) < arguments.trials && !stops();
       ++draw) {
    PricedConfiguration priced = finder->price(drawChoice(*space, generator));
    if (!std::isfinite(priced.error))
      continue;
    Result<PolicyMeasurements> figures =
        measure(priced.choice, TuneState::Part::Searched);
    if (!figures.ok())
      return figures.status();
    trials.push_back(
        {errorOf(budget.measure, priced.error + own), figures->error});
  }
  return {};
}

Json TuneCommand::describeTrials() const {
  std::vector<double> predicted, measured, ratios;
  Json points = Json::array();
  for (const TuningTrial &trial : trials) {
    predicted.push_back(trial.predicted);
    measured.push_back(trial.measured);
    if (trial.measured > 0 && std::isfinite(trial.measured))
      ratios.push_back(trial.predicted / trial.measured);
    points.push_back({jsonNumber(trial.predicted), jsonNumber(trial.measured)});
  }
  return {{"count", trials.size()},
          {"rank_correlation", rankCorrelation(predicted, measured)},
          {"median_ratio", ratios.empty() ? 1 : medianOf(ratios)},
          {"predicted_and_measured", points}};
}

//===----------------------------------------------------------------------===//
// Explanation
//===----------------------------------------------------------------------===//

Result<TemporaryPolicy> TemporaryPolicy::write(const Json &policy) {
  llvm::SmallString<128> path;
  int descriptor = -1;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile(
          "mpc-tune", "json", descriptor, path))
    return Status(StatusCode::Unavailable, "temporary folder", error.message());
  TemporaryPolicy made;
  made.file = std::make_unique<TemporaryFile>(path.str().str());
  // In place, so that no other file remains.
  llvm::raw_fd_ostream out(descriptor, /*shouldClose=*/true);
  out << jsonText(policy);
  out.close();
  if (std::error_code error = out.error()) {
    out.clear_error();
    return Status(StatusCode::Unavailable, made.path(), error.message());
  }
  return made;
}

Result<Json> TuneCommand::explain(const TunedPoint &point) {
  Result<TemporaryPolicy> file = TemporaryPolicy::write(policyFile(point));
  if (!file.ok())
    return file.status();
  // The measurements have compiled the same and reported its diagnostics.
  Reporter silent(/*json=*/false, /*quiet=*/true);
  CompileOptions options = costModel().options();
  options.policy = file->path();
  options.dumpDir.clear();
  options.onDiagnostic = [&](const Diagnostic &message) {
    silent.hear(message);
  };
  Result<Explanation> explanation =
      explainModel({arguments.common.model, options}, silent);
  if (!explanation.ok())
    return explanation.status();
  explanation->policy = arguments.output.empty() ? "tuned" : arguments.output;
  explanation->ranges = rangesToJson(ranges, model.samples());
  llvm::Expected<Policy> policy = Policy::load(file->path());
  if (!policy)
    return Status(StatusCode::Internal, "the tuned policy",
                  llvm::toString(policy.takeError()));
  mlir::func::FuncOp entry = costModel().entry();
  size_t before = costModel().compiler().diagnostics().size();
  mlir::FailureOr<PrecisionPlan> plan = PrecisionPlan::create(
      entry, *policy, space->getTarget(), castPlacementOf(options));
  if (failed(plan))
    return costModel().compiler().failure(before);
  explainErrors(entry, *plan, errors(), budget.measure,
                int64_t(searched.size()), *explanation,
                space->quantizedErrors(point.priced.choice, errors()));
  return explanationToJson(*explanation);
}
