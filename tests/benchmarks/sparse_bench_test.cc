// Runs the benchmarks of rows and of optimizers themselves, small, and checks the records they
// write.

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/benchmarks/harness/child_process.h"

namespace muster {
namespace {

nlohmann::json RecordsOf(const std::string& name, std::vector<std::string> arguments) {
  const std::string path = ::testing::TempDir() + "/" + name + ".json";
  arguments.push_back("--json=" + path);
  auto process =
      ChildProcess::StartProgram("tests/benchmarks/" + name + "_bench", std::move(arguments));
  EXPECT_TRUE(process.ok()) << process.status();
  if (!process.ok()) return {};
  std::string text;
  for (auto line = (*process)->ReadLine(); line.ok(); line = (*process)->ReadLine()) {
    text += *line + "\n";
  }
  std::ifstream file(path);
  nlohmann::json records = nlohmann::json::parse(file, nullptr, false);
  EXPECT_TRUE(records.is_array()) << text;
  for (const auto& record : records) {
    EXPECT_EQ(record["bench"], name);
    EXPECT_GT(record["median"], 0) << record;
  }
  return records;
}

TEST(SparseBenchTest, WritesARecordForEveryWayOperationAndKeys) {
  std::set<std::tuple<std::string, std::string, std::string, int64_t>> rows;
  std::set<std::string> limits;
  for (const auto& record : RecordsOf("sparse", {"--quick", "--rows=30000", "--seconds=0.01"})) {
    const auto& parameters = record["case"];
    EXPECT_EQ(parameters["rows"], 30000);
    if (record["system"] != "muster") {
      limits.insert(record["system"].get<std::string>());
    } else if (record["metric"] == "rows") {
      EXPECT_EQ(record["unit"], "M/s");
      rows.emplace(parameters["way"].get<std::string>(), parameters["operation"].get<std::string>(),
                   parameters["distribution"].get<std::string>(),
                   parameters["keys"].get<int64_t>());
    }
  }
  EXPECT_EQ(limits, (std::set<std::string>{"gather", "scatter-add", "table pull", "table push"}));
  EXPECT_EQ(rows.size(), 3 * 2 * 2 * 3);
}

TEST(OptimizersBenchTest, WritesTheShareOfTheLimitForEveryOptimizer) {
  std::set<std::pair<std::string, int64_t>> ratios;
  for (const auto& record : RecordsOf("optimizers", {"--quick"})) {
    if (record["metric"] != "of the limit") continue;
    EXPECT_LT(record["median"], 10);
    ratios.emplace(record["case"]["optimizer"].get<std::string>(),
                   record["case"]["span_bytes"].get<int64_t>());
  }
  EXPECT_EQ(ratios.size(), 9 * 2);
}

}  // namespace
}  // namespace muster
