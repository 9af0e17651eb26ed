#include "tests/benchmarks/harness/record.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "gtest/gtest.h"

namespace muster {
namespace {

BenchRecord Record(std::vector<double> samples) {
  BenchRecord record;
  record.bench = "parameter-server";
  record.parameters = {{"payload_bytes", int64_t{65536}}, {"operation", std::string("push")}};
  record.metric = "throughput";
  record.unit = "GB/s";
  record.samples = std::move(samples);
  return record;
}

TEST(RecordTest, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({5, 1, 3}), 3);
  EXPECT_EQ(Median({4, 1, 3, 2}), 2.5);
}

TEST(RecordTest, HasTheFormAllBenchmarksShare) {
  const auto json = nlohmann::json::parse(RecordsJson({Record({2, 1, 4})}));
  EXPECT_EQ(json, nlohmann::json::parse(R"([{
    "bench": "parameter-server",
    "case": {"payload_bytes": 65536, "operation": "push"},
    "system": "muster", "metric": "throughput", "unit": "GB/s",
    "median": 2.0, "min": 1.0, "max": 4.0, "n": 3}])"));
}

TEST(RecordTest, WritesAFileOrSaysWhyNot) {
  const std::string path = ::testing::TempDir() + "/records.json";
  ASSERT_TRUE(WriteRecords(path, {Record({1}), Record({2})}).ok());
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(file).size(), 2u);
  EXPECT_EQ(WriteRecords(::testing::TempDir() + "/no/folder/x.json", {}).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace muster
