#include "common/examination/examination_loop.h"

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/local_storage.h"
#include "common/files/bytes_of_file.h"
#include "common/files/temp_folder.h"
#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/membership/protocol.h"
#include "common/transport/sockets/sockets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// A coordinator that answers as it is told, and parks the daemon's question while it has no answer.
class FakeExaminations {
 public:
  void Answer(absl::StatusOr<v1::ExaminationOrder> order) {
    absl::MutexLock lock(&mutex_);
    answers_.push_back(std::move(order));
  }
  // Waits for a further report.
  v1::ReportExaminationRequest TakeReport() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](std::deque<v1::ReportExaminationRequest>* reports) { return !reports->empty(); },
        &reports_));
    v1::ReportExaminationRequest report = std::move(reports_.front());
    reports_.pop_front();
    return report;
  }
  // Waits until the daemon has asked so often and all answers are given.
  v1::AwaitExaminationRequest AwaitQuestion(size_t number) {
    absl::MutexLock lock(&mutex_);
    const auto asked = [this, number]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return questions_.size() >= number;
    };
    mutex_.Await(absl::Condition(&asked));
    return questions_[number - 1];
  }
  void RefuseReports() {
    absl::MutexLock lock(&mutex_);
    refuse_ = true;
  }

  std::unique_ptr<ExaminationClient> Client() { return std::make_unique<FakeClient>(*this); }

 private:
  class FakeClient final : public ExaminationClient {
   public:
    explicit FakeClient(FakeExaminations& fake) : fake_(fake) {}

    absl::StatusOr<v1::ExaminationOrder> Await(const v1::AwaitExaminationRequest& request,
                                               absl::Duration) override {
      absl::MutexLock lock(&fake_.mutex_);
      fake_.questions_.push_back(request);
      const auto answered = [this]() ABSL_SHARED_LOCKS_REQUIRED(fake_.mutex_) {
        return fake_.interrupted_ || !fake_.answers_.empty();
      };
      fake_.mutex_.Await(absl::Condition(&answered));
      if (fake_.interrupted_) return absl::CancelledError("interrupted");
      auto order = std::move(fake_.answers_.front());
      fake_.answers_.pop_front();
      return order;
    }
    absl::StatusOr<v1::ReportExaminationReply> Report(const v1::ReportExaminationRequest& request,
                                                      absl::Duration) override {
      absl::MutexLock lock(&fake_.mutex_);
      fake_.reports_.push_back(request);
      if (fake_.refuse_) return absl::InvalidArgumentError("too large");
      v1::ReportExaminationReply reply;
      reply.set_wanted(true);
      return reply;
    }
    absl::StatusOr<v1::ReadClockReply> ReadClock(absl::Duration) override {
      v1::ReadClockReply reply;
      reply.set_unix_us(absl::ToUnixMicros(RealClock().Wall()));
      return reply;
    }
    void Interrupt() override {
      absl::MutexLock lock(&fake_.mutex_);
      fake_.interrupted_ = true;
    }

   private:
    FakeExaminations& fake_;
  };

  absl::Mutex mutex_;
  std::deque<absl::StatusOr<v1::ExaminationOrder>> answers_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::ReportExaminationRequest> reports_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::AwaitExaminationRequest> questions_ ABSL_GUARDED_BY(mutex_);
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  bool refuse_ ABSL_GUARDED_BY(mutex_) = false;
};

constexpr BackoffOptions kSoonAgain = {.first = absl::Milliseconds(1),
                                       .longest = absl::Milliseconds(1)};

class ExaminationLoopTest : public ::testing::Test {
 protected:
  ExaminerOptions OfDaemon() {
    ExaminerOptions options;
    options.data_folder = data_.path();
    options.data_roots = {root_.path(), "/nowhere/at-all"};
    options.listener = [] { return LinkListenerOptions{.host = "127.0.0.1"}; };
    return options;
  }

