#include "server/coordinator/requests/examination_requests.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "proto/job_record.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kUsualWait = absl::Minutes(1);
constexpr absl::Duration kLongestWait = absl::Minutes(10);
// Part of the time in which daemons measure their machines; links have the rest.
constexpr double kMachinePart = 0.4;
constexpr absl::Duration kLongestPoll = absl::Minutes(1);
// Incarnation of the coordinator's process, which has one participant only.
constexpr uint64_t kHere = 1;
constexpr absl::Duration kLook = absl::Seconds(1);

// Nobody guesses it.
std::string DrawSecret() {
  std::random_device random;
  std::string secret;
  for (int i = 0; i < 8; ++i) absl::StrAppendFormat(&secret, "%08x", random());
  return secret;
}

v1::ExaminedDaemon Describe(const Member& member) {
  v1::ExaminedDaemon daemon;
  daemon.set_kind(member.kind() == v1::SERVER ? v1::ExaminedDaemon::SERVER
                                              : v1::ExaminedDaemon::WORKER);
  daemon.set_id(member.record.id());
  daemon.set_address(member.record.address());
  daemon.set_memory_bytes(member.record.memory_bytes());
  daemon.set_live(member.live);
  return daemon;
}

absl::Status LeaseError(const std::string& id) {
  return absl::AbortedError(
      absl::StrCat("daemon ", id, " has another incarnation now, or no lease; register again"));
}

}  // namespace

ExaminationRequests::ExaminationRequests(const Membership& members, const Clock& clock,
                                         std::string checkpoint_root)
    : members_(members), clock_(clock), checkpoint_root_(std::move(checkpoint_root)) {}

v1::ReadClockReply ExaminationRequests::ReadClock() const {
  v1::ReadClockReply reply;
  reply.set_unix_us(absl::ToUnixMicros(clock_.Wall()));
  return reply;
}

absl::StatusOr<ExaminationRequests::Ticket> ExaminationRequests::Begin(
    const v1::ExamineRequest& request) {
  const absl::Duration wait =
      request.wait_ms() == 0 ? kUsualWait : absl::Milliseconds(request.wait_ms());
  if (wait > kLongestWait) {
    return absl::InvalidArgumentError(absl::StrCat("wait_ms is ", request.wait_ms(),
                                                   "; it must be at most ",
                                                   absl::ToInt64Milliseconds(kLongestWait)));
  }
  AnswerChanged();
  if (examination_.has_value()) {
    return absl::FailedPreconditionError(
        "the cluster is being examined for another client; one examination at a time: try again "
        "when it has ended");
  }
  const absl::Duration now = clock_.Monotonic();
  last_number_ =
      std::max(last_number_ + 1, static_cast<uint64_t>(absl::ToUnixMillis(clock_.Wall())));
  Examination& examination = examination_.emplace();
  examination.number = last_number_;
  examination.secret = DrawSecret();
  examination.root_content = DrawSecret();
  examination.machine_deadline = now + kMachinePart * wait;
  examination.deadline = now + wait;
  v1::ExaminationUpdate first;
  v1::ExaminedDaemon& coordinator = *first.add_daemons();
  coordinator.set_kind(v1::ExaminedDaemon::COORDINATOR);
  coordinator.set_live(true);
  if (has_asked_here_) examination.participants[""] = {.incarnation = kHere};
  for (const auto& [id, member] : members_.members()) {
    *first.add_daemons() = Describe(member);
    if (!member.live) continue;
    Participant& participant = examination.participants[id];
    participant.incarnation = member.record.incarnation();
    participant.peer.set_id(id);
    if (member.kind() == v1::SERVER) participant.peer.set_rpc_address(member.record.address());
  }
  examination.updates.push_back(std::move(first));
  const auto ticket = std::make_shared<const uint64_t>(last_number_);
  examination.ticket = ticket;
  ++rotation_;
  ++version_;
  return ticket;
}

bool ExaminationRequests::IsUsed(const Participant& from, const Participant& to) {
  return from.peer.rpc_address().empty() || !to.peer.rpc_address().empty();
}

std::vector<const v1::ExaminationPeer*> ExaminationRequests::PeersOf(const std::string& id) const {
  const std::vector<std::string>& ring = examination_->ring;
  std::vector<const v1::ExaminationPeer*> peers;
  const auto own = std::find(ring.begin(), ring.end(), id);
  if (own == ring.end()) return peers;
  const size_t others = ring.size() - 1, at = own - ring.begin();
  for (size_t i = 0; i < std::min(others, kMostPeers); ++i) {
    // Each daemon is measured by as many as it measures, and another one at a time if all keep
    // pace.
    const size_t distance = 1 + (rotation_ * kMostPeers + i) % others;
    const Participant& other = examination_->participants.at(ring[(at + distance) % ring.size()]);
    if (IsUsed(examination_->participants.at(id), other)) peers.push_back(&other.peer);
  }
  return peers;
}

