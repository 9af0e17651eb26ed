#include "server/coordinator/requests/ship_requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "common/program/content_hash.h"
#include "common/program/folder_archive.h"
#include "common/program/program_proof.h"
#include "common/text/format_bytes.h"
#include "common/transport/keyed_hash.h"

namespace muster {
namespace {

// Time for which a folder stays without a job.
constexpr absl::Duration kStay = absl::Hours(1);
constexpr absl::Duration kSweep = absl::Seconds(1);
constexpr absl::Duration kRemoveAgainAfter = absl::Minutes(1);
// Each takes up to 256 MiB of the disk before its content is known.
constexpr size_t kMostUploads = 8;

const std::string& ShippedOf(const v1::JobSpec& spec) { return spec.model().program().shipped(); }

}  // namespace

FolderUpload::FolderUpload(SerialExecutor& disk, std::unique_ptr<ShippedArchiveWriter> writer)
    : disk_(disk), writer_(std::move(writer)) {}

FolderUpload::~FolderUpload() {
  // An unfinished file is removed, which may block.
  disk_.Post([writer = std::move(writer_)]() mutable { writer.reset(); });
}

void FolderUpload::Append(std::string bytes, std::function<void(absl::Status)> done) {
  disk_.Post([writer = writer_, bytes = std::move(bytes), done = std::move(done)] {
    done(writer->Append(bytes));
  });
}

void FolderUpload::Complete(std::function<void(absl::Status)> done) {
  disk_.Post([writer = writer_, done = std::move(done)] { done(writer->Commit()); });
}

ShipRequests::ShipRequests(const JobTable& jobs, ShippedArchives& archives, SerialExecutor& logic,
                           SerialExecutor& disk, const Clock& clock,
                           const CoordinatorOptions& options)
    : jobs_(jobs),
      archives_(archives),
      logic_(logic),
      disk_(disk),
      clock_(clock),
      options_(options),
      next_sweep_(clock.Monotonic()) {}

void ShipRequests::Load() {
  disk_.Post([this] {
    absl::StatusOr<std::vector<std::string>> names = archives_.List();
    logic_.Post([this, names = std::move(names)] {
      if (!names.ok()) {
        if (options_.log == nullptr) return;
        return options_.log(absl::StrCat("shipped folders that no job names are not removed: ",
                                         names.status().message()));
      }
      for (const std::string& name : *names) Hold(name);
      for (const auto& [number, job] : jobs_.jobs()) Claim(job->record.spec());
    });
  });
}

absl::Status ShipRequests::Check(const v1::ShippedFolder& folder) const {
  if (options_.program_token.empty()) {
    return absl::PermissionDeniedError(
        "a folder is sent for a program (model.program), and this cluster takes none: its "
        "coordinator has no --program-token-file (`muster up --allow-programs` gives it one)");
  }
  if (!SameHash(folder.proof(), ProofOfShipped(folder, options_.program_token))) {
    return absl::PermissionDeniedError(
        absl::StrCat("a folder is sent for a program (model.program), but its proof is ",
                     folder.proof().empty() ? "empty" : "not the right one",
                     "; make it with the content of the coordinator's --program-token-file"));
  }
  if (!IsContentName(folder.name())) {
    return absl::InvalidArgumentError(
        "the name of the shipped folder is none; it is sha256- and 64 hexadecimal digits");
  }
  if (folder.bytes() == 0 || folder.bytes() > kMostArchiveBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shipped folder has ", FormatBytes(folder.bytes()), "; from one byte to ",
                     FormatBytes(kMostArchiveBytes), " are taken: send less"));
  }
  return absl::OkStatus();
}

void ShipRequests::Hold(const std::string& name) { stay_until_[name] = clock_.Monotonic() + kStay; }

