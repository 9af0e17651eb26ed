#include "client/compare/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDataStart[] = "<script type=\"application/json\" id=\"comparison\">";

// Returns the text of the report's data.
std::string DataOf(const std::string& html) {
  const size_t begin = html.find(kDataStart) + sizeof(kDataStart) - 1;
  return html.substr(begin, html.find("</script>", begin) - begin);
}

Comparison TwoRoads() {
  Comparison comparison;
  comparison.job = "digits";
  comparison.workers = 2;
  for (const char* road : {"BSP", "all-reduce"}) {
    MeasuredRun run;
    run.road = road;
    run.metric = "accuracy";
    run.spec.set_batch_size(10);
    run.spec.mutable_update()->set_dense(road[0] == 'B' ? v1::UpdateSpec::PARAMETER_SERVER
                                                        : v1::UpdateSpec::ALL_REDUCE);
    v1::Series& series = run.history.emplace_back();
    series.set_name("train/loss");
    v1::SeriesPoint& point = *series.add_points();
    point.set_last_step(3);
    point.set_last(0.5);
    run.curve = {{.step = 20, .examples = 200, .seconds = 2, .loss = 1, .metric = 0.9}};
    run.compute_seconds = 0.002;
    run.dense = run.predicted.workers = {{4040, 4040}};
    comparison.roads.push_back({.road = road, .runs = {run}});
  }
  return comparison;
}

TEST(ReportTest, HoldsRunsAndFigures) {
  Comparison comparison = TwoRoads();
  comparison.left_out = {"SSP 4 and ASP: because"};
  const auto json = nlohmann::json::parse(DataOf(ComparisonReport(comparison)));
  ASSERT_EQ(json["runs"].size(), 2u);
  const auto& run = json["runs"][1];
  EXPECT_EQ(run["name"], "all-reduce");
  EXPECT_EQ(run["labels"]["road"], "all-reduce");
  EXPECT_EQ(run["batchSize"], 10);
  EXPECT_EQ(run["specification"]["update"]["dense"], "ALL_REDUCE");
  EXPECT_EQ(run["series"][0]["name"], "train/loss");
  EXPECT_EQ(run["series"][0]["points"][0]["lastStep"], "3");
  EXPECT_EQ(json["steps"][0]["seconds"]["compute"], 0.002);
  EXPECT_EQ(json["notes"][1], "Left out: SSP 4 and ASP: because.");
  EXPECT_THAT(json["figures"]["head"], ElementsAre("", "BSP", "all-reduce"));
  EXPECT_THAT(json["figures"]["rows"][1], ElementsAre("held-out accuracy", "0.9000", "0.9000"));
  // As the terminal shows it, and exactly.
  for (const auto& [name, style] :
       {std::pair("figures", TableStyle::kTerminal), std::pair("exact", TableStyle::kReport)}) {
    std::vector<std::vector<std::string>> table = ComparisonTable(comparison, style);
    EXPECT_EQ(json[name]["head"], nlohmann::json(table.front()));
    table.erase(table.begin());
    EXPECT_EQ(json[name]["rows"], nlohmann::json(table));
  }
  EXPECT_TRUE(json["alerts"].empty());
}

