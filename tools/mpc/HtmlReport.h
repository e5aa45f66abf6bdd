//===- HtmlReport.h - a command's document as a page ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The page holds the document of --json, the drawing of its graph and the
// program that shows both (Report/), and asks for nothing from outside.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_HTMLREPORT_H
#define MPC_TOOLS_MPC_HTMLREPORT_H

#include "Reporter.h"

namespace mpc::tool {

/// Writes the page of `command` ("explain", "tune", ...), which is there whole
/// or not at all. `drawing` is null where there is no graph. Names in both may
/// hold anything.
Status writeHtmlReport(const std::string &path, const std::string &command,
                       const Json &document, const Json &drawing);

/// Fails where --html is given and its page could not be made: the path is not
/// writable, or it has a graph and what lays out graphs is missing. Asked
/// before the work begins.
Status checkHtml(const std::string &path, bool hasGraph = true);

/// Writes the page of `command` with the drawing of its explanation, which is
/// `document` itself or its field "explanation"; nothing where `path` is empty.
Status writeHtml(const std::string &path, const std::string &command,
                 const Json &document);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_HTMLREPORT_H
