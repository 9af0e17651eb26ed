#include "server/coordinator/requests/trace_requests.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/test_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class TraceRequestsTest : public ::testing::Test {
 protected:
  TraceRequestsTest() {
    for (const char* server : {"s0", "s1"}) cluster_.AddServer(server);
    for (const char* worker : {"w0", "w1"}) cluster_.AddWorker(worker);
  }

  std::string RunningJob(v1::JobSpec spec = SmallJob()) {
    spec.set_workers(2);
    const std::string job = *cluster_.Submit(spec);
    cluster_.BeatAll();
    MeetAll(job);
    return job;
  }

  // All slots meet, for a job of a thousand steps.
  void MeetAll(const std::string& job) {
    for (const v1::TaskOrder& order : cluster_.Orders(job)) cluster_.Rendezvous(order, 1000);
    cluster_.Run();
  }

  TraceRequests& traces() { return cluster_.coordinator().traces(); }

  static v1::TraceJobRequest RequestOf(const std::string& job, uint32_t steps = 10) {
    v1::TraceJobRequest request;
    request.set_job_id(job);
    request.set_steps(steps);
    return request;
  }

  Answer<TraceRequests::Update> Next(const TraceRequests::Ticket& ticket) {
    Answer<TraceRequests::Update> answer;
    traces().Next(ticket, answer.call());
    return answer;
  }
  // Returns the next message, which must be there.
  v1::TraceChunk Chunk(const TraceRequests::Ticket& ticket, bool last = false) {
    Answer<TraceRequests::Update> answer = Next(ticket);
    EXPECT_TRUE(answer.came());
    if (!answer.came()) return {};
    EXPECT_EQ(answer.get()->last, last);
    return answer.get()->chunk;
  }

  // The order that the slot's task gets with its next report.
  v1::TraceOrder OrderOf(const std::string& job, uint32_t slot, uint64_t clock) {
    EXPECT_EQ(cluster_.Progress(*cluster_.Order(job, slot), clock), absl::OkStatus());
    return cluster_.progress_reply.trace();
  }

  static v1::TracePiece PieceOf(uint64_t trace, uint64_t number, bool last = false) {
    v1::TracePiece piece;
    piece.set_trace(trace);
    piece.set_number(number);
    piece.set_last(last);
    piece.add_names()->set_name("forward 1");
    piece.add_tracks()->set_name("trainer");
    piece.add_events()->set_step(number);
    return piece;
  }
  v1::TraceReply FromSlot(const std::string& job, uint32_t slot, const v1::TracePiece& piece) {
    v1::ReportTraceRequest request;
    *request.mutable_task() = SimulatedCluster::Identity(*cluster_.Order(job, slot));
    *request.mutable_piece() = piece;
    const auto reply = cluster_.coordinator().tasks().ReportTrace(request);
    EXPECT_EQ(reply.status(), absl::OkStatus());
    cluster_.Run();
    return reply.value_or(v1::TraceReply());
  }
  absl::StatusOr<v1::TraceReply> FromServer(const std::string& id, const v1::TracePiece& piece) {
    v1::ReportServerTraceRequest request;
    request.set_id(id);
    request.set_incarnation(cluster_.daemon(id).incarnation);
    *request.mutable_piece() = piece;
    auto reply = cluster_.coordinator().daemons().ReportServerTrace(request);
    cluster_.Run();
    return reply;
  }

  static std::string NameOf(const v1::TraceProcess& process) {
    return process.server_id().empty() ? absl::StrCat("slot ", process.slot())
                                       : process.server_id();
  }

  SimulatedCluster cluster_;
};

