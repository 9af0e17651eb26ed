#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_DAEMON_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_DAEMON_REQUESTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/cluster_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/lifecycle/job_lifecycle.h"
#include "server/coordinator/metrics/coordinator_metrics.h"
#include "server/coordinator/requests/trace_requests.h"
#include "server/coordinator/scheduling/held_slots.h"
#include "server/coordinator/scheduling/move_scheduler.h"
#include "server/coordinator/scheduling/orders.h"

namespace muster {

// ClusterService's calls, without gRPC; see proto/cluster_service.proto for meaning and errors.
// Logic thread only. After calls the owner runs AdmitRegistered, the scheduler and AnswerChanged.
class DaemonRequests {
 public:
  // All references outlive it. `log` takes one line, on the logic thread; it may be null.
  DaemonRequests(JobTable& jobs, Membership& members, JobLifecycle& lifecycle, MoveScheduler& moves,
                 TraceRequests& traces, const Clock& clock, CoordinatorMetrics& metrics,
                 OrderContext context, std::function<void(absl::string_view)> log);

  // Sets the address at which tasks reach the coordinator; before, the options' address.
  void SetAddress(std::string address);

  // Parks the call until AdmitRegistered.
  void Register(const v1::RegisterDaemonRequest& request, Call<v1::RegisterDaemonReply> call);
  // Takes reports at once, and parks the call until the orders change or poll_ms has passed. If the
  // orders differ from those seen, and no record has changed since the last AnswerChanged, answers
  // at once.
  void Heartbeat(const v1::HeartbeatRequest& request, Call<v1::HeartbeatReply> call);
  absl::StatusOr<v1::AppendLogsReply> AppendLogs(const v1::AppendLogsRequest& request);
  absl::StatusOr<v1::TraceReply> ReportServerTrace(const v1::ReportServerTraceRequest& request);

  // Decides on the registrations that are parked, stores all that it admits by one write, so that
  // many daemons that come together cost one sync, and then answers. If that write fails, none has
  // registered, and all are told. Errors are the store's.
  absl::Status AdmitRegistered();

  // Returns whether a task of the job may still write to its log, as far as live workers have said.
  bool MayWrite(const Job& job);

  // Ends leases that ran out, and forgets daemons that have been lost for an hour. Returns whether
  // any lease ran out.
  absl::StatusOr<bool> ExpireLeases();

  // Ends orders to drop tables for servers that have been gone for a day while this coordinator
  // ran. A server that comes back later reports what it holds.
  absl::Status EndDropsOfLostServers();

  // Answers the heartbeats whose orders changed, whose time is up, or whose caller is gone.
  void AnswerChanged();
  void AnswerAll(const absl::Status& status);

 private:
  struct Registration {
    v1::RegisterDaemonRequest request;
    Call<v1::RegisterDaemonReply> call;
  };
  struct Parked {
    uint64_t incarnation = 0;
    uint64_t seen_version = 0;
    absl::Duration deadline;
    Call<v1::HeartbeatReply> call;
  };
  // The slots that a worker holds: number of the job, slot, and the version of the job's record.
  using HeldVersions = std::vector<std::tuple<uint64_t, uint32_t, uint64_t>>;
  // A daemon's orders as last computed, and the versions of what they were computed from.
  struct Orders {
    uint64_t table_version = 0;
    uint64_t trace_version = 0;
    uint64_t incarnation = 0;
    HeldVersions held;
    v1::HeartbeatReply reply;
  };

  // The contents of a worker's last heartbeat.
  struct Heard {
    uint64_t incarnation = 0;
    // The orders that it follows; 0: it was told others since.
    uint64_t seen_version = 0;
    // Jobs of which it runs tasks.
    std::set<std::string, std::less<>> jobs;
  };

  absl::Status TakeReport(const std::string& daemon_id, uint64_t daemon_incarnation,
                          const v1::TaskReport& report);
  // Notes what the server has replayed of the jobs' logs.
  void TakeReplays(const v1::HeartbeatRequest& request);
  // Ends the drops that the server has carried out, and orders those that it still needs.
  absl::Status TakeDrops(const v1::HeartbeatRequest& request);
  // Does what AdmitRegistered does, up to the first registration of a daemon that is among those
  // already: whether it may replace the other depends on that one. REQUIRES: some are parked.
  absl::Status AdmitDifferent();
  // Answer the parked calls of these daemons' earlier incarnations, and recover what those held.
  absl::Status IncarnationsEnded(const std::vector<std::string>& ids);
  const v1::HeartbeatReply& OrdersFor(const Member& member);
  void UpdateWorker(const Member& member, Orders& orders);
  // Answers a parked call if its orders changed, its time is up, or its caller is gone.
  bool Answer(const std::string& id, Parked& parked, absl::Duration now);

  JobTable& jobs_;
  Membership& members_;
  JobLifecycle& lifecycle_;
  MoveScheduler& moves_;
  TraceRequests& traces_;
  const Clock& clock_;
  CoordinatorMetrics& metrics_;
  OrderContext context_;
  std::deque<Registration> registrations_;
  std::map<std::string, Parked> parked_;
  // The table's version at the last AnswerChanged.
  uint64_t answered_version_ = 0;
  HeldSlots held_;
  std::map<std::string, Orders> orders_;
  std::map<std::string, Heard, std::less<>> heard_;
  const std::function<void(absl::string_view)> log_;
  // Times since which servers with drop orders are known to be gone, by server.
  std::map<std::string, absl::Duration> drops_wait_since_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_DAEMON_REQUESTS_H_