  void Start(ExaminerOptions options) {
    examiner_.emplace(std::move(options), storage_, clock_);
    loop_ = std::make_unique<ExaminationLoop>(
        fake_.Client(), *examiner_,
        ExaminationLoopOptions{
            .id = "s0", .incarnation = [] { return uint64_t{7}; }, .backoff = kSoonAgain});
  }

  v1::ExaminationOrder Order(v1::ExaminationOrder::Stage stage, uint64_t examination = 12) {
    v1::ExaminationOrder order;
    order.set_examination(examination);
    order.set_stage(stage);
    order.set_secret("the secret");
    order.set_checkpoint_root(root_.path());
    order.set_root_content("the content");
    return order;
  }

  std::string RootFile() const { return root_.path() + "/.muster-examination-12"; }

  const TempFolder data_, root_;
  LocalStorage storage_;
  const RealClock clock_;
  FakeExaminations fake_;
  std::optional<Examiner> examiner_;
  std::unique_ptr<ExaminationLoop> loop_;
};

TEST_F(ExaminationLoopTest, ADaemonMeasuresItsMachineAndThenItsLinks) {
  Start(OfDaemon());
  fake_.Answer(Order(v1::ExaminationOrder::MACHINE));
  const v1::ReportExaminationRequest machine = fake_.TakeReport();
  EXPECT_EQ(machine.id(), "s0");
  EXPECT_EQ(machine.incarnation(), 7u);
  EXPECT_EQ(machine.examination(), 12u);
  EXPECT_EQ(machine.report().stage(), v1::ExaminationOrder::MACHINE);
  EXPECT_EQ(machine.report().version().protocol(), kProtocolVersion);
  EXPECT_FALSE(machine.report().has_certificate());
  EXPECT_LT(std::abs(machine.report().clock().offset_us()), 60'000'000);
  EXPECT_GT(machine.report().machine().descriptors(), 0u);
  ASSERT_EQ(machine.report().disks_size(), 1);
  EXPECT_EQ(machine.report().disks(0).use(), v1::DiskFacts::DATA);
  EXPECT_GT(machine.report().disks(0).written_bytes(), 0u);
  ASSERT_EQ(machine.report().folders_size(), 2);
  EXPECT_EQ(machine.report().folders(0).error(), "");
  EXPECT_NE(machine.report().folders(1).error(), "");

  // The daemon measures the way to itself.
  root_.Write(".muster-examination-12", "the content");
  v1::ExaminationOrder order = Order(v1::ExaminationOrder::LINKS);
  order.set_measure_root(true);
  v1::ExaminationPeer& peer = *order.add_peers();
  peer.set_id("s1");
  peer.set_probe_host(machine.report().probe_host());
  peer.set_probe_port(machine.report().probe_port());
  v1::ExaminationPeer& silent = *order.add_peers();
  silent.set_id("s2");
  silent.set_rpc_address("127.0.0.1:1");
  fake_.Answer(order);
  const v1::DaemonReport links = fake_.TakeReport().report();
  EXPECT_EQ(links.stage(), v1::ExaminationOrder::LINKS);
  EXPECT_TRUE(links.root().seen());
  EXPECT_EQ(links.root().error(), "");
  ASSERT_EQ(links.disks_size(), 1);
  EXPECT_EQ(links.disks(0).use(), v1::DiskFacts::CHECKPOINTS);
  ASSERT_EQ(links.links_size(), 2);
  EXPECT_EQ(links.links(0).to(), "s1");
  EXPECT_EQ(links.links(0).probe_error(), "");
  EXPECT_GT(links.links(0).carried_bytes(), 0u);
  EXPECT_NE(links.links(1).rpc_error(), "");
  // Nothing of others is removed, and nothing of its own stays.
  EXPECT_EQ(BytesOfFile(RootFile()), "the content");
  EXPECT_TRUE(std::filesystem::is_empty(data_.path()));

  // It says what it has done, and stops listening when the examination is over.
  EXPECT_EQ(fake_.AwaitQuestion(3).seen_stage(), v1::ExaminationOrder::LINKS);
  fake_.Answer(v1::ExaminationOrder());
  EXPECT_EQ(fake_.AwaitQuestion(4).seen_examination(), 0u);
  const auto connected =
      ConnectTcp("127.0.0.1", static_cast<uint16_t>(machine.report().probe_port()),
                 Deadline::After(absl::Seconds(10)));
  EXPECT_FALSE(connected.ok());
}