TEST_F(TraceRequestsTest, PassesOnWhatAllProcessesSend) {
  const std::string job = RunningJob();
  EXPECT_EQ(OrderOf(job, 0, 1).trace(), 0u);
  EXPECT_EQ(OrderOf(job, 1, 1).trace(), 0u);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const v1::TraceChunk first = Chunk(*ticket);
  EXPECT_EQ(first.order().job_id(), job);
  EXPECT_GE(first.order().first_step(), 2u);
  EXPECT_EQ(first.order().end_step(), first.order().first_step() + 10);
  EXPECT_EQ(first.begin_ns(), absl::ToInt64Nanoseconds(cluster_.clock.Monotonic()));
  std::vector<std::string> names;
  for (const v1::TraceProcess& process : first.processes()) names.push_back(NameOf(process));
  EXPECT_THAT(names, ElementsAre("slot 0", "slot 1", "s0", "s1"));

  // All learn of the same steps.
  const uint64_t trace = first.order().trace();
  for (const uint32_t slot : {0, 1}) {
    const v1::TraceOrder order = OrderOf(job, slot, 2);
    EXPECT_EQ(order.trace(), trace);
    EXPECT_EQ(order.first_step(), first.order().first_step());
    EXPECT_EQ(order.end_step(), first.order().end_step());
    EXPECT_GT(order.max_events(), 0u);
  }
  cluster_.BeatAll();
  for (const char* server : {"s0", "s1"}) {
    EXPECT_EQ(cluster_.daemon(server).orders.trace().trace(), trace);
    EXPECT_EQ(cluster_.daemon(server).orders.trace().end_step(), first.order().end_step());
  }

  Answer<TraceRequests::Update> parked = Next(*ticket);
  EXPECT_FALSE(parked.came());
  EXPECT_TRUE(FromSlot(job, 0, PieceOf(trace, 0)).wanted());  // Compares clocks.
  EXPECT_FALSE(parked.came());
  EXPECT_EQ(FromSlot(job, 0, PieceOf(trace, 1)).clock_ns(),
            absl::ToInt64Nanoseconds(cluster_.clock.Monotonic()));
  ASSERT_TRUE(parked.came());
  EXPECT_EQ(NameOf(parked.get()->chunk.source()), "slot 0");
  EXPECT_EQ(parked.get()->chunk.piece().events_size(), 1);
  // A repeated piece is not passed on again.
  FromSlot(job, 0, PieceOf(trace, 1));
  parked = Next(*ticket);
  EXPECT_FALSE(parked.came());

  FromSlot(job, 0, PieceOf(trace, 2, true));
  EXPECT_EQ(parked.get()->chunk.piece().number(), 2u);
  EXPECT_EQ(OrderOf(job, 0, 3).trace(), 0u) << "a slot that is done gets no order";
  EXPECT_FALSE(FromServer("s0", PieceOf(trace, 1))->finish());
  FromSlot(job, 1, PieceOf(trace, 1, true));
  // Now servers are to finish.
  EXPECT_TRUE(FromServer("s1", PieceOf(trace, 1))->finish());
  EXPECT_TRUE(FromServer("s0", PieceOf(trace, 2, true)).ok());
  EXPECT_TRUE(FromServer("s1", PieceOf(trace, 2, true)).ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Chunk(*ticket).has_piece()) << i;
  const v1::TraceChunk last = Chunk(*ticket, true);
  EXPECT_EQ(last.missing_size(), 0);
  EXPECT_EQ(last.ended_because(), "");
  EXPECT_EQ(last.lost_pieces(), 0u);
  // Nothing of it is left.
  cluster_.BeatAll();
  EXPECT_FALSE(cluster_.daemon("s0").orders.has_trace());
  EXPECT_EQ(Next(*ticket).status().code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(FromSlot(job, 0, PieceOf(trace, 9)).wanted());
  EXPECT_EQ(traces().Begin(RequestOf(job)).status(), absl::OkStatus());
}

TEST_F(TraceRequestsTest, StepsBeginOnceAllCanKnow) {
  const std::string job = RunningJob();
  // 20 steps a second.
  for (uint64_t clock = 10; clock <= 60; clock += 10) {
    cluster_.ProgressAll(job, clock);
    cluster_.Pass(absl::Milliseconds(500));
  }
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job, 100));
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const v1::TraceOrder order = Chunk(*ticket).order();
  EXPECT_GE(order.first_step(), 60u + 25);
  EXPECT_LE(order.first_step(), 60u + 40);
  EXPECT_EQ(order.end_step(), order.first_step() + 100);
}

