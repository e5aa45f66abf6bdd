//===- GraphDrawing.cpp - graph layout of a report ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// dot's input contains numbers and sizes only, no names from the model
// (injection).
//
//===----------------------------------------------------------------------===//

#include "GraphDrawing.h"

#include "mpc/Support/Files.h"
#include "mpc/Support/ScopedTempFolder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

using namespace mpc;
using namespace mpc::tool;

/// Graphs with more ops show one node per launch.
static constexpr size_t kMostNodes = 5000;
static constexpr size_t kManyNodes = 1000;
/// dot lays out 2,000 ops in half a second on an idle machine.
static constexpr unsigned kSeconds = 60;
/// Sizes in pixels, which are points for dot.
static constexpr int kCharacter = 7, kMargin = 22, kNodeHeight = 38,
                     kValueHeight = 24;
/// Longer names are shortened by Report/graph.js.
static constexpr size_t kMostCharacters = 26;

//===----------------------------------------------------------------------===//
// Graph
//===----------------------------------------------------------------------===//

namespace {

struct Node {
  /// "op", "kernel", "input" or "result", and the index or name.
  std::string what;
  Json of;
  int width = 0, height = 0;
  /// For an op: its launch, if any.
  std::optional<size_t> launch;
};

struct Edge {
  size_t from = 0, to = 0;
  Json type, shape;
};

struct Graph {
  bool isOfKernels = false;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};

} // namespace

/// Approximates the number of UTF-8 code points.
static size_t countCharacters(const std::string &text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

static int widthOf(const std::string &first, const std::string &second = "") {
  size_t longest = std::max(countCharacters(first), countCharacters(second));
  return int(std::clamp<size_t>(longest, 6, kMostCharacters)) * kCharacter +
         kMargin;
}

static Graph makeGraph(const Json &explanation, bool isOfKernels) {
  const Json &ops = explanation["ops"], &kernels = explanation["kernels"];
  Graph graph;
  graph.isOfKernels = isOfKernels;
  auto launchOf = [&](size_t op) -> std::optional<size_t> {
    const Json &launch = ops[op]["launch"];
    return launch.is_null() ? std::nullopt
                            : std::optional<size_t>(launch.get<size_t>());
  };
  // Node of each op; in a graph of kernels ops without a launch have none.
  std::vector<std::optional<size_t>> nodeOf(ops.size());
  if (graph.isOfKernels)
    for (size_t i = 0; i < kernels.size(); ++i) {
      auto name = kernels[i]["name"].get<std::string>();
      graph.nodes.push_back(
          {"kernel", i, widthOf(name), kNodeHeight, std::nullopt});
    }
  for (size_t i = 0; i < ops.size(); ++i) {
    if (graph.isOfKernels) {
      nodeOf[i] = launchOf(i);
      continue;
    }
    auto name = ops[i]["name"].get<std::string>(),
         kind = ops[i]["kind"].get<std::string>();
    nodeOf[i] = graph.nodes.size();
    graph.nodes.push_back(
        {"op", i, widthOf(name, kind + " bf16+f32"), kNodeHeight, launchOf(i)});
  }
  std::map<std::pair<std::string, std::string>, size_t> valueNodes;
  auto nodeFor = [&](const Json &end,
                     const char *what) -> std::optional<size_t> {
    if (end.is_number())
      return nodeOf[end.get<size_t>()];
    auto name = end.get<std::string>();
    auto [entry, isNew] =
        valueNodes.try_emplace({what, name}, graph.nodes.size());
    if (isNew)
      graph.nodes.push_back(
          {what, name, widthOf(name), kValueHeight, std::nullopt});
    return entry->second;
  };
  std::set<std::tuple<size_t, size_t, std::string>> drawn;
  for (const Json &edge : explanation["edges"]) {
    std::optional<size_t> from = nodeFor(edge["from"], "input"),
                          to = nodeFor(edge["to"], "result");
    if (!from || !to || *from == *to ||
        !drawn.emplace(*from, *to, edge["type"].get<std::string>()).second)
      continue;
    graph.edges.push_back({*from, *to, edge["type"], edge["shape"]});
  }
  return graph;
}

/// Formats the graph in dot's language.
static std::string dotText(const Graph &graph, const Json &kernels) {
  std::string text = "digraph g {\n"
                     "graph [ranksep=0.35, nodesep=0.2, fontname=monospace, "
                     "fontsize=11, margin=9];\n"
                     "node [shape=box, fixedsize=true, label=\"\"];\n"
                     "edge [dir=none];\n";
  // Fewer iterations of network simplex: 5,000 ops take 2 s instead of 8.
  if (graph.nodes.size() > kManyNodes)
    text += "graph [nslimit=0.5, nslimit1=0.5, mclimit=0.3];\n";
  std::map<size_t, std::string> clusters;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node &node = graph.nodes[i];
    char line[96];
    std::snprintf(line, sizeof(line), "n%zu [width=%.3f, height=%.3f];\n", i,
                  node.width / 72.0, node.height / 72.0);
    (node.launch ? clusters[*node.launch] : text) += line;
  }
  for (const auto &[launch, members] : clusters) {
    // Reserve space for the kernel's name.
    size_t length =
        std::min(kMostCharacters,
                 countCharacters(kernels[launch]["name"].get<std::string>()));
    text += "subgraph cluster" + std::to_string(launch) + " {\nlabel=\"" +
            std::string(length, 'x') + "\";\n" + members + "}\n";
  }
  for (size_t i = 0; i < graph.edges.size(); ++i)
    text += "n" + std::to_string(graph.edges[i].from) + " -> n" +
            std::to_string(graph.edges[i].to) + " [id=" + std::to_string(i) +
            "];\n";
  return text + "}\n";
}

