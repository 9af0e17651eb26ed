#include "worker/runtime/daemon/log_shipper.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeSink final : public LogSink {
 public:
  absl::Status Append(const std::string& job_id, uint32_t slot, const std::string& text) override {
    absl::MutexLock lock(&mutex_);
    ++attempts_;
    if (!answer_.ok()) return answer_;
    texts_.push_back(absl::StrCat(job_id, "/", slot, ": ", text));
    all_ += text;
    return absl::OkStatus();
  }

  void Answer(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(status);
  }
  std::vector<std::string> texts() const {
    absl::MutexLock lock(&mutex_);
    return texts_;
  }
  std::string all() const {
    absl::MutexLock lock(&mutex_);
    return all_;
  }
  void AwaitAttempt() {
    absl::MutexLock lock(&mutex_);
    const int before = attempts_;
    auto more = [this, before]()
                    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return attempts_ > before; };
    mutex_.Await(absl::Condition(&more));
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Status answer_ ABSL_GUARDED_BY(mutex_);
  int attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
  std::string all_ ABSL_GUARDED_BY(mutex_);
};

LogShipperOptions Fast() {
  LogShipperOptions options;
  options.gather = absl::ZeroDuration();
  options.retry_after = absl::Milliseconds(1);
  return options;
}

TEST(LogShipperTest, SendsInOrderAndByTask) {
  FakeSink sink;
  LogShipperOptions options = Fast();
  options.gather = absl::InfiniteDuration();  // Until Flush.
  LogShipper shipper(sink, options);
  shipper.Add("j", 0, "one\n");
  shipper.Add("j", 0, "two\n");
  shipper.Add("j", 1, "three\n");
  shipper.Add("j", 0, "four\n");
  ASSERT_TRUE(shipper.Flush(absl::Seconds(30)));
  EXPECT_THAT(sink.texts(), ElementsAre("j/0: one\ntwo\n", "j/1: three\n", "j/0: four\n"));
}

TEST(LogShipperTest, KeepsTextWhileTheCoordinatorIsAway) {
  FakeSink sink;
  sink.Answer(absl::UnavailableError("away"));
  LogShipper shipper(sink, Fast());
  shipper.Add("j", 0, "kept\n");
  sink.AwaitAttempt();
  EXPECT_FALSE(shipper.Flush(absl::Milliseconds(1)));
  sink.Answer(absl::OkStatus());
  ASSERT_TRUE(shipper.Flush(absl::Seconds(30)));
  EXPECT_THAT(sink.texts(), ElementsAre("j/0: kept\n"));
}

TEST(LogShipperTest, DropsTextOfAJobThatIsGone) {
  FakeSink sink;
  sink.Answer(absl::NotFoundError("no such job"));
  LogShipper shipper(sink, Fast());
  shipper.Add("j", 0, "text\n");
  EXPECT_TRUE(shipper.Flush(absl::Seconds(30)));
  EXPECT_TRUE(sink.texts().empty());
}

TEST(LogShipperTest, OverflowDropsTheOldestAndSaysHowMuch) {
  FakeSink sink;
  sink.Answer(absl::UnavailableError("away"));
  LogShipperOptions options = Fast();
  options.max_bytes = 1000;
  options.max_chunk_bytes = 200;
  LogShipper shipper(sink, options);
  for (int i = 0; i < 40; ++i) shipper.Add("j", 0, std::string(199, 'a' + i % 26) + "\n");
  sink.Answer(absl::OkStatus());
  ASSERT_TRUE(shipper.Flush(absl::Seconds(30)));
  EXPECT_THAT(sink.all(), HasSubstr("bytes of output were dropped here]\n"));
  // The newest are there, and not much more than the bound.
  EXPECT_THAT(sink.all(), HasSubstr(std::string(199, 'a' + 39 % 26)));
  EXPECT_LE(sink.all().size(), 1400);
}

TEST(LogShipperTest, ANoteOfWhatWasDroppedBeginsALine) {
  FakeSink sink;
  LogShipperOptions options = Fast();
  options.max_bytes = 10;
  LogShipper shipper(sink, options);
  shipper.Add("j", 0, "half a line");
  ASSERT_TRUE(shipper.Flush(absl::Seconds(30)));
  sink.Answer(absl::UnavailableError("away"));
  shipper.Add("j", 0, "one\n");
  sink.AwaitAttempt();
  // The first is on its way, and stays.
  shipper.Add("k", 0, "two\n");
  shipper.Add("j", 0, "three\n");
  shipper.Add("k", 0, "four\n");
  shipper.Add("j", 0, "five\n");
  sink.Answer(absl::OkStatus());
  ASSERT_TRUE(shipper.Flush(absl::Seconds(30)));
  std::vector<std::string> texts = sink.texts();
  std::erase_if(texts, [](const std::string& text) { return text.starts_with("k/"); });
  ASSERT_GE(texts.size(), 2u);
  EXPECT_EQ(texts[0], "j/0: half a line");
  EXPECT_THAT(texts[1], testing::StartsWith("j/0: \n["));
}

TEST(LogShipperTest, TheTextOfOneSlotIsAwaitedAlone) {
  FakeSink sink;
  LogShipperOptions options = Fast();
  options.gather = absl::InfiniteDuration();  // Until FlushSlot.
  LogShipper shipper(sink, options);
  shipper.Add("j", 0, "one\n");
  ASSERT_TRUE(shipper.FlushSlot("j", 0, absl::Seconds(30)));
  EXPECT_THAT(sink.texts(), ElementsAre("j/0: one\n"));
  EXPECT_TRUE(shipper.FlushSlot("j", 1, absl::ZeroDuration())) << "there is none";
  sink.Answer(absl::UnavailableError("away"));
  shipper.Add("j", 0, "two\n");
  EXPECT_FALSE(shipper.FlushSlot("j", 0, absl::Milliseconds(1)));
  EXPECT_TRUE(shipper.FlushSlot("j", 1, absl::ZeroDuration()));
}

TEST(LogShipperTest, BytesThatAreNoTextAreWrittenOut) {
  FakeSink sink;
  LogShipper shipper(sink, Fast());
  shipper.Add("j", 0, "a\xff\xc3\xa9\xe2\x82z\n");
  ASSERT_TRUE(shipper.Flush(absl::Seconds(30)));
  EXPECT_EQ(sink.all(), "a\\xff\xc3\xa9\\xe2\\x82z\n");
}

}  // namespace
}  // namespace muster
