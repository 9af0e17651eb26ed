#include "tests/benchmarks/collectives/collectives_table.h"

#include <sstream>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr int64_t kMebibyte = 1 << 20;

CollectivesRow Row(std::map<int64_t, std::vector<double>> microseconds) {
  CollectivesRow row;
  row.system = "muster";
  row.transport = "tcp";
  row.memory = "user";
  row.world = 4;
  row.microseconds = std::move(microseconds);
  return row;
}

TEST(CollectivesTableTest, RecordsHaveAlgorithmAndBusBandwidth) {
  const auto records = CollectivesRecords(Row({{2000, {1, 2, 4}}}));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].metric, "latency");
  EXPECT_EQ(Median(records[0].samples), 2);
  EXPECT_EQ(records[1].metric, "algorithm bandwidth");
  EXPECT_EQ(Median(records[1].samples), 1);
  EXPECT_EQ(records[2].metric, "bus bandwidth");
  EXPECT_EQ(Median(records[2].samples), 1.5);
}

TEST(CollectivesTableTest, ComparesWithTheFastestThatHasTheSize) {
  const auto ratios = TimesAsFast(Row({{4096, {10}}, {kMebibyte, {10}}, {4 * kMebibyte, {10}}}),
                                  {Row({{4096, {30}}, {kMebibyte, {5}}}), Row({{4096, {20}}})});
  EXPECT_EQ(ratios, (std::map<int64_t, double>{{4096, 2.0}, {kMebibyte, 0.5}}));
  EXPECT_TRUE(TimesAsFast(Row({{4096, {10}}}), {}).empty());
}

TEST(CollectivesTableTest, ShowsOneMebibyteBothWays) {
  std::ostringstream out;
  CollectivesTable table({{4096, 1, 1}, {kMebibyte, 1, 1}, {4 * kMebibyte, 1, 1}}, out);
  table.PrintHead("world 4");
  table.PrintRow(Row({{4096, {1.5}}, {kMebibyte, {1048.576}}, {4 * kMebibyte, {1048.576}}}));
  EXPECT_EQ(out.str(),
            "\n"
            "world 4                            4 KiB    1 MiB         1 MiB         4 MiB\n"
            "                                      us       us          GB/s          GB/s\n"
            "muster tcp                           1.5   1048.6   1.00 / 1.50   4.00 / 6.00\n");
}

}  // namespace
}  // namespace muster
