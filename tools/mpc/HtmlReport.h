//===- HtmlReport.h - report as an HTML page --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A self-contained page with the document of --json, the graph layout and the
// script that displays both (Report/).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_HTMLREPORT_H
#define MPC_TOOLS_MPC_HTMLREPORT_H

#include "Reporter.h"

namespace mpc::tool {

/// Writes the page of `command` ("explain", "tune", ...) atomically. `drawing`
/// is null if there is no graph. Names in both are untrusted.
Status writeHtmlReport(const std::string &path, const std::string &command,
                       const Json &document, const Json &drawing);

/// Checks before the work starts that the page of --html can be written: the
/// path is writable, and if it has a graph, dot is installed.
Status checkHtml(const std::string &path, bool hasGraph = true);

/// Writes the page of `command` with the graph of its explanation, which is
/// `document` itself or its field "explanation"; nothing if `path` is empty.
Status writeHtml(const std::string &path, const std::string &command,
                 const Json &document);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_HTMLREPORT_H
