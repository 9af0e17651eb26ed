#include "common/checkpoint/root_mark.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kMark = ".muster-root";
constexpr absl::string_view kContents =
    "Muster keeps checkpoints in this folder. Its servers look for this file to be sure that they "
    "see the same folder as the coordinator.\n";

absl::Status Check(CheckpointStorage& storage, absl::string_view root_uri, RootCheck check) {
  // Before anything is written to a folder that may be the wrong one.
  if (check == RootCheck::kMarked) {
    MUSTER_ASSIGN_OR_RETURN(const bool marked, storage.Exists(JoinUri(root_uri, kMark)));
    if (!marked) {
      return absl::NotFoundError(
          absl::StrCat("it lacks the coordinator's file ", kMark, ", so it is another folder"));
    }
  }
  return ProbeStorage(storage, root_uri);
}

}  // namespace

absl::Status MarkCheckpointRoot(CheckpointStorage& storage, absl::string_view root_uri) {
  const std::string uri = JoinUri(root_uri, kMark);
  MUSTER_ASSIGN_OR_RETURN(const bool marked, storage.Exists(uri));
  if (marked) return absl::OkStatus();
  const absl::Status written = WriteFile(storage, uri, kContents);
  // Somebody else has been faster.
  return absl::IsAlreadyExists(written) ? absl::OkStatus() : written;
}

absl::Status CheckCheckpointRoot(CheckpointStorage& storage, absl::string_view root_uri,
                                 RootCheck check) {
  const absl::Status status = Check(storage, root_uri, check);
  if (status.ok() || absl::IsUnavailable(status)) return status;
  // A full volume, or too many open files, may pass.
  if (absl::IsResourceExhausted(status)) return absl::UnavailableError(status.message());
  const absl::StatusCode code = absl::IsPermissionDenied(status)
                                    ? absl::StatusCode::kPermissionDenied
                                    : absl::StatusCode::kFailedPrecondition;
  return absl::Status(
      code,
      absl::StrCat(
          "checkpoints cannot be kept under ", root_uri, ": ", status.message(),
          "; mount one volume there that the coordinator and all servers share and may write to"));
}

}  // namespace muster
