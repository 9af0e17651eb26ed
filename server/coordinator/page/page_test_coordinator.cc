#include "server/coordinator/page/page_test_coordinator.h"

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/rpc/membership/protocol.h"
#include "proto/cluster_service.pb.h"
#include "server/coordinator/page/ask.h"

namespace muster {
namespace {

constexpr size_t kMostJobs = 1000;

[[noreturn]] void End(const absl::Status& status) {
  std::cerr << status << std::endl;
  std::abort();
}

}  // namespace

void PageTestCoordinator::Start(const PageRules& rules) {
  Stop();
  CoordinatorOptions options;
  options.lease = absl::Hours(1);
  options.max_unfinished_jobs = kMostJobs;
  loop_ = CoordinatorLoop::Create(store_, archive_, clock_, options, End).value();
  service_ = MakePageService(*loop_, rules);
  listener_ = HttpListener::Create({.listen = "127.0.0.1:0"}, *service_).value();
  AwaitScheduler();
}

void PageTestCoordinator::Stop() {
  listener_.reset();
  loop_.reset();
}

void PageTestCoordinator::Register(v1::DaemonKind kind, const std::string& id, uint32_t slots) {
  v1::RegisterDaemonRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_kind(kind);
  request.set_id(id);
  request.set_process_nonce(1);
  request.set_address(id + ":1");
  request.set_slots(slots);
  const auto reply = AskParked<v1::RegisterDaemonReply>(
      *loop_, [request](Coordinator& coordinator, Call<v1::RegisterDaemonReply> call) {
        coordinator.daemons().Register(request, std::move(call));
      });
  if (!reply.ok()) End(reply.status());
}

std::string PageTestCoordinator::Submit(const v1::JobSpec& spec, const std::string& request_id) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  const auto reply = AskParked<v1::SubmitJobReply>(
      *loop_, [request](Coordinator& coordinator, Call<v1::SubmitJobReply> call) {
        coordinator.submits().Submit(request, std::move(call));
      });
  if (!reply.ok()) End(reply.status());
  AwaitScheduler();
  return reply->job_id();
}

void PageTestCoordinator::AwaitScheduler() {
  // The scheduler's turn is queued behind a change when that has been answered, perhaps behind the
  // next one. By the third change it has come.
  for (int i = 0; i < 3; ++i) {
    const auto reply =
        AskParked<bool>(*loop_, [](Coordinator&, const Call<bool>& call) { call.done(true); });
    if (!reply.ok()) End(reply.status());
  }
}

}  // namespace muster
