#include "client/compare/report.h"

#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/page/page_assets.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

using Json = nlohmann::ordered_json;

// The page's modules that the report consists of; each only imports earlier ones.
constexpr const char* kModules[] = {"format.js",   "series.js",     "differences.js", "events.js",
                                    "dom.js",      "bars.js",       "table.js",       "chart.js",
                                    "controls.js", "comparison.js", "report.js"};

// The page carries all that it shows.
constexpr char kHead[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
    "'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n";

absl::string_view Asset(absl::string_view name) {
  for (const PageAsset& asset : PageAssets()) {
    if (asset.name == name) return asset.content;
  }
  return "";
}

// Returns the modules as one: one after another, without imports and exports. Each import is one
// line, and no name is in two modules (tests/page/unit.test.mjs).
std::string JoinedModules() {
  std::string joined;
  for (const char* name : kModules) {
    for (absl::string_view line : absl::StrSplit(Asset(name), '\n')) {
      if (absl::ConsumePrefix(&line, "import ")) continue;
      absl::ConsumePrefix(&line, "export ");
      absl::StrAppend(&joined, line, "\n");
    }
  }
  return joined;
}

std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Returns the JSON text such that it cannot end the element that holds it.
std::string EscapedJson(const Json& json) {
  return absl::StrReplaceAll(
      DumpJson(json), {{"<", "\\u003c"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}});
}

// Returns the message in the form that the coordinator's page gets.
Json ToJson(const google::protobuf::Message& message) {
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text).ok()) return Json::object();
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Json RunJson(const MeasuredRun& run, const std::string& name, const std::string& group) {
  Json json = {{"name", name},
               {"labels", {{group, run.road}}},
               {"specification", ToJson(run.spec)},
               {"batchSize", run.spec.batch_size()},
               {"startMs", run.started_unix_ms},
               {"series", Json::array()}};
  for (const v1::Series& series : run.history) json["series"].push_back(ToJson(series));
  return json;
}

std::vector<std::string> Notes(const Comparison& comparison) {
  const std::string servers =
      comparison.of == Comparison::Of::kRoads
          ? absl::StrCat(comparison.servers, comparison.servers == 1 ? " server" : " servers",
                         " on the parameter-server roads, ")
          : "";
  std::vector<std::string> notes = {absl::StrCat(
      comparison.workers, " workers, ", servers, "batch ", comparison.batch_size, ", ",
      comparison.processors, " processors for all of them together, ",
      comparison.roads.empty() ? 0 : comparison.roads[0].runs.size(),
      " repeats in alternating order; medians, with the range where it shows. Speeds, parts of a "
      "step and bytes leave the warm-up out that the table tells. Communication includes waiting "
      "for slower workers and, on servers, the optimizer; with all-reduce the optimizer is "
      "compute.")};
  for (const std::string& reason : comparison.left_out) {
    notes.push_back(absl::StrCat("Left out: ", reason, "."));
  }
  return notes;
}

Json TableJson(const Comparison& comparison, TableStyle style) {
  std::vector<std::vector<std::string>> table = ComparisonTable(comparison, style);
  Json json = {{"head", table.front()}};
  table.erase(table.begin());
  json["rows"] = table;
  return json;
}

Json ComparisonJson(const Comparison& comparison) {
  const std::string group = comparison.of == Comparison::Of::kRoads    ? "road"
                            : comparison.of == Comparison::Of::kStages ? "stage"
                                                                       : "schedule";
  Json json = {{"notes", Notes(comparison)},
               {"alerts", Json::array()},
               {"group", group},
               {"runs", Json::array()},
               {"steps", Json::array()},
               {"figures", TableJson(comparison, TableStyle::kTerminal)},
               {"exact", TableJson(comparison, TableStyle::kReport)},
               {"mismatches", {kNotMatched, kNotAsPredicted}}};
  for (const std::string& line : TrafficMismatches(comparison)) {
    json["alerts"].push_back(absl::StrCat("Not as predicted: ", line, "."));
  }
  for (const RoadResult& road : comparison.roads) {
    for (const MeasuredRun& run : road.runs) {
      const std::string name =
          road.runs.size() == 1 ? road.road : absl::StrCat(road.road, ", run ", run.repeat + 1);
      json["runs"].push_back(RunJson(run, name, group));
    }
    json["steps"].push_back(
        {{"name", road.road},
         {"seconds",
          {{"compute", road.Of(&MeasuredRun::compute_seconds).median},
           {"communication", road.Of(&MeasuredRun::communication_seconds).median},
           {"data", road.Of(&MeasuredRun::waiting_seconds).median}}}});
  }
  return json;
}

}  // namespace

std::string ComparisonReport(const Comparison& comparison) {
  const std::string of = comparison.of == Comparison::Of::kRoads    ? "Roads"
                         : comparison.of == Comparison::Of::kStages ? "ZeRO stages"
                                                                    : "Schedules";
  const std::string title = EscapeHtml(absl::StrCat(of, " compared: ", comparison.job));
  return absl::StrCat(kHead, "<title>", title, "</title>\n<style>", Asset("uPlot.min.css"),
                      Asset("style.css"), "</style></head>\n<body><main><h1>", title,
                      "</h1><div id=\"comparison-view\"></div></main>\n",
                      "<script type=\"application/json\" id=\"comparison\">",
                      EscapedJson(ComparisonJson(comparison)), "</script>\n<script>",
                      Asset("uPlot.iife.min.js"), "</script>\n<script type=\"module\">\n",
                      JoinedModules(), "</script></body></html>\n");
}

}  // namespace muster
