// Checks the files with a reader that was written from the format's description alone
// (read_events.py).
#include "client/tensorboard/history_export.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/history/series.h"
#include "common/history/series_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Returns the time of a step's point.
int64_t TimeOf(uint64_t step) { return 1'700'000'000'000 + 250 * static_cast<int64_t>(step); }

void AddPoints(const std::string& name, const std::vector<std::pair<uint64_t, double>>& values,
               v1::MetricsChunk& chunk) {
  v1::Series& series = *chunk.add_series();
  series.set_name(name);
  for (const auto& [step, value] : values) {
    ToProto(OneValue(step, value, TimeOf(step)), *series.add_points());
  }
}

void AddMark(uint64_t clock, uint64_t reached, v1::MetricsChunk& chunk) {
  v1::HistoryMark& mark = *chunk.add_marks();
  mark.set_clock(clock);
  mark.set_reached(reached);
  mark.set_unix_ms(TimeOf(reached));
}

class HistoryExportTest : public ::testing::Test {
 protected:
  HistoryExportTest()
      : folder_(absl::StrCat(::testing::TempDir(), "/",
                             ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                             "/runs/j1")) {
    fs::remove_all(folder_);
    auto created = HistoryExport::Create(folder_, /*started_unix_ms=*/1'600'000'000'000);
    EXPECT_TRUE(created.ok()) << created.status();
    export_ = *std::move(created);
  }

  void Add(const v1::MetricsChunk& chunk) {
    const absl::Status status = export_->Add(chunk);
    EXPECT_TRUE(status.ok()) << status;
  }

  // Returns what the reader shows.
  std::string Read() {
    const std::string command =
        absl::StrCat("/usr/bin/python3 client/tensorboard/read_events.py ", folder_, " 2>&1");
    FILE* const pipe = popen(command.c_str(), "r");
    std::string text;
    std::array<char, 4096> part;
    while (const size_t bytes = fread(part.data(), 1, part.size(), pipe)) {
      text.append(part.data(), bytes);
    }
    const int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
    return text;
  }

  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string folder_;
  std::unique_ptr<HistoryExport> export_;
};

TEST_F(HistoryExportTest, WritesPointsWithTheirStepsAndTimes) {
  EXPECT_EQ(Read(), "") << "a job that has reported nothing";
  v1::MetricsChunk chunk;
  AddPoints("train/loss", {{1, 2.5}, {2, 1e-7}}, chunk);
  AddPoints("held_out/accuracy", {{0, 0.1}}, chunk);
  chunk.mutable_series(1)->mutable_points(0)->set_unix_ms(0);
  SeriesPoint joined = Joined(OneValue(3, 1, TimeOf(3)), OneValue(6, 2, TimeOf(6)));
  ToProto(joined, *chunk.mutable_series(0)->add_points());
  Add(chunk);
  EXPECT_EQ(Read(),
            "held_out/accuracy 0 1600000000.000 0.1\n"
            "train/loss 1 1700000000.250 2.5\n"
            "train/loss 2 1700000000.500 1e-07\n"
            "train/loss 6 1700000001.500 1.5\n");
  EXPECT_EQ(export_->values(), 4);
}

TEST_F(HistoryExportTest, LongStepsAndManyEventsAreFramedRight) {
  v1::MetricsChunk chunk;
  std::vector<std::pair<uint64_t, double>> values;
  for (uint64_t step = 1; step <= 300; ++step) {
    values.push_back({step << 44, static_cast<double>(step)});
  }
  AddPoints("slot/0/step", values, chunk);
  Add(chunk);
  const std::string read = Read();
  EXPECT_EQ(std::count(read.begin(), read.end(), '\n'), 300);
  EXPECT_THAT(read, HasSubstr(absl::StrCat("slot/0/step ", uint64_t{300} << 44, " ")));
}

TEST_F(HistoryExportTest, EachStepOfASeriesIsWrittenOnce) {
  v1::MetricsChunk chunk;
  AddPoints("train/loss", {{1, 1}, {2, 2}, {3, 3}}, chunk);
  Add(chunk);
  // All points come again: coarser, with later steps; and once more after an interruption.
  v1::MetricsChunk coarse;
  AddPoints("train/loss", {{2, 1.5}, {4, 3.5}}, coarse);
  Add(coarse);
  Add(coarse);
  AddPoints("train/loss", {{5, 5}}, coarse);
  Add(coarse);
  EXPECT_EQ(Read(),
            "train/loss 1 1700000000.250 1\n"
            "train/loss 2 1700000000.500 2\n"
            "train/loss 3 1700000000.750 3\n"
            "train/loss 4 1700000001.000 3.5\n"
            "train/loss 5 1700000001.250 5\n");
  EXPECT_EQ(Files().size(), 1);
}

TEST_F(HistoryExportTest, ARollBackRestartsTheCurveInANewFile) {
  v1::MetricsChunk chunk;
  // This mark has already cut the message's series.
  AddMark(1, 7, chunk);
  AddPoints("train/loss", {{1, 1}, {2, 1}, {3, 1}, {4, 1}}, chunk);
  AddPoints("train/learning_rate", {{2, 1}}, chunk);
  Add(chunk);
  EXPECT_EQ(Files().size(), 1);
  v1::MetricsChunk after;
  AddMark(1, 7, after);
  AddMark(2, 4, after);
  AddPoints("train/loss", {{1, 1}, {2, 1}}, after);
  Add(after);
  EXPECT_EQ(Read(),
            "train/learning_rate 2 1700000000.500 1\n"
            "train/loss 1 1700000000.250 1\n"
            "train/loss 2 1700000000.500 1\n");
  v1::MetricsChunk again;
  AddPoints("train/loss", {{3, 2}}, again);
  AddPoints("train/learning_rate", {{4, 2}}, again);
  Add(again);
  // The same marks again change nothing.
  v1::MetricsChunk marks;
  *marks.mutable_marks() = after.marks();
  Add(marks);
  EXPECT_THAT(Files(), ::testing::ElementsAre("events.out.tfevents.0000000000.muster",
                                              "events.out.tfevents.0000000001.muster"));
  // The lower one of two new marks counts.
  v1::MetricsChunk twice = after;
  AddMark(0, 3, twice);
  AddMark(1, 1, twice);
  twice.clear_series();
  AddPoints("train/loss", {{1, 3}}, twice);
  Add(twice);
  EXPECT_EQ(Read(), "train/loss 1 1700000000.250 3\n");
  EXPECT_EQ(Files().size(), 3);
}

TEST_F(HistoryExportTest, AFolderWithEventFilesIsLeftAlone) {
  const auto again = HistoryExport::Create(folder_, 0);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("has event files already"));
  EXPECT_EQ(Files().size(), 1);
  // A file is where the folder should be.
  const std::string file = absl::StrCat(folder_, "/file");
  std::ofstream{file} << "x";
  EXPECT_FALSE(HistoryExport::Create(absl::StrCat(file, "/run"), 0).ok());
}

TEST(RunFolderNameTest, HasNothingButPlainCharacters) {
  EXPECT_EQ(RunFolderName("digits", "j1-abcd"), "digits-j1-abcd");
  EXPECT_EQ(RunFolderName("", "j1-abcd"), "j1-abcd");
  EXPECT_EQ(RunFolderName("../a b/\xc3\xa4", "j1"), "_.._a_b___-j1");
}

}  // namespace
}  // namespace muster
