#include "client/compare/report.h"

#include <google/protobuf/util/json_util.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
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

// Returns what the page shows of a run, whose value of the label `group` is `value`.
Json RunJson(const std::string& name, const std::string& group, const std::string& value,
             const v1::JobSpec& spec, int64_t started_unix_ms,
             const std::vector<v1::Series>& history) {
  Json json = {{"name", name},
               {"labels", {{group, value}}},
               {"specification", ToJson(spec)},
               {"batchSize", spec.batch_size()},
               {"startMs", started_unix_ms},
               {"series", Json::array()}};
  for (const v1::Series& series : history) json["series"].push_back(ToJson(series));
  return json;
}

Json StepJson(const std::string& name, double compute, double communication, double data) {
  return {{"name", name},
          {"seconds", {{"compute", compute}, {"communication", communication}, {"data", data}}}};
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
      json["runs"].push_back(
          RunJson(name, group, run.road, run.spec, run.started_unix_ms, run.history));
    }
    json["steps"].push_back(StepJson(road.road, road.Of(&MeasuredRun::compute_seconds).median,
                                     road.Of(&MeasuredRun::communication_seconds).median,
                                     road.Of(&MeasuredRun::waiting_seconds).median));
  }
  return json;
}

// Returns what the page's table of final figures says of a job beside its curves.
Json JobJson(const v1::JobStatus& job) {
  v1::JobStatus shown;
  shown.set_job_id(job.job_id());
  shown.set_state(job.state());
  *shown.mutable_progress() = job.progress();
  *shown.mutable_evaluations() = job.evaluations();
  return ToJson(shown);
}

// Returns a job's step as the mean of its slots', if they told any.
std::optional<Json> StepOf(const v1::JobStatus& job, const std::string& name) {
  double steps = 0, compute = 0, communication = 0, data = 0;
  for (const v1::TaskStatus& task : job.tasks()) {
    steps += static_cast<double>(task.steps());
    compute += task.compute_seconds();
    communication += task.exposed_communication_seconds();
    data += task.waiting_seconds();
  }
  if (steps == 0) return std::nullopt;
  return StepJson(name, compute / steps, communication / steps, data / steps);
}

Json JobsJson(absl::Span<const ReportedJob> jobs) {
  // Jobs may have one name.
  std::map<std::string, int> count;
  for (const ReportedJob& job : jobs) ++count[job.status.spec().name()];
  std::vector<std::string> names;
  for (const ReportedJob& job : jobs) {
    const std::string& name = job.status.spec().name();
    const std::string& id = job.status.job_id();
    names.push_back(name.empty() ? id : count[name] == 1 ? name : absl::StrCat(name, " ", id));
  }
  Json json = {{"notes", Json::array()}, {"alerts", Json::array()}, {"group", "job"},
               {"runs", Json::array()},  {"steps", Json::array()},  {"mismatches", Json::array()},
               {"jobs", Json::array()}};
  for (size_t i = 0; i < jobs.size(); ++i) {
    const v1::JobStatus& job = jobs[i].status;
    if (!job.spec().description().empty()) {
      json["notes"].push_back(absl::StrCat(names[i], ": ", job.spec().description()));
    }
    if (job.state() == v1::FAILED) {
      json["alerts"].push_back(absl::StrCat(names[i], " failed: ", job.message()));
    }
    json["runs"].push_back(
        RunJson(names[i], "job", names[i], job.spec(), job.started_unix_ms(), jobs[i].history));
    json["jobs"].push_back(JobJson(job));
    if (std::optional<Json> step = StepOf(job, names[i])) json["steps"].push_back(*std::move(step));
  }
  return json;
}

std::string Page(const std::string& text, const Json& json) {
  const std::string title = EscapeHtml(text);
  return absl::StrCat(kHead, "<title>", title, "</title>\n<style>", Asset("uPlot.min.css"),
                      Asset("style.css"), "</style></head>\n<body><main><h1>", title,
                      "</h1><div id=\"comparison-view\"></div></main>\n",
                      "<script type=\"application/json\" id=\"comparison\">", EscapedJson(json),
                      "</script>\n<script>", Asset("uPlot.iife.min.js"),
                      "</script>\n<script type=\"module\">\n", JoinedModules(),
                      "</script></body></html>\n");
}

}  // namespace

std::string ComparisonReport(const Comparison& comparison) {
  const std::string of = comparison.of == Comparison::Of::kRoads    ? "Roads"
                         : comparison.of == Comparison::Of::kStages ? "ZeRO stages"
                                                                    : "Schedules";
  return Page(absl::StrCat(of, " compared: ", comparison.job), ComparisonJson(comparison));
}

std::string JobsReport(absl::Span<const ReportedJob> jobs) {
  const Json json = JobsJson(jobs);
  const std::string title = jobs.size() == 1 ? json["runs"][0]["name"].get<std::string>()
                                             : absl::StrCat(jobs.size(), " jobs");
  return Page(title, json);
}

}  // namespace muster
