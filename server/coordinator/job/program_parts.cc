#include "server/coordinator/job/program_parts.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/manifest.h"
#include "common/text/printable.h"

namespace muster {

absl::Status CheckServedFiles(const v1::CommitCheckpointRequest& whole, int partitions) {
  absl::flat_hash_set<absl::string_view> names;
  for (const v1::CutFile& file : whole.files()) names.insert(file.name());
  int found = 0;
  for (int partition = 0; partition < partitions; ++partition) {
    found += names.contains(ServedFileName(static_cast<uint32_t>(partition)));
  }
  if (found == partitions && !whole.schema().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the checkpoint at step ", whole.clock(), " has files of ", found, " of ", partitions,
      " partitions of the job's servers", whole.schema().empty() ? " and no schema" : "",
      ", so the job could not go back to it; slot 0 commits what its ParameterServer's servers "
      "held, in the field served, with its own files"));
}

absl::Status ProgramParts::Add(const v1::CommitCheckpointRequest& request, absl::Duration now) {
  const uint32_t slot = request.task().slot();
  if (std::pair(request.task().generation(), request.clock()) == given_up_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the checkpoint at step ", request.clock(), " was given up, since the part of slot ", slot,
        " did not come in time; take the next one"));
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const v1::CutFile& file : request.files()) names.insert(file.name());
  for (const auto& [other, part] : parts_) {
    if (other == slot) continue;
    if (part.clock() != request.clock()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slot ", slot, " commits a checkpoint at step ", request.clock(), ", but slot ", other,
          " waits for the others' parts of the one at step ", part.clock(),
          "; every process has to commit the same steps, or one of them the whole checkpoint"));
    }
    for (const v1::CutFile& file : part.files()) {
      if (!names.contains(file.name())) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "slots ", other, " and ", slot, " both wrote the file \"", PrintableLine(file.name()),
          "\" of the checkpoint at step ", request.clock(),
          "; all files of a checkpoint are in one folder: put the rank into the names"));
    }
  }
  if (parts_.empty()) since_ = now;
  parts_[slot] = request;
  return absl::OkStatus();
}

void ProgramParts::GiveUp() {
  given_up_ = {parts_.begin()->second.task().generation(), clock()};
  parts_.clear();
}

v1::CommitCheckpointRequest ProgramParts::Joined() const {
  v1::CommitCheckpointRequest joined = parts_.begin()->second;
  joined.clear_files();
  for (const auto& [slot, part] : parts_) {
    joined.mutable_files()->MergeFrom(part.files());
    if (!part.schema().empty()) joined.set_schema(part.schema());
  }
  return joined;
}

}  // namespace muster
