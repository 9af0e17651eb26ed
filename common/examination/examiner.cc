#include "common/examination/examiner.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/version.h"
#include "common/examination/clock_facts.h"
#include "common/examination/disk_facts.h"
#include "common/examination/fact_text.h"
#include "common/examination/machine_facts.h"
#include "common/rpc/channel.h"
#include "common/rpc/health_check.h"
#include "common/rpc/membership/protocol.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

constexpr absl::Duration kClockTimeout = absl::Seconds(5);
constexpr absl::Duration kRpcTimeout = absl::Seconds(3);
// Time for all links; those that are left then count as not measured.
constexpr absl::Duration kLinksTime = absl::Seconds(30);

constexpr int kMostFolders = 32;

std::string RootFileOf(const v1::ExaminationOrder& order) {
  return JoinUri(order.checkpoint_root(),
                 absl::StrCat(".muster-examination-", order.examination()));
}

absl::Status LookAtRoot(CheckpointStorage& checkpoints, const v1::ExaminationOrder& order,
                        v1::RootFacts& facts) {
  const absl::StatusOr<std::string> content = ReadFile(checkpoints, RootFileOf(order));
  if (!content.ok()) return content.status();
  if (*content != order.root_content()) {
    return absl::NotFoundError(
        "the file that the coordinator wrote there has another content here");
  }
  facts.set_seen(true);
  return ProbeStorage(checkpoints, order.checkpoint_root());
}

}  // namespace

absl::Status Examiner::Stop::status() const {
  return stopping ? absl::CancelledError("the daemon stops") : absl::OkStatus();
}

Examiner::Examiner(ExaminerOptions options, CheckpointStorage& checkpoints, const Clock& clock)
    : options_(std::move(options)), checkpoints_(checkpoints), clock_(clock) {
  if (!options_.tls.None()) certificate_ = ReadCertificateEnds(options_.tls);
}

Examiner::~Examiner() { End(); }

void Examiner::AddCertificate(v1::CertificateFacts& facts) const {
  facts.set_path(FactText(options_.tls.certificate));
  // The daemon could not have started without.
  if (!certificate_->ok()) return;
  facts.set_subject(FactText((*certificate_)->subject));
  facts.set_ends_unix(absl::ToUnixSeconds((*certificate_)->certificate));
  facts.set_authority_ends_unix(absl::ToUnixSeconds((*certificate_)->authority));
  if (const auto now = ReadCertificateEnds(options_.tls); now.ok()) {
    facts.set_file_ends_unix(absl::ToUnixSeconds(now->certificate));
  }
}

void Examiner::AddListener(const v1::ExaminationOrder& order, v1::DaemonReport& report) {
  LinkListenerOptions options = options_.listener();
  options.secret = order.secret();
  absl::StatusOr<std::unique_ptr<LinkListener>> listener = LinkListener::Create(options);
  if (!listener.ok()) return report.set_probe_error(FactText(listener.status().message()));
  listener_ = *std::move(listener);
  report.set_probe_host(FactText(listener_->host()));
  report.set_probe_port(listener_->port());
}

void Examiner::MeasureMachine(const v1::ExaminationOrder& order, ExaminationClient& client,
                              v1::DaemonReport& report) {
  End();
  report.set_stage(v1::ExaminationOrder::MACHINE);
  report.mutable_version()->set_release(kRelease);
  report.mutable_version()->set_commit(Commit());
  report.mutable_version()->set_protocol(kProtocolVersion);
  if (certificate_.has_value()) AddCertificate(*report.mutable_certificate());
  ReadMachineFacts(*report.mutable_machine());
  if (!IsCoordinator()) {
    CompareClocks(
        clock_,
        [&client]() -> absl::StatusOr<int64_t> {
          const absl::StatusOr<v1::ReadClockReply> reply = client.ReadClock(kClockTimeout);
          if (!reply.ok()) return reply.status();
          return reply->unix_us();
        },
        *report.mutable_clock());
    AddListener(order, report);
  } else {
    const absl::Status written = WriteFile(checkpoints_, RootFileOf(order), order.root_content());
    v1::RootFacts& root = *report.mutable_root();
    root.set_path(order.checkpoint_root());
    root.set_seen(written.ok());
    if (written.ok()) root_file_ = RootFileOf(order);
    if (!written.ok()) root.set_error(FactText(written.message()));
  }
  for (const std::string& folder : options_.data_roots) {
    if (report.folders_size() < kMostFolders) ReadFolderFacts(folder, *report.add_folders());
  }
  const auto measure = [&](const std::string& folder, v1::DiskFacts::Use use) {
    if (folder.empty()) return;
    v1::DiskFacts& facts = *report.add_disks();
    facts.set_use(use);
    MeasureDisk(folder, {.stopping = [this] { return stop_.stopping.load(); }}, facts);
  };
  measure(options_.data_folder, v1::DiskFacts::DATA);
  measure(options_.offload_folder, v1::DiskFacts::OFFLOAD);
}

void Examiner::AddRoot(const v1::ExaminationOrder& order, v1::DaemonReport& report) {
  // Empty: the coordinator could not write its file, so there is nothing to look for.
  if (!IsCoordinator() && order.root_content().empty()) return;
  if (!IsCoordinator()) {
    v1::RootFacts& root = *report.mutable_root();
    root.set_path(order.checkpoint_root());
    const absl::Status status = LookAtRoot(checkpoints_, order, root);
    if (!status.ok()) root.set_error(FactText(status.message()));
    if (!status.ok()) return;
  }
  const absl::StatusOr<std::string> path = LocalPath(order.checkpoint_root());
  if (!order.measure_root() || !path.ok()) return;
  v1::DiskFacts& facts = *report.add_disks();
  facts.set_use(v1::DiskFacts::CHECKPOINTS);
  MeasureDisk(*path, {.stopping = [this] { return stop_.stopping.load(); }}, facts);
}

void Examiner::CallRpcPort(const v1::ExaminationPeer& peer, v1::LinkFacts& link) const {
  link.set_rpc_address(peer.rpc_address());
  const auto channel =
      MakeChannel(peer.rpc_address(), options_.credentials, ConnectionSharing::kOwn);
  // The first call also connects.
  for (int call = 0; call < 2; ++call) {
    grpc::ClientContext context;
    SetDeadline(context, kRpcTimeout);
    const absl::Duration before = clock_.Monotonic();
    const absl::Status status = CheckHealth(*channel, context);
    if (!status.ok()) return link.set_rpc_error(FactText(status.message()));
    link.set_rpc_us(std::max<int64_t>(1, absl::ToInt64Microseconds(clock_.Monotonic() - before)));
  }
}

void Examiner::MeasureLinks(const v1::ExaminationOrder& order, v1::DaemonReport& report) {
  report.set_stage(v1::ExaminationOrder::LINKS);
  AddRoot(order, report);
  const absl::Duration begun = clock_.Monotonic();
  for (const v1::ExaminationPeer& peer : order.peers()) {
    if (stop_.stopping || clock_.Monotonic() - begun > kLinksTime) return;
    v1::LinkFacts& link = *report.add_links();
    link.set_to(peer.id());
    if (!peer.rpc_address().empty()) CallRpcPort(peer, link);
    if (peer.probe_host().empty()) continue;
    MeasureLink(peer.probe_host(), static_cast<uint16_t>(peer.probe_port()), order.secret(), stop_,
                link);
  }
}

void Examiner::End() {
  listener_.reset();
  if (!root_file_.empty()) {
    checkpoints_.DeleteRecursively(std::exchange(root_file_, std::string())).IgnoreError();
  }
}

}  // namespace muster
