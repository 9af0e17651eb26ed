#include "tests/benchmarks/collectives/collectives_rank.h"

#include <sstream>

#include "gtest/gtest.h"

namespace muster {
namespace {

// A group as rank 0 of `size` sees it, the others being played: they hold what rank r would have
// been given, one more than rank r - 1.
class PlayedGroup final : public MeasuredGroup {
 public:
  PlayedGroup(int size, int wrong_call) : size_(size), wrong_call_(wrong_call) {}

  int rank() const override { return 0; }
  int size() const override { return size_; }
  absl::StatusOr<float*> Open(size_t count) override {
    data_.assign(count, 0);
    return data_.data();
  }
  absl::Status AllReduce() override {
    // After a barrier ranks differ; after a call they do not.
    for (float& value : data_) value = value * size_ + (first_ ? size_ * (size_ - 1) / 2 : 0);
    first_ = false;
    // As if half of the ranks were missing; a constant would be lost in what later calls add.
    if (++calls_ == wrong_call_) data_.back() /= 2;
    return absl::OkStatus();
  }
  absl::Status Barrier() override {
    first_ = true;
    return absl::OkStatus();
  }

  int calls() const { return calls_; }

 private:
  const int size_;
  const int wrong_call_;
  std::vector<float> data_;
  bool first_ = false;
  int calls_ = 0;
};

TEST(CollectivesRankTest, WritesTheDurationOfEveryCall) {
  PlayedGroup group(4, /*wrong_call=*/0);
  std::ostringstream out;
  ASSERT_TRUE(MeasureAllReduce(group, "user", {{400, 3, 30}, {4, 1, 2}}, out).ok());
  // The last two of each case share the durations and the costs.
  EXPECT_EQ(group.calls(), 3 + 30 + 2 + 1 + 2 + 2);
  std::istringstream lines(out.str());
  std::string line, word;
  for (const auto& [start, words] : {std::pair("case user 400 ", 33),
                                     {"cost user 400 ", 5},
                                     {"case user 4 ", 5},
                                     {"cost user 4 ", 5}}) {
    std::getline(lines, line);
    EXPECT_EQ(line.rfind(start, 0), 0u) << line;
    std::istringstream fields(line);
    int count = 0;
    while (fields >> word) ++count;
    EXPECT_EQ(count, words);
  }
}

TEST(CollectivesRankTest, AWrongSumIsAnErrorAndNotAFigure) {
  // In the warm-up, in the middle of a batch and in the last of the second batch.
  for (const int wrong_call : {1, 10, 33}) {
    PlayedGroup group(16, wrong_call);
    std::ostringstream out;
    const absl::Status status = MeasureAllReduce(group, "user", {{4000, 3, 30}}, out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << wrong_call;
    EXPECT_NE(status.message().find("1 of 1000 sums are wrong"), std::string::npos) << status;
    EXPECT_EQ(out.str(), "");
  }
}

TEST(CollectivesRankTest, WorldsWhoseSumsWouldNotStayExactAreRefused) {
  for (const int size : {3, 32}) {
    PlayedGroup group(size, /*wrong_call=*/0);
    std::ostringstream out;
    EXPECT_EQ(MeasureAllReduce(group, "user", {{4, 1, 1}}, out).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(CollectivesRankTest, AnErrorEndsInOneLine) {
  std::ostringstream out;
  EXPECT_NE(EndOfRank(absl::InternalError("a\nb"), out), 0);
  EXPECT_EQ(EndOfRank(absl::OkStatus(), out), 0);
  EXPECT_EQ(out.str(), "error a b\nend\n");
}

TEST(CollectivesRankTest, CasesTravelAsAWord) {
  const auto cases = ParseCases("4096:3:100,64:1:5");
  ASSERT_TRUE(cases.ok()) << cases.status();
  EXPECT_EQ(FormatCases(*cases), "4096:3:100,64:1:5");
  for (const char* text : {"", "4096", "4096:3", "3:1:1", "4:0:1", "4:1:0", "4:1:1,x"}) {
    EXPECT_EQ(ParseCases(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(CollectivesRankTest, CallsAreEnoughForAMedian) {
  for (const CollectivesCase& one : CollectivesCases(CollectivesEffort::kQuick)) {
    EXPECT_GE(one.calls, one.bytes <= 4 << 20 ? 20 : 5) << one.bytes;
  }
  for (const CollectivesCase& one : CollectivesCases(CollectivesEffort::kFull)) {
    EXPECT_GE(one.calls, 20) << one.bytes;
  }
}

}  // namespace
}  // namespace muster
