#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_EXAMINATION_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_EXAMINATION_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/examination.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/cluster/membership.h"

namespace muster {

// Examinations of the cluster (proto/examination.proto), without gRPC: tells daemons that ask what
// to measure, and passes their reports on to the client. One examination at a time; nothing of it
// is stored, and nothing is kept once the client has it or is gone. Logic thread only.
class ExaminationRequests {
 public:
  // Bound on the bytes of reports that wait for the client; what comes beyond is lost, and counted.
  static constexpr size_t kMostWaitingBytes = size_t{32} << 20;
  // Daemons that measure the checkpoint root's disk in one examination, beside the coordinator.
  static constexpr size_t kMostRootMeasurements = 4;
  // Peers to which a daemon measures its link in one examination.
  static constexpr size_t kMostPeers = 16;

  // All references outlive it.
  ExaminationRequests(const Membership& members, const Clock& clock, std::string checkpoint_root);

  struct Update {
    v1::ExaminationUpdate update;
    bool last = false;
  };
  // A client's examination; it ends when no copy is left.
  using Ticket = std::shared_ptr<const uint64_t>;

  v1::ReadClockReply ReadClock() const;

  // Begins an examination. Errors as the rpc Examine.
  absl::StatusOr<Ticket> Begin(const v1::ExamineRequest& request);
  // Answers with the examination's next message, once there is one.
  void Next(const Ticket& ticket, Call<Update> call);

  // Serve daemons; errors as the rpcs.
  void Await(const v1::AwaitExaminationRequest& request, Call<v1::ExaminationOrder> call);
  absl::StatusOr<v1::ReportExaminationReply> Report(const v1::ReportExaminationRequest& request);

  // Serve the coordinator's own process, which takes part under the empty id as incarnation 1 and
  // needs no lease.
  void AwaitHere(const v1::AwaitExaminationRequest& request, Call<v1::ExaminationOrder> call);
  v1::ReportExaminationReply ReportHere(const v1::ReportExaminationRequest& request);

  // Ends an examination whose time is up or whose client is gone, gives up daemons that are lost,
  // and answers parked calls.
  void AnswerChanged();
  void AnswerAll(const absl::Status& status);

 private:
  // A process that takes part.
  struct Participant {
    uint64_t incarnation = 0;
    // The last stage that it has reported.
    v1::ExaminationOrder::Stage reported = v1::ExaminationOrder::STAGE_UNSPECIFIED;
    // Why nothing more is expected of it; empty: it is expected to report, or has reported all.
    std::string absence;
    // Where others reach it, once it has said so.
    v1::ExaminationPeer peer;
    bool done() const { return reported == v1::ExaminationOrder::LINKS || !absence.empty(); }
  };
  struct Examination {
    uint64_t number = 0;
    std::string secret;
    std::string root_content;
    absl::Duration machine_deadline;
    absl::Duration deadline;
    std::weak_ptr<const uint64_t> ticket;
    std::map<std::string, Participant> participants;
    // Ids in the order in which pairs are drawn; set when stage LINKS begins, empty before.
    std::vector<std::string> ring;
    bool links_begun = false;
    // Whether the coordinator's process has written its file to the checkpoint root.
    bool root_written = false;
    uint64_t drawn_pairs = 0;
    // Messages for the client.
    std::deque<v1::ExaminationUpdate> updates;
    size_t bytes = 0;
    uint64_t lost_reports = 0;
    bool ended = false;
    std::optional<Call<Update>> call;
  };
  struct Parked {
    uint64_t incarnation = 0;
    uint64_t seen_examination = 0;
    v1::ExaminationOrder::Stage seen_stage = v1::ExaminationOrder::STAGE_UNSPECIFIED;
    absl::Duration deadline;
    Call<v1::ExaminationOrder> call;
  };

  void Park(const v1::AwaitExaminationRequest& request, Call<v1::ExaminationOrder> call);
  // Returns what a participant, or any other daemon, is to do now.
  v1::ExaminationOrder OrderFor(const std::string& id, uint64_t incarnation) const;
  // Returns whether anything of a job goes from one daemon to the other: servers call no workers.
  static bool IsUsed(const Participant& from, const Participant& to);
  // Returns the daemons to which one measures its links.
  std::vector<const v1::ExaminationPeer*> PeersOf(const std::string& id) const;
  v1::ReportExaminationReply Take(const v1::ReportExaminationRequest& request);
  // Begins stage LINKS if all have reported the stage before, or have had their time.
  void GoOn(absl::Duration now);
  void GiveUpLost();
  void Add(v1::ExaminationUpdate update);
  // Adds the last message. `why` is the reason of those who are not done.
  void End(const std::string& why);
  void Drop();
  void AnswerClient();
  void AnswerDaemons(absl::Duration now);

  const Membership& members_;
  const Clock& clock_;
  const std::string checkpoint_root_;
  // Whether the coordinator's process takes part; one that embeds a coordinator for a test need
  // not.
  bool has_asked_here_ = false;
  std::optional<Examination> examination_;
  uint64_t last_number_ = 0;
  // Examinations so far, by which later ones draw other pairs.
  uint64_t rotation_ = 0;
  // Calls of daemons by id; the empty id is that of the coordinator's process.
  std::map<std::string, Parked> parked_;
  // Changes when orders may have changed; parked calls are looked at then, and once a second.
  uint64_t version_ = 0;
  uint64_t answered_version_ = 0;
  absl::Duration look_at_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_EXAMINATION_REQUESTS_H_