TEST_F(TraceRequestsTest, AJobThatHasBecomeSlowerRecordsEarlierSteps) {
  const std::string job = RunningJob();
  // 200 steps a second.
  uint64_t clock = 0;
  for (; clock < 300; clock += 100) {
    cluster_.ProgressAll(job, clock);
    cluster_.Pass(absl::Milliseconds(500));
  }
  v1::TraceJobRequest request = RequestOf(job);
  request.set_wait_ms(120'000);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(request);
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const v1::TraceChunk first = Chunk(*ticket);
  EXPECT_GT(first.order().first_step(), 400u);
  // 2 steps a second.
  for (int i = 0; i < 60; ++i) {
    cluster_.ProgressAll(job, ++clock);
    cluster_.Pass(absl::Milliseconds(500));
  }
  v1::TraceChunk later = first;
  for (Answer<TraceRequests::Update> answer = Next(*ticket); answer.came();
       answer = Next(*ticket)) {
    later = answer.get()->chunk;
  }
  EXPECT_GT(later.order().trace(), first.order().trace());
  EXPECT_LT(later.order().first_step(), first.order().first_step());
  EXPECT_EQ(later.order().end_step(), later.order().first_step() + 10);
  EXPECT_EQ(later.begin_ns(), first.begin_ns());
  EXPECT_EQ(OrderOf(job, 0, ++clock).trace(), later.order().trace());
  EXPECT_FALSE(FromSlot(job, 0, PieceOf(first.order().trace(), 1)).wanted());
  // Steps that are being recorded stay.
  EXPECT_TRUE(FromSlot(job, 0, PieceOf(later.order().trace(), 1)).wanted());
  cluster_.Pass(absl::Seconds(20));
  EXPECT_EQ(OrderOf(job, 1, clock).trace(), later.order().trace());
}

TEST_F(TraceRequestsTest, AJobThatHasBecomeFasterRecordsLaterSteps) {
  const std::string job = RunningJob();
  cluster_.ProgressAll(job, 1);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const v1::TraceOrder first = Chunk(*ticket).order();
  // Slot 0 was through with the steps before it heard of them.
  cluster_.ProgressAll(job, first.end_step());
  v1::TracePiece nothing;
  nothing.set_trace(first.trace());
  nothing.set_number(1);
  nothing.set_last(true);
  EXPECT_FALSE(FromSlot(job, 0, nothing).wanted());
  const v1::TraceOrder later = Chunk(*ticket).order();
  EXPECT_GT(later.trace(), first.trace());
  EXPECT_GT(later.first_step(), first.end_step());
  for (const uint32_t slot : {0, 1}) {
    EXPECT_EQ(OrderOf(job, slot, first.end_step()).trace(), later.trace());
    EXPECT_TRUE(FromSlot(job, slot, PieceOf(later.trace(), 1)).wanted());
  }
  // A slot that missed what another has recorded is done.
  nothing.set_trace(later.trace());
  nothing.set_number(2);
  FromSlot(job, 1, nothing);
  EXPECT_EQ(OrderOf(job, 0, first.end_step()).trace(), later.trace());
  EXPECT_EQ(OrderOf(job, 1, first.end_step()).trace(), 0u);
}

TEST_F(TraceRequestsTest, SlotsThatDriftApartRecordTheirOwnNextSteps) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_unlimited_staleness(true);
  const std::string job = RunningJob(spec);
  ASSERT_EQ(cluster_.Progress(*cluster_.Order(job, 0), 500), absl::OkStatus());
  ASSERT_EQ(cluster_.Progress(*cluster_.Order(job, 1), 20), absl::OkStatus());
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const v1::TraceOrder all = Chunk(*ticket).order();
  const v1::TraceOrder fast = OrderOf(job, 0, 501), slow = OrderOf(job, 1, 21);
  EXPECT_GT(fast.first_step(), 500u);
  EXPECT_EQ(fast.end_step(), fast.first_step() + 10);
  EXPECT_GT(slow.first_step(), 20u);
  EXPECT_LT(slow.first_step(), 500u);
  EXPECT_EQ(slow.end_step(), slow.first_step() + 10);
  EXPECT_EQ(all.first_step(), slow.first_step());
  EXPECT_EQ(all.end_step(), fast.end_step());
}

TEST_F(TraceRequestsTest, EndsInTimeAndNamesWhatIsMissing) {
  const std::string job = RunningJob();
  cluster_.ProgressAll(job, 1);
  v1::TraceJobRequest request = RequestOf(job);
  request.set_wait_ms(5000);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(request);
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const uint64_t trace = Chunk(*ticket).order().trace();
  FromSlot(job, 0, PieceOf(trace, 1, true));
  FromSlot(job, 1, PieceOf(trace, 1));
  ASSERT_TRUE(FromServer("s0", PieceOf(trace, 1)).ok());
  for (int i = 0; i < 3; ++i) Chunk(*ticket);
  Answer<TraceRequests::Update> parked = Next(*ticket);
  cluster_.Pass(absl::Seconds(4));
  EXPECT_FALSE(parked.came());
  cluster_.Pass(absl::Seconds(2));
  ASSERT_TRUE(parked.came());
  EXPECT_TRUE(parked.get()->last);
  const v1::TraceChunk& last = parked.get()->chunk;
  std::vector<std::string> missing;
  for (const v1::TraceProcess& process : last.missing()) missing.push_back(NameOf(process));
  EXPECT_THAT(missing, ElementsAre("slot 1", "s0", "s1"));
  EXPECT_THAT(last.ended_because(), HasSubstr("5s"));
}

TEST_F(TraceRequestsTest, AReplacedTaskRecordsWhatIsLeft) {
  cluster_.AddWorker("w2");
  const std::string job = RunningJob();
  cluster_.ProgressAll(job, 1);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const uint64_t trace = Chunk(*ticket).order().trace();
  FromSlot(job, 1, PieceOf(trace, 1));
  EXPECT_EQ(Chunk(*ticket).source().incarnation(), 1u);
  cluster_.Die(*cluster_.Order(job, 1));
  cluster_.Pass(absl::Seconds(3));
  ASSERT_NE(cluster_.Order(job, 1), nullptr);
  MeetAll(job);
  EXPECT_EQ(OrderOf(job, 1, 1).trace(), trace);
  // Its pieces count from 1 again.
  FromSlot(job, 1, PieceOf(trace, 1, true));
  const v1::TraceChunk chunk = Chunk(*ticket);
  EXPECT_EQ(chunk.source().slot(), 1u);
  EXPECT_EQ(chunk.source().incarnation(), 2u);
}

