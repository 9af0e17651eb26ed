#include "client/terminal/row_counts.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr char kMetrics[] =
    "# TYPE muster_server_sparse_rows gauge\n"
    "muster_server_sparse_rows{daemon=\"s0\",job_id=\"a\"} 100\n"
    "muster_server_sparse_rows{daemon=\"s1\",job_id=\"a\"} 20\n"
    "muster_server_sparse_rows{daemon=\"s1\",job_id=\"ab\"} 7\n"
    "muster_server_rows_on_disk{daemon=\"s0\",job_id=\"a\"} 90\n"
    "muster_server_rows_on_disk{daemon=\"s1\",job_id=\"a\"} 0\n"
    "muster_server_memory_bytes{daemon=\"s1\",job_id=\"a\"} 3000\n";

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
  EXPECT_EQ(
      DescribeRows(RowCountsOf("muster_server_sparse_rows{job_id=\"a\"} x\nmuster_server_sparse_"
                               "rows{",
                               "a")),
      "");
}

}  // namespace
}  // namespace muster
