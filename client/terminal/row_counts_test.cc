#include "client/terminal/row_counts.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr char kMetrics[] =
    "# TYPE muster_server_sparse_rows gauge\n"
    "muster_server_sparse_rows{server=\"s0\",job=\"a\"} 100\n"
    "muster_server_sparse_rows{server=\"s1\",job=\"a\"} 20\n"
    "muster_server_sparse_rows{server=\"s1\",job=\"ab\"} 7\n"
    "muster_server_rows_on_disk{server=\"s0\",job=\"a\"} 90\n"
    "muster_server_rows_on_disk{server=\"s1\",job=\"a\"} 0\n"
    "muster_server_memory_bytes{server=\"s1\",job=\"a\"} 3000\n";

TEST(RowCountsTest, AddsUpTheServersOfAJob) {
  const RowCounts counts = RowCountsOf(kMetrics, "a");
  EXPECT_EQ(counts.rows, 120u);
  EXPECT_EQ(counts.on_disk, 90u);
  EXPECT_EQ(DescribeRows(counts), "120, 90 of them on disk alone");
  EXPECT_EQ(DescribeRows(RowCountsOf(kMetrics, "ab")), "7");
}

TEST(RowCountsTest, SaysNothingWithoutRows) {
  EXPECT_EQ(DescribeRows(RowCountsOf(kMetrics, "b")), "");
  EXPECT_EQ(DescribeRows(RowCountsOf("", "a")), "");
  EXPECT_EQ(DescribeRows(RowCountsOf("muster_server_sparse_rows{job=\"a\"} x\nmuster_server_sparse_"
                                     "rows{",
                                     "a")),
            "");
}

}  // namespace
}  // namespace muster
