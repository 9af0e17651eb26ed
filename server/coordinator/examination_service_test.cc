// An examination of the cluster over gRPC, and by the coordinator's own process.
#include "server/coordinator/examination_service.h"

#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/services_fixture.h"

namespace muster {
namespace {

class ExaminationServiceTest : public ServicesFixture {};

TEST_F(ExaminationServiceTest, AClusterIsExamined) {
  const uint64_t incarnation = Register(v1::WORKER, "w0");
  v1::ReadClockReply clock;
  ASSERT_TRUE(examinations_->ReadClock(Context().get(), {}, &clock).ok());
  EXPECT_GT(clock.unix_us(), 0);
  // The coordinator's own process asks without a connection.
  const std::unique_ptr<ExaminationClient> here = MakeExaminationClientHere(*loop_);
  v1::AwaitExaminationRequest of_coordinator;
  of_coordinator.set_incarnation(1);
  ASSERT_TRUE(here->Await(of_coordinator, absl::Seconds(60)).ok());

  const auto context = Context();
  const auto stream = examinations_->Examine(context.get(), {});
  v1::ExaminationUpdate update;
  ASSERT_TRUE(stream->Read(&update));
  EXPECT_EQ(update.daemons_size(), 2);
  const auto carry_out = [&](v1::ExaminationOrder::Stage stage) {
    v1::AwaitExaminationRequest question;
    question.set_id("w0");
    question.set_incarnation(incarnation);
    question.set_poll_ms(60'000);
    v1::ExaminationOrder order;
    while (order.stage() != stage) {
      question.set_seen_examination(order.examination());
      question.set_seen_stage(order.stage());
      ASSERT_TRUE(examinations_->AwaitExamination(Context().get(), question, &order).ok());
    }
    v1::ReportExaminationRequest report;
    report.set_examination(order.examination());
    report.mutable_report()->set_stage(stage);
    report.set_incarnation(1);
    const auto told = here->Report(report, absl::Seconds(60));
    ASSERT_TRUE(told.ok() && told->wanted()) << told.status();
    report.set_id("w0");
    report.set_incarnation(incarnation);
    v1::ReportExaminationReply reply;
    ASSERT_TRUE(examinations_->ReportExamination(Context().get(), report, &reply).ok());
    EXPECT_TRUE(reply.wanted());
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(stream->Read(&update));
      EXPECT_EQ(update.report().stage(), stage);
    }
  };
  carry_out(v1::ExaminationOrder::MACHINE);
  carry_out(v1::ExaminationOrder::LINKS);
  ASSERT_TRUE(stream->Read(&update));
  EXPECT_TRUE(update.has_last());
  EXPECT_FALSE(stream->Read(&update));
  EXPECT_TRUE(stream->Finish().ok());

  // A client that goes away ends its examination.
  const auto gone = Context();
  const auto left = examinations_->Examine(gone.get(), {});
  ASSERT_TRUE(left->Read(&update));
  gone->TryCancel();
  left->Finish();
  while (true) {
    const auto later = Context();
    const auto next = examinations_->Examine(later.get(), {});
    const bool begun = next->Read(&update);
    if (begun) later->TryCancel();
    const grpc::Status status = next->Finish();
    if (begun) break;
    ASSERT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  }

  // An interrupted process stops asking, now and later.
  std::thread asks([&] {
    of_coordinator.set_poll_ms(60'000);
    absl::Status status;
    while (status.ok()) status = here->Await(of_coordinator, absl::Minutes(5)).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
  here->Interrupt();
  asks.join();
}

}  // namespace
}  // namespace muster