//===----------------------------------------------------------------------===//
// dot
//===----------------------------------------------------------------------===//

static Result<std::string> findDot() {
  llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName("dot");
  if (!found)
    return Status(StatusCode::Unavailable, "--html",
                  "needs Graphviz, which lays out the graph: its program dot "
                  "is not on the PATH (Debian's package graphviz)");
  return *found;
}

/// Runs dot; nullopt on timeout.
static Result<std::optional<std::string>> runDot(const std::string &program,
                                                 const std::string &text) {
  ScopedTempFolder folder("mpc-graph");
  if (!folder.ok())
    return Status(StatusCode::Unavailable, "--html",
                  "cannot create a temporary folder");
  std::string input = folder.path("graph.dot"),
              output = folder.path("places.json"), log = folder.path("log");
  if (Status status = writeWholeFile(input, {text}); !status.ok())
    return status;
  llvm::StringRef words[] = {program, "-Tjson", input};
  std::optional<llvm::StringRef> redirects[] = {
      llvm::StringRef(""), llvm::StringRef(output), llvm::StringRef(log)};
  std::string message;
  int code = llvm::sys::ExecuteAndWait(program, words, std::nullopt, redirects,
                                       kSeconds, /*MemoryLimit=*/0, &message);
  if (code == -2)
    return std::optional<std::string>();
  Result<std::string> places = readWholeFile(output);
  if (code != 0 || !places.ok()) {
    if (Result<std::string> said = readWholeFile(log); said.ok())
      message += said->substr(0, said->find('\n'));
    return Status(StatusCode::Unavailable, "--html",
                  program + " fails: " + message);
  }
  return std::optional<std::string>(std::move(*places));
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

namespace {

struct Point {
  double x = 0, y = 0;
};

/// Bounding box of the added points.
struct Bounds {
  double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;

  void add(Point point) {
    left = std::min(left, point.x);
    right = std::max(right, point.x);
    low = std::min(low, point.y);
    high = std::max(high, point.y);
  }
  void add(const Bounds &other) {
    add(Point{other.left, other.low});
    add(Point{other.right, other.high});
  }
};

/// Parses dot's output, whose y axis points up. Its drawing operations are
/// exact; its attributes have only five digits.
class PlaceReader {
public:
  PlaceReader(const Graph &graph, const Json &places)
      : graph(graph), places(places) {}

  std::optional<Json> read();

private:
  bool readObjects();
  bool readEdges();
  Json box(const Bounds &place) const;
  std::string pathOf(const std::vector<Point> &points) const;
  int64_t x(double x) const { return std::llround(x - whole.left + kBorder); }
  int64_t y(double y) const { return std::llround(whole.high - y + kBorder); }

  static constexpr int kBorder = 8;
  const Graph &graph;
  const Json &places;
  Bounds whole;
  std::vector<std::optional<Bounds>> nodes;
  std::map<size_t, Bounds> clusters;
  std::map<size_t, std::vector<Point>> curves;
};

} // namespace

/// Returns a text field; empty if missing.
static std::string textOf(const Json &object, const char *field) {
  auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

/// Returns the number at the end of "cluster12"; an invalid index if there is
/// none.
static size_t numberOf(const std::string &name) {
  size_t begin = name.find_first_of("0123456789");
  size_t number = size_t(-1);
  if (begin != std::string::npos)
    std::from_chars(name.data() + begin, name.data() + name.size(), number);
  return number;
}

/// Returns the points of drawing operation `kind`: "p", a polygon, "b", a
/// B-spline.
static std::vector<Point> pointsOf(const Json &object, const char *kind) {
  std::vector<Point> points;
  auto drawn = object.find("_draw_");
  if (drawn == object.end() || !drawn->is_array())
    return points;
  for (const Json &operation : *drawn) {
    if (!operation.is_object() || textOf(operation, "op") != kind ||
        !operation.contains("points"))
      continue;
    for (const Json &point : operation["points"])
      if (point.is_array() && point.size() == 2 && point[0].is_number() &&
          point[1].is_number())
        points.push_back({point[0].get<double>(), point[1].get<double>()});
    break;
  }
  return points;
}

bool PlaceReader::readObjects() {
  nodes.resize(graph.nodes.size());
  auto objects = places.find("objects");
  // The list also contains clusters.
  for (const Json &object :
       objects != places.end() ? *objects : Json::array()) {
    if (!object.is_object())
      return false;
    std::string name = textOf(object, "name");
    size_t number = numberOf(name);
    Bounds place;
    std::vector<Point> points = pointsOf(object, "p");
    for (Point point : points)
      place.add(point);
    if (points.empty())
      return false;
    whole.add(place);
    if (name.rfind("cluster", 0) == 0)
      clusters[number] = place;
    else if (number < nodes.size())
      nodes[number] = place;
    else
      return false;
  }
  return std::all_of(nodes.begin(), nodes.end(),
                     [](const auto &place) { return place.has_value(); });
}

bool PlaceReader::readEdges() {
  auto edges = places.find("edges");
  for (const Json &edge : edges != places.end() ? *edges : Json::array()) {
    if (!edge.is_object())
      return false;
    size_t number = numberOf(textOf(edge, "id"));
    std::vector<Point> points = pointsOf(edge, "b");
    if (number >= graph.edges.size() || points.size() % 3 != 1)
      return false;
    for (Point point : points)
      whole.add(point);
    curves[number] = std::move(points);
  }
  return curves.size() == graph.edges.size();
}

Json PlaceReader::box(const Bounds &place) const {
  return {{"x", x(place.left)},
          {"y", y(place.high)},
          {"width", x(place.right) - x(place.left)},
          {"height", y(place.low) - y(place.high)}};
}

/// An SVG path: a start point, and a cubic curve for every three further
/// points.
std::string PlaceReader::pathOf(const std::vector<Point> &points) const {
  std::string path;
  for (size_t i = 0; i < points.size(); ++i) {
    path += i == 0 ? "M" : i % 3 == 1 ? "C" : " ";
    path +=
        std::to_string(x(points[i].x)) + "," + std::to_string(y(points[i].y));
  }
  return path;
}

std::optional<Json> PlaceReader::read() {
  if (!readObjects() || !readEdges())
    return std::nullopt;
  if (nodes.empty())
    whole = {0, 0, 0, 0};
  Json drawing = {{"of", graph.isOfKernels ? "kernels" : "ops"},
                  {"width", x(whole.right) + kBorder},
                  {"height", y(whole.low) + kBorder},
                  {"nodes", Json::array()},
                  {"kernels", Json::array()},
                  {"edges", Json::array()}};
  for (auto [node, place] : llvm::zip_equal(graph.nodes, nodes)) {
    Json drawn = {{node.what, node.of}};
    drawn.update(box(*place));
    drawing["nodes"].push_back(std::move(drawn));
  }
  for (const auto &[launch, place] : clusters) {
    Json drawn = {{"kernel", launch}};
    drawn.update(box(place));
    drawing["kernels"].push_back(std::move(drawn));
  }
  for (const auto &[number, curve] : curves) {
    const Edge &edge = graph.edges[number];
    drawing["edges"].push_back({{"from", edge.from},
                                {"to", edge.to},
                                {"type", edge.type},
                                {"shape", edge.shape},
                                {"path", pathOf(curve)}});
  }
  return drawing;
}

Result<Json> tool::drawGraph(const Json &explanation) {
  Result<std::string> program = findDot();
  if (!program.ok())
    return program.status();
  bool isOfKernels = explanation["ops"].size() > kMostNodes;
  while (true) {
    Graph graph = makeGraph(explanation, isOfKernels);
    Result<std::optional<std::string>> answer =
        runDot(*program, dotText(graph, explanation["kernels"]));
    if (!answer.ok())
      return answer.status();
    if (!*answer && !isOfKernels) {
      isOfKernels = true;
      continue;
    }
    if (!*answer)
      return Status(StatusCode::Unavailable, "--html",
                    *program + " does not lay out " +
                        std::to_string(graph.nodes.size()) + " nodes within " +
                        std::to_string(kSeconds) + " s");
    Json places = Json::parse(**answer, nullptr, /*allow_exceptions=*/false);
    if (places.is_object())
      if (std::optional<Json> drawing = PlaceReader(graph, places).read())
        return *drawing;
    return Status(
        StatusCode::Unavailable, "--html",
        *program +
            " returned no valid layout; Graphviz 2.42 or newer is needed");
  }
}

Status tool::checkHtml(const std::string &path, bool hasGraph) {
  if (path.empty())
    return {};
  if (Status status = checkWritable(path); !status.ok())
    return status;
  return hasGraph ? findDot().status() : Status();
}

Status tool::writeHtml(const std::string &path, const std::string &command,
                       const Json &document) {
  if (path.empty())
    return {};
  const Json *explanation = &document;
  if (auto found = document.find("explanation"); found != document.end())
    explanation = &*found;
  Json drawing;
  if (explanation->contains("ops") && explanation->contains("edges")) {
    Result<Json> drawn = drawGraph(*explanation);
    if (!drawn.ok())
      return drawn.status();
    drawing = std::move(*drawn);
  }
  return writeHtmlReport(path, command, document, drawing);
}