void ShipRequests::Find(const v1::ShippedFolder& folder, Call<v1::FindShippedFolderReply> call) {
  if (absl::Status wrong = Check(folder); !wrong.ok()) return call.done(wrong);
  Hold(folder.name());
  disk_.Post([this, name = folder.name(), bytes = folder.bytes(), call = std::move(call)] {
    const absl::StatusOr<bool> found =
        CatchOutOfMemory("the call", [&] { return archives_.HasSound(name, bytes); });
    if (!found.ok()) return call.done(found.status());
    v1::FindShippedFolderReply reply;
    reply.set_found(*found);
    call.done(reply);
  });
}

void ShipRequests::Begin(const v1::ShippedFolder& folder,
                         Call<std::shared_ptr<FolderUpload>> call) {
  if (absl::Status wrong = Check(folder); !wrong.ok()) return call.done(wrong);
  std::erase_if(uploads_, [](const auto& upload) { return upload.expired(); });
  if (uploads_.size() + beginning_ >= kMostUploads) {
    return call.done(absl::UnavailableError(
        absl::StrCat(uploads_.size() + beginning_, " folders are being sent; try again soon")));
  }
  Hold(folder.name());
  ++beginning_;
  disk_.Post([this, name = folder.name(), bytes = folder.bytes(), call = std::move(call)] {
    auto begun =
        CatchOutOfMemory("the call", [&]() -> absl::StatusOr<std::shared_ptr<FolderUpload>> {
          MUSTER_ASSIGN_OR_RETURN(const bool found, archives_.HasSound(name, bytes));
          if (found) return std::shared_ptr<FolderUpload>();
          MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<ShippedArchiveWriter> writer,
                                  archives_.Create(name, bytes));
          return std::make_shared<FolderUpload>(disk_, std::move(writer));
        });
    logic_.Post([this, begun = std::move(begun), call] {
      --beginning_;
      if (begun.ok() && *begun != nullptr) uploads_.push_back(*begun);
      call.done(begun);
    });
  });
}

absl::Status ShipRequests::NotThere(absl::string_view name) const {
  return absl::NotFoundError(
      absl::StrCat("model.program.shipped is \"", name,
                   "\", and this cluster has no such folder: a folder is removed with the last job "
                   "that names it; send it again (`muster submit --ship`)"));
}

absl::Status ShipRequests::CheckStays(const v1::JobSpec& spec) const {
  return in_removal_.contains(ShippedOf(spec)) ? NotThere(ShippedOf(spec)) : absl::OkStatus();
}

absl::Status ShipRequests::CheckThere(const v1::JobSpec& spec) const {
  if (ShippedOf(spec).empty()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const bool there, archives_.Has(ShippedOf(spec)));
  return there ? absl::OkStatus() : NotThere(ShippedOf(spec));
}

void ShipRequests::Claim(const v1::JobSpec& spec) {
  if (!ShippedOf(spec).empty()) stay_until_[ShippedOf(spec)] = clock_.Monotonic();
}

void ShipRequests::Sweep() {
  const absl::Duration now = clock_.Monotonic();
  if (stay_until_.empty() || now < next_sweep_) return;
  next_sweep_ = now + kSweep;
  std::set<absl::string_view> named;
  for (const auto& [number, job] : jobs_.jobs()) named.insert(ShippedOf(job->record.spec()));
  std::vector<std::string> gone;
  for (const auto& [name, until] : stay_until_) {
    if (until <= now && !named.contains(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) Remove(name);
}

void ShipRequests::Remove(const std::string& name) {
  stay_until_.erase(name);
  in_removal_.insert(name);
  disk_.Post([this, name] {
    absl::Status removed = archives_.Remove(name);
    logic_.Post([this, name, removed = std::move(removed)] {
      in_removal_.erase(name);
      if (removed.ok()) return;
      stay_until_.emplace(name, clock_.Monotonic() + kRemoveAgainAfter);
      if (options_.log == nullptr) return;
      options_.log(absl::StrCat("the shipped folder ", name, " cannot be removed, tried again in ",
                                absl::FormatDuration(kRemoveAgainAfter), ": ", removed.message()));
    });
  });
}

}  // namespace muster
