// Runs the benchmark itself, small and without peers, and checks the records it writes.

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "tests/benchmarks/harness/child_process.h"

namespace muster {
namespace {

constexpr char kProgram[] = "tests/benchmarks/collectives_bench";

// Runs to its end; returns what it printed.
std::string OutputOf(std::vector<std::string> arguments) {
  auto process = ChildProcess::StartProgram(kProgram, std::move(arguments));
  EXPECT_TRUE(process.ok()) << process.status();
  if (!process.ok()) return "";
  std::string text;
  for (auto line = (*process)->ReadLine(); line.ok(); line = (*process)->ReadLine()) {
    text += *line + "\n";
  }
  return text;
}

TEST(CollectivesBenchTest, WritesARecordForEveryTransportSizeAndMetric) {
  const std::string path = ::testing::TempDir() + "/collectives.json";
  const std::string text =
      OutputOf({"--quick", "--no-peers", "--worlds=2", "--max-bytes=65536", "--json=" + path});
  EXPECT_NE(text.find("muster shared-memory, buffers"), std::string::npos) << text;
  std::ifstream file(path);
  const auto records = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(records.is_array()) << text;
  // By transport, memory, bytes and metric.
  std::map<std::tuple<std::string, std::string, int64_t, std::string>, double> medians;
  int limits = 0;
  for (const auto& record : records) {
    EXPECT_EQ(record["bench"], "collectives");
    const bool switches = record["metric"] == "context switches";
    EXPECT_GE(record["median"], switches ? 0 : 1e-9) << record;
    EXPECT_LE(record["min"], record["median"]) << record;
    EXPECT_GE(record["max"], record["median"]) << record;
    if (record["system"] != "muster") {
      ++limits;
      continue;
    }
    EXPECT_EQ(record["case"]["world"], 2);
    if (!switches && record["metric"] != "processor time") {
      EXPECT_GE(record["n"], 20);
    }
    medians[{record["case"]["transport"], record["case"]["memory"], record["case"]["payload_bytes"],
             record["metric"]}] = record["median"];
  }
  // memcpy and a loopback socket, two sizes.
  EXPECT_EQ(limits, 4);
  // Four kinds of memory and transport, two sizes, five metrics.
  EXPECT_EQ(medians.size(), 40u);
  for (const auto& [key, median] : medians) {
    auto [transport, memory, bytes, metric] = key;
    if (metric != "bus bandwidth") continue;
    // In a world of 2 each byte crosses the bus once.
    EXPECT_DOUBLE_EQ(median, (medians[{transport, memory, bytes, "algorithm bandwidth"}]));
  }
}

TEST(CollectivesBenchTest, NamesTheNumberOfConnections) {
  const std::string text = OutputOf({"--quick", "--no-peers", "--worlds=2", "--max-bytes=65536",
                                     "--connections=2", "--transports=shared-memory,tcp"});
  EXPECT_NE(text.find("muster tcp x 2 "), std::string::npos) << text;
  EXPECT_NE(text.find("muster shared-memory "), std::string::npos) << text;
}

TEST(CollectivesBenchTest, AMemberReportsWhatItCannotMeasure) {
  const std::string text = OutputOf({"--role=member", "--transport=tcp", "--cases=nonsense"});
  EXPECT_NE(text.find("error \"nonsense\" is not a case"), std::string::npos) << text;
}

}  // namespace
}  // namespace muster
