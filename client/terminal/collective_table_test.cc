#include "client/terminal/collective_table.h"

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::CollectiveRecord& AddCall(v1::SlotCollectives& slot, const std::string& group,
                              const std::string& operation, uint64_t count,
                              const std::string& label) {
  v1::CollectiveRecord& call = *slot.add_calls();
  call.set_group(group);
  call.set_sequence(slot.calls_size());
  call.set_operation(operation);
  call.set_dtype("bf16");
  call.set_reduction("sum");
  call.set_count(count);
  call.set_label(label);
  call.set_started_unix_us(1'800'000'000'123'456);
  call.set_duration_us(1250);
  return call;
}

std::vector<std::string> LinesOf(const v1::SlotCollectives& slot) {
  return absl::StrSplit(CollectiveTable(slot), '\n', absl::SkipEmpty());
}

TEST(CollectiveTableTest, UsualCallsAreWhole) {
  v1::SlotCollectives slot;
  AddCall(slot, "world", "all_reduce", 262144, "bucket 0");
  v1::CollectiveRecord& failed = AddCall(slot, "world", "all_reduce", 804, "bucket 1");
  failed.set_duration_us(-1);
  failed.set_error("rank 1\nis gone");
  EXPECT_THAT(
      LinesOf(slot),
      ElementsAre("CALL     WHAT                            LABEL          STARTED  TOOK",
                  "world 1  all_reduce bf16 x 262,144, sum  bucket 0  08:00:00.123  1.25 ms",
                  "world 2  all_reduce bf16 x 804, sum      bucket 1  08:00:00.123  under way",
                  "call world 2 failed: rank 1\\nis gone"));
}

TEST(CollectiveTableTest, ATableFitsATerminal) {
  v1::SlotCollectives slot;
  AddCall(slot, "pipeline", "reduce_scatter", 1'234'567'890, "gradients of unit 12")
      .set_sequence(123456);
  AddCall(slot, "data", "all_gather", 12, "weights of unit 3").set_duration_us(-1);
  AddCall(slot, "data", "barrier", 0, "");
  for (const std::string& line : LinesOf(slot)) {
    EXPECT_LE(absl::StrReplaceAll(line, {{"…", "."}}).size(), 80u) << line;
  }
  EXPECT_THAT(CollectiveTable(slot), HasSubstr("all_gather bf16 x 12, sum"));
}

}  // namespace
}  // namespace muster
