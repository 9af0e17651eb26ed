#ifndef MUSTER_SERVER_COORDINATOR_CLUSTER_MEMBERSHIP_H_
#define MUSTER_SERVER_COORDINATOR_CLUSTER_MEMBERSHIP_H_

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
  // Has called since this coordinator started. Until then it keeps what it has but is given nothing
  // new.
  bool heard = false;
  // Its last parked call broke off, so its process is probably gone.
  bool disconnected = false;
  // On the monotonic clock; for one that is not live, when it was lost.
  absl::Duration lease_ends;

  v1::DaemonKind kind() const { return record.kind(); }
};

// Which daemons belong to the cluster: leases on the coordinator's monotonic clock, incarnations
// that tell a daemon from its earlier selves. Pure bookkeeping: it decides, the caller stores the
// record and acts. Not thread-safe.
class Membership {
 public:
  explicit Membership(absl::Duration lease) : lease_(lease) {}

  // After a restart: takes a stored daemon back as live, with one full lease of grace.
  void Restore(const v1::DaemonRecord& record, absl::Duration now);

  struct Admission {
    // The daemon's record, to be stored and then handed to Commit.
    v1::DaemonRecord record;
    // The same process registered again while it was live: nothing changes but its lease.
    bool renewed = false;
    // A live earlier self was replaced, and is lost.
    bool replaces_live = false;
  };

  // Decides on a registration. `next_incarnation` is used unless the process is known and live. See
  // ClusterService.RegisterDaemon for the errors. A live holder of the id makes way for another
  // process only if its connection broke, if both claim one address, which only one of them can
  // have, or if this coordinator has restarted and not heard of it since: then most likely all did.
  absl::StatusOr<Admission> Admit(const v1::RegisterDaemonRequest& request,
                                  uint64_t next_incarnation, absl::Duration now) const;
  void Commit(const Admission& admission, absl::Duration now);

  // Renews the lease. ABORTED: the incarnation is not the live one.
  absl::Status Renew(absl::string_view id, uint64_t incarnation, absl::Duration now);

  // The daemon's parked call broke off.
  void Disconnected(absl::string_view id, uint64_t incarnation);

  // The daemon says that it goes.
  void Leave(absl::string_view id, uint64_t incarnation, absl::Duration now);

  // Lengthens every lease by the time in which the coordinator itself could hear nobody.
  void Excuse(absl::Duration time);

  // Ends the leases that are over and returns their ids. Forgets daemons lost for longer than
  // `forget_after`.
  std::vector<std::string> Expire(absl::Duration now, absl::Duration forget_after);

  // Null if never seen (or forgotten).
  const Member* Find(absl::string_view id) const;

  // Whether this very incarnation holds a lease.
  bool Holds(absl::string_view id, uint64_t incarnation) const;

  // By id.
  const std::map<std::string, Member, std::less<>>& members() const { return members_; }

  absl::Duration lease() const { return lease_; }

 private:
  const absl::Duration lease_;
  std::map<std::string, Member, std::less<>> members_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CLUSTER_MEMBERSHIP_H_
