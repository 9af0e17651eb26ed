#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_TRACE_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_TRACE_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/job_service.pb.h"
#include "proto/task_service.pb.h"
#include "proto/trace.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// Traces of jobs (JobService.TraceJob), without gRPC: says which tasks and servers are to record
// which steps, takes the pieces that they send, and passes the pieces on to the caller. One trace
// at a time; nothing of it is stored, and nothing is kept once the caller has it or is gone. Logic
// thread only.
class TraceRequests {
 public:
  // Bound on the bytes of pieces that wait for the caller; what comes beyond is lost, and counted.
  static constexpr size_t kMostWaitingBytes = size_t{32} << 20;

  // Both outlive it.
  TraceRequests(const JobTable& jobs, const Clock& clock);

  struct Update {
    v1::TraceChunk chunk;
    bool last = false;
  };
  // A caller's trace; it ends when no copy is left.
  using Ticket = std::shared_ptr<const uint64_t>;

  // Begins a trace. Errors as the rpc TraceJob.
  absl::StatusOr<Ticket> Begin(const v1::TraceJobRequest& request);
  // Answers with the trace's next message, once there is one.
  void Next(const Ticket& ticket, Call<Update> call);

  // Returns the order that stands for a slot's task, or for a server; null: there is none.
  const v1::TraceOrder* OrderForSlot(const Job& job, uint32_t slot) const;
  const v1::TraceOrder* OrderForServer(const std::string& server_id) const;
  // Changes when orders to servers may have changed.
  uint64_t version() const { return version_; }

  // Take a piece from the present task of a slot, or from a server.
  v1::TraceReply TakeFromSlot(const Job& job, const v1::TaskIdentity& task,
                              const v1::TracePiece& piece);
  v1::TraceReply TakeFromServer(const std::string& server_id, uint64_t incarnation,
                                const v1::TracePiece& piece);

  // Ends a trace whose time is up, whose job has ended or whose caller is gone; answers the parked
  // call.
  void AnswerChanged();
  void AnswerAll(const absl::Status& status);

 private:
  // The pieces that one process is to send.
  struct Sender {
    v1::TraceProcess process;
    v1::TraceOrder order;
    // The server's incarnation that sent pieces; those of another one count anew.
    uint64_t incarnation = 0;
    // Number of the last piece that was taken.
    uint64_t pieces = 0;
    bool done = false;
  };
  struct Trace {
    std::string job_id;
    // Number of steps that were asked for.
    uint32_t steps = 0;
    // The order to servers, with the steps of all slots.
    v1::TraceOrder order;
    absl::Duration began;
    // Time at which to look whether the steps are too far ahead; and whether a task has recorded
    // any.
    absl::Duration look_at;
    bool recorded = false;
    absl::Duration deadline;
    absl::Duration wait;
    std::weak_ptr<const uint64_t> ticket;
    std::map<uint32_t, Sender> slots;
    std::map<std::string, Sender> servers;
    // Messages for the caller.
    std::deque<v1::TraceChunk> chunks;
    size_t bytes = 0;
    uint64_t lost_pieces = 0;
    bool ended = false;
    std::optional<Call<Update>> call;
  };

  // Chooses the steps, orders all to record them, and tells the caller. Called again if nobody
  // could record the steps that were chosen before.
  void Order(const Job& job);
  // Orders earlier steps if nobody has recorded any and the job has become so much slower that it
  // would not come to them soon.
  void LookAgain(const Job& job);
  v1::TraceReply ReplyFor(bool wanted) const;
  v1::TraceReply Take(Sender& sender, const v1::TracePiece& piece);
  void Add(v1::TraceChunk chunk);
  // Adds the last message. `why` is empty if nothing is missing.
  void End(const std::string& why);
  bool AllDone() const;
  bool SlotsDone() const;

  const JobTable& jobs_;
  const Clock& clock_;
  std::optional<Trace> trace_;
  uint64_t last_number_ = 0;
  uint64_t version_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_TRACE_REQUESTS_H_
