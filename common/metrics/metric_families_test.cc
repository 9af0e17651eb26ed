#include "common/metrics/metric_families.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/summary.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "common/metrics/metric_family_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The content of a registry, after the way from a daemon to the coordinator.
MetricFamilies Arrived(const prometheus::Registry& registry, const MetricLabels& labels) {
  MetricFamilies families;
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    v1::MetricFamily message;
    ToProto(family, message);
    const auto read = FromProto(message);
    EXPECT_TRUE(read.ok()) << read.status();
    if (read.ok()) families.Add(*read, labels);
  }
  return families;
}

TEST(MetricFamiliesTest, FamiliesTravelWithTypeHelpAndBuckets) {
  prometheus::Registry registry;
  prometheus::BuildCounter()
      .Name("muster_moved_bytes_total")
      .Help("Bytes moved.")
      .Register(registry)
      .Add({{"road", "push"}})
      .Increment(123456789012345);
  prometheus::Histogram& waits = prometheus::BuildHistogram()
                                     .Name("muster_wait_seconds")
                                     .Help("Waits.")
                                     .Register(registry)
                                     .Add({}, prometheus::Histogram::BucketBoundaries{0.5, 2});
  waits.Observe(0.5);  // A bound belongs to its own bucket.
  waits.Observe(0.75);
  waits.Observe(3);
  EXPECT_EQ(Arrived(registry, {{"daemon", "w0"}}).Text(),
            "# HELP muster_moved_bytes_total Bytes moved.\n"
            "# TYPE muster_moved_bytes_total counter\n"
            "muster_moved_bytes_total{daemon=\"w0\",road=\"push\"} 123456789012345\n"
            "# HELP muster_wait_seconds Waits.\n"
            "# TYPE muster_wait_seconds histogram\n"
            "muster_wait_seconds_count{daemon=\"w0\"} 3\n"
            "muster_wait_seconds_sum{daemon=\"w0\"} 4.25\n"
            "muster_wait_seconds_bucket{daemon=\"w0\",le=\"0.5\"} 1\n"
            "muster_wait_seconds_bucket{daemon=\"w0\",le=\"2\"} 2\n"
            "muster_wait_seconds_bucket{daemon=\"w0\",le=\"+Inf\"} 3\n");
}

TEST(MetricFamiliesTest, EscapesWhatItShows) {
  MetricFamilies families;
  families.AddGauge("muster_g", "one\ntwo \\", {{"path", "a\"b\\c\nd"}}, 0.25);
  EXPECT_EQ(std::move(families).Text(),
            "# HELP muster_g one two /\n# TYPE muster_g gauge\n"
            "muster_g{path=\"a\\\"b\\\\c\\nd\"} 0.25\n");
}

TEST(MetricFamiliesTest, ADaemonsLabelsCannotPassForOthers) {
  prometheus::Registry registry;
  prometheus::BuildGauge().Name("muster_rows").Register(registry).Add({{"daemon", "s1"}}).Set(7);
  MetricFamilies families;
  families.AddGauge("muster_rows", "Rows.", {{"daemon", "s1"}}, 1);
  families.Add(registry.Collect(), {{"daemon", "s0"}});
  EXPECT_EQ(std::move(families).Text(),
            "# HELP muster_rows Rows.\n# TYPE muster_rows gauge\n"
            "muster_rows{daemon=\"s1\"} 1\nmuster_rows{daemon=\"s0\"} 7\n");
}

TEST(MetricFamiliesTest, AFamilyHasOneType) {
  prometheus::Registry registry;
  prometheus::BuildCounter().Name("muster_rows").Register(registry).Add({}).Increment();
  prometheus::BuildSummary()
      .Name("muster_s")
      .Register(registry)
      .Add({}, prometheus::Summary::Quantiles{});
  MetricFamilies families;
  families.AddGauge("muster_rows", "", {}, 3);
  families.Add(registry.Collect());
  EXPECT_EQ(std::move(families).Text(), "# TYPE muster_rows gauge\nmuster_rows 3\n");
}

struct BadFamily {
  std::string what;
  std::function<void(v1::MetricFamily&)> spoil;
  std::string message;
};

class BadFamilyTest : public ::testing::TestWithParam<BadFamily> {};

TEST_P(BadFamilyTest, IsRefused) {
  v1::MetricFamily family;
  family.set_name("muster_wait_seconds");
  family.set_type(v1::MetricFamily::HISTOGRAM);
  family.add_bounds(1);
  family.add_bounds(2);
  v1::Metric& metric = *family.add_metrics();
  metric.add_labels()->set_name("road");
  for (int i = 0; i < 3; ++i) metric.add_counts(1);
  ASSERT_TRUE(FromProto(family).ok());
  GetParam().spoil(family);
  const auto read = FromProto(family);
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(read.status().message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    MetricFamiliesTest, BadFamilyTest,
    ::testing::Values(
        BadFamily{"Foreign", [](auto& f) { f.set_name("up"); }, "a metric's name is 2 characters"},
        BadFamily{"Lines", [](auto& f) { f.set_name("muster_a\nup 1"); }, "a metric's name is"},
        BadFamily{"Type", [](auto& f) { f.clear_type(); }, "which is unknown"},
        BadFamily{"Bounds", [](auto& f) { f.set_bounds(1, 1); }, "do not increase"},
        BadFamily{"Infinite",
                  [](auto& f) { f.set_bounds(1, std::numeric_limits<double>::infinity()); },
                  "do not increase"},
        BadFamily{"Counts", [](auto& f) { f.mutable_metrics(0)->add_counts(1); }, "4 buckets"},
        BadFamily{"Label",
                  [](auto& f) { f.mutable_metrics(0)->mutable_labels(0)->set_name("a b"); },
                  "no label's name"},
        BadFamily{"Bucket",
                  [](auto& f) { f.mutable_metrics(0)->mutable_labels(0)->set_name("le"); },
                  "a meaning of its own"},
        BadFamily{"Twice", [](auto& f) { f.mutable_metrics(0)->add_labels()->set_name("road"); },
                  "comes twice"}),
    [](const testing::TestParamInfo<BadFamily>& info) { return info.param.what; });

TEST(MetricFamiliesTest, SaysWhatWasBuilt) {
  MetricFamilies families;
  AddBuildInfo("muster-server", families);
  const std::string text = std::move(families).Text();
  EXPECT_THAT(text, HasSubstr("muster_build_info{program=\"muster-server\",version=\""));
  EXPECT_THAT(text, Not(HasSubstr("version=\"\"")));
}

}  // namespace
}  // namespace muster
