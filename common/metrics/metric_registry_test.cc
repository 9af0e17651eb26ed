#include "common/metrics/metric_registry.h"

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(MetricRegistryTest, RendersFamiliesInOrderOfName) {
  MetricRegistry registry;
  registry.AddGauge("muster_rows", "Rows held.").Set(2.5);
  registry.AddCounter("muster_bytes_total", "Bytes moved.", MetricLabel("road", "push")).Add(7);
  registry.AddCounter("muster_bytes_total", "Bytes moved.", MetricLabel("road", "pull")).Add(9);
  EXPECT_EQ(PrometheusText(registry.Read()),
            "# HELP muster_bytes_total Bytes moved.\n"
            "# TYPE muster_bytes_total counter\n"
            "muster_bytes_total{road=\"push\"} 7\n"
            "muster_bytes_total{road=\"pull\"} 9\n"
            "# HELP muster_rows Rows held.\n"
            "# TYPE muster_rows gauge\n"
            "muster_rows 2.5\n");
}

TEST(MetricRegistryTest, SameNameAndLabelsGiveTheSameMetric) {
  MetricRegistry registry;
  Counter& first = registry.AddCounter("a", "", "x=\"1\"");
  Counter& other = registry.AddCounter("a", "", "x=\"2\"");
  EXPECT_EQ(&first, &registry.AddCounter("a", "", "x=\"1\""));
  EXPECT_NE(&first, &other);
}

TEST(MetricRegistryTest, HistogramCumulatesItsBuckets) {
  MetricRegistry registry;
  Histogram& histogram = registry.AddHistogram("wait_seconds", "Waits.", {0.5, 2}, "p=\"1\"");
  histogram.Observe(0.5);  // A bound belongs to its own bucket.
  histogram.Observe(0.75);
  histogram.Observe(3);
  EXPECT_THAT(histogram.Counts(), ElementsAre(1, 1, 1));
  EXPECT_EQ(PrometheusText(registry.Read()),
            "# HELP wait_seconds Waits.\n"
            "# TYPE wait_seconds histogram\n"
            "wait_seconds_bucket{p=\"1\",le=\"0.5\"} 1\n"
            "wait_seconds_bucket{p=\"1\",le=\"2\"} 2\n"
            "wait_seconds_bucket{p=\"1\",le=\"+Inf\"} 3\n"
            "wait_seconds_sum{p=\"1\"} 4.25\n"
            "wait_seconds_count{p=\"1\"} 3\n");
}

TEST(MetricRegistryTest, EscapesLabelValuesAndHelp) {
  EXPECT_EQ(MetricLabel("path", "a\"b\\c\nd"), "path=\"a\\\"b\\\\c\\nd\"");
  MetricRegistry registry;
  registry.AddGauge("g", "one\ntwo \\");
  EXPECT_EQ(PrometheusText(registry.Read()), "# HELP g one\\ntwo \\\\\n# TYPE g gauge\ng 0\n");
}

TEST(MetricRegistryTest, RendersNumbersWithoutLoss) {
  MetricRegistry registry;
  registry.AddCounter("big", "").Add(123456789012345);
  registry.AddGauge("third", "").Set(1.0 / 3);
  registry.AddGauge("top", "").Set(std::numeric_limits<double>::infinity());
  EXPECT_EQ(PrometheusText(registry.Read()),
            "# TYPE big counter\nbig 123456789012345\n"
            "# TYPE third gauge\nthird 0.33333333333333331\n"
            "# TYPE top gauge\ntop +Inf\n");
}

TEST(MetricRegistryTest, ConcurrentUpdatesAreAllCounted) {
  MetricRegistry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&registry] {
      Counter& counter = registry.AddCounter("n", "");
      Gauge& gauge = registry.AddGauge("g", "");
      Histogram& histogram = registry.AddHistogram("h", "", {1, 2});
      for (int i = 0; i < 1000; ++i) {
        counter.Add();
        gauge.Add(0.5);
        histogram.Observe(i % 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registry.AddCounter("n", "").value(), 4000);
  EXPECT_EQ(registry.AddGauge("g", "").value(), 2000);
  Histogram& histogram = registry.AddHistogram("h", "", {1, 2});
  EXPECT_THAT(histogram.Counts(), ElementsAre(4 * 667, 4 * 333, 0));
  EXPECT_EQ(histogram.sum(), 4 * 999);
}

TEST(ExponentialBoundsTest, EachIsFactorTimesTheLast) {
  EXPECT_THAT(ExponentialBounds(0.25, 4, 3), ElementsAre(0.25, 1, 4));
}

}  // namespace
}  // namespace muster