TEST(ReportTest, HoldsJobsOfAnyKind) {
  ReportedJob trained;
  trained.status.set_job_id("j1-00aa");
  trained.status.set_state(v1::SUCCEEDED);
  trained.status.mutable_spec()->set_name("digits");
  trained.status.mutable_spec()->set_description("with </script> in it");
  trained.status.mutable_spec()->set_workers(2);
  trained.status.mutable_progress()->set_step(1200);
  trained.status.mutable_progress()->set_loss(0.25);
  v1::EvaluationResult& evaluation = *trained.status.add_evaluations();
  evaluation.set_clock(1200);
  evaluation.set_metric("accuracy");
  evaluation.set_value(0.9);
  for (double seconds : {1.0, 3.0}) {
    v1::TaskStatus& task = *trained.status.add_tasks();
    task.set_steps(100);
    task.set_compute_seconds(seconds);
  }
  trained.history.emplace_back().set_name("train/loss");
  ReportedJob failed;
  failed.status.set_job_id("j2-00aa");
  failed.status.set_state(v1::FAILED);
  failed.status.set_message("no such file");
  failed.status.mutable_spec()->set_name("digits");

  const std::string html = JobsReport({{trained, failed}});
  EXPECT_THAT(html, HasSubstr("<h1>2 jobs</h1>"));
  const auto json = nlohmann::json::parse(DataOf(html));
  ASSERT_EQ(json["runs"].size(), 2u);
  EXPECT_EQ(json["runs"][0]["name"], "digits j1-00aa") << "two jobs have the name";
  EXPECT_EQ(json["runs"][0]["series"][0]["name"], "train/loss");
  // The page makes the table of these and the curves (common/page/files/comparison.js).
  EXPECT_FALSE(json.contains("figures"));
  ASSERT_EQ(json["jobs"].size(), 2u);
  EXPECT_EQ(json["jobs"][0]["jobId"], "j1-00aa");
  EXPECT_EQ(json["jobs"][0]["progress"]["step"], "1200");
  EXPECT_EQ(json["jobs"][0]["evaluations"][0]["value"], 0.9);
  EXPECT_EQ(json["jobs"][1]["state"], "FAILED");
  EXPECT_EQ(json["alerts"][0], "digits j2-00aa failed: no such file");
  EXPECT_EQ(json["notes"][0], "digits j1-00aa: with </script> in it");
  ASSERT_EQ(json["steps"].size(), 1u) << "only one has made steps";
  EXPECT_EQ(json["steps"][0]["seconds"]["compute"], 0.02);
}

TEST(ReportTest, LoadsNothing) {
  const std::string html = ComparisonReport(TwoRoads());
  EXPECT_THAT(html, Not(HasSubstr(" src=")));
  EXPECT_THAT(html, Not(HasSubstr(" href=")));
  for (const absl::string_view line : absl::StrSplit(html, '\n')) {
    EXPECT_FALSE(absl::StartsWith(line, "import ") || absl::StartsWith(line, "export ")) << line;
  }
  // Every module is there.
  for (const char* part :
       {"function formatNumber", "function toColumns", "function differences", "function marksOf",
        "function render", "function bar(", "function table(", "class Chart",
        "function chartControls", "function comparisonView", "getElementById(\"comparison\")"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
}

TEST(ReportTest, TextCannotBecomeMarkup) {
  Comparison comparison = TwoRoads();
  comparison.job = "</title><script>";
  comparison.left_out = {"</script><script>alert(1)\xe2\x80\xa8\xe2\x80\xa9"};
  const std::string html = ComparisonReport(comparison);
  EXPECT_THAT(html, HasSubstr("<title>Roads compared: &lt;/title&gt;&lt;script&gt;</title>"));
  // Those of the data, of uPlot and of the modules.
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(html, "<script")).size(), 4u);
  EXPECT_EQ(std::vector<std::string>(absl::StrSplit(html, "</script")).size(), 4u);
  const std::string data = DataOf(html);
  EXPECT_THAT(data, HasSubstr("\\u003c/script>\\u003cscript>alert(1)\\u2028\\u2029."));
  EXPECT_EQ(nlohmann::json::parse(data)["notes"][1],
            "Left out: </script><script>alert(1)\xe2\x80\xa8\xe2\x80\xa9.");
}

TEST(ReportTest, MarksBytesThatAreNotAsPredicted) {
  Comparison comparison = TwoRoads();
  comparison.roads[1].runs[0].dense[0].sent = 8080;
  const auto json = nlohmann::json::parse(DataOf(ComparisonReport(comparison)));
  EXPECT_THAT(json["alerts"],
              ElementsAre("Not as predicted: all-reduce, run 1: slot 0 sends 8,080 bytes of dense "
                          "parameters a step, predicted 4,040 bytes."));
  EXPECT_THAT(json["mismatches"], ElementsAre(kNotMatched, kNotAsPredicted));
  const auto has = [&](const char* table, const std::string& cell) {
    return std::any_of(json[table]["rows"].begin(), json[table]["rows"].end(),
                       [&](const auto& row) { return row[2] == cell; });
  };
  EXPECT_TRUE(has("figures", kNotMatched));
  EXPECT_TRUE(has("exact", absl::StrCat("4,040 bytes", kNotAsPredicted)));
}

}  // namespace
}  // namespace muster
