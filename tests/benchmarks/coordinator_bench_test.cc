// Runs the benchmark of the coordinator itself, small, and checks the records it writes.

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "gtest/gtest.h"
#include "tests/benchmarks/harness/child_process.h"

namespace muster {
namespace {

TEST(CoordinatorBenchTest, WritesTheFiguresOfEachPart) {
  const std::string path = ::testing::TempDir() + "/coordinator.json";
  auto process = ChildProcess::StartProgram(
      "tests/benchmarks/coordinator_bench",
      {"--quick", "--sizes=4", "--processes=2", "--seconds=0.5", "--json=" + path});
  ASSERT_TRUE(process.ok()) << process.status();
  std::string text;
  for (auto line = (*process)->ReadLine(); line.ok(); line = (*process)->ReadLine()) {
    text += *line + "\n";
  }
  std::ifstream file(path);
  const nlohmann::json records = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(records.is_array()) << text;
  std::map<std::string, std::map<std::string, double>> parts;
  for (const auto& record : records) {
    EXPECT_EQ(record["bench"], "coordinator");
    EXPECT_EQ(record["case"]["workers"], 4);
    EXPECT_EQ(record["case"]["servers"], 1);
    parts[record["case"]["part"].get<std::string>()][record["metric"].get<std::string>()] =
        record["median"].get<double>();
  }
  EXPECT_GT(parts["idle"]["all daemons have registered"], 0);
  EXPECT_GT(parts["gang"]["all slots have met"], 0);
  EXPECT_GE(parts["gang"]["all slots have met"], parts["gang"]["every slot has its order"]);
  EXPECT_GT(parts["gang"]["a worker is replaced, and all have met again"], 0);
  EXPECT_GT(parts["gang reports"]["reports of progress"], 0);
  EXPECT_GT(parts["many jobs"]["reports of progress"], 0);
  EXPECT_GT(parts["many jobs"]["the page's first view, median"], 0);
  EXPECT_GT(parts["many jobs"]["memory"], 1);
  // A new client's first answer and the daemons' returns have no order among them.
  EXPECT_GT(parts["restart"]["a status is answered"], 0);
  EXPECT_GT(parts["restart"]["all daemons are back"], 0);
  EXPECT_GT(parts["restart"]["all tasks have reported progress"], 0);
}

}  // namespace
}  // namespace muster
