#include "server/coordinator/cluster/membership.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/membership/protocol.h"

namespace muster {
namespace {

// Most daemons known at once, including those that left or died within the hour. Bounds the answer
// of GetCluster to one message, and keeps random names from filling the coordinator's memory.
constexpr size_t kMaxDaemons = 4096;

absl::Status CheckRequest(const v1::RegisterDaemonRequest& request) {
  // The version is checked first: a daemon of another release may send other fields.
  if (request.protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "daemon ", request.id(), " speaks protocol version ", request.protocol_version(),
        ", this coordinator ", kProtocolVersion, "; run the same release on both sides"));
  }
  if (request.id().empty()) {
    return absl::InvalidArgumentError("id is empty; give each daemon a name of its own");
  }
  if (request.kind() != v1::SERVER && request.kind() != v1::WORKER) {
    return absl::InvalidArgumentError(absl::StrCat(
        "daemon ", request.id(), ": kind is ", request.kind(), "; it must be SERVER or WORKER"));
  }
  if (request.process_nonce() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "daemon ", request.id(), ": process_nonce is 0; send a random number, one per process"));
  }
  if (request.address().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("daemon ", request.id(), ": address is empty; send host:port"));
  }
  if (request.kind() == v1::WORKER && request.slots() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", request.id(), ": slots is 0; a worker offers at least 1"));
  }
  return absl::OkStatus();
}

// Returns whether both addresses name the same listener, which only one process can be. An address
// without a port, or of every host, proves nothing.
bool SameListener(absl::string_view a, absl::string_view b) {
  return a == b && absl::StrContains(a, ':') && !absl::EndsWith(a, ":0") &&
         !absl::EndsWith(a, ":") && !absl::StartsWith(a, "0.0.0.0:") &&
         !absl::StartsWith(a, "[::]:");
}

}  // namespace

void Membership::Restore(const v1::DaemonRecord& record, absl::Duration now) {
  members_[record.id()] = Member{.record = record, .live = true, .lease_ends = now + lease_};
}

absl::StatusOr<Membership::Admission> Membership::Admit(const v1::RegisterDaemonRequest& request,
                                                        uint64_t next_incarnation,
                                                        size_t uncommitted,
                                                        absl::Duration now) const {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  Admission admission;
  admission.record.set_format_version(1);
  admission.record.set_protocol_version(request.protocol_version());
  admission.record.set_id(request.id());
  admission.record.set_kind(request.kind());
  admission.record.set_process_nonce(request.process_nonce());
  admission.record.set_incarnation(next_incarnation);
  admission.record.set_address(request.address());
  admission.record.set_slots(request.kind() == v1::WORKER ? request.slots() : 0);
  admission.record.set_memory_bytes(request.memory_bytes());
  if (request.kind() == v1::WORKER) *admission.record.mutable_devices() = request.devices();
  admission.record.set_multiplies_bf16(request.multiplies_bf16());
  if (request.kind() == v1::WORKER) {
    admission.record.set_processors(request.processors());
    admission.record.set_allows_programs(request.allows_programs());
  }

  const Member* member = Find(request.id());
  const size_t known = members_.size() + uncommitted;
  if (member == nullptr && known >= kMaxDaemons) {
    return absl::ResourceExhaustedError(
        absl::StrCat("daemon ", request.id(), " is one too many: the coordinator knows ", known,
                     ", counting those that ended within the hour"));
  }
  if (member == nullptr || !member->live) return admission;
  if (member->record.process_nonce() == request.process_nonce()) {
    admission.renewed = true;
    admission.record.set_incarnation(member->record.incarnation());
    return admission;
  }
  if (member->heard && !member->disconnected &&
      !SameListener(member->record.address(), request.address())) {
    return absl::AlreadyExistsError(absl::StrCat(
        "the id ", request.id(), " is held by a live ", v1::DaemonKind_Name(member->kind()), " at ",
        member->record.address(), "; if that is an earlier run of this daemon, its lease ends in ",
        absl::ToInt64Milliseconds(member->lease_ends - now),
        " ms: try again then; otherwise give this daemon another id"));
  }
  admission.replaces_live = true;
  return admission;
}

void Membership::Commit(const Admission& admission, absl::Duration now) {
  members_[admission.record.id()] =
      Member{.record = admission.record, .live = true, .heard = true, .lease_ends = now + lease_};
}

absl::Status Membership::Renew(absl::string_view id, uint64_t incarnation, absl::Duration now) {
  const auto it = members_.find(id);
  if (it == members_.end()) {
    return absl::AbortedError(
        absl::StrCat("daemon ", id, " is not known to this coordinator; register again"));
  }
  Member& member = it->second;
  if (member.record.incarnation() != incarnation) {
    return absl::AbortedError(absl::StrCat("daemon ", id, " has incarnation ", incarnation,
                                           ", current is ", member.record.incarnation(),
                                           "; it was replaced, register again"));
  }
  if (!member.live) {
    return absl::AbortedError(absl::StrCat("the lease of daemon ", id, " (incarnation ",
                                           incarnation, ") ran out; register again"));
  }
  member.heard = true;
  member.disconnected = false;
  member.lease_ends = now + lease_;
  return absl::OkStatus();
}

void Membership::Disconnected(absl::string_view id, uint64_t incarnation) {
  const auto it = members_.find(id);
  if (it != members_.end() && it->second.record.incarnation() == incarnation) {
    it->second.disconnected = true;
  }
}

void Membership::WillLeave(absl::string_view id, uint64_t incarnation) {
  const auto it = members_.find(id);
  if (it != members_.end() && it->second.record.incarnation() == incarnation) {
    it->second.leaves = true;
  }
}

void Membership::Leave(absl::string_view id, uint64_t incarnation, absl::Duration now) {
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.record.incarnation() != incarnation) return;
  it->second.live = false;
  it->second.lease_ends = now;
}

void Membership::Excuse(absl::Duration time) {
  for (auto& [id, member] : members_) {
    if (member.live) member.lease_ends += time;
  }
}

std::vector<std::string> Membership::Expire(absl::Duration now, absl::Duration forget_after) {
  std::vector<std::string> lost;
  for (auto it = members_.begin(); it != members_.end();) {
    Member& member = it->second;
    if (member.live && member.lease_ends <= now) {
      member.live = false;
      member.lease_ends = now;
      lost.push_back(it->first);
    }
    const bool forget = !member.live && now - member.lease_ends > forget_after;
    it = forget ? members_.erase(it) : std::next(it);
  }
  return lost;
}

const Member* Membership::Find(absl::string_view id) const {
  const auto it = members_.find(id);
  return it == members_.end() ? nullptr : &it->second;
}

bool Membership::Holds(absl::string_view id, uint64_t incarnation) const {
  const Member* member = Find(id);
  return member != nullptr && member->live && member->record.incarnation() == incarnation;
}

}  // namespace muster