v1::ExaminationOrder ExaminationRequests::OrderFor(const std::string& id,
                                                   uint64_t incarnation) const {
  v1::ExaminationOrder order;
  if (!examination_.has_value() || examination_->ended) return order;
  const auto found = examination_->participants.find(id);
  if (found == examination_->participants.end() || !found->second.absence.empty() ||
      found->second.incarnation != incarnation) {
    return order;
  }
  order.set_examination(examination_->number);
  order.set_secret(examination_->secret);
  order.set_checkpoint_root(checkpoint_root_);
  if (id.empty() || examination_->root_written) {
    order.set_root_content(examination_->root_content);
  }
  // One that has taken its time for its machine still tells of it before it goes on.
  const bool goes_on = examination_->links_begun && found->second.reported != 0;
  order.set_stage(goes_on ? v1::ExaminationOrder::LINKS : v1::ExaminationOrder::MACHINE);
  if (!goes_on) return order;
  for (const v1::ExaminationPeer* peer : PeersOf(id)) *order.add_peers() = *peer;
  const std::vector<std::string>& ring = examination_->ring;
  const auto own = std::find(ring.begin(), ring.end(), id);
  order.set_measure_root(
      id.empty() ||
      (own != ring.end() && (own - ring.begin() + rotation_ * kMostRootMeasurements) % ring.size() <
                                kMostRootMeasurements));
  return order;
}

void ExaminationRequests::Await(const v1::AwaitExaminationRequest& request,
                                Call<v1::ExaminationOrder> call) {
  if (!members_.Holds(request.id(), request.incarnation())) {
    return call.done(LeaseError(request.id()));
  }
  Park(request, std::move(call));
}

void ExaminationRequests::AwaitHere(const v1::AwaitExaminationRequest& request,
                                    Call<v1::ExaminationOrder> call) {
  has_asked_here_ = true;
  Park(request, std::move(call));
}

void ExaminationRequests::Park(const v1::AwaitExaminationRequest& request,
                               Call<v1::ExaminationOrder> call) {
  if (auto node = parked_.extract(request.id()); !node.empty()) {
    node.mapped().call.done(absl::CancelledError("a later call came"));
  }
  const absl::Duration poll = std::min(absl::Milliseconds(request.poll_ms()), kLongestPoll);
  parked_[request.id()] = {.incarnation = request.incarnation(),
                           .seen_examination = request.seen_examination(),
                           .seen_stage = request.seen_stage(),
                           .deadline = clock_.Monotonic() + poll,
                           .call = std::move(call)};
  ++version_;
}

absl::StatusOr<v1::ReportExaminationReply> ExaminationRequests::Report(
    const v1::ReportExaminationRequest& request) {
  if (!members_.Holds(request.id(), request.incarnation())) return LeaseError(request.id());
  return Take(request);
}

v1::ReportExaminationReply ExaminationRequests::ReportHere(
    const v1::ReportExaminationRequest& request) {
  return Take(request);
}

v1::ReportExaminationReply ExaminationRequests::Take(const v1::ReportExaminationRequest& request) {
  v1::ReportExaminationReply reply;
  if (!examination_.has_value() || examination_->ended ||
      examination_->number != request.examination()) {
    return reply;
  }
  const auto found = examination_->participants.find(request.id());
  if (found == examination_->participants.end() || !found->second.absence.empty() ||
      found->second.incarnation != request.incarnation()) {
    return reply;
  }
  reply.set_wanted(true);
  Participant& participant = found->second;
  const v1::DaemonReport& report = request.report();
  const bool is_next =
      report.stage() == participant.reported + 1 &&
      (report.stage() == v1::ExaminationOrder::MACHINE ||
       (report.stage() == v1::ExaminationOrder::LINKS && examination_->links_begun));
  if (!is_next) return reply;
  participant.reported = report.stage();
  if (request.id().empty() && report.root().seen()) examination_->root_written = true;
  if (report.stage() == v1::ExaminationOrder::MACHINE && report.probe_port() <= 0xFFFF) {
    participant.peer.set_probe_host(report.probe_host());
    participant.peer.set_probe_port(report.probe_port());
  }
  v1::ExaminationUpdate update;
  *update.mutable_report() = report;
  update.mutable_report()->set_id(request.id());
  Add(std::move(update));
  ++version_;
  return reply;
}

void ExaminationRequests::Add(v1::ExaminationUpdate update) {
  const size_t bytes = update.ByteSizeLong();
  if (examination_->bytes + bytes > kMostWaitingBytes) {
    ++examination_->lost_reports;
    return;
  }
  examination_->bytes += bytes;
  examination_->updates.push_back(std::move(update));
}

