// Runs the benchmark itself, on its smallest model, without peers and daemons, and checks what it
// prints and the records it writes.

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/benchmarks/harness/child_process.h"
#include "tests/benchmarks/train_case.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TrainCase CaseNamed(const std::string& name) {
  for (TrainCase& one : TrainCases()) {
    if (one.name == name) return std::move(one);
  }
  ADD_FAILURE() << "there is no case " << name;
  return {};
}

TEST(TrainBenchTest, WritesSpeedAndTheShareOfTheMatrixPeak) {
  const TrainCase one = CaseNamed("mlp");
  const std::string path = ::testing::TempDir() + "/train.json";
  auto process = ChildProcess::StartProgram("tests/benchmarks/train_bench",
                                            {"--quick", "--no-peers", "--no-daemons", "--threads=1",
                                             "--cases=" + one.name, "--json=" + path});
  ASSERT_TRUE(process.ok()) << process.status();
  std::string text;
  for (auto line = (*process)->ReadLine(); line.ok(); line = (*process)->ReadLine()) {
    text += *line + "\n";
  }
  std::ifstream file(path);
  const auto records = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(records.is_array()) << text;

  // GFLOP/s of products at best, by type.
  std::map<std::string, double> peaks;
  std::map<std::string, double> figures;
  for (const auto& record : records) {
    EXPECT_EQ(record["bench"], "train");
    EXPECT_EQ(record["case"]["threads"], 1);
    EXPECT_GT(record["min"], 0) << record;
    const std::string metric = record["metric"];
    if (record["system"] == "matrix product") {
      EXPECT_EQ(record["unit"], "GFLOP/s");
      EXPECT_TRUE(peaks.emplace(record["case"]["type"], record["max"]).second) << record;
      continue;
    }
    EXPECT_EQ(record["system"], "muster") << record;
    EXPECT_EQ(record["case"]["model"], one.name) << record;
    EXPECT_EQ(record["case"]["type"], one.type) << record;
    EXPECT_TRUE(figures.emplace(metric, record["median"]).second) << record;
    if (metric == "throughput") {
      EXPECT_EQ(record["unit"], "samples/s");
      EXPECT_GE(record["n"], 3);
    }
  }
  ASSERT_EQ(peaks.size(), 2) << "f32 and bf16";
  ASSERT_EQ(figures.size(), 2) << text;
  ASSERT_EQ(figures.count("throughput"), 1) << text;
  ASSERT_EQ(figures.count("share of matrix peak"), 1) << text;
  const double share = figures["share of matrix peak"];
  EXPECT_NEAR(share, figures["throughput"] * one.flops_per_item / 1e9 / peaks[one.type],
              1e-6 * share);
  // Above 1 where the machine had other work while products were measured.
  EXPECT_GT(share, 0);
  EXPECT_THAT(text, HasSubstr("of peak"));
  EXPECT_THAT(text, HasSubstr(std::to_string(std::lround(100 * share)) + " %"));
}

}  // namespace
}  // namespace muster
