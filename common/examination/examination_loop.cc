#include "common/examination/examination_loop.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/fingerprint.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kPoll = absl::Seconds(50);
constexpr absl::Duration kPollSlack = absl::Seconds(10);
constexpr absl::Duration kReportTimeout = absl::Seconds(10);
// Time until the daemon has joined, and between questions to a coordinator of a release without
// examinations.
constexpr absl::Duration kNotMember = absl::Seconds(1);
constexpr absl::Duration kNotServed = absl::Minutes(1);

}  // namespace

ExaminationLoop::ExaminationLoop(std::unique_ptr<ExaminationClient> client, Examiner& examiner,
                                 ExaminationLoopOptions options)
    : client_(std::move(client)),
      examiner_(examiner),
      options_(std::move(options)),
      thread_([this] { Run(); }) {}

ExaminationLoop::~ExaminationLoop() {
  waiter_.Stop();
  examiner_.Interrupt();
  client_->Interrupt();
  thread_.join();
}

void ExaminationLoop::Run() {
  Backoff backoff(options_.backoff, Philox(Fingerprint(options_.id), "backoff", "examination"));
  while (true) {
    const absl::Status status = Step();
    if (status.ok()) {
      backoff.Reset();
      if (!waiter_.Wait(absl::ZeroDuration())) break;
      continue;
    }
    // Nobody takes a report of this examination any more.
    Leave();
    const absl::Duration wait = absl::IsUnimplemented(status) ? kNotServed : backoff.Next();
    if (!waiter_.Wait(wait)) break;
  }
  Leave();
}

void ExaminationLoop::Leave() {
  seen_examination_ = 0;
  seen_stage_ = 0;
  examiner_.End();
}

absl::Status ExaminationLoop::Step() {
  v1::AwaitExaminationRequest request;
  request.set_id(options_.id);
  request.set_incarnation(options_.incarnation());
  if (request.incarnation() == 0) {
    waiter_.Wait(kNotMember);
    return absl::OkStatus();
  }
  request.set_seen_examination(seen_examination_);
  request.set_seen_stage(static_cast<v1::ExaminationOrder::Stage>(seen_stage_));
  request.set_poll_ms(absl::ToInt64Milliseconds(kPoll));
  const absl::StatusOr<v1::ExaminationOrder> order = client_->Await(request, kPoll + kPollSlack);
  if (!order.ok()) return order.status();
  if (order->examination() == seen_examination_ && order->stage() == seen_stage_) {
    return absl::OkStatus();
  }
  if (order->examination() == 0) {
    Leave();
    return absl::OkStatus();
  }
  return CarryOut(*order);
}

absl::Status ExaminationLoop::CarryOut(const v1::ExaminationOrder& order) {
  v1::ReportExaminationRequest request;
  request.set_id(options_.id);
  request.set_incarnation(options_.incarnation());
  request.set_examination(order.examination());
  switch (order.stage()) {
    case v1::ExaminationOrder::MACHINE:
      examiner_.MeasureMachine(order, *client_, *request.mutable_report());
      break;
    case v1::ExaminationOrder::LINKS:
      examiner_.MeasureLinks(order, *request.mutable_report());
      break;
    default:
      return absl::UnimplementedError(absl::StrCat("the coordinator orders stage ", order.stage(),
                                                   " of an examination, which this release does "
                                                   "not know; update this daemon"));
  }
  const auto reply = client_->Report(request, kReportTimeout);
  // A report that is refused as it is would be refused again.
  if (!reply.ok() && !absl::IsInvalidArgument(reply.status())) return reply.status();
  seen_examination_ = order.examination();
  seen_stage_ = order.stage();
  if (reply.ok() && !reply->wanted()) examiner_.End();
  return absl::OkStatus();
}

}  // namespace muster