void ExaminationRequests::GiveUpLost() {
  for (auto& [id, participant] : examination_->participants) {
    if (id.empty() || participant.done()) continue;
    if (members_.Holds(id, participant.incarnation)) continue;
    participant.absence = "it was lost, or restarted, while the cluster was examined";
    ++version_;
  }
}

void ExaminationRequests::GoOn(absl::Duration now) {
  if (examination_->links_begun) return;
  const auto& participants = examination_->participants;
  const bool all = std::all_of(participants.begin(), participants.end(), [](const auto& each) {
    return each.second.reported != 0 || each.second.done();
  });
  if (!all && now < examination_->machine_deadline) return;
  examination_->links_begun = true;
  for (const auto& [id, participant] : participants) {
    if (!id.empty() && participant.reported != 0) examination_->ring.push_back(id);
  }
  for (const std::string& id : examination_->ring) {
    examination_->drawn_pairs += PeersOf(id).size();
  }
  ++version_;
}

void ExaminationRequests::End(const std::string& why) {
  v1::ExaminationUpdate update;
  v1::ExaminationUpdate::Last& last = *update.mutable_last();
  uint64_t servers = 0, workers = 0;
  for (const auto& [id, participant] : examination_->participants) {
    if (!id.empty()) ++(participant.peer.rpc_address().empty() ? workers : servers);
    if (participant.reported == v1::ExaminationOrder::LINKS) continue;
    v1::ExaminationUpdate::Absence& absence = *last.add_absent();
    absence.set_id(id);
    absence.set_reason(participant.absence.empty() ? why : participant.absence);
  }
  last.set_lost_reports(examination_->lost_reports);
  last.set_pairs((servers + workers) * (servers + workers) - servers - workers - servers * workers);
  last.set_drawn_pairs(examination_->drawn_pairs);
  // Beyond the bound: without it the client would not know that the examination is over.
  examination_->updates.push_back(std::move(update));
  examination_->ended = true;
  ++version_;
}

void ExaminationRequests::Drop() {
  if (examination_->call.has_value()) {
    examination_->call->done(absl::CancelledError("the caller is gone"));
  }
  examination_.reset();
  ++version_;
}

void ExaminationRequests::Next(const Ticket& ticket, Call<Update> call) {
  if (!examination_.has_value() || examination_->ticket.lock() != ticket) {
    return call.done(absl::AbortedError("the examination is over"));
  }
  examination_->call = std::move(call);
  AnswerChanged();
}

void ExaminationRequests::AnswerClient() {
  if (!examination_->call.has_value() || examination_->updates.empty()) return;
  Update update;
  update.update = std::move(examination_->updates.front());
  examination_->updates.pop_front();
  examination_->bytes -= std::min(examination_->bytes, update.update.ByteSizeLong());
  update.last = examination_->ended && examination_->updates.empty();
  const Call<Update> call = *std::exchange(examination_->call, std::nullopt);
  if (update.last) Drop();
  call.done(std::move(update));
}

void ExaminationRequests::AnswerDaemons(absl::Duration now) {
  if (version_ == answered_version_ && now < look_at_) return;
  answered_version_ = version_;
  look_at_ = now + kLook;
  for (auto it = parked_.begin(); it != parked_.end();) {
    Parked& parked = it->second;
    if (parked.call.gone()) {
      parked.call.done(absl::CancelledError("the caller is gone"));
    } else if (!it->first.empty() && !members_.Holds(it->first, parked.incarnation)) {
      parked.call.done(LeaseError(it->first));
    } else {
      v1::ExaminationOrder order = OrderFor(it->first, parked.incarnation);
      const bool is_new =
          order.examination() != parked.seen_examination || order.stage() != parked.seen_stage;
      if (!is_new && now < parked.deadline) {
        ++it;
        continue;
      }
      parked.call.done(std::move(order));
    }
    it = parked_.erase(it);
  }
}

void ExaminationRequests::AnswerChanged() {
  const absl::Duration now = clock_.Monotonic();
  if (examination_.has_value()) {
    const bool gone = examination_->call.has_value() && examination_->call->gone();
    if (gone || examination_->ticket.expired()) Drop();
  }
  if (examination_.has_value() && !examination_->ended) {
    GiveUpLost();
    GoOn(now);
    const auto& participants = examination_->participants;
    const bool all = std::all_of(participants.begin(), participants.end(),
                                 [](const auto& each) { return each.second.done(); });
    if (all || now >= examination_->deadline) End("it did not report in time");
  }
  if (examination_.has_value()) AnswerClient();
  AnswerDaemons(now);
}

void ExaminationRequests::AnswerAll(const absl::Status& status) {
  if (examination_.has_value()) {
    if (examination_->call.has_value()) {
      std::exchange(examination_->call, std::nullopt)->done(status);
    }
    Drop();
  }
  for (auto& [id, parked] : std::exchange(parked_, {})) parked.call.done(status);
}

}  // namespace muster