TEST_F(ExaminationLoopTest, AFolderWithoutTheCoordinatorsFileIsAnotherOne) {
  Start(OfDaemon());
  fake_.Answer(Order(v1::ExaminationOrder::LINKS));
  const v1::RootFacts none = fake_.TakeReport().report().root();
  EXPECT_FALSE(none.seen());
  EXPECT_THAT(none.error(), HasSubstr("/.muster-examination-12: No such file"));
  root_.Write(".muster-examination-13", "what another coordinator wrote");
  fake_.Answer(Order(v1::ExaminationOrder::LINKS, 13));
  const v1::RootFacts other = fake_.TakeReport().report().root();
  EXPECT_FALSE(other.seen());
  EXPECT_THAT(other.error(), HasSubstr("another content"));
}

TEST_F(ExaminationLoopTest, TheCoordinatorsProcessWritesTheFileAndRemovesIt) {
  Start({.data_folder = data_.path()});
  fake_.Answer(Order(v1::ExaminationOrder::MACHINE));
  const v1::DaemonReport machine = fake_.TakeReport().report();
  EXPECT_TRUE(machine.root().seen()) << machine.root().error();
  EXPECT_EQ(machine.probe_port(), 0u);
  EXPECT_EQ(BytesOfFile(RootFile()), "the content");
  fake_.Answer(v1::ExaminationOrder());
  fake_.AwaitQuestion(3);
  EXPECT_TRUE(std::filesystem::is_empty(root_.path()));
}

TEST_F(ExaminationLoopTest, GoesOnWhenTheCoordinatorRestarts) {
  Start(OfDaemon());
  fake_.Answer(Order(v1::ExaminationOrder::MACHINE));
  fake_.TakeReport();
  fake_.AwaitQuestion(2);
  fake_.Answer(absl::UnavailableError("the coordinator is shutting down"));
  fake_.Answer(absl::AbortedError("register again"));
  // The new process has another examination, and the old one's is forgotten.
  EXPECT_EQ(fake_.AwaitQuestion(3).seen_examination(), 0u);
  fake_.Answer(Order(v1::ExaminationOrder::MACHINE, 13));
  EXPECT_EQ(fake_.TakeReport().examination(), 13u);
}

TEST_F(ExaminationLoopTest, AReportThatIsRefusedIsNotSentAgain) {
  fake_.RefuseReports();
  Start(OfDaemon());
  fake_.Answer(Order(v1::ExaminationOrder::MACHINE));
  fake_.TakeReport();
  EXPECT_EQ(fake_.AwaitQuestion(2).seen_examination(), 12u);
}

TEST_F(ExaminationLoopTest, TellsOfTheCertificateThatItUsesAndOfTheOneInTheFile) {
  CertificatesForTesting cluster(::testing::TempDir(), "loop");
  ExaminerOptions options = OfDaemon();
  options.tls = cluster.Issue("server");
  Start(options);
  // The file changes after the process has read it.
  const TlsFiles expired = cluster.Issue("late", CertificatesForTesting::Validity::kExpired);
  std::filesystem::copy_file(expired.certificate, options.tls.certificate,
                             std::filesystem::copy_options::overwrite_existing);
  fake_.Answer(Order(v1::ExaminationOrder::MACHINE));
  const v1::CertificateFacts facts = fake_.TakeReport().report().certificate();
  EXPECT_THAT(facts.subject(), HasSubstr("server"));
  EXPECT_GT(facts.ends_unix(), absl::ToUnixSeconds(clock_.Wall()));
  EXPECT_LT(facts.file_ends_unix(), absl::ToUnixSeconds(clock_.Wall()));
}

}  // namespace
}  // namespace muster
