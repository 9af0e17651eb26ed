#include "server/coordinator/requests/examination_requests.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/job/request_limits.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr auto kMachine = v1::ExaminationOrder::MACHINE;
constexpr auto kLinks = v1::ExaminationOrder::LINKS;

class ExaminationRequestsTest : public ::testing::Test {
 protected:
  ExaminationRequests& examinations() { return cluster_.coordinator().examinations(); }

  ExaminationRequests::Ticket Begin(uint32_t wait_ms = 0) {
    v1::ExamineRequest request;
    request.set_wait_ms(wait_ms);
    const auto ticket = examinations().Begin(request);
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    cluster_.Run();
    return ticket.value_or(nullptr);
  }

  Answer<ExaminationRequests::Update> Next(const ExaminationRequests::Ticket& ticket) {
    Answer<ExaminationRequests::Update> answer;
    examinations().Next(ticket, answer.call());
    return answer;
  }
  // Returns the next message, which must be there.
  v1::ExaminationUpdate Update(const ExaminationRequests::Ticket& ticket) {
    const auto answer = Next(ticket);
    EXPECT_TRUE(answer.came() && answer.get().ok()) << answer.status();
    return answer.came() && answer.get().ok() ? answer.get()->update : v1::ExaminationUpdate();
  }

  // A daemon asks, having seen a stage of an examination.
  Answer<v1::ExaminationOrder> Ask(const std::string& id, uint64_t seen = 0,
                                   v1::ExaminationOrder::Stage stage = {}) {
    v1::AwaitExaminationRequest request;
    request.set_id(id);
    request.set_incarnation(IncarnationOf(id));
    request.set_seen_examination(seen);
    request.set_seen_stage(stage);
    request.set_poll_ms(30'000);
    Answer<v1::ExaminationOrder> answer;
    if (id.empty()) {
      examinations().AwaitHere(request, answer.call());
    } else {
      examinations().Await(request, answer.call());
    }
    cluster_.Run();
    return answer;
  }
  v1::ExaminationOrder OrderOf(const std::string& id) {
    const auto answer = Ask(id);
    EXPECT_TRUE(answer.came() && answer.get().ok()) << answer.status();
    return answer.came() && answer.get().ok() ? *answer.get() : v1::ExaminationOrder();
  }

  v1::ReportExaminationRequest ReportOf(const std::string& id, uint64_t examination,
                                        v1::ExaminationOrder::Stage stage) {
    v1::ReportExaminationRequest request;
    request.set_id(id);
    request.set_incarnation(IncarnationOf(id));
    request.set_examination(examination);
    request.mutable_report()->set_stage(stage);
    if (stage == kMachine) {
      request.mutable_report()->set_probe_host(id);
      request.mutable_report()->set_probe_port(5);
      request.mutable_report()->mutable_root()->set_seen(id.empty());
    }
    return request;
  }
  // Returns whether the report is of use.
  bool Report(const std::string& id, uint64_t examination, v1::ExaminationOrder::Stage stage) {
    const v1::ReportExaminationRequest request = ReportOf(id, examination, stage);
    const auto reply =
        id.empty() ? absl::StatusOr<v1::ReportExaminationReply>(examinations().ReportHere(request))
                   : examinations().Report(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    cluster_.Run();
    return reply.ok() && reply->wanted();
  }

  uint64_t IncarnationOf(const std::string& id) {
    if (id.empty()) return 1;
    return cluster_.coordinator().members().Find(id)->record.incarnation();
  }

  SimulatedCluster cluster_;
};

TEST_F(ExaminationRequestsTest, GoesFromMachinesToLinksToTheEnd) {
  cluster_.AddServer("s0");
  cluster_.AddWorker("w0");
  const auto waiting = Ask("s0");
  const auto here = Ask("");
  EXPECT_FALSE(waiting.came());
  const auto ticket = Begin();
  // One that waits is told at once.
  ASSERT_TRUE(waiting.came() && here.came());
  const v1::ExaminationOrder order = *waiting.get();
  EXPECT_EQ(order.stage(), kMachine);
  EXPECT_GE(order.secret().size(), 64u);
  EXPECT_EQ(order.checkpoint_root(), cluster_.archive.root());
  // The coordinator's process is to write the file, so nobody looks for it yet.
  EXPECT_EQ(order.root_content(), "");
  EXPECT_NE(here.get()->root_content(), "");

  const v1::ExaminationUpdate first = Update(ticket);
  ASSERT_EQ(first.daemons_size(), 3);
  EXPECT_EQ(first.daemons(0).kind(), v1::ExaminedDaemon::COORDINATOR);
  EXPECT_EQ(first.daemons(1).id(), "s0");
  EXPECT_EQ(first.daemons(2).kind(), v1::ExaminedDaemon::WORKER);

  const uint64_t number = order.examination();
  const auto after_machine = Ask("s0", number, kMachine);
  EXPECT_TRUE(Report("s0", number, kMachine));
  EXPECT_TRUE(Report("", number, kMachine));
  EXPECT_EQ(Update(ticket).report().id(), "s0");
  EXPECT_EQ(Update(ticket).report().id(), "");
  EXPECT_FALSE(after_machine.came()) << "w0 has not reported";
  EXPECT_TRUE(Report("w0", number, kMachine));
  EXPECT_EQ(Update(ticket).report().id(), "w0");
  ASSERT_TRUE(after_machine.came());
  EXPECT_EQ(after_machine.get()->stage(), kLinks);
  EXPECT_EQ(after_machine.get()->root_content(), here.get()->root_content());
  EXPECT_EQ(after_machine.get()->peers_size(), 0) << "servers call no workers";
  const v1::ExaminationOrder links = OrderOf("w0");
  ASSERT_EQ(links.peers_size(), 1);
  EXPECT_EQ(links.peers(0).id(), "s0");
  EXPECT_EQ(links.peers(0).rpc_address(), "s0:1");
  EXPECT_EQ(links.peers(0).probe_host(), "s0");
  EXPECT_EQ(links.peers(0).probe_port(), 5u);

  for (const char* id : {"", "s0", "w0"}) EXPECT_TRUE(Report(id, number, kLinks));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Update(ticket).report().stage(), kLinks);
  const auto last = Next(ticket);
  ASSERT_TRUE(last.came());
  EXPECT_TRUE(last.get()->last);
  EXPECT_EQ(last.get()->update.last().absent_size(), 0);
  EXPECT_EQ(last.get()->update.last().pairs(), 1u);
  EXPECT_EQ(last.get()->update.last().drawn_pairs(), 1u);
  // It is over, and daemons stop listening.
  const auto over = Ask("w0", number, kLinks);
  ASSERT_TRUE(over.came());
  EXPECT_EQ(over.get()->examination(), 0u);
  EXPECT_FALSE(Report("w0", number, kLinks));
}

TEST_F(ExaminationRequestsTest, OneAtATime) {
  cluster_.AddServer("s0");
  auto ticket = Begin();
  const absl::Status second = examinations().Begin({}).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("one examination at a time"));
  // The client goes away between two messages.
  const uint64_t number = OrderOf("s0").examination();
  ticket.reset();
  cluster_.Run();
  EXPECT_FALSE(Report("s0", number, kMachine));
  // Another one is possible, and another client that goes away while it waits.
  ticket = Begin();
  EXPECT_GT(OrderOf("s0").examination(), number);
  Update(ticket);
  auto waiting = Next(ticket);
  EXPECT_FALSE(waiting.came());
  waiting.Cancel();
  cluster_.Run();
  EXPECT_TRUE(absl::IsCancelled(waiting.status()));
  EXPECT_NE(Begin(), nullptr);
}

