#include "client/compare/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/compare/chart.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ChartTest, TicksAreRoundAndCoverTheRange) {
  EXPECT_THAT(Ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  const std::vector<double> ticks = Ticks(0.31, 0.97, 5);
  EXPECT_LE(ticks.front(), 0.31);
  EXPECT_GE(ticks.back(), 0.97);
  EXPECT_LE(ticks.size(), 8u);
  // A flat line still has an axis.
  EXPECT_GE(Ticks(2, 2, 5).size(), 2u);
  EXPECT_GE(Ticks(0, 0, 5).size(), 2u);
  EXPECT_LE(Ticks(1, std::nextafter(1, 2), 5).size(), 8u);
  EXPECT_LE(Ticks(-3, std::nextafter(-3, 0), 5).size(), 8u);
}

TEST(ChartTest, PointsThatAreNoNumbersAreLeftOut) {
  const std::string svg = LineChart("t", "x", {{"a", 0, {{1, 2}, {2, NAN}, {3, 4}}}});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, HasSubstr("<polyline"));
  EXPECT_THAT(LineChart("t", "x", {}), HasSubstr("</svg>"));
  EXPECT_THAT(LineChart("t", "x", {{"empty", 0, {}}}), Not(HasSubstr("nan")));
}

TEST(ChartTest, TextCannotBecomeMarkup) {
  EXPECT_EQ(EscapeHtml("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
}

TEST(ReportTest, HoldsTheTableAndAllCharts) {
  Comparison comparison;
  comparison.job = "<digits>";
  comparison.workers = 2;
  comparison.servers = 2;
  comparison.processors = 2;
  comparison.left_out = {"SSP 4 and ASP: because"};
  for (const char* road : {"BSP", "all-reduce"}) {
    MeasuredRun run;
    run.road = road;
    run.metric = "accuracy";
    run.curve = {{.step = 10, .examples = 100, .seconds = 1, .loss = 2, .metric = 0.5},
                 {.step = 20, .examples = 200, .seconds = 2, .loss = 1, .metric = 0.9}};
    run.compute_seconds = 0.002;
    run.communication_seconds = 0.001;
    comparison.roads.push_back({.road = road, .runs = {run}});
  }
  const std::string html = ComparisonReport(comparison);
  EXPECT_THAT(html, HasSubstr("&lt;digits&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<digits>")));
  EXPECT_THAT(html, HasSubstr("Left out: SSP 4 and ASP: because."));
  for (const char* part : {"Held-out loss over examples", "Held-out loss over time",
                           "Held-out accuracy over time", "Where a step&#39;s time goes",
                           "<td>held-out accuracy</td><td>0.9000</td><td>0.9000</td>"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  // Self-contained: nothing is loaded from elsewhere.
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("href=")));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("Not as predicted")));
  EXPECT_THAT(html, Not(HasSubstr("class=\"mismatch\"")));
}

TEST(ReportTest, MarksBytesThatAreNotAsPredicted) {
  Comparison comparison;
  for (const char* road : {"BSP", "all-reduce"}) {
    MeasuredRun run;
    run.dense = run.predicted.workers = {{4040, 4040}};
    comparison.roads.push_back({.road = road, .runs = {run}});
  }
  comparison.roads[1].runs[0].dense[0].sent = 8080;
  const std::string html = ComparisonReport(comparison);
  EXPECT_THAT(html, HasSubstr("<td>  predicted</td><td>4,040 bytes</td>"
                              "<td class=\"mismatch\">4,040 bytes, NOT AS PREDICTED</td>"));
  EXPECT_THAT(
      html, HasSubstr("<p class=\"mismatch\">Not as predicted: all-reduce, run 1: slot 0 "
                      "sends 8,080 bytes of dense parameters a step, predicted 4,040 bytes.</p>"));
}

}  // namespace
}  // namespace muster
