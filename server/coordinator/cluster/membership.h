#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_MEMBERSHIP_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_MEMBERSHIP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"
#include "proto/job_record.pb.h"

namespace muster {

// One daemon, live or not.
struct Member {
  v1::DaemonRecord record;
  bool live = false;
  // True once the daemon has called this process. Until then it keeps what it has and gets no more.
  bool heard = false;
  // True if its last parked call broke off, so its process is probably gone.
  bool disconnected = false;
  // Workers: true once the daemon has said that it must leave. It gets no more tasks.
  bool leaves = false;
  // Monotonic time at which the lease ends, or ended when the daemon was lost.
  absl::Duration lease_ends;

  v1::DaemonKind kind() const { return record.kind(); }
};

// The daemons of the cluster, with leases on the coordinator's monotonic clock, and incarnations
// that tell a daemon from earlier processes of its id. Pure bookkeeping: it decides; the caller
// stores the record and acts. Not thread-safe.
class Membership {
 public:
  explicit Membership(absl::Duration lease) : lease_(lease) {}

  // Takes a stored daemon back as live after a restart, with one full lease of grace.
  void Restore(const v1::DaemonRecord& record, absl::Duration now);

  struct Admission {
    // The daemon's record: to be stored, then passed to Commit.
    v1::DaemonRecord record;
    // True if the same process registered again while it was live: only its lease changes.
    bool renewed = false;
    // True if a live earlier process of the id was replaced, and is lost.
    bool replaces_live = false;
  };

  // Decides on a registration; errors: see ClusterService.RegisterDaemon. `next_incarnation` is
  // used unless the process is known and live. A live holder of the id makes way for another
  // process only if its connection broke, if both claim one address (two processes cannot have it),
  // or if it has not called since this coordinator restarted, when it most likely restarted, too.
  // `uncommitted` counts the daemons of other ids that are admitted, and not committed yet.
  absl::StatusOr<Admission> Admit(const v1::RegisterDaemonRequest& request,
                                  uint64_t next_incarnation, size_t uncommitted,
                                  absl::Duration now) const;
  void Commit(const Admission& admission, absl::Duration now);

  // Renews the lease. ABORTED: the incarnation does not hold one.
  absl::Status Renew(absl::string_view id, uint64_t incarnation, absl::Duration now);

  // Notes that the daemon's parked call broke off.
  void Disconnected(absl::string_view id, uint64_t incarnation);

  // Notes that the daemon said it must leave soon. Its lease goes on.
  void WillLeave(absl::string_view id, uint64_t incarnation);

  // Ends the lease of a daemon that says it leaves.
  void Leave(absl::string_view id, uint64_t incarnation, absl::Duration now);

  // Lengthens every lease by `time`, in which the coordinator itself could hear nobody.
  void Excuse(absl::Duration time);

  // Ends leases that ran out and returns their ids. Forgets daemons lost for over `forget_after`.
  std::vector<std::string> Expire(absl::Duration now, absl::Duration forget_after);

  // Returns the daemon, or null if it was never seen or is forgotten.
  const Member* Find(absl::string_view id) const;

  // Returns whether this very incarnation holds a lease.
  bool Holds(absl::string_view id, uint64_t incarnation) const;

  // Daemons by id.
  const std::map<std::string, Member, std::less<>>& members() const { return members_; }

  absl::Duration lease() const { return lease_; }

 private:
  const absl::Duration lease_;
  std::map<std::string, Member, std::less<>> members_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_MEMBERSHIP_H_
