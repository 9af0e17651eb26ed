#include "common/metrics/metric_samples.h"

#include <vector>

#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

TEST(MetricSamplesTest, PutsTheDaemonsLabelsFirst) {
  MetricRegistry registry;
  registry.AddCounter("a_total", "").Add(3);
  registry.AddGauge("b", "", "job=\"j\"").Set(0.5);
  std::vector<v1::MetricSample> samples = MetricSamples(registry, "daemon=\"s0\"");
  ASSERT_EQ(samples.size(), 2);
  EXPECT_EQ(samples[0].name(), "a_total");
  EXPECT_EQ(samples[0].labels(), "daemon=\"s0\"");
  EXPECT_EQ(samples[0].value(), 3);
  EXPECT_EQ(samples[1].labels(), "daemon=\"s0\",job=\"j\"");
  EXPECT_EQ(samples[1].value(), 0.5);
}

TEST(MetricSamplesTest, NoLabelsStayNone) {
  MetricRegistry registry;
  registry.AddGauge("b", "");
  std::vector<v1::MetricSample> samples = MetricSamples(registry, "");
  ASSERT_EQ(samples.size(), 1);
  EXPECT_EQ(samples[0].labels(), "");
}

}  // namespace
}  // namespace muster