TEST_F(TraceRequestsTest, OneTraceAtATime) {
  const std::string job = RunningJob();
  cluster_.ProgressAll(job, 1);
  absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  ASSERT_EQ(ticket.status(), absl::OkStatus());
  const absl::Status refused = traces().Begin(RequestOf(job)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("job ", job, " is being traced")));
  // The caller goes while no call is parked.
  *ticket = nullptr;
  EXPECT_EQ(traces().Begin(RequestOf(job)).status(), absl::OkStatus());
}

TEST_F(TraceRequestsTest, EndsWithItsCaller) {
  const std::string job = RunningJob();
  cluster_.ProgressAll(job, 1);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  Chunk(*ticket);
  cluster_.BeatAll();
  EXPECT_TRUE(cluster_.daemon("s0").orders.has_trace());
  Answer<TraceRequests::Update> parked = Next(*ticket);
  parked.Cancel();
  cluster_.Pass(absl::Milliseconds(100));
  EXPECT_EQ(parked.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(OrderOf(job, 0, 2).trace(), 0u);
  cluster_.BeatAll();
  EXPECT_FALSE(cluster_.daemon("s0").orders.has_trace());
}

TEST_F(TraceRequestsTest, EndsSoonAfterItsJob) {
  const std::string job = RunningJob();
  cluster_.ProgressAll(job, 1);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  Chunk(*ticket);
  Answer<TraceRequests::Update> parked = Next(*ticket);
  v1::CancelJobRequest cancel;
  cancel.set_job_id(job);
  ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
  cluster_.Pass(absl::Seconds(3));
  ASSERT_TRUE(parked.came());
  EXPECT_EQ(parked.get()->chunk.ended_because(), "the job ended");
  EXPECT_EQ(parked.get()->chunk.missing_size(), 4);
}

TEST_F(TraceRequestsTest, RefusesWhatCannotBeTraced) {
  EXPECT_EQ(traces().Begin(RequestOf("nobody")).status().code(), absl::StatusCode::kNotFound);
  const std::string waiting = *cluster_.Submit(SmallJob());
  EXPECT_EQ(traces().Begin(RequestOf(waiting)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  v1::CancelJobRequest cancel;
  cancel.set_job_id(waiting);
  ASSERT_TRUE(cluster_.coordinator().jobs().Cancel(cancel).ok());
  const std::string job = RunningJob();
  EXPECT_EQ(traces().Begin(RequestOf(job, 0)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(traces().Begin(RequestOf(job, 101)).status().code(),
            absl::StatusCode::kInvalidArgument);
  v1::TraceJobRequest patient = RequestOf(job);
  patient.set_wait_ms(3'600'001);
  EXPECT_EQ(traces().Begin(patient).status().code(), absl::StatusCode::kInvalidArgument);
  cluster_.ProgressAll(job, 999);
  EXPECT_EQ(traces().Begin(RequestOf(job)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TraceRequestsTest, ACallerThatTakesNothingLosesPiecesNotTheCoordinatorsMemory) {
  const std::string job = RunningJob();
  cluster_.ProgressAll(job, 1);
  const absl::StatusOr<TraceRequests::Ticket> ticket = traces().Begin(RequestOf(job));
  const uint64_t trace = Chunk(*ticket).order().trace();
  v1::TracePiece piece = PieceOf(trace, 1);
  piece.mutable_names(0)->set_name(std::string(1 << 20, 'x'));
  for (uint64_t number = 1; number <= 40; ++number) {
    piece.set_number(number);
    FromSlot(job, 0, piece);
  }
  for (const uint32_t slot : {0, 1}) FromSlot(job, slot, PieceOf(trace, 99, true));
  for (const char* server : {"s0", "s1"}) {
    ASSERT_TRUE(FromServer(server, PieceOf(trace, 99, true)).ok());
  }
  size_t bytes = 0;
  uint64_t chunks = 0, lost = 0;
  for (bool last = false; !last; ++chunks) {
    Answer<TraceRequests::Update> answer = Next(*ticket);
    ASSERT_TRUE(answer.came());
    bytes += answer.get()->chunk.ByteSizeLong();
    last = answer.get()->last;
    lost = answer.get()->chunk.lost_pieces();
  }
  EXPECT_LE(bytes, TraceRequests::kMostWaitingBytes + 1000);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(chunks - 1 + lost, 44u);
}

}  // namespace
}  // namespace muster