TEST_F(ExaminationRequestsTest, ADaemonThatIsLostMeanwhileHoldsNobodyUp) {
  for (const char* id : {"w0", "w1", "w2"}) cluster_.AddWorker(id);
  const auto ticket = Begin();
  Update(ticket);
  const uint64_t number = OrderOf("w0").examination();
  for (const char* id : {"w0", "w1", "w2"}) EXPECT_TRUE(Report(id, number, kMachine));
  for (int i = 0; i < 3; ++i) Update(ticket);
  EXPECT_TRUE(Report("w0", number, kLinks));
  Update(ticket);
  // One dies, another is restarted, which another incarnation of it shows.
  cluster_.Kill("w1");
  cluster_.RestartDaemon("w2");
  cluster_.Pass(kLease + absl::Seconds(1));
  const v1::ExaminationUpdate last = Update(ticket);
  ASSERT_EQ(last.last().absent_size(), 2);
  EXPECT_EQ(last.last().absent(0).id(), "w1");
  EXPECT_EQ(last.last().absent(1).id(), "w2");
  EXPECT_THAT(last.last().absent(1).reason(), HasSubstr("was lost, or restarted"));
}

TEST_F(ExaminationRequestsTest, ASilentDaemonHoldsNobodyUpForever) {
  cluster_.AddWorker("w0");
  cluster_.AddWorker("w1");
  const auto ticket = Begin(20'000);
  Update(ticket);
  const uint64_t number = OrderOf("w0").examination();
  EXPECT_TRUE(Report("w0", number, kMachine));
  Update(ticket);
  const auto waiting = Ask("w0", number, kMachine);
  cluster_.Pass(absl::Seconds(7));
  EXPECT_FALSE(waiting.came());
  // Links begin without it, and it may still report.
  cluster_.Pass(absl::Seconds(3));
  ASSERT_TRUE(waiting.came());
  EXPECT_EQ(waiting.get()->stage(), kLinks);
  EXPECT_EQ(waiting.get()->peers_size(), 0);
  EXPECT_TRUE(Report("w0", number, kLinks));
  Update(ticket);
  EXPECT_TRUE(Report("w1", number, kMachine));
  EXPECT_EQ(Update(ticket).report().id(), "w1");
  cluster_.Pass(absl::Seconds(11));
  const v1::ExaminationUpdate last = Update(ticket);
  ASSERT_EQ(last.last().absent_size(), 1);
  EXPECT_EQ(last.last().absent(0).id(), "w1");
  EXPECT_FALSE(Report("w1", number, kLinks));
}

TEST_F(ExaminationRequestsTest, AReportIsTakenOnceAndOnlyInItsTurn) {
  cluster_.AddWorker("w0");
  cluster_.AddWorker("w1");
  const auto ticket = Begin();
  Update(ticket);
  const uint64_t number = OrderOf("w0").examination();
  EXPECT_FALSE(Report("w0", number - 1, kMachine)) << "another examination's";
  EXPECT_TRUE(Report("w0", number, kLinks)) << "too early, and not taken";
  EXPECT_TRUE(Report("w0", number, kMachine));
  EXPECT_TRUE(Report("w0", number, kMachine));
  EXPECT_EQ(Update(ticket).report().stage(), kMachine);
  EXPECT_FALSE(Next(ticket).came());
}

TEST_F(ExaminationRequestsTest, OnlyMembersAskAndReport) {
  cluster_.AddWorker("w0");
  v1::AwaitExaminationRequest question;
  question.set_id("w0");
  question.set_incarnation(IncarnationOf("w0") + 1);
  Answer<v1::ExaminationOrder> answer;
  examinations().Await(question, answer.call());
  EXPECT_TRUE(absl::IsAborted(answer.status()));
  // The coordinator's own place is nobody else's.
  question.set_id("");
  question.set_incarnation(1);
  Answer<v1::ExaminationOrder> as_coordinator;
  examinations().Await(question, as_coordinator.call());
  EXPECT_TRUE(absl::IsAborted(as_coordinator.status()));
  v1::ReportExaminationRequest report = ReportOf("w0", 1, kMachine);
  report.set_incarnation(0);
  EXPECT_TRUE(absl::IsAborted(examinations().Report(report).status()));
  // A call that waits ends with its lease.
  const auto waiting = Ask("w0");
  cluster_.Kill("w0");
  cluster_.Pass(kLease + absl::Seconds(2));
  EXPECT_TRUE(absl::IsAborted(waiting.status()));
}

TEST_F(ExaminationRequestsTest, ACallWaitsForItsTimeAndNoLonger) {
  cluster_.AddWorker("w0");
  const auto earlier = Ask("w0");
  const auto waiting = Ask("w0");
  EXPECT_TRUE(absl::IsCancelled(earlier.status()));
  cluster_.Pass(absl::Seconds(29));
  EXPECT_FALSE(waiting.came());
  cluster_.Pass(absl::Seconds(3));
  ASSERT_TRUE(waiting.came());
  EXPECT_EQ(waiting.get()->examination(), 0u);
}

TEST_F(ExaminationRequestsTest, ARestartedCoordinatorKnowsOfNone) {
  cluster_.AddWorker("w0");
  const auto ticket = Begin();
  Update(ticket);
  const auto client = Next(ticket);
  const uint64_t number = OrderOf("w0").examination();
  const auto waiting = Ask("w0", number, kMachine);
  cluster_.RestartCoordinator();
  EXPECT_TRUE(absl::IsUnavailable(client.status()));
  EXPECT_TRUE(absl::IsUnavailable(waiting.status()));
  cluster_.Pass(absl::Seconds(1));
  EXPECT_FALSE(Report("w0", number, kMachine));
  EXPECT_TRUE(absl::IsAborted(Next(ticket).status()));
  // Who still has the old number learns that there is none.
  const auto told = Ask("w0", number, kMachine);
  ASSERT_TRUE(told.came());
  EXPECT_EQ(told.get()->examination(), 0u);
  const auto next = Begin();
  EXPECT_GT(OrderOf("w0").examination(), number);
}

TEST_F(ExaminationRequestsTest, ALargeClusterIsMeasuredByTurns) {
  constexpr int kWorkers = 40;
  std::set<std::pair<std::string, std::string>> measured;
  for (int i = 0; i < kWorkers; ++i) cluster_.AddWorker(absl::StrCat("w", i));
  for (int round = 0; round < 3; ++round) {
    const auto ticket = Begin();
    const uint64_t number = OrderOf("w0").examination();
    for (int i = 0; i < kWorkers; ++i) Report(absl::StrCat("w", i), number, kMachine);
    size_t roots = 0;
    for (int i = 0; i < kWorkers; ++i) {
      const v1::ExaminationOrder order = OrderOf(absl::StrCat("w", i));
      EXPECT_EQ(order.peers_size(), 16);
      roots += order.measure_root();
      for (const auto& peer : order.peers()) measured.emplace(absl::StrCat("w", i), peer.id());
    }
    EXPECT_EQ(roots, ExaminationRequests::kMostRootMeasurements);
  }
  EXPECT_EQ(measured.size(), kWorkers * (kWorkers - 1));
}

TEST_F(ExaminationRequestsTest, WhatTheClientDoesNotTakeIsLostAndCounted) {
  cluster_.AddWorker("w0");
  cluster_.AddWorker("w1");
  const auto ticket = Begin();
  const uint64_t number = OrderOf("w0").examination();
  for (const char* id : {"w0", "w1"}) {
    v1::ReportExaminationRequest report = ReportOf(id, number, kMachine);
    report.mutable_report()->set_probe_error(
        std::string(ExaminationRequests::kMostWaitingBytes * 2 / 3, 'x'));
    EXPECT_TRUE(examinations().Report(report)->wanted());
  }
  cluster_.Run();
  for (const char* id : {"w0", "w1"}) Report(id, number, kLinks);
  EXPECT_GT(Update(ticket).daemons_size(), 0);
  while (true) {
    const auto answer = Next(ticket);
    ASSERT_TRUE(answer.came());
    if (!answer.get()->last) continue;
    EXPECT_EQ(answer.get()->update.last().lost_reports(), 1u);
    break;
  }
}

TEST_F(ExaminationRequestsTest, AReportThatIsTooLargeIsRefusedAtTheEdge) {
  cluster_.AddWorker("w0");
  v1::ReportExaminationRequest report = ReportOf("w0", 1, kMachine);
  for (int i = 0; i < 64; ++i) {
    v1::LinkFacts& link = *report.mutable_report()->add_links();
    link.set_rpc_error(std::string(1000, 'x'));
    link.set_to(std::string(256, 'x'));
  }
  // As much as a daemon ever sends.
  EXPECT_EQ(CheckLimits(report), absl::OkStatus());
  EXPECT_LT(report.ByteSizeLong(), MaxRequestBytes(*report.GetDescriptor()));
  report.mutable_report()->add_links();
  EXPECT_EQ(CheckLimits(report).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_LE(MaxRequestBytes(*report.GetDescriptor()), 128u << 10);
}

TEST_F(ExaminationRequestsTest, ALongWaitIsRefused) {
  v1::ExamineRequest request;
  request.set_wait_ms(600'001);
  EXPECT_EQ(examinations().Begin(request).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
